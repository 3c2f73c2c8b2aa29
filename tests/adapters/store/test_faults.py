"""A database that fails says so in one sentence with a fix, and never says yes."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event

import gpuq
from gpuq.adapters.store import database, migrate, open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.row_types import Commit
from gpuq.errors import Failure, GpuqError, Unreachable
from tests.adapters.store.postgresql import Server
from tests.adapters.store.samples import a_record, an_entry
from tests.support.silent_proxy import SilentProxy
from tests.support.site import wait_for

ROOT = Path(gpuq.__file__).parent.parent


def sound(error: GpuqError) -> bool:
    """One sentence, a fix, and no SQL in it."""
    text = error.message
    return text.endswith(".") and "\n" not in text and bool(error.fix) and not {"INSERT", "SELECT"} & set(text.split())


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/gpuq.db"
    upgrade(url)
    return url


def in_every_session(monkeypatch: pytest.MonkeyPatch, pragma: str) -> None:
    real = database._connect

    def connect(path: Path, upgrading: bool) -> sqlite3.Connection:
        connection = real(path, upgrading)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(database, "_connect", connect)


def test_a_full_disk_refuses_writes_and_loses_nothing(
    sqlite_url: str, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store_of(sqlite_url).add_jobs([a_record()]) == [1]
    in_every_session(monkeypatch, "PRAGMA max_page_count=40")
    full = store_of(sqlite_url)
    with pytest.raises(Failure, match=r"^The record .* lies on a disk that is full") as error:
        submit_without_end(full)
    assert sound(error.value)
    monkeypatch.undo()
    rows = store_of(sqlite_url).jobs()
    assert [row.id for row in rows] == list(range(1, len(rows) + 1))
    assert len(store_of(sqlite_url).requests(9999)) == len(rows)


def submit_without_end(store: Store) -> None:
    for _ in range(100):
        store.add_jobs([a_record() for _ in range(100)])


ON_A_FULL_DISK = """
import sys
from gpuq.adapters.store import open_store
from gpuq.errors import GpuqError
from tests.adapters.store.samples import a_record
store, reported = open_store(sys.argv[1]), []
try:
    while len(reported) < 100_000:
        reported += store.add_jobs([a_record() for _ in range(100)])
except GpuqError as error:
    print(type(error).__name__, len(reported), error.message, sep="|")
"""


def on_a_full_disk(*words: str) -> subprocess.CompletedProcess[str]:
    """A real process of Python whose files may not grow beyond 1 MiB: write(2) itself fails."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))

    words = (sys.executable, *words)
    return subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60, preexec_fn=limit)


def test_an_upgrade_on_a_full_disk_says_so_and_changes_nothing(tmp_path: Path, sqlite_url: str) -> None:
    """SQLite ends the transaction, so that what Alembic tidies up fails as well."""
    migrate.downgrade(sqlite_url, "0005")
    with sqlite3.connect(tmp_path / "gpuq.db") as record:
        record.execute("INSERT INTO jobs VALUES (1, 'ann', NULL, 'FAILED', 0, 500, 0, 0, NULL, NULL)")
        record.executemany(
            "INSERT INTO attempts (job, number, host, devices, launched_at, launch, features) "
            "VALUES (1, ?, 'node', '[]', 0, '{}', hex(zeroblob(1000)))",
            [(number,) for number in range(500)],
        )
    record.close()
    done = on_a_full_disk("-m", "gpuq.adapters.store.migrate", sqlite_url)
    assert (done.returncode, "could not be read or written: disk I/O error" in done.stderr) == (1, True), done.stderr
    assert migrate.revision(sqlite_url) == "0005"
    upgrade(sqlite_url)


