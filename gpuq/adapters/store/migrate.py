"""Upgrade a database to the schema of this gpuq, and reject one whose schema this gpuq does not work with.

    python -m gpuq.adapters.store.migrate [URL]            upgrade; without URL, the database that the settings name
    python -m gpuq.adapters.store.migrate --check [URL]    only say whether it fits

The steps are Alembic's, in `migrations/`. All pending steps are one transaction behind a lock, so two processes may start at once
and a failed step leaves the old schema. Alembic is only imported to change something.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

import gpuq
from gpuq import settings
from gpuq.adapters.store import revision as schema_revision
from gpuq.adapters.store.database import Database, create_file
from gpuq.adapters.store.schema import HEAD, OLDEST_GPUQ, leadership
from gpuq.adapters.systemd import extend_start
from gpuq.errors import Failure, GpuqError

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x67707571
"""The number of our advisory lock on PostgreSQL: "gpuq"."""


def upgrade(database_url: str) -> None:
    """Upgrade a database, empty or of any older schema, to ours. A newer one that this gpuq works with stays as it is.

    Raises SchemaMismatch if it is newer and does not fit.
    """
    if (revision(database_url) or "") >= HEAD:
        check(database_url)
        return
    from alembic import command

    with exclusive(database_url) as connection:
        # While this process waited, another may have upgraded it, even to a schema newer than ours.
        found = schema_revision.read(connection)
        if found is not None and found > HEAD:
            schema_revision.refuse_newer(connection, found)
            return
        extend_start()
        command.upgrade(_alembic(connection), HEAD)
        connection.execute(leadership.update().values(oldest_gpuq=OLDEST_GPUQ))


def downgrade(database_url: str, to: str) -> None:
    """Downgrade a database to revision `to`; "base" drops all tables. Data that only the newer schema can hold is lost."""
    from alembic import command

    with exclusive(database_url) as connection:
        command.downgrade(_alembic(connection), to)


def revision(database_url: str) -> str | None:
    """The schema revision of a database; None if it does not exist or is empty."""
    with closing(Database(database_url)) as database:
        return schema_revision.revision(database)


def check(database_url: str) -> None:
    """Raises SchemaMismatch, which says whether the database is older or newer, unless it has our schema."""
    with closing(Database(database_url)) as database:
        schema_revision.check(database)


@contextmanager
def exclusive(database_url: str) -> Iterator[Connection]:
    """A transaction to change the schema, behind a lock; creates the file of an SQLite database first."""
    with closing(Database(database_url, upgrading=True)) as database:
        if database.is_sqlite:
            create_file(database.path)
        with database.writing() as connection:
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection
            if database.is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise Failure(f"{database.label} would hold rows that point nowhere: the schema stays as it was.")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.adapters.store.migrate", description="Upgrade gpuq's record.")
    parser.add_argument("url", nargs="?", help="the database; without it, the one that the settings name")
    parser.add_argument("--check", action="store_true", help="change nothing; say whether the schema fits")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        url = options.url or settings.load().database_url
        check(url) if options.check else upgrade(url)
    except GpuqError as error:
        sys.stderr.write(f"{error.message}\n{error.fix}\n")
        return error.exit_code
    schema = revision(url)
    sys.stdout.write(f"{json.dumps({'schema': schema})}\n" if options.json else f"The record has schema {schema}.\n")
    return 0


def _alembic(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    # Beside `gpuq`: `migrations` in a checkout, `gpuq_migrations` where the wheel is installed.
    beside = Path(gpuq.__file__).parent.parent
    folder = next(beside / name for name in ("migrations", "gpuq_migrations") if (beside / name / "env.py").exists())
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the transaction ends with the process
    sys.exit(main())
