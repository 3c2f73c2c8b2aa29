"""Each test of the contract runs in memory, on SQLite and on a real PostgreSQL server, each time on an empty record.

Tests of the databases themselves (migrations, faults of the disk) take a URL and run on the two databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.schema import metadata
from tests.adapters.store.postgresql import Server, why_not
from tests.support.memory_store import MemoryStore
from tests.support.sqlite_record import make_record

DATABASES = ["sqlite", "postgresql"]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if reason := why_not():
        pytest.skip(reason)
    running = Server()
    yield running
    running.remove()


@pytest.fixture(params=DATABASES)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def empty_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it; on SQLite not even a file."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/gpuq.db"
    url = request.getfixturevalue("scratch_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url


@pytest.fixture(scope="session")
def scratch_url(server: Server) -> str:
    return server.create_database()


@pytest.fixture(scope="session")
def postgresql_url(server: Server) -> str:
    url = server.create_database()
    upgrade(url)
    return url


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest) -> str:
    """A database with our schema and no rows."""
    return _empty_database(backend, request)


@pytest.fixture
def store_of() -> Iterator[Callable[[str], Store]]:
    """Opens stores as other processes would, and closes them."""
    opened: list[Store] = []

    def open_one(url: str) -> Store:
        opened.append(open_store(url))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture(params=["memory", *DATABASES])
def open_record(request: pytest.FixtureRequest, store_of: Callable[[str], Store]) -> Callable[[], Store]:
    """Opens one empty record, each time as another process would; in memory it is the same object for all."""
    if request.param == "memory":
        record = MemoryStore()
        return lambda: record
    url = _empty_database(request.param, request)
    return lambda: store_of(url)


@pytest.fixture
def store(open_record: Callable[[], Store]) -> Store:
    return open_record()


def _empty_database(backend: str, request: pytest.FixtureRequest) -> str:
    if backend == "sqlite":
        return make_record(request.getfixturevalue("tmp_path") / "gpuq.db")
    url = request.getfixturevalue("postgresql_url")
    # Not TRUNCATE, which makes new files for eleven tables and their indexes: that takes five times as long as a few rows.
    emptied = (table.name for table in reversed(metadata.sorted_tables) if table.name not in {"numbers", "leadership"})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("; ".join(f"DELETE FROM {name}" for name in emptied))
        connection.execute("UPDATE numbers SET last_job = 0, last_request = 0")
        connection.execute(
            "UPDATE leadership SET epoch = 0, holder = NULL, renewed_at = 0, order_key = NULL, first_attempt = NULL"
        )
    return url