def test_jobs_confirmed_before_the_disk_was_full_are_there(sqlite_url: str) -> None:
    done = on_a_full_disk("-c", ON_A_FULL_DISK, sqlite_url)
    kind, reported, message = done.stdout.strip().split("|")
    assert (kind, done.stderr) == ("Failure", "")
    assert "could not be read or written" in message
    with closing(open_store(sqlite_url)) as store:
        assert [row.id for row in store.jobs()] == list(range(1, int(reported) + 1))
        assert int(reported) > 0


def test_a_read_only_sqlite_refuses(
    sqlite_url: str, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_every_session(monkeypatch, "PRAGMA query_only=ON")
    store = store_of(sqlite_url)
    for write in (lambda: store.add_jobs([a_record()]), lambda: store.commit(Commit(entries=[an_entry(1)]))):
        with pytest.raises(Failure, match="cannot be written") as error:
            write()
        assert sound(error.value)
    assert store.jobs() == []


def test_a_read_only_postgresql_is_unreachable_until_it_takes_writes(
    server: Server, store_of: Callable[[str], Store]
) -> None:
    """As a standby is until it takes over. An address may move to the new primary, so a new session must be tried."""
    url = server.create_database()
    upgrade(url)
    name = url.partition("?")[0].rpartition("/")[2]
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    store = store_of(url)
    with pytest.raises(Unreachable, match="is read-only") as error:
        store.add_jobs([a_record()])
    assert sound(error.value)
    assert store.jobs() == []
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
    with pytest.raises(Unreachable, match="is read-only"):
        store.add_jobs([a_record()])
    assert store.add_jobs([a_record()]) == [1]


@pytest.mark.parametrize(
    ("name", "may", "sentence", "fix"),
    [
        ("crowded", "CONNECTION LIMIT 0", "takes no more connections: ", "max_connections"),
        ("barred", "NOLOGIN", "refuses the login: ", "user and password"),
    ],
)
def test_why_no_host_of_several_takes_a_connection_is_said_of_each(
    server: Server, store_of: Callable[[str], Store], name: str, may: str, sentence: str, fix: str
) -> None:
    """The last one is a standby or away, which is not the reason."""
    url = server.create_database()
    upgrade(url)
    server.execute(f"CREATE ROLE {name} LOGIN SUPERUSER")
    store = store_of(
        url.replace("//postgres@", f"//{name}@").replace(
            f"host={server.folder}", f"host={server.folder},{server.folder}/none"
        )
    )
    assert store.jobs() == []
    store.close()
    server.execute(f"ALTER ROLE {name} NOSUPERUSER {may}")
    with pytest.raises(Unreachable) as error:
        store.jobs()
    assert sound(error.value)
    assert sentence in error.value.message
    assert f"{server.folder}/none: No such file or directory" in error.value.message
    assert fix in error.value.fix


def test_a_record_that_was_moved_away_takes_nothing_until_it_is_back(
    sqlite_url: str, store_of: Callable[[str], Store], tmp_path: Path
) -> None:
    """What an open file without a name takes is gone with the process."""
    store, record = store_of(sqlite_url), tmp_path / "gpuq.db"
    assert store.add_jobs([a_record()]) == [1]
    record.rename(tmp_path / "moved")
    for call in (lambda: store.add_jobs([a_record()]), store.last_seq):
        with pytest.raises(Unreachable, match="was moved, removed or replaced") as error:
            call()
        assert sound(error.value)
    record.touch()
    with pytest.raises(Unreachable, match="replaced"):
        store.add_jobs([a_record()])
    (tmp_path / "moved").replace(record)
    assert store.add_jobs([a_record()]) == [2]


def test_a_file_of_another_format_is_damaged(tmp_path: Path) -> None:
    content = b"not a database" * 1000
    (tmp_path / "gpuq.db").write_bytes(content)
    for attempt in (open_store, upgrade):
        with pytest.raises(Failure, match="damaged") as error:
            attempt(f"sqlite:///{tmp_path}/gpuq.db")
        assert sound(error.value)
        assert str(tmp_path) in error.value.message
    assert (tmp_path / "gpuq.db").read_bytes() == content


def test_a_damaged_sqlite_file(sqlite_url: str, tmp_path: Path) -> None:
    with closing(open_store(sqlite_url)) as store:
        store.add_jobs([a_record() for _ in range(500)])
    path = tmp_path / "gpuq.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    with pytest.raises(Failure, match="damaged") as error, closing(open_store(sqlite_url)) as store:
        store.jobs()
    assert sound(error.value)
    assert "backup" in error.value.fix


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GpuqError, match="No such file") as error:
        upgrade(f"sqlite:///{tmp_path}/none/gpuq.db")
    assert str(tmp_path / "none") in error.value.fix


