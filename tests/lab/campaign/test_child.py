"""One process of a workload: pause, continue, move to other cores, find again, and its environment."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from gpuq.adapters.devices import Placement
from gpuq.lab.campaign.child import Child, end_leftovers, signals_held_back, start
from tests.lab.campaign.jobs import contending, silent


@pytest.fixture
def child(tmp_path: Path):
    own = start(contending(tmp_path / "beats"), tmp_path / "0", Placement({}, None), os.environ, lambda: 0.0)
    yield own
    own.ask_to_end()
    own.end(2.0)
    assert own.process.returncode is not None


def wait_for_steps(child: Child, count: int) -> None:
    while not child.marks or child.marks[-1].steps < count:
        assert child.ending() is None
        child.look()


def test_a_paused_child_counts_nothing_until_it_goes_on(child: Child):
    wait_for_steps(child, 3)
    child.pause()
    while state_of(child) != "T":
        pass
    child.look()
    stood = child.marks[-1]
    for _ in range(50):
        child.look()
    assert child.marks[-1] == stood
    child.go_on()
    wait_for_steps(child, stood.steps + 3)


def state_of(child: Child) -> str:
    return (Path("/proc") / str(child.identity.pid) / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_child_is_moved_with_all_its_threads(child: Child):
    wait_for_steps(child, 1)
    (core, *_) = os.sched_getaffinity(0)
    child.pin([core])
    threads = [entry.name for entry in Path(f"/proc/{child.identity.pid}/task").iterdir()]
    assert all(os.sched_getaffinity(int(thread)) == {core} for thread in threads)


def test_environment_is_passed_on_without_gpuqs_variables(tmp_path: Path):
    program = "import os, sys; print(sorted(n for n in os.environ if n.startswith('GPUQ_')), os.environ['MINE'])"
    job = replace(silent(), command=("{python}", "-c", program), env=(("MINE", "yes"),))
    own = start(job, tmp_path / "0", Placement({}, None), {**os.environ, "GPUQ_TOKEN": "secret"}, lambda: 0.0)
    own.process.wait()
    assert (tmp_path / "0" / "output.log").read_text().strip() == "['GPUQ_PROGRESS'] yes"


def test_processes_of_a_killed_campaign_are_found_and_ended(child: Child, tmp_path: Path):
    wait_for_steps(child, 1)
    assert end_leftovers(tmp_path / "0") == 1
    assert child.process.wait() == -9
    assert end_leftovers(tmp_path / "0") == 0


def test_a_signal_that_comes_while_a_child_is_started_waits_for_it():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("SIGTERM"))
    try:
        with signals_held_back():
            signal.raise_signal(signal.SIGTERM)
            assert seen == []
        assert seen == ["SIGTERM"]
    finally:
        signal.signal(signal.SIGTERM, before)
