"""One run, with real processes that count steps through the hook: alone, together, and everything that can go wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuq.adapters.devices import Placement, ResidentProcess, ResidentUsage, Snapshot
from gpuq.adapters.process import with_environment
from gpuq.core.state.device import Reading
from gpuq.lab.campaign.device import MeasuringDevice
from gpuq.lab.campaign.ledger import DISTURBED, FAILED, MEASURED, OUT_OF_MEMORY
from gpuq.lab.campaign.monitor import RunMonitor, Timing
from gpuq.lab.campaign.run import Bench
from tests.lab.campaign.jobs import contending, crashing, hungry, short, silent
from tests.support.nouns import a_device

DEVICE = a_device("box/cpu0", type="cpu-1")
QUICK = Timing(
    tight=0.3, window_s=0.05, phase_s=0.1, settle_s=0.05, least_steps=5, fewest_cycles=2, most_cycles=2, most_s=10.0,
    warm_up_s=2.0, first_step_s=20.0, poll_s=0.005, sample_s=0.1, grace_s=2.0,
)  # fmt: skip


class Twin:
    """A backend that sees every resident use the same; `foreign` is what others use."""

    def __init__(self) -> None:
        self.foreign = 0.0
        self.residents: list[ResidentProcess] = []

    def devices(self):
        return (DEVICE,)

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        self.residents = list(residents)
        usage = {one.attempt: ResidentUsage(2**20, 37.0) for one in residents}
        return Snapshot({DEVICE.id: Reading(now, 2**21, 50.0, 0, self.foreign)}, usage)

    def memory(self, resident):
        return None

    def placement(self, devices) -> Placement:
        return Placement({"CUDA_VISIBLE_DEVICES": ""}, None)

    def faults(self):
        return ()

    def close(self) -> None:
        pass


@pytest.fixture
def twin() -> Twin:
    return Twin()


@pytest.fixture
def bench(tmp_path: Path, twin: Twin):
    yield a_bench(tmp_path, twin)
    assert not left_in(tmp_path), "a run left processes behind"


def a_bench(folder: Path, twin: Twin, timing: Timing = QUICK, check=lambda: None) -> Bench:
    target = MeasuringDevice(DEVICE, twin.placement((DEVICE.id,)))
    return Bench(RunMonitor(twin, target, folder / "work", os.environ, timing, check))


def left_in(folder: Path) -> list[object]:
    return [
        one
        for name in ("0", "1")
        for one in with_environment({"GPUQ_PROGRESS": str(folder / "work" / name / "progress")})
    ]


def test_a_job_alone_is_known_by_its_rate_and_its_peaks(bench: Bench, twin: Twin, tmp_path: Path):
    run = bench.measure([contending(tmp_path / "beats")], None)
    (part,) = run.parts
    assert (run.outcome, run.reason) == (MEASURED, None)
    assert part.alone_rate is not None
    assert part.alone_rate < 250, "steps of 4 ms at least"
    assert (part.peak_utilization_pct, part.peak_memory_bytes) == (37.0, 2**20)
    assert (part.slowdown, part.shared_rate) == (None, None)
    assert part.steps > 20
    assert part.exit_code == 143
    assert twin.residents[0].devices == (DEVICE.id,)


@pytest.mark.quiet
def test_two_that_slow_each_other_are_measured_against_their_own_rates_alone(bench: Bench, tmp_path: Path):
    """Each takes twice as long beside the other. The first runs alone while the second is paused."""
    one, other = contending(tmp_path / "beats"), contending(tmp_path / "beats", 0.006, "other")
    run = bench.measure([one, other], "time-slicing")
    assert (run.outcome, run.sharing, run.values) == (MEASURED, "time-slicing", 2)
    for part in run.parts:
        assert part.slowdown == pytest.approx(2, rel=0.35)
        assert part.alone_rate / part.shared_rate == pytest.approx(part.slowdown, rel=0.2)
        assert part.peak_utilization_pct is None, "a share of a full device says nothing of a job's peak"


@pytest.mark.quiet
def test_two_that_do_not_meet_are_not_slowed(bench: Bench, tmp_path: Path):
    run = bench.measure([contending(tmp_path / "here"), contending(tmp_path / "there")], None)
    assert [part.slowdown for part in run.parts] == [pytest.approx(1, rel=0.25)] * 2


def test_each_process_is_another_resident_to_the_backend(bench: Bench, twin: Twin, tmp_path: Path):
    """Else the processor time of the one would be taken from that of the other."""
    seen = []
    for _ in range(2):
        bench.measure([contending(tmp_path / "beats")], None)
        seen.append(twin.residents[0].attempt)
    assert seen[0] != seen[1]


def test_a_crash_is_noted_with_its_reason(bench: Bench):
    run = bench.measure([crashing()], None)
    assert (run.outcome, run.reason) == (FAILED, "crashing 1: ended with exit code 1: ValueError: no such layer")
    assert run.parts[0].alone_rate is None
    assert run.parts[0].exit_code == 1


def test_out_of_memory_is_distinguished_from_a_crash_and_ends_the_pair(bench: Bench, tmp_path: Path):
    run = bench.measure([contending(tmp_path / "beats"), hungry()], None)
    assert run.outcome == OUT_OF_MEMORY
    assert "hungry 1" in run.reason
    assert "9 TiB" in run.reason


def test_workload_that_ends_by_itself_fails_with_a_hint(bench: Bench):
    run = bench.measure([short()], None)
    assert run.outcome == FAILED
    assert "train on" in run.reason
    assert run.parts[0].summary == {"steps": 1}


def test_a_workload_that_never_counts_a_step_is_given_up(tmp_path: Path, twin: Twin):
    run = a_bench(tmp_path, twin, replace(QUICK, first_step_s=0.2)).measure([silent()], None)
    assert (run.outcome, run.reason) == (FAILED, "silent 1: no step was counted in 0.2 s")
    assert not left_in(tmp_path)


def test_a_program_that_is_not_there_is_noted(bench: Bench, tmp_path: Path):
    run = bench.measure([replace(silent(), command=("/no/such/program",))], None)
    assert run.outcome == FAILED
    assert "/no/such/program" in run.reason


def test_foreign_load_makes_a_run_disturbed(bench: Bench, twin: Twin, tmp_path: Path):
    twin.foreign = 55.0
    run = bench.measure([contending(tmp_path / "beats")], None)
    assert (run.outcome, run.foreign_utilization_pct) == (DISTURBED, 55.0)


def test_a_rate_that_is_never_tight_is_noted_as_such_when_its_time_is_over(tmp_path: Path, twin: Twin):
    hurried = replace(QUICK, tight=1e-9, most_s=0.6)
    run = a_bench(tmp_path, twin, hurried).measure([contending(tmp_path / "beats")], None)
    assert (run.outcome, run.steady) == (MEASURED, False)
    assert run.parts[0].alone_rate is not None


def test_exception_of_check_passes_through_and_leaves_no_process(tmp_path: Path, twin: Twin):
    class Stopped(Exception):
        pass

    def check() -> None:
        if len(left_in(tmp_path)) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        a_bench(tmp_path, twin, check=check).measure([contending(tmp_path / "beats"), silent()], None)
    assert not left_in(tmp_path)
