"""What is read from the home of a host that was killed before it had reported everything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from gpuq_workers.attempts import AttemptFolder, EndFile, Marker, StartFile, make_folder
from gpuq_workers.last_events import send, unreported
from gpuq_workers.spool import Spool

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.events import Exited, Started
from gpuq.home import Home
from gpuq.messages import codec
from tests.workers.twins import attempt_id

HOST = "slurm-1"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create()
    Spool(home.spool, HOST).continue_after(0)
    return home


def attempt(home: Home, job: int, ending: Ending | None = Ending.EXITED) -> AttemptFolder:
    folder = make_folder(home.attempts / f"{job}-1", attempt_id(job))
    assert folder is not None
    (folder.path / "started.json").write_bytes(msgspec.json.encode(StartFile(7, 6, 1, 1, "boot", 100.0)))
    if ending is not None:
        end = EndFile(ending, 0, "exit code 0", 111.0, lasted_s=10.0)
        (folder.path / "exit.json").write_bytes(msgspec.json.encode(end))
    return folder


def events(home: Home) -> list[tuple[int, object]]:
    return [(one.seq, codec.from_plain(one.name, one.body)) for one in unreported(home, HOST)]


def test_an_end_that_only_the_shim_wrote_down_is_found_with_its_start(home: Home) -> None:
    folder = attempt(home, 3)
    attempt(home, 4, None)
    assert events(home) == [
        (1, Started(attempt_id(3), 100.0, 7, str(folder.log_path))),
        (2, Exited(attempt_id(3), 110.0, Ending.EXITED, 0, "exit code 0", Measurement())),
    ]


def test_what_was_in_the_spool_comes_first_as_it_is_and_not_again(home: Home) -> None:
    attempt(home, 3).mark(Marker(started=1))
    spool = Spool(home.spool, HOST)
    started = Started(attempt_id(3), 100.0, 7, "/log")
    measured = Exited(attempt_id(3), 110.0, Ending.EXITED, 0, "", Measurement(steps=5))
    asyncio.run(spool.write(started))
    asyncio.run(spool.write(measured))
    attempt(home, 2).mark(Marker(started=1))
    found = events(home)
    assert found[:2] == [(1, started), (2, measured)]
    assert [(seq, type(event), event.attempt.job) for seq, event in found[2:]] == [(3, Exited, 2)]  # type: ignore[attr-defined]


def test_numbers_go_on_after_the_last_that_the_dispatcher_has(home: Home) -> None:
    spool = Spool(home.spool, HOST)
    asyncio.run(spool.write(Started(attempt_id(1), 1.0, 7, "/log")))
    spool.forget(1)
    attempt(home, 3)
    assert [seq for seq, _ in events(home)] == [2, 3]


def test_an_end_that_was_reported_is_not_reported_again_and_nothing_is_written(home: Home) -> None:
    attempt(home, 3).mark(Marker(started=1, exited=2))
    attempt(home, 4)
    before = sorted(home.root.rglob("*"))
    assert events(home) == events(home)
    assert {event.attempt.job for _, event in events(home)} == {4}  # type: ignore[attr-defined]
    assert sorted(home.root.rglob("*")) == before


def test_an_end_that_the_job_has_replaced_by_a_link_says_nothing(home: Home, tmp_path: Path) -> None:
    folder = attempt(home, 3)
    (folder.path / "exit.json").rename(tmp_path / "elsewhere")
    (folder.path / "exit.json").symlink_to(tmp_path / "elsewhere")
    assert events(home) == []


def test_a_job_that_was_killed_with_its_pilot_did_not_end_by_itself(home: Home) -> None:
    attempt(home, 3, Ending.KILLED)
    assert events(home) == []


def test_a_host_that_never_joined_has_nothing_to_report(tmp_path: Path) -> None:
    assert send(Home(tmp_path)) == 0
