"""A recorded run, played again: what really happened beside what the simulator makes of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.lab.sim.replay import Recording, keep, read, replay
from gpuq.sim.world import World
from gpuq.sim.worlds.measured import measured_world
from tests.sim.rows import Ended, ended
from tests.support.nouns import a_device

RECORDED = Path(__file__).parent / "data" / "replay.json"
# ANDREAS' own deviation between real and simulated cost (arXiv 2105.05080).
REACH = 0.13


def recording(*judged: Ended, slowdown: float = 1.1) -> Recording:
    """Two kinds were measured alone (60 s of half a device, 30 s of all) and the first beside itself."""
    before = [
        ended(1, "half", lasts=60),
        ended(2, "full", lasts=30, utilization=100.0),
        *(ended(3 + n, "half", lasts=66, beside=(4 - n, "half", slowdown, 1.0)) for n in range(2)),
    ]
    rows = [*before, *judged]
    return Recording(
        (a_device("h/0", host="h", type="GPU"),), Limits(), "packed", 10,
        tuple(job for job, _ in rows), tuple(attempt for _, attempt in rows),
    )  # fmt: skip


def test_run_that_went_as_measured_is_replayed_to_the_second() -> None:
    alone = [ended(10, "full", at=1000, lasts=30), ended(11, "full", at=1000, start=1030, lasts=30)]
    found = replay(recording(*alone))
    assert found.makespans == (60, pytest.approx(60))
    assert [both.deviation for both in found.jobs] == pytest.approx([0, 0])


def test_two_that_share_are_slowed_as_they_were_measured_together() -> None:
    together = [ended(10, "half", at=1000, lasts=66), ended(11, "half", at=1000, lasts=66)]
    found = replay(recording(*together))
    assert [both.simulated.slowdown for both in found.jobs] == pytest.approx([1.1, 1.1])
    assert found.makespan_deviation == pytest.approx(0)


def test_what_went_otherwise_shows() -> None:
    found = replay(recording(ended(10, "full", at=1000, lasts=60)))
    (both,) = found.jobs
    assert (both.real.slowdown, both.simulated.slowdown) == (2, pytest.approx(1))
    assert both.deviation == found.makespan_deviation == pytest.approx(0.5)


def test_ends_and_rates_of_the_judged_jobs_are_not_looked_at() -> None:
    quick, slow = (recording(ended(10, "half", at=1000, lasts=lasts)) for lasts in (60, 600))
    assert replay(quick).jobs[0].simulated == replay(slow).jobs[0].simulated


def test_a_recording_is_kept_as_plain_json(tmp_path: Path) -> None:
    made = recording(ended(10, "half", at=1000))
    keep(made, tmp_path / "run.json")
    assert replay(read(tmp_path / "run.json")) == replay(made)


def test_a_real_run_on_two_cpu_devices_and_its_replay_agree() -> None:
    """Recorded by `python -m benchmarks.replay --work turns --keep FILE`; docs/simulate.md says what the replay is given."""
    found = replay(read(RECORDED))
    assert len(found.jobs) == 16
    assert sum(both.real.slowdown > 1.1 for both in found.jobs) >= 3, "or there would be nothing to predict"
    assert found.makespan_deviation <= REACH
    assert max(both.deviation for both in found.jobs) <= REACH


def test_they_would_not_if_sharing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(*arguments: Any, **named: Any) -> World:
        found = measured_world(*arguments, **named)
        return replace(found, pairs=dict.fromkeys(found.pairs, 1.0))

    monkeypatch.setattr("gpuq.lab.sim.replay.measured_world", free)
    assert max(both.deviation for both in replay(read(RECORDED)).jobs) > REACH
