"""One database, SQLite or PostgreSQL: its address, connections, transactions, and the translation of its errors.

SQLite runs in WAL mode and syncs every commit. A writer takes the write lock at its begin and waits up to three seconds for it,
so that several processes can write. PostgreSQL runs at READ COMMITTED with the same timeout. No table is known here.

If the network to PostgreSQL drops every packet, a connection breaks after SILENCE_S. The idle ones are then closed too, so that
the next call makes a new one. A server that is only slow breaks none.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from gpuq.adapters.lock import is_at
from gpuq.adapters.store.faults import READ_ONLY_SERVER, translate
from gpuq.errors import BadSettings, Unreachable

PATIENCE_S = 3.0
"""How long a writer waits for another one. Less than the API waits for a commit, so that its caller learns the reason."""
UPGRADE_PATIENCE_S = 60.0
"""How long an upgrade waits: another process may be upgrading a large database."""
ABANDONED_S = 60.0
"""PostgreSQL ends a transaction that is idle for this long, and a statement that takes this long: the client may be stopped, and
holds locks. No statement of ours takes a minute, except in an upgrade."""
SILENCE_S = 4
"""How long either end keeps a TCP connection whose other end acknowledges nothing. Linux alone waits for a quarter of an hour,
and until then the server keeps the locks of a client that is gone."""
CONNECT_WITHIN_S = 3
"""How long a new connection may take, for each host of the address. Linux repeats a lost first packet after one second and then
after ever longer pauses, so that a longer wait would outlast the cut of a network."""
_PROBE_AFTER_S, _PROBE_EVERY_S = 2, 1
"""When the kernel probes an idle connection. Without probes, SILENCE_S would not apply while a reply is awaited."""
_WRITES = "gpuq_writes"
_SEVERAL_HOSTS = re.compile(r"(\w+://(?:[^/?]*@)?)([^/?@]*,[^/?@]*)(/[^?]*)?(?:\?(.*))?")
_FIX = "Set GPUQ_DATABASE_URL to sqlite:////absolute/path/gpuq.db or postgresql://user:password@host/database."


class Database:
    """A pool of connections to one database. Not to be used across a fork."""

    def __init__(self, database_url: str, *, upgrading: bool = False) -> None:
        self.url = parse(database_url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.label = describe(self.url)
        self._file: os.stat_result | None = None
        make = _sqlite_engine if self.is_sqlite else _postgresql_engine
        self._engine = make(self.url, upgrading)

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return Path(self.url.database or "")

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads. Raises Unreachable or Failure."""
        return self._transaction(writes=False)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that writes: kept whole when the block ends, undone when it raises. Raises Unreachable or Failure."""
        return self._transaction(writes=True)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        if self.is_sqlite:
            self._check_file()
        try:
            with self._engine.connect() as connection:
                connection.execution_options(**{_WRITES: writes})
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise translate(error, self.label) from error

    def _check_file(self) -> None:
        """Raises Unreachable if the file is not the one that was opened: what is written to that would be gone with it."""
        if self._file is None:
            with suppress(OSError):  # it is not made yet
                self._file = self.path.stat()
        elif not is_at(self.path, self._file):
            raise Unreachable(
                f"{self.label} was moved, removed or replaced while it was in use: nothing more is recorded.",
                fix="Move it back, with its -wal and -shm; or restart gpuq, with another file in its place.",
            )


def parse(database_url: str) -> URL:
    """The address with our driver. Raises BadSettings if it is no address of SQLite or PostgreSQL."""
    try:
        url = make_url(_with_hosts_in_query(database_url))
    except (ArgumentError, ValueError) as error:
        # The address may hold a password: it is not repeated.
        raise BadSettings("GPUQ_DATABASE_URL is not an address of a database.", fix=_FIX) from error
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database.startswith((":memory:", "file:")):
                raise BadSettings("The record must be a file: several processes share it.", fix=_FIX)
            return url.set(drivername="sqlite", database=str(Path(url.database).expanduser().absolute()))
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise BadSettings(f"gpuq keeps its record in SQLite or PostgreSQL, not in `{other}`.", fix=_FIX)


def _with_hosts_in_query(address: str) -> str:
    """libpq's `//user@a:1,b:2/db` as `//user@/db?host=a,b&port=1,2`: SQLAlchemy accepts several hosts in the query only."""
    several = _SEVERAL_HOSTS.fullmatch(address)
    if several is None:
        return address
    before, hosts, path, query = several.groups("")
    # An IPv6 address is in brackets, and the port is what follows the last colon after them.
    pairs = [re.fullmatch(r"\[?(.*?)\]?(?::(\d*))?", host) for host in hosts.split(",")]
    names, ports = (",".join(pair[group] or "" for pair in pairs if pair) for group in (1, 2))
    return f"{before}{path}?host={names}&port={ports}&{query}"


