"""Process trees: pages that forked processes share are counted once, and exact readings cost a bounded part of a core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gpuq.adapters.cpu import trees as trees_module
from gpuq.adapters.cpu.trees import KERNEL_COUNTS_WAITING, Trees

MIB = 2**20
# Forks one more child for each line that it reads, and answers when that child runs.
FORK_WHEN_ASKED = """
import os, sys, time
data = b'x' * (100 * 2**20)
while True:
    print('up', flush=True)
    if not sys.stdin.readline():
        break
    if os.fork() == 0:
        time.sleep(600)
"""


class Family:
    """A process that holds 100 MiB, and the children that it forks when it is asked to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORK_WHEN_ASKED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self._until_up()

    def fork(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self._until_up()

    def end(self) -> None:
        os.killpg(self.process.pid, 9)
        self.process.communicate()

    def _until_up(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"


@pytest.fixture
def family() -> Iterator[Family]:
    made = Family()
    yield made
    made.end()


def costing(seconds: float) -> Callable[[], float]:
    """A clock by which each exact reading takes so long."""
    now = [0.0]

    def clock() -> float:
        now[0] += seconds
        return now[0]

    return clock


def read(trees: Trees, family: Family, at: float) -> tuple[float, bool]:
    """MiB, and whether that is an estimate."""
    tree = trees.read(family.process.pid, at)
    assert tree is not None
    return tree.memory_bytes / MIB, tree.memory_is_estimate


def test_pages_shared_by_forks_are_counted_once_from_the_first_reading_on(family: Family):
    family.fork()
    family.fork()
    memory, estimate = read(Trees(), family, 0)
    assert 100 < memory < 140
    assert not estimate


def test_between_exact_readings_a_new_child_makes_the_figure_an_estimate(family: Family):
    family.fork()
    trees = Trees(cost_clock=costing(0.1))  # paid for after 20 s, at half a percent of a core
    assert not read(trees, family, 0)[1]
    family.fork()
    memory, estimate = read(trees, family, 19)
    assert estimate
    assert memory > 190, "the new child counts in full"
    memory, estimate = read(trees, family, 21)
    assert not estimate
    assert memory < 140


def test_the_estimate_of_unchanged_processes_is_renewed_every_few_seconds(
    family: Family, monkeypatch: pytest.MonkeyPatch
):
    family.fork()
    taken: list[int] = []
    exact = trees_module._exact_bytes
    monkeypatch.setattr(trees_module, "_exact_bytes", lambda pid: (taken.append(pid), exact(pid))[1])
    trees = Trees(cost_clock=costing(0.001))
    for second in range(11):
        assert not read(trees, family, second)[1]
    assert len(taken) == 2 * 3, "both processes at 0, 5 and 10 s"


def test_without_exact_figures_the_sum_is_an_estimate(family: Family, monkeypatch: pytest.MonkeyPatch):
    family.fork()
    monkeypatch.setattr(trees_module, "_exact_bytes", lambda _: None)
    memory, estimate = read(Trees(), family, 0)
    assert memory > 190
    assert estimate


def test_one_process_needs_no_exact_reading(family: Family, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trees_module, "_exact_bytes", lambda _: pytest.fail("was read"))
    memory, estimate = read(Trees(), family, 0)
    assert 100 < memory < 140
    assert not estimate


@pytest.mark.skipif(not KERNEL_COUNTS_WAITING, reason="this kernel does not count how long threads wait for a core")
def test_waiting_for_a_core_is_counted_from_the_second_look_on(family: Family):
    """Two processes that burn the same core wait for it half of the time; one that sleeps does not wait."""
    core = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, {{{core}}}); print('up', flush=True)\nwhile True: pass"
    burning = [subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in burning:
            assert process.stdout is not None
            process.stdout.readline()
        trees = Trees()
        seconds = trees.read(burning[0].pid, 0)
        assert seconds is not None
        read(trees, family, 0)
        assert trees.waited(burning[0].pid) is None
        assert trees.waited(family.process.pid) is None
        while (now := trees.read(burning[0].pid, 0)) is not None and now.cpu_seconds < seconds.cpu_seconds + 0.1:
            pass
        waited = trees.waited(burning[0].pid)
        assert waited is not None
        assert waited[0] == waited[1] > 0.03, "one thread is all threads"
        slept = trees.waited(family.process.pid)
        assert slept is not None
        assert slept[0] < 0.01
        trees.stop_waiting(burning[0].pid)
        assert trees.waited(burning[0].pid) is None
    finally:
        for process in burning:
            process.kill()
            process.communicate()
