"""Schemas: made from nothing, kept in step with the tables, refused when they do not fit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.schema import CreateIndex, CreateTable

import gpuq
from gpuq.adapters.store import migrate, open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import check, downgrade, exclusive, main, revision, upgrade
from gpuq.adapters.store.row_types import Commit, Selection
from gpuq.adapters.store.rows import to_json
from gpuq.adapters.store.schema import HEAD, metadata
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobState
from gpuq.errors import SchemaMismatch
from tests.adapters.store.samples import a_change, a_record, launched
from tests.support.forked import Forks

ROOT = Path(gpuq.__file__).parent.parent


@cache
def programs() -> Forks:
    """Alembic's command and ours as processes whose imports are done once."""
    return Forks("alembic.config", "gpuq.adapters.store.migrate")


def change(url: str, statement: str) -> None:
    with closing(Database(url)) as database, database.writing() as connection:
        connection.execute(text(statement))


def tables(url: str) -> set[str]:
    with closing(Database(url)) as database, database.reading() as connection:
        return set(connection.dialect.get_table_names(connection))


def test_from_nothing_to_head(empty_url: str) -> None:
    assert revision(empty_url) is None
    upgrade(empty_url)
    assert revision(empty_url) == HEAD
    assert tables(empty_url) == {*metadata.tables, "alembic_version"}
    check(empty_url)
    with closing(open_store(empty_url)) as store:
        assert store.add_jobs([a_record()]) == [1]


def test_upgrading_again_changes_nothing(database_url: str, store_of: Callable[[str], Store]) -> None:
    store = store_of(database_url)
    store.add_jobs([a_record()])
    upgrade(database_url)
    assert [row.id for row in store.jobs()] == [1]


def test_two_processes_upgrade_at_once(empty_url: str) -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('error')\n"
        "from gpuq.adapters.store.migrate import main; sys.exit(main())"
    )
    with ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(programs().run, code, ["migrate", empty_url], env=os.environ, cwd=ROOT) for _ in range(2)
        ]
    assert [(each.result().returncode, each.result().stderr) for each in running] == [(0, b"")] * 2
    check(empty_url)


def test_threads_upgrade_at_once(empty_url: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(upgrade, [empty_url] * 6))
    check(empty_url)


def test_down_and_up_again(empty_url: str) -> None:
    upgrade(empty_url)
    downgrade(empty_url, "base")
    assert tables(empty_url) == {"alembic_version"}
    assert revision(empty_url) is None
    upgrade(empty_url)
    with closing(open_store(empty_url)) as store:
        assert store.add_jobs([a_record()]) == [1]


def test_devices_of_an_older_schema_keep_an_unknown_sharing(empty_url: str, store_of: Callable[[str], Store]) -> None:
    upgrade(empty_url)
    downgrade(empty_url, "0001")
    change(
        empty_url, "INSERT INTO devices (id, host, backend, type, total_memory) VALUES ('gpu0', 'h', 'nvml', 'A', 7)"
    )
    upgrade(empty_url)
    assert store_of(empty_url).devices() == [Device(DeviceId("gpu0"), HostId("h"), "nvml", "A", 7, None, None)]


def test_stops_under_way_during_the_upgrade_get_the_reason_that_was_inferred_before(
    empty_url: str, store_of: Callable[[str], Store]
) -> None:
    upgrade(empty_url)
    with closing(open_store(empty_url)) as store:
        cancelled, preempted, running = (launched(store).job for _ in range(3))
        completing = [
            a_change(cancelled, JobState.COMPLETING, 1, cancel_requested=True),
            a_change(preempted, JobState.COMPLETING, 1),
        ]
        store.commit(Commit(jobs=completing))
    downgrade(empty_url, "0004")
    upgrade(empty_url)
    reasons = {row.job: row.stop_reason for row in store_of(empty_url).live_attempts()}
    assert reasons == {cancelled: StopReason.CANCELLED, preempted: StopReason.PREEMPTED, running: None}


def test_jobs_from_before_are_found_by_their_names_after_the_upgrade(
    empty_url: str, store_of: Callable[[str], Store]
) -> None:
    upgrade(empty_url)
    downgrade(empty_url, "0023")
    change(
        empty_url,
        "INSERT INTO jobs (id, owner, state, state_since, attempt, alone, cancel_requested)"
        " VALUES (1, 'ada', 'FAILED', 1, 0, false, false), (2, 'ada', 'FAILED', 1, 0, false, false)",
    )
    for job, name in ((1, "bert"), (2, None)):
        named = to_json(a_record(name=name)).replace("'", "''").replace(":", "\\:")
        change(empty_url, f"INSERT INTO job_records (job, record) VALUES ({job}, '{named}')")
    upgrade(empty_url)
    store = store_of(empty_url)
    change(empty_url, "UPDATE job_records SET record = 'no JSON any more'")
    assert list(store.select(Selection(name="be*"))) == [1]
    assert list(store.select(Selection(name=""))) == [2]