def describe(url: URL) -> str:
    """A name for messages, without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return f"The record {url.database}"
    at = url.host or url.query.get("host") or "this machine"
    return f"The PostgreSQL database {url.database or url.username or 'postgres'} at {at}{f':{url.port}' if url.port else ''}"


# --- SQLite --------------------------------------------------------------------------------------------------------


def _sqlite_engine(url: URL, upgrading: bool) -> Engine:
    path = Path(url.database or "")
    engine = create_engine(url, creator=lambda: _connect(path, upgrading), pool_size=8)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and then writes fails at once if another has written; IMMEDIATE takes the lock first.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _connect(path: Path, upgrading: bool) -> sqlite3.Connection:
    patience = UPGRADE_PATIENCE_S if upgrading else PATIENCE_S
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        # SQLite's own timeout does not apply to the switch of a new file to WAL mode, so this retries.
        deadline = time.monotonic() + PATIENCE_S
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute("PRAGMA synchronous=FULL")
        # SQLite alters most tables by replacing them, and would delete the rows that refer to the old one.
        connection.execute(f"PRAGMA foreign_keys={'OFF' if upgrading else 'ON'}")
        connection.execute(f"PRAGMA journal_size_limit={64 * 2**20}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create_file(path: Path) -> None:
    """Create an empty SQLite file of mode 0600 unless it exists. Raises BadSettings."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        raise BadSettings(
            f"{path} cannot be made: {error.strerror}.", fix=f"Make {path.parent} and let gpuq write there."
        ) from error


# --- PostgreSQL ----------------------------------------------------------------------------------------------------


def _postgresql_engine(url: URL, upgrading: bool) -> Engine:
    connection: dict[str, str | int] = {
        "connect_timeout": CONNECT_WITHIN_S,
        "tcp_user_timeout": SILENCE_S * 1000,
        "keepalives_idle": _PROBE_AFTER_S,
        "keepalives_interval": _PROBE_EVERY_S,
        "application_name": "gpuq",
    }
    # What the address itself names stays: its network may be slower.
    connection = {name: value for name, value in connection.items() if name not in url.query}
    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_size=8,
            connect_args={**connection, "client_encoding": "utf8"},
        )
    except ImportError as error:
        # The driver is not installed, or it cannot load its libpq, which is an ImportError as well.
        install = "pip install 'gpuq-daemon[postgresql]'"
        if isinstance(error, ModuleNotFoundError) and error.name == "psycopg":
            raise BadSettings("The driver for PostgreSQL is not installed.", fix=f"Install it: {install}.") from error
        why = " ".join(str(error).split()).rstrip(".")
        raise BadSettings(
            f"The driver for PostgreSQL cannot be loaded: {why}.",
            fix=f"Mend what it names, or reinstall it: {install}.",
        ) from error
    label = describe(url)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        _check_encoding(connection, label)
        _set_up_session(connection, upgrading)

    @event.listens_for(engine, "handle_error")
    def _failed(context: ExceptionContext) -> None:
        # The connection may stay read-only. A new one may reach the primary: the address may move, or name several hosts.
        if getattr(context.original_exception, "sqlstate", None) == READ_ONLY_SERVER:
            context.is_disconnect = True

    return engine


def _check_encoding(connection: Any, label: str) -> None:
    """Raises BadSettings unless the database stores UTF-8: SQL_ASCII returns bytes for texts, others cannot store every text."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise BadSettings(
            f"{label} has the encoding {encoding}; gpuq needs UTF8.",
            fix="Make a new one, `createdb -E UTF8 -T template0 NAME`, and name it in GPUQ_DATABASE_URL.",
        )


def _set_up_session(connection: DBAPIConnection, upgrading: bool) -> None:
    patience_s, statement_s = (UPGRADE_PATIENCE_S, 0.0) if upgrading else (PATIENCE_S, ABANDONED_S)
    values = {
        "lock_timeout": f"{patience_s:.0f}s",
        "statement_timeout": f"{statement_s:.0f}s",
        "idle_in_transaction_session_timeout": f"{ABANDONED_S:.0f}s",
        # On a Unix socket these three have no effect.
        "tcp_user_timeout": f"{SILENCE_S}s",
        "tcp_keepalives_idle": f"{_PROBE_AFTER_S}s",
        "tcp_keepalives_interval": f"{_PROBE_EVERY_S}s",
    }
    cursor = connection.cursor()
    calls = ", ".join("set_config(%s, %s, false)" for _ in values)
    cursor.execute(f"SELECT {calls}", [word for pair in values.items() for word in pair])
    # What we confirm must be on disk, even if the server's default is weaker.
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()
