"""The schema revision of a database, and whether this gpuq works with it. Only reads."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, select, text

import gpuq
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.schema import HEAD, leadership
from gpuq.errors import SchemaMismatch


def check(database: Database) -> None:
    """Raises SchemaMismatch, which says whether the database is older or newer, unless this gpuq works with its schema."""
    found = revision(database)
    if found is None:
        sentence = f"{database.label} has not been set up yet."
        raise SchemaMismatch(sentence, fix="Run `gpuq db upgrade`; it makes the tables.")
    if found < HEAD:
        sentence = f"The database is older than this gpuq: it has schema {found}, {_ours()}."
        raise SchemaMismatch(sentence, fix="Run `gpuq db upgrade`.")
    if found > HEAD:
        with database.reading() as connection:
            refuse_newer(connection, found)


def refuse_newer(connection: Connection, found: str) -> None:
    """Raises SchemaMismatch for the revision of a later gpuq, unless this later one says that ours works with it, too."""
    columns = {column["name"] for column in inspect(connection).get_columns(leadership.name)}
    known = leadership.c.oldest_gpuq.name in columns
    oldest = connection.execute(select(leadership.c.oldest_gpuq)).scalar() if known else None
    if oldest is None or oldest > HEAD:
        sentence = f"The database is newer than this gpuq: it has schema {found}, {_ours()}."
        raise SchemaMismatch(sentence, fix="Install the gpuq that upgraded it, or a newer one.")


def revision(database: Database) -> str | None:
    """The schema revision of a database; None if it does not exist or is empty."""
    if database.is_sqlite and not database.path.exists():
        return None
    with database.reading() as connection:
        return read(connection)


def read(connection: Connection) -> str | None:
    """`revision` within a transaction of the caller."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _ours() -> str:
    return f"gpuq {gpuq.__version__} works with {HEAD}"