def test_a_lock_held_too_long(
    sqlite_url: str, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_every_session(monkeypatch, "PRAGMA busy_timeout=50")
    store = store_of(sqlite_url)
    with closing(Database(sqlite_url)) as other, other.writing():
        with pytest.raises(Unreachable, match="busy") as error:
            store.add_jobs([a_record()])
        assert store.jobs() == [], "readers are not kept waiting"
    assert sound(error.value)
    assert store.add_jobs([a_record()]) == [1]


def test_a_lock_held_too_long_on_postgresql(
    server: Server, store_of: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.create_database()
    upgrade(url)
    monkeypatch.setattr(database, "PATIENCE_S", 1.0)
    store = store_of(url)
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM numbers FOR UPDATE")
        with pytest.raises(Unreachable, match="busy") as error:
            store.add_jobs([a_record()])
    assert sound(error.value)
    assert store.add_jobs([a_record()]) == [1]


def test_an_absent_server_is_unreachable(tmp_path: Path) -> None:
    for url in (f"postgresql://ada:s3cret@/gpuq?host={tmp_path}", "postgresql://ada:s3cret@127.0.0.1:1/gpuq"):
        with pytest.raises(Unreachable, match="does not answer") as error:
            open_store(url)
        assert sound(error.value)
        assert "s3cret" not in error.value.message + error.value.fix


def test_a_missing_database_is_unreachable(server: Server) -> None:
    with pytest.raises(Unreachable, match="nowhere") as error:
        open_store(server.url("nowhere"))
    assert sound(error.value)


def test_a_server_that_goes_away_and_comes_back(server: Server) -> None:
    url = server.create_database()
    upgrade(url)
    with closing(open_store(url)) as store:
        assert store.add_jobs([a_record()]) == [1]
        server.stop()
        try:
            with pytest.raises(Unreachable) as error:
                store.add_jobs([a_record()])
        finally:
            server.start()
        assert sound(error.value)
        assert store.add_jobs([a_record()]) == [2]
        assert [row.id for row in store.jobs()] == [1, 2]


def test_a_commit_whose_answer_was_lost_is_found_again_by_its_key(server: Server) -> None:
    url = server.create_database()
    upgrade(url)
    proxy = SilentProxy(server.socket)
    with (
        closing(open_store(proxy.url(url))) as store,
        closing(open_store(url)) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        event.listen(store._database._engine, "commit", lambda _: proxy.cut(only_answers=True))  # type: ignore[attr-defined]
        submission = thread.submit(store.add_jobs, [a_record("key")])
        wait_for(other.jobs, 10)
        proxy.close()
        with pytest.raises(Unreachable) as error:
            submission.result(10)
        assert sound(error.value)
        assert other.add_jobs([a_record("key"), a_record("another")]) == [1, 2]


def test_a_record_changed_by_hand_is_a_failure(sqlite_url: str, store_of: Callable[[str], Store]) -> None:
    store = store_of(sqlite_url)
    store.add_jobs([a_record()])
    with closing(Database(sqlite_url)) as each, each.writing() as connection:
        connection.exec_driver_sql("UPDATE job_records SET record = '{}'")
    with pytest.raises(Failure, match="record of job 1") as error:
        store.jobs()
    assert sound(error.value)
