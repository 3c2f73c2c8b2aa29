"""Blinks from the worker service's side, on a made-up clock: when and of which job, what is measured, and when there is none.

Jobs and their shims are played by `World`: it moves the counters and answers requests as time passes.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from gpuq_workers.measuring.blink import SETTLE_S, Blinker, alone_window, pause_length
from gpuq_workers.measuring.progress import Progress
from gpuq_workers.measuring.sample import AloneSteps, WatchedResident
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId

DEVICE = DeviceId("here/cpu0")
A, B = AttemptId(JobId(1), 1), AttemptId(JobId(2), 1)


class World:
    """Two jobs on one device. Each makes a step every `step_s` seconds alone, and half as many beside the other."""

    def __init__(self, root: Path, step_s: float = 0.02) -> None:
        self.now = 1000.0
        self.step_s = step_s
        self.device = Device(DEVICE, HostId("here"), "cpu", "cpu-1", 1000)
        self.residents = [self.job(root, attempt) for attempt in (A, B)]
        self.steps = dict.fromkeys((A, B), 0.0)
        self.begun = dict.fromkeys((A, B), 1000.0)
        self.pauses: list[tuple[AttemptId, float, float]] = []
        self.answers = True
        self.calls: list[str] = []
        self.measured: list[AloneSteps] = []
        self.notes: dict[AttemptId, str] = {}
        self.peers: str | None = None
        self.during: Callable[[], None] = lambda: None

    @property
    def devices(self) -> tuple[Device, ...]:
        return (self.device,)

    def job(self, root: Path, attempt: AttemptId) -> WatchedResident:
        folder = root / str(attempt)
        folder.mkdir()
        (folder / "progress").touch()
        return WatchedResident(attempt, 1, (DEVICE,), folder, 1000.0, blink=True)

    def blinker(self, *, allowed: bool = True, seed: int = 1) -> Blinker:
        return Blinker(
            allowed,
            lambda: self.residents,
            self,
            random.Random(seed),
            clock=lambda: self.now,
            sleep=self.sleep,
            peers=lambda _: self.peers,
        )

    # --- the shims and the jobs ---

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)
        self.during()

    def pass_time(self, seconds: float) -> None:
        self._take_requests()
        paused = {attempt for attempt, began, ended in self.pauses if began <= self.now < ended}
        alone = len(self.residents) - len(paused) < 2
        self.now += seconds
        for resident in self.residents:
            if resident.attempt not in paused:
                self.steps[resident.attempt] += seconds / self.step_s / (1 if alone else 2)
                self._count(resident)
        self._answer()

    def _count(self, resident: WatchedResident) -> None:
        steps = int(self.steps[resident.attempt])
        if steps:
            record = struct.pack("<Qdd", steps, self.begun[resident.attempt], self.now)
            slot = bytes(1).ljust(16, b"\0") + record.ljust(48, b"\0")
            # In place, as the hook does: creating the file each time would be slow.
            with (resident.folder / "progress").open("r+b") as file:
                file.write(b"GPUQPRG1" + struct.pack("<I", 1).ljust(56, b"\0") + slot)

    def _take_requests(self) -> None:
        for resident in self.residents:
            path = resident.folder / "blink.json"
            if path.exists() and self.answers:
                asked = json.loads(path.read_text())
                path.rename(resident.folder / "taken.json")
                assert self.now <= asked["until"]
                self.pauses.append((resident.attempt, self.now + 0.3, self.now + 0.3 + asked["seconds"]))

    def _answer(self) -> None:
        for attempt, began, ended in self.pauses[-1:]:
            folder = next(r.folder for r in self.residents if r.attempt == attempt)
            if self.now >= ended and (folder / "taken.json").exists():
                number = json.loads((folder / "taken.json").read_text())["id"]
                answer = {"id": number, "began": began, "ended": ended, "why_not": None}
                (folder / "blinked.json").write_text(json.dumps(answer))

    # --- the meters ---

    async def pause(self, attempts: Sequence[AttemptId]) -> None:
        self.calls.append("pause")

    async def resume(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        self.calls.append("go on")
        if measured is not None:
            self.measured.append(measured)

    async def note(self, attempt: AttemptId, why_not: str) -> None:
        self.notes[attempt] = why_not

    def run(self, blinker: Blinker, seconds: float) -> World:
        async def turns() -> None:
            until = self.now + seconds
            while self.now < until:
                await blinker.poll()
                self.pass_time(4.0)

        asyncio.run(turns())
        return self


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_both_partners_are_measured_while_the_other_is_paused(world: World) -> None:
    world.run(world.blinker(), 1000)
    assert {one.attempt for one in world.measured} == {A, B}
    assert {(one.attempt, one.partners) for one in world.measured} == {(A, (B,)), (B, (A,))}
    steps, seconds = sum(one.steps for one in world.measured), sum(one.seconds for one in world.measured)
    assert steps / seconds == pytest.approx(1 / world.step_s, rel=0.02), "as if the other were not there"
    assert world.calls == ["pause", "go on"] * (len(world.calls) // 2)


def test_pauses_take_under_one_percent_of_each_jobs_time(world: World) -> None:
    world.run(world.blinker(), 2000)
    for attempt in (A, B):
        paused = [ended - began for who, began, ended in world.pauses if who == attempt]
        assert 5 < len(paused) < 19
        assert sum(paused) < 0.01 * 2000


def test_one_blink_at_a_time_at_exponential_moments(world: World) -> None:
    world.run(world.blinker(), 2000)
    spans = sorted((began, ended) for _, began, ended in world.pauses)
    assert all(ended < later for (_, ended), (later, _) in pairwise(spans))
    gaps = [later - ended for who in (A, B) for ended, later in _gaps(world, who)]
    assert min(gaps) >= 100
    assert max(gaps) > 1.5 * min(gaps), "the moments are random"


def _gaps(world: World, who: AttemptId) -> list[tuple[float, float]]:
    own = [(began, ended) for attempt, began, ended in world.pauses if attempt == who]
    return [(ended, later) for (_, ended), (later, _) in pairwise(own)]


def refused(world: World, blinker: Blinker | None = None) -> dict[AttemptId, str]:
    world.run(blinker or world.blinker(), 1000)
    assert not world.pauses
    assert not world.measured
    return world.notes


def test_no_blink_where_the_site_does_not_allow_it(world: World) -> None:
    assert "`blink` in [worker]" in refused(world, world.blinker(allowed=False))[A]


def test_no_blink_unless_both_were_submitted_with_blink(world: World) -> None:
    world.residents[1] = replace(world.residents[1], blink=False)
    notes = refused(world)
    assert notes == {A: "job 2 beside it was not submitted with --blink"}


def test_no_blink_without_a_partner(world: World) -> None:
    world.residents.pop()
    assert refused(world) == {}


def test_no_blink_of_jobs_on_several_devices(world: World) -> None:
    world.residents[1] = replace(world.residents[1], devices=(DEVICE, DeviceId("here/cpu1")))
    assert refused(world)[A] == "job 2 runs on several devices"


def test_no_blink_with_two_partners(world: World, tmp_path: Path) -> None:
    world.residents.append(world.job(tmp_path, AttemptId(JobId(3), 1)))
    world.steps[AttemptId(JobId(3), 1)], world.begun[AttemptId(JobId(3), 1)] = 0.0, 1000.0
    assert refused(world)[A] == "it has more than one partner"


def test_no_blink_of_a_job_with_peers(world: World) -> None:
    world.peers = "it is one of several processes (WORLD_SIZE=2)"
    assert refused(world)[A] == "of job 2 beside it: it is one of several processes (WORLD_SIZE=2)"


def test_no_blink_of_or_for_a_job_without_counted_steps(world: World) -> None:
    world.step_s = 1e9
    assert "has counted no steps" in refused(world)[A]


def test_no_blink_of_a_job_that_is_being_stopped(world: World) -> None:
    (world.residents[1].folder / "stop.json").write_text("{}")
    assert refused(world)[A] == "job 2 is being stopped"


def test_no_blink_for_steps_longer_than_a_pause(world: World) -> None:
    world.step_s = 4.0
    assert refused(world)[A] == "a step of its own takes longer than a pause may"


@pytest.mark.parametrize(
    ("type_", "refuses"),
    [
        ("Tesla P100-PCIE-16GB", True),
        ("GeForce GTX 1080", True),
        ("Tesla V100-SXM2-32GB", False),
        ("NVIDIA A100", False),
        ("NVIDIA H200", False),
    ],
)
def test_under_mps_blinks_need_volta_or_later(world: World, type_: str, refuses: bool) -> None:
    world.device = replace(world.device, type=type_, sharing="mps")
    world.run(world.blinker(), 400)
    assert (not world.pauses) is refuses


def test_a_silent_shim_only_loses_the_measurement(world: World) -> None:
    world.answers = False
    world.run(world.blinker(), 1000)
    assert not world.measured
    assert world.calls == ["pause", "go on"] * (len(world.calls) // 2)
    assert world.calls


def test_a_measurement_is_dropped_if_partners_changed_meanwhile(world: World, tmp_path: Path) -> None:
    third = world.job(tmp_path, AttemptId(JobId(3), 1))
    world.steps[third.attempt], world.begun[third.attempt] = 0.0, 1000.0
    world.during = lambda: world.residents.append(third) if third not in world.residents else None
    world.run(world.blinker(), 1000)
    assert world.pauses
    assert not world.measured


# --- what is measured in a window ------------------------------------------------------------------------------------


def looks_of(marks: Sequence[float], until: float, every: float = 0.05) -> list[tuple[float, Progress]]:
    """What looks see of a counter that moves at `marks`."""
    times = [number * every for number in range(int(until / every) + 1)]
    return [(at, Progress(n, marks[0], marks[n - 1])) for at in times if (n := sum(mark <= at for mark in marks))]


def test_the_settling_time_is_not_counted() -> None:
    slow, quick = [0.1 * number for number in range(1, 12)], [1.1 + 0.05 * number for number in range(1, 60)]
    steps, seconds = alone_window(looks_of(slow + quick, 5), 1.0, 2.0, 0.25) or (0, 0.0)
    assert steps / seconds == pytest.approx(20)
    assert seconds <= 0.8


@pytest.mark.parametrize("began", [1.0, 1.13, 1.37])
def test_even_steps_give_their_exact_rate_wherever_the_pause_begins(began: float) -> None:
    marks = [0.22 * number for number in range(1, 40)]
    steps, seconds = alone_window(looks_of(marks, 5), began, began + 1, 0.25) or (0, 0.0)
    assert seconds / steps == pytest.approx(0.22)


def test_a_pause_without_a_step_counts_with_its_time() -> None:
    steps, seconds = alone_window(looks_of([0.5, 3.0], 5), 1.0, 2.0, 0.25) or (1, 0.0)
    assert (steps, seconds) == (0, pytest.approx(0.75, abs=0.06))


def test_no_window_without_looks() -> None:
    assert alone_window([], 1.0, 2.0, 0.25) is None
    assert alone_window(looks_of([0.5], 1.3), 1.0, 2.0, 0.28) is None


@pytest.mark.parametrize("step_s", [0.01, 0.05, 0.12])
def test_random_moments_measure_the_true_rate_of_uneven_steps(step_s: float) -> None:
    """Twenty quick steps, then a validation of twenty steps' length, on and on: the rate is that of the whole."""
    chance = random.Random(7)
    marks = list(accumulate(step_s * (21 if number % 20 == 0 else 1) for number in range(20_000)))
    found = []
    for _ in range(4000):
        began = chance.uniform(60 * step_s, marks[-1] - 2)
        times = [began + 0.05 * number for number in range(22)]
        looks = [(at, Progress(n, marks[0], marks[n - 1])) for at in times if (n := bisect_right(marks, at))]
        window = alone_window(looks, began, began + 1.0, SETTLE_S)
        assert window is not None
        found.append(window)
    rate = sum(steps for steps, _ in found) / sum(seconds for _, seconds in found)
    assert rate * 40 * step_s / 20 == pytest.approx(1, abs=0.05)


@given(st.floats(0.001, 10))
def test_pause_length_fits_the_step_or_is_none(step_s: float) -> None:
    found = pause_length(Progress(101, 1.0, 1.0 + 100 * step_s))
    if found is None:
        assert step_s > 1.66
    else:
        length, settle_s = found
        assert 1.0 <= length <= 5.0
        assert length - settle_s >= 2 * step_s * 0.99


def test_pause_length_is_none_after_a_single_step() -> None:
    assert pause_length(Progress(1, 5.0, 5.0)) is None
