"""Translate a database's error into one sentence with its fix.

SQLite names its errors (`SQLITE_FULL`), PostgreSQL numbers them (`53100`); the tables below map both. An error in neither table
keeps the first line of the driver's message. Addresses are shown without user and password.
"""

from __future__ import annotations

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


_FULL = _Meaning(Failure, "The disk that holds {label} is full: nothing was recorded.", _SPACE)
_BUSY = _Meaning(Unreachable, "{label} is kept busy by another process.", _AGAIN)
_SLOW = _Meaning(Unreachable, "{label} was too slow: {detail}.", _AGAIN)
_GONE = _Meaning(Unreachable, "{label} does not answer: {detail}.", _START)
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
    "28": _Meaning(
        Unreachable, "{label} refuses the login: {detail}.", "Correct the user and password in GPUQ_DATABASE_URL."
    ),
    "3D000": _Meaning(Unreachable, "{label} does not exist.", "Make it with `createdb`, then run `gpuq db upgrade`."),
    "42P01": _Meaning(SchemaMismatch, "{label} lacks a table: {detail}.", _UPGRADE),
    "42703": _Meaning(SchemaMismatch, "{label} lacks a column: {detail}.", _UPGRADE),
    "58": _DISK,
    "XX001": _DAMAGED_ON_SERVER,
    "XX002": _DAMAGED_ON_SERVER,
}


def translate(error: SQLAlchemyError, label: str) -> GpuqError:
    """The gpuq error for `error` of the database that messages call `label`."""
    meaning = _meaning(error)
    # The first line of the driver's message, without the statement and its values.
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    detail = lines[0].rsplit("failed: ", 1)[-1].strip().rstrip(".")
    return meaning.cls(meaning.sentence.format(label=label, detail=detail), fix=meaning.fix)


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
    return _GONE if error.connection_invalidated or isinstance(error, OperationalError) else _OTHER
