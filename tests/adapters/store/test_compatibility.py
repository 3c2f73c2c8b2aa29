"""The record after an upgrade still serves the earlier gpuq that it names: nothing that this one reads or writes has gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text

import gpuq
from gpuq.adapters.store import migrate, open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import check, exclusive, revision, upgrade
from gpuq.adapters.store.schema import HEAD, OLDEST_GPUQ
from gpuq.core.state.job import JobState
from gpuq.errors import SchemaMismatch
from tests.adapters.store.samples import a_record, launched

ROOT = Path(gpuq.__file__).parent.parent
PREVIOUS_RELEASE, PREVIOUS_HEAD = "717bfb4", "0005"
"""The commit of release 0.1.0, and its schema."""

# What a dispatcher and a worker of 0.1.0 do to the record, in the words of its own tests.
_LIVE = """
import json, sys, time
from dataclasses import replace
from gpuq.adapters.store import revision
revision.HEAD = sys.argv[2]
from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Commit
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobState
from tests.adapters.store import samples

store = open_store(sys.argv[1])
store.commit(Commit(devices=[Device(DeviceId("gpu0"), HostId("host"), "gpu", "A100", 2**36)]))
attempt = samples.launched(store)
claimed = store.claim(attempt, "host", "boot", 220.0)
assert claimed is not None and claimed[0] == samples.a_record()
row = store.live_attempts()[0]
from gpuq.core.state.attempt import AttemptId
from gpuq.errors import Failure
try:
    store.claim(AttemptId(2, 1), "host", "boot", 220.0)
except Failure as error:
    refused = str(error)
ended = samples.a_change(attempt.job, JobState.COMPLETED, 1)
store.commit(Commit(jobs=[ended], ended=[(attempt, samples.an_end())], entries=[samples.an_entry(1, attempt.job)]))
[waiting] = store.add_jobs([samples.a_record(owner="bob")])
store.add_request("hold", waiting, "bob", 1.0, {})
print(json.dumps([attempt.job, waiting, store.job(1).id, refused, len(store.requests(9))]))
"""


def shape(connection: Connection) -> dict[str, Any]:
    """Of each table its columns and what limits its rows, as the database tells it."""
    look = inspect(connection)
    return {
        name: {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in look.get_columns(name)
            },
            "limits": {
                *(str(sorted(each["column_names"])) for each in look.get_unique_constraints(name)),
                *(str(sorted(each["column_names"])) for each in look.get_indexes(name) if each["unique"]),
                *(each["sqltext"] for each in look.get_check_constraints(name)),
                *(f"{each['constrained_columns']} {each['referred_table']}" for each in look.get_foreign_keys(name)),
            },
        }
        for name in look.get_table_names()
        if name != "alembic_version"
    }


def taken_away(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a gpuq that knows only `before` would miss in `after`, or could no longer write."""
    found = [f"{table} is gone" for table in before if table not in after]
    for table in before.keys() & after.keys():
        old, new = before[table]["columns"], after[table]["columns"]
        for column, (kind, nullable, _) in old.items():
            if column not in new:
                found.append(f"{table}.{column} is gone")
            elif new[column][0] != kind:
                found.append(f"{table}.{column} was {kind} and is {new[column][0]}")
            elif nullable and not new[column][1]:
                found.append(f"{table}.{column} must have a value")
        needed = (name for name in new.keys() - old.keys() if not new[name][1] and new[name][2] is None)
        found += [f"{table}.{column} is new and must have a value" for column in needed]
        found += [f"{table} is limited by {limit}" for limit in after[table]["limits"] - before[table]["limits"]]
    return found


def upgraded_to(url: str, to: str) -> dict[str, Any]:
    with exclusive(url) as connection:
        command.upgrade(migrate._alembic(connection), to)
        return shape(connection)


def test_migrations_since_the_oldest_gpuq_only_add(empty_url: str) -> None:
    before = upgraded_to(empty_url, OLDEST_GPUQ)
    assert taken_away(before, upgraded_to(empty_url, HEAD)) == []


def test_the_previous_release_is_not_left_behind() -> None:
    assert OLDEST_GPUQ <= PREVIOUS_HEAD


@pytest.mark.parametrize(
    ("statement", "missed"),
    [
        ("DROP TABLE chances", "chances is gone"),
        ("ALTER TABLE leadership RENAME COLUMN holder TO leader", "leadership.holder is gone"),
        ("ALTER TABLE leadership ADD COLUMN term INTEGER NOT NULL DEFAULT 0", None),
        ("ALTER TABLE leadership ADD COLUMN term INTEGER", None),
        ("CREATE UNIQUE INDEX one ON jobs (owner)", "jobs is limited by ['owner']"),
        ("CREATE INDEX many ON jobs (owner)", None),
    ],
)
def test_what_takes_something_away_is_found(database_url: str, statement: str, missed: str | None) -> None:
    with exclusive(database_url) as connection:
        before = shape(connection)
        with connection.begin_nested() as change:
            connection.execute(text(statement))
            found = taken_away(before, shape(connection))
            change.rollback()  # on PostgreSQL other tests use this database
    assert found[:1] == ([] if missed is None else [missed])


def test_the_code_of_the_previous_release_works_on_the_record(
    database_url: str, store_of: Callable[[str], Store], tmp_path: Path
) -> None:
    words = ["git", "archive", PREVIOUS_RELEASE, "gpuq", "tests/__init__.py", "tests/adapters"]
    archive = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this checkout has no commit {PREVIOUS_RELEASE}: {archive.stderr.decode()}")
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive.stdout, check=True)
    store = store_of(database_url)
    store.add_jobs([a_record(project="ours")])
    launched(store, hosts=2)
    script = [sys.executable, "-c", _LIVE, database_url, HEAD]
    done = subprocess.run(
        script, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ended, waiting, ours, refused, requests = json.loads(done.stdout)
    assert ours == 1
    assert "unknown field `hosts`" in refused, "or it would start a part that cannot find the others"
    assert requests == 5, "four submissions and a hold"
    rows = {row.id: row for row in store.jobs()}
    assert (rows[ended].state, rows[waiting].state) == (JobState.COMPLETED, JobState.PENDING)
    assert rows[waiting].record.owner == "bob"
    [attempt] = store.attempts(ended)
    assert (attempt.exit_code, attempt.instance) == (0, None)


def later(url: str, oldest: str | None) -> None:
    """Make a record of a later gpuq, with which the one of the schema `oldest` works."""
    upgrade(url)
    with closing(Database(url)) as database, database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE leadership SET oldest_gpuq = :oldest"), {"oldest": oldest})


def test_a_record_of_a_later_gpuq_is_used_if_it_says_so(empty_url: str, store_of: Callable[[str], Store]) -> None:
    later(empty_url, HEAD)
    check(empty_url)
    upgrade(empty_url)
    assert revision(empty_url) == "9999"
    assert store_of(empty_url).add_jobs([a_record()]) == [1]


@pytest.mark.parametrize("oldest", [None, "9998"])
def test_a_record_of_a_later_gpuq_is_refused_otherwise_and_unchanged(empty_url: str, oldest: str | None) -> None:
    later(empty_url, oldest)
    for attempt in (open_store, check, upgrade):
        with pytest.raises(SchemaMismatch, match="newer than this gpuq: it has schema 9999") as error:
            attempt(empty_url)
        assert "Install" in error.value.fix
    assert revision(empty_url) == "9999"
