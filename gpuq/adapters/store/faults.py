"""Translate a database's error into one sentence with its fix.

SQLite names its errors (`SQLITE_FULL`), PostgreSQL numbers them (`53100`); the tables below map both. An error in neither table
keeps the first line of the driver's message. Addresses are shown without user and password.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gpuq.errors import Failure, GpuqError, SchemaMismatch, Unreachable

READ_ONLY_SERVER = "25006"
"""PostgreSQL's SQLSTATE for a write to a standby, which may take over at any moment, or to a server that was made read-only."""

_AGAIN = "Run the command again; if it stays so, look for a process that keeps the database busy."
_SPACE = "Free some space there; nothing that was answered with yes is lost."
_UPGRADE = "Run `gpuq db upgrade`."
_START = "Start the database, or correct GPUQ_DATABASE_URL."


class _Meaning(NamedTuple):
    cls: type[GpuqError]
    sentence: str
    fix: str


_FULL = _Meaning(Failure, "{label} lies on a disk that is full: nothing was recorded.", _SPACE)
_BUSY = _Meaning(Unreachable, "{label} is kept busy by another process.", _AGAIN)
_SLOW = _Meaning(Unreachable, "{label} was too slow: {detail}.", _AGAIN)
_GONE = _Meaning(Unreachable, "{label} does not answer: {detail}.", _START)
_CROWDED = _Meaning(
    Unreachable,
    "{label} takes no more connections: {detail}.",
    "Raise `max_connections` of the server or the CONNECTION LIMIT of gpuq's role, or end what else is connected.",
)
_LOGIN = _Meaning(
    Unreachable, "{label} refuses the login: {detail}.", "Correct the user and password in GPUQ_DATABASE_URL."
)
_READ_ONLY = _Meaning(
    Failure, "{label} cannot be written to: {detail}.", "Make it writable for the user that runs gpuq."
)
_DISK = _Meaning(
    Failure, "{label} could not be read or written: {detail}.", "Look after the disk; `dmesg` shows its errors."
)
_OTHER = _Meaning(Failure, "{label} refused: {detail}.", Failure.fix)
_DAMAGED = _Meaning(
    Failure,
    "{label} is damaged or is no database: {detail}.",
    "Stop gpuq, move gpuq.db, gpuq.db-wal and gpuq.db-shm away, all three, and put a backup in their place as "
    "docs/operations.md, Backup and restore, says; `sqlite3 gpuq.db .recover` saves what can still be read.",
)
_DAMAGED_ON_SERVER = _DAMAGED._replace(fix="Put a backup in its place as docs/operations.md, Backup and restore, says.")

# The first prefix that matches wins.
_SQLITE: dict[str, _Meaning] = {
    "SQLITE_FULL": _FULL,
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_IOERR": _DISK,
    "SQLITE_CANTOPEN": _Meaning(
        Unreachable,
        "{label} cannot be opened.",
        "Check that its folder exists and belongs to the user that runs gpuq; `gpuq db upgrade` makes a new record.",
    ),
}
_POSTGRESQL: dict[str, _Meaning] = {
    "53100": _FULL,
    "53300": _CROWDED,
    "53": _GONE,
    "08": _GONE,
    "57P": _GONE,
    "57014": _SLOW,
    "57": _BUSY,
    "55P03": _BUSY,
    "40": _BUSY,
    "25P03": _BUSY,
    "25P04": _SLOW,
    READ_ONLY_SERVER: _Meaning(
        Unreachable,
        "{label} is read-only.",
        "Point GPUQ_DATABASE_URL at the primary server, or end its read-only mode.",
    ),
    "42501": _READ_ONLY,
    "28": _LOGIN,
    "3D000": _Meaning(Unreachable, "{label} does not exist.", "Make it with `createdb`, then run `gpuq db upgrade`."),
    "42P01": _Meaning(SchemaMismatch, "{label} lacks a table: {detail}.", _UPGRADE),
    "42703": _Meaning(SchemaMismatch, "{label} lacks a column: {detail}.", _UPGRADE),
    "58": _DISK,
    "XX001": _DAMAGED_ON_SERVER,
    "XX002": _DAMAGED_ON_SERVER,
}
# What PostgreSQL says to a connection that it does not take.
_OF_CONNECTION: dict[str, _Meaning] = {
    "too many c": _CROWDED,  # connections for a role, connections for a database, clients already
    "connection slots are reserved": _CROWDED,
    "authentication failed": _LOGIN,
    "is not permitted to log in": _LOGIN,
}
# Where an address names several hosts, the driver's message has the last attempt, and then a line for each.
_ATTEMPT = re.compile(r"^- host: '([^']*)',.*?: (connection .*)$", re.MULTILINE)


def translate(error: SQLAlchemyError, label: str) -> GpuqError:
    """The gpuq error for `error` of the database that messages call `label`."""
    error = _first_of_sqlite(error)
    meaning = _meaning(error)
    return meaning.cls(meaning.sentence.format(label=label, detail=_detail(error)), fix=meaning.fix)


def _first_of_sqlite(error: SQLAlchemyError) -> SQLAlchemyError:
    """What went wrong first: when the disk is full SQLite ends the transaction, and what Alembic tidies up then fails too."""
    first, earlier = error, error.__context__
    while earlier is not None:
        if isinstance(earlier, DBAPIError) and hasattr(earlier.orig, "sqlite_errorname"):
            first = earlier
        earlier = earlier.__context__
    return first


def _detail(error: SQLAlchemyError) -> str:
    """The first line of the driver's message, without the statement and its values; of several hosts that could not be connected
    to, that of each."""
    text = str(getattr(error, "orig", None) or error).strip()
    attempts = {host: _end_of(line) for host, line in _ATTEMPT.findall(text)}
    if len(attempts) > 1:
        return "; ".join(f"{host}: {why}" for host, why in attempts.items())
    return _end_of((text.splitlines() or [type(error).__name__])[0])


def _end_of(line: str) -> str:
    return line.rsplit("failed: ", 1)[-1].strip().rstrip(".")


def _meaning(error: SQLAlchemyError) -> _Meaning:
    if isinstance(error, PoolTimeout):
        return _BUSY
    if not isinstance(error, DBAPIError):
        return _OTHER
    for attribute, table in (("sqlite_errorname", _SQLITE), ("sqlstate", _POSTGRESQL)):
        code = getattr(error.orig, attribute, None)
        if code is not None:
            return next((meaning for prefix, meaning in table.items() if code.startswith(prefix)), _OTHER)
    # PostgreSQL's driver gives no code for errors of the connection.
    for words, meaning in _OF_CONNECTION.items():
        if words in str(error.orig):
            return meaning
    return _GONE if error.connection_invalidated or isinstance(error, OperationalError) else _OTHER
