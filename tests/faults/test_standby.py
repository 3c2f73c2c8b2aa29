"""Several real dispatchers of one record: one leads, a standby takes over, and one that comes back too late writes nothing."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import text

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.schema import HEAD
from gpuq.errors import BadSettings, Conflict, SchemaMismatch, Unreachable
from gpuq.home import Home
from tests.adapters.store.postgresql import Server, why_not
from tests.adapters.store.samples import a_record
from tests.daemon.harness import Harness
from tests.support.forked import Fork, Forks
from tests.support.patience import Stopwatch
from tests.support.site import wait_for
from tests.support.sqlite_record import make_record

_CODE = "import sys; from gpuq.daemon.main import main; sys.exit(main())"


@cache
def programs() -> Forks:
    """Dispatchers as processes whose imports are done once."""
    return Forks("gpuq.daemon.main", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite", "psycopg")


class Gpuqd:
    """A real dispatcher in a home of its own, without Redis. It is killed at the end of the block."""

    def __init__(self, folder: Path, database_url: str, host: str, key: str | None = "of all dispatchers") -> None:
        self.host = host
        home = Home(folder / host)
        home.create()
        if key is not None:
            home.order_key_file.write_text(key)
        self.output = folder / f"{host}.log"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")},
            "GPUQ_HOME": str(folder / host),
            "GPUQ_DATABASE_URL": database_url,
            "GPUQ_REDIS_URL": f"unix://{folder}/no-redis.sock",
            "GPUQ_WORKER_HOST": host,
        }
        self.process: Fork

    def __enter__(self) -> Gpuqd:
        with self.output.open("ab") as output:
            self.process = programs().start(_CODE, [sys.executable], output, output, env=self._environment)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)

    def leads(self, store: Store) -> bool:
        assert self.process.poll() is None, self.output.read_text()
        return (store.leader().holder or "").startswith(f"{self.host} ")

    def stands_by(self) -> bool:
        return "standby: " in self.output.read_text()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gq-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    if reason := why_not():
        pytest.skip(reason)
    server = Server()
    url = server.create_database()
    upgrade(url)
    yield url
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return make_record(folder / "gpuq.db")
    url: str = request.getfixturevalue("postgresql_url")
    return url


@contextmanager
def set_schema(url: str, revision: str) -> Iterator[None]:
    """Another schema revision, which no other gpuq works with, in the record until the end of the block."""
    statements = [
        text("UPDATE alembic_version SET version_num = :revision"),
        text("UPDATE leadership SET oldest_gpuq = :revision"),
    ]
    with closing(Database(url)) as database:
        with database.writing() as connection:
            for statement in statements:
                connection.execute(statement, {"revision": revision})
        try:
            yield
        finally:
            with database.writing() as connection:
                for statement in statements:
                    connection.execute(statement, {"revision": HEAD})


def suspend_and_take_over(leader: Gpuqd, store: Store) -> None:
    """SIGSTOP it outside of a transaction, which would lock the record, and take the leadership as if its lease had expired."""
    while True:
        leader.process.send_signal(signal.SIGSTOP)
        try:
            store.take_leadership("the test", lease_s=-1)
        except Unreachable:
            leader.process.send_signal(signal.SIGCONT)
        else:
            return


async def test_a_dispatcher_suspended_during_a_takeover_commits_nothing_afterwards(
    database_url: str, folder: Path
) -> None:
    with closing(open_store(database_url)) as store, Gpuqd(folder, database_url, "one") as suspended:
        wait_for(lambda: suspended.leads(store), 20, suspended.output.read_text)
        suspend_and_take_over(suspended, store)
        harness = Harness(folder, store)
        (job,) = store.add_jobs([a_record(hold=True)])
        await harness.turn()
        assert store.requests(10) == []
        # The suspended dispatcher has not read the job: in its state the cancel changes nothing, so no journal entry comes of it.
        store.add_request("cancel", job, "ada", 0.0, {})
        before = store.journal(after=0, limit=100)

        suspended.process.send_signal(signal.SIGCONT)

        assert suspended.process.wait(60) == Conflict.exit_code
        assert [request.verb for request in store.requests(10)] == ["cancel"]
        assert store.journal(after=0, limit=100) == before
        assert "The dispatcher the test has taken over" in suspended.output.read_text()
        assert store.leader().holder == "the test"
        await harness.turn()
        assert harness.states()[job] == "CANCELLED"
        harness.lease.release()


def test_a_standby_without_the_key_of_the_leader_says_what_to_copy(folder: Path) -> None:
    database_url = make_record(folder / "gpuq.db")
    with closing(open_store(database_url)) as store, Gpuqd(folder, database_url, "main") as leader:
        wait_for(lambda: leader.leads(store) and store.leader().order_key, 20, leader.output.read_text)
        for host, key in (("without", None), ("other", "another key")):
            with Gpuqd(folder, database_url, host, key) as standby:
                assert standby.process.wait(60) == BadSettings.exit_code
                assert f"Copy order.key from the home of the dispatcher on main to {folder}/{host}" in (
                    standby.output.read_text()
                )
        assert not Home(folder / "without").order_key_file.exists()


def test_a_standby_takes_over_from_a_killed_leader_and_from_one_that_ends(postgresql_url: str, folder: Path) -> None:
    with closing(open_store(postgresql_url)) as store, ExitStack() as running:
        hosts = ("one", "two", "three", "four")
        ours = [running.enter_context(Gpuqd(folder, postgresql_url, host)) for host in hosts]

        def leader() -> Gpuqd | None:
            return next((each for each in ours if each.leads(store)), None)

        wait_for(lambda: sum(each.stands_by() for each in ours) == 3 and leader(), 20)
        (job,) = store.add_jobs([a_record(hold=True)])
        wait_for(lambda: not store.requests(1))

        for number, within_s in ((signal.SIGKILL, 10.0), (signal.SIGTERM, 3.0)):
            ended = wait_for(leader)
            watch = Stopwatch()
            ended.process.send_signal(number)
            store.add_request("hold" if number is signal.SIGKILL else "cancel", job, "ada", 0.0, {})
            assert ended.process.wait(60) == (-number if number is signal.SIGKILL else 0)
            ours.remove(ended)
            wait_for(lambda: leader() and not store.requests(1), within_s - watch.seconds)

        found = store.job(job)
        assert found is not None
        assert found.state.value == "CANCELLED"
        assert store.leader().epoch >= 3

        # A newer gpuq upgrades the record while an older one stands by.
        leading = wait_for(leader)
        [older] = [each for each in ours if each is not leading]
        with set_schema(postgresql_url, "9999"):
            leading.process.send_signal(signal.SIGTERM)
            assert older.process.wait(60) == SchemaMismatch.exit_code
        assert "The database is newer than this gpuq" in older.output.read_text()
        assert store.leader().holder is None
