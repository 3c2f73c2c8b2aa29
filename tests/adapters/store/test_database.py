"""Addresses, sessions, and what importing the store costs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from gpuq.adapters.store import open_store
from gpuq.adapters.store.database import Database, describe, parse
from gpuq.adapters.store.migrate import upgrade
from gpuq.errors import BadSettings
from tests.adapters.store.postgresql import Server
from tests.support.silent_proxy import SilentProxy


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gpuq.db",
        "mysql://user:pw@host/gpuq",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "postgresql://user:pw@host:port/gpuq",
    ],
)
def test_an_invalid_address_is_refused_without_showing_its_password(address: str) -> None:
    with pytest.raises(BadSettings) as error:
        parse(address)
    assert "pw" not in error.value.message
    assert "sqlite:////" in error.value.fix


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_usual_scheme_of_postgresql_is_the_driver_we_have(scheme: str) -> None:
    assert parse(f"{scheme}://u:p@h/d").drivername == "postgresql+psycopg"


def test_a_relative_path_means_the_same_file_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse("sqlite:///gpuq.db").database == str(tmp_path / "gpuq.db")


@pytest.mark.parametrize(
    ("address", "hosts", "ports"),
    [
        ("postgresql://u:p%40@a,b/gpuq", "a,b", ","),
        ("postgresql://u:p%40@a:5432,b:5433/gpuq", "a,b", "5432,5433"),
        ("postgresql://u:p%40@a:5432,b/gpuq", "a,b", "5432,"),
        ("postgresql://u:p%40@[::1]:5432,[::2]:5433/gpuq", "::1,::2", "5432,5433"),
        ("postgresql://u:p%40@/gpuq?host=a,b&port=5432,5433", "a,b", "5432,5433"),
    ],
)
def test_several_hosts_reach_the_driver(address: str, hosts: str, ports: str) -> None:
    """In libpq's form, of which SQLAlchemy accepts only the last."""
    url = parse(f"{address}{'&' if '?' in address else '?'}target_session_attrs=read-write")
    _, given = url.get_dialect()().create_connect_args(url)
    expected = {"user": "u", "password": "p@", "dbname": "gpuq", "host": hosts, "port": ports}
    assert given == {**expected, "target_session_attrs": "read-write"}
    assert describe(url) == f"The PostgreSQL database gpuq at {hosts}"


def test_the_first_of_several_hosts_that_answers_and_takes_writes_is_used(postgresql_url: str, tmp_path: Path) -> None:
    url = parse(postgresql_url)
    several = url.set(query={"host": f"{tmp_path},{url.query['host']}", "target_session_attrs": "read-write"})
    with closing(Database(several.render_as_string(hide_password=False))) as database, database.writing() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_describe_shows_no_password() -> None:
    shown = describe(parse("postgresql://ada:s3cret@db.example:5433/gpuq?sslpassword=s4cret"))
    assert shown == "The PostgreSQL database gpuq at db.example:5433"


def test_odd_file_names_work(tmp_path: Path) -> None:
    (tmp_path / "a b%20?#ü").mkdir()
    url = f"sqlite:///{tmp_path}/a b%20%3F#ü/gpuq.db"
    with closing(Database(url)) as database:
        database.path.parent.mkdir(exist_ok=True)
    upgrade(url)
    assert database.path.exists()


def test_sqlite_sessions_sync_every_commit(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/gpuq.db"
    upgrade(url)
    with closing(Database(url)) as database, database.reading() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
    assert values == ["wal", 2, 1, 3000]


def test_postgresql_sessions_sync_every_commit_whatever_the_server_says(postgresql_url: str) -> None:
    weak = parse(postgresql_url).update_query_dict({"options": "-c synchronous_commit=off"})
    with closing(Database(weak.render_as_string())) as database, database.reading() as connection:
        names = ("synchronous_commit", "lock_timeout", "statement_timeout", "transaction_isolation", "application_name")
        values = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
    assert values == ["on", "3s", "1min", "read committed", "gpuq"]


def test_an_upgrade_may_take_its_time(postgresql_url: str) -> None:
    with closing(Database(postgresql_url, upgrading=True)) as database, database.reading() as connection:
        values = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("lock_timeout", "statement_timeout")]
    assert values == ["1min", "0"]


def test_both_ends_notice_a_dead_network_within_four_seconds(server: Server, postgresql_url: str) -> None:
    options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
    proxy = SilentProxy(server.socket)
    with closing(Database(proxy.url(postgresql_url))) as database, database.reading() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        with socket.socket(fileno=os.dup(driver.fileno())) as ours:
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert [ours.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [4000, 2, 1]
        # Their values read 0 here, because the server sees a Unix socket; who set them can be seen.
        chosen = "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name IN (%s, %s, %s)"
        names = ("tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval")
        assert connection.exec_driver_sql(chosen, names).scalar() == 3
    proxy.close()


def test_an_address_may_choose_how_long_to_wait_for_a_slow_network(server: Server, postgresql_url: str) -> None:
    proxy = SilentProxy(server.socket)
    url = f"{proxy.url(postgresql_url)}?tcp_user_timeout=30000"
    with closing(Database(url)) as database, database.reading() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        with socket.socket(fileno=os.dup(driver.fileno())) as ours:
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    proxy.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused(server: Server, encoding: str) -> None:
    name = f"gpuq_{encoding.lower()}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'")
    for attempt in (open_store, upgrade):
        with pytest.raises(BadSettings) as error:
            attempt(server.url(name))
        assert error.value.message == (
            f"The PostgreSQL database {name} at {server.folder} has the encoding {encoding}; gpuq needs UTF8."
        )
        assert "createdb -E UTF8 -T template0" in error.value.fix


def test_the_store_loads_neither_an_orm_nor_alembic() -> None:
    code = (
        "import sys, gpuq.adapters.store; "
        "print([m for m in sys.modules if m.startswith(('sqlalchemy.orm', 'alembic', 'psycopg', 'numpy'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (None, "The driver for PostgreSQL is not installed."),
        (
            "raise ImportError('no pq wrapper available.\\n- libpq.so.5: cannot open shared object file')",
            "The driver for PostgreSQL cannot be loaded: no pq wrapper available. - libpq.so.5: cannot open shared object file.",
        ),
        ("import a_part_of_it", "The driver for PostgreSQL cannot be loaded: No module named 'a_part_of_it'."),
    ],
)
def test_a_driver_that_cannot_be_loaded_is_reported_with_its_cause(
    module: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    if module is None:
        monkeypatch.setitem(sys.modules, "psycopg", None)  # type: ignore[arg-type]
    else:
        (tmp_path / "psycopg.py").write_text(module)
        monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadSettings) as error:
        Database("postgresql://ada:s3cret@db/gpuq")
    assert error.value.message == sentence
    assert "gpuq-daemon[postgresql]" in error.value.fix