def test_alembic_finds_no_difference_to_the_tables(database_url: str) -> None:
    environment = {**os.environ, "GPUQ_DATABASE_URL": database_url}
    code = "import sys; from alembic.config import main; sys.exit(main())"
    done = programs().run(code, ["alembic", "check"], env=environment, cwd=ROOT)
    assert (done.returncode, done.stdout.strip()) == (0, b"No new upgrade operations detected."), done.stderr


def test_the_migrations_make_exactly_the_tables(database_url: str) -> None:
    """Alembic does not compare everything, the conditions of indexes for one; the database's own words do."""
    url = Database(database_url)
    made = definitions(url)
    dialect = create_engine(url.url).dialect
    if not url.is_sqlite:
        expected = {index.name for table in metadata.sorted_tables for index in table.indexes}
        assert {name for name in made if not name.startswith(("pk_", "alembic"))} == expected
        for table in metadata.sorted_tables:
            for index in table.indexes:
                assert squeeze(index.info.get("where", "")) in made[str(index.name)]
    else:
        for index in (index for table in metadata.sorted_tables for index in table.indexes if "where" in index.info):
            index.dialect_options["sqlite"]["where"] = text(index.info["where"])
        wanted = [CreateTable(table) for table in metadata.sorted_tables]
        wanted += [CreateIndex(index) for table in metadata.sorted_tables for index in table.indexes]
        for each in wanted:
            assert made[str(each.element.name)] == squeeze(str(each.compile(dialect=dialect)))


def definitions(database: Database) -> dict[str, str]:
    query = (
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        if database.is_sqlite
        else "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    )
    with closing(database), database.reading() as connection:
        return {name: squeeze(sql) for name, sql in connection.execute(text(query))}


def squeeze(sql: str) -> str:
    return re.sub(r"[\s()]+", "", sql).replace('"', "").replace("::text", "")


def test_head_is_the_last_of_the_numbered_revisions() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    revisions = [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)
    assert all(re.fullmatch(r"\d{4}", each) for each in revisions)
    assert revisions[0] == HEAD


def test_a_database_that_was_never_set_up_is_refused(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="not been set up") as error:
        open_store(empty_url)
    assert "gpuq db upgrade" in error.value.fix


def test_opening_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch):
        open_store(f"sqlite:///{tmp_path}/gpuq.db")
    assert list(tmp_path.iterdir()) == []


def test_an_older_database_is_refused_until_upgraded(empty_url: str) -> None:
    upgrade(empty_url)
    change(empty_url, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaMismatch, match="older than this gpuq: it has schema 0000") as error:
        open_store(empty_url)
    assert "gpuq db upgrade" in error.value.fix


def test_a_failed_upgrade_leaves_nothing_behind(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off(config: Config, to: str) -> None:
        real(config, to)
        raise RuntimeError("killed")

    real = command.upgrade
    monkeypatch.setattr(command, "upgrade", break_off)
    with pytest.raises(RuntimeError):
        upgrade(empty_url)
    monkeypatch.undo()
    assert tables(empty_url) == set()
    upgrade(empty_url)
    check(empty_url)


def test_foreign_tables_are_not_touched(empty_url: str) -> None:
    with exclusive(empty_url) as connection:
        connection.execute(text("CREATE TABLE jobs (theirs INTEGER)"))
    with pytest.raises(Exception, match="jobs"):
        upgrade(empty_url)
    assert tables(empty_url) == {"jobs"}


def test_a_new_sqlite_file_is_private(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        upgrade(f"sqlite:///{tmp_path}/gpuq.db")
    finally:
        os.umask(previous)
    assert (tmp_path / "gpuq.db").stat().st_mode & 0o777 == 0o600


def test_main_prints_the_schema(empty_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", empty_url]) == 1
    assert "not been set up" in capsys.readouterr().err
    assert main([empty_url]) == 0
    assert HEAD in capsys.readouterr().out
    assert main(["--check", "--json", empty_url]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": HEAD}


def test_the_command_line_takes_the_settings_database(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path))
    monkeypatch.setenv("GPUQ_DATABASE_URL", empty_url)
    assert migrate.main([]) == 0
    check(empty_url)


def test_the_command_line_shows_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mysql://root:secret@host/x"]) == 2
    shown = capsys.readouterr().err
    assert "GPUQ_DATABASE_URL" in shown
    assert "secret" not in shown
    assert "Traceback" not in shown


def test_a_database_taken_back_to_nothing_is_refused(store_of: Callable[[str], Store], empty_url: str) -> None:
    upgrade(empty_url)
    store_of(empty_url).add_jobs([a_record()])
    downgrade(empty_url, "base")
    with pytest.raises(SchemaMismatch):
        check(empty_url)
