"""Bringing a database to the schema this gpuq works with, and refusing one that has another.

    python -m gpuq.adapters.store.migrate [URL]            upgrade; without URL, the database that the settings name
    python -m gpuq.adapters.store.migrate --check [URL]    only say whether it fits

The steps are Alembic's, in `migrations/`. All pending steps are one transaction behind a lock, so two processes may start at once
and a failed step leaves the schema that was. Alembic is only loaded to change something.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

import gpuq
from gpuq import settings
from gpuq.adapters.store.database import Database, create_file
from gpuq.adapters.store.schema import HEAD
from gpuq.errors import Failure, GpuqError, SchemaMismatch

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x67707571
"""The number of our advisory lock on PostgreSQL: "gpuq"."""
_NEWER = "Install the gpuq that upgraded it, or a newer one."


def upgrade(database_url: str) -> None:
    """Bring a database to our schema, from nothing or from any older one. Raises SchemaMismatch if it is newer."""
    found = revision(database_url)
    if found == HEAD:
        return
    _refuse_newer(found)
    from alembic import command

    with exclusive(database_url) as connection:
        # Another process may have upgraded it, even further than we can, while this one waited.
        _refuse_newer(_read(connection))
        command.upgrade(_alembic(connection), HEAD)


def downgrade(database_url: str, to: str) -> None:
    """Take a database back to revision `to`; "base" drops everything. What only the newer schema can hold is lost."""
    from alembic import command

    with exclusive(database_url) as connection:
        command.downgrade(_alembic(connection), to)


def revision(database_url: str) -> str | None:
    """The schema revision of a database; None if there is no database or nothing in it yet."""
    database = Database(database_url)
    try:
        return revision_in(database)
    finally:
        database.close()


def check(database_url: str) -> None:
    """Raises SchemaMismatch, which says which side is older, unless the database has our schema."""
    database = Database(database_url)
    try:
        check_in(database)
    finally:
        database.close()


def check_in(database: Database) -> None:
    """The same for a database that is open already."""
    found = revision_in(database)
    if found is None:
        raise SchemaMismatch(
            f"{database.label} has not been set up yet.", fix="Run `gpuq db upgrade`; it makes the tables."
        )
    _refuse_newer(found)
    if found != HEAD:
        sentence = (
            f"The database is older than this gpuq: it has schema {found}, gpuq {gpuq.__version__} works with {HEAD}."
        )
        raise SchemaMismatch(sentence, fix="Run `gpuq db upgrade`.")


def revision_in(database: Database) -> str | None:
    """The schema revision of a database that is open already."""
    if database.is_sqlite and not database.path.exists():
        return None
    with database.reading() as connection:
        return _read(connection)


@contextmanager
def exclusive(database_url: str) -> Iterator[Connection]:
    """A transaction to change the schema in: alone, and made with an empty file where SQLite has none yet."""
    database = Database(database_url, upgrading=True)
    if database.is_sqlite:
        create_file(database.path)
    try:
        with database.writing() as connection:
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection
            if database.is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise Failure(f"{database.label} would hold rows that point nowhere: the schema stays as it was.")
    finally:
        database.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.adapters.store.migrate", description="Upgrade gpuq's record.")
    parser.add_argument("url", nargs="?", help="the database; without it, the one that the settings name")
    parser.add_argument("--check", action="store_true", help="change nothing; say whether the schema fits")
    asked = parser.parse_args(arguments)
    try:
        url = asked.url or settings.load().database_url
        check(url) if asked.check else upgrade(url)
    except GpuqError as error:
        sys.stderr.write(f"{error.message}\n{error.fix}\n")
        return error.exit_code
    sys.stdout.write(f"The record has schema {HEAD}.\n")
    return 0


def _alembic(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    # `migrations` lies beside `gpuq`, in a checkout and where it is installed.
    folder = Path(gpuq.__file__).parent.parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _read(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > HEAD:
        sentence = (
            f"The database is newer than this gpuq: it has schema {found}, gpuq {gpuq.__version__} works with {HEAD}."
        )
        raise SchemaMismatch(sentence, fix=_NEWER)


if __name__ == "__main__":
    sys.exit(main())
