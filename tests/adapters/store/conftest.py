"""Each test of the record runs on SQLite and on a real PostgreSQL server, each time on a fresh database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.schema import metadata
from tests.adapters.store.postgresql import Server, why_not


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if reason := why_not():
        pytest.skip(reason)
    running = Server()
    yield running
    running.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
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
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "gpuq.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql_url(server: Server) -> str:
    url = server.create_database()
    upgrade(url)
    return url


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with our schema and no rows."""
    if backend == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "gpuq.db")
        return f"sqlite:///{tmp_path}/gpuq.db"
    url = request.getfixturevalue("postgresql_url")
    tables = ", ".join(name for name in metadata.tables if name != "numbers")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {tables}")
        connection.execute("UPDATE numbers SET last_job = 0, last_request = 0")
    return url


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


@pytest.fixture
def store(database_url: str, store_of: Callable[[str], Store]) -> Store:
    return store_of(database_url)
