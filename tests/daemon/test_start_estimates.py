"""What the live view says of starts: moments for those who wait, one for a newcomer, nothing after a fault; and what it has
learnt outlives the daemon."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpuq.core.scheduling.cache import PassCache, Reservation
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.needed_forecasts import needed_forecasts
from gpuq.core.state.actions import Launch
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import scheduling_class
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State, apply
from gpuq.daemon.start_estimates import Starts
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling, load
from tests.support.nouns import a_device, a_job, a_reading, a_report, a_start, an_exit

LIMITS = Limits(residents_per_device=1)
HOUR = Forecast(duration_p50_s=3600.0, duration_p90_s=7200.0)


def a_busy_device_and_one_who_waits() -> tuple[State, dict[Any, Forecast]]:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    for number in (1, 2):
        apply(state, Submitted(a_job(number)), 0.0)
    answers: dict[Any, Forecast] = dict.fromkeys(needed_forecasts(state, {}, LIMITS, 0.0), HOUR)
    for action in decide(state, answers, LIMITS, packed, 0.0):
        if isinstance(action, Launch):
            apply(state, action, 0.0)
    return state, answers


def test_one_who_waits_and_a_newcomer_behind_it() -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    (moments,) = starts.jobs.values()
    assert 0 < moments[0] < moments[1]
    assert starts.newcomer is not None
    assert starts.newcomer[0] > moments[0]


def test_it_is_not_worked_out_every_time() -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 1.0)
    first = starts.jobs
    starts.refresh(state, answers, LIMITS, 2.0)
    assert starts.jobs is first
    starts.refresh(state, answers, LIMITS, 20.0)
    assert starts.jobs is not first


def test_a_fault_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    monkeypatch.setattr(starts._teller, "among", lambda context, jobs: 1 / 0)
    starts.refresh(state, answers, LIMITS, 1.0)
    assert starts.jobs == {}
    assert starts.newcomer is None


def test_what_is_kept_for_one_who_waited_too_long_is_not_promised_to_a_newcomer() -> None:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    apply(state, Submitted(a_job(1)), 0.0)
    kept, free = (PassCache(dict.fromkeys(needed_forecasts(state, {}, LIMITS, 0.0), HOUR)) for _ in range(2))
    kept.kept = Reservation(JobId(1), scheduling_class(state.jobs[JobId(1)]), frozenset(state.devices), 0)
    moments = []
    for answers in (kept, free):
        starts = Starts(Scheduling(), lambda: 0.0)
        starts.refresh(state, answers, LIMITS, 1.0)
        moments.append(starts.newcomer)
        assert starts.jobs[JobId(1)] == (1.0, 1.0)
    assert moments[0] is not None
    assert moments[0][0] > 1.0


class Queue:
    """One device; jobs of an hour wait for it. Time is told, not waited for."""

    def __init__(self) -> None:
        self.state = State()
        apply(self.state, a_report(a_device()), 0.0)
        self.answers: dict[Any, Forecast] = {}

    def submit(self, number: int, now: float) -> None:
        apply(self.state, Submitted(a_job(number, submitted_at=now)), now)
        self.launch(now)

    def launch(self, now: float) -> None:
        apply(self.state, a_report(a_device(), readings={"gpu0": a_reading(now)}), now)
        self.answers.update(dict.fromkeys(needed_forecasts(self.state, self.answers, LIMITS, now), HOUR))
        for action in decide(self.state, self.answers, LIMITS, packed, now):
            apply(self.state, action, now)
            if isinstance(action, Launch):
                apply(self.state, a_start(action.attempt.id.job, at=now), now)

    def end(self, number: int, now: float) -> None:
        apply(self.state, an_exit(number), now)
        self.launch(now)

    def told(self, starts: Starts, now: float) -> dict[JobId, Any]:
        starts.refresh(self.state, self.answers, LIMITS, now)
        return starts.jobs


def after_a_late_start(starts: Starts) -> Queue:
    """Job 1 lasted thirty times as long as foretold, so job 2 started that much later than it was told; job 3 waits for it."""
    queue = Queue()
    queue.submit(1, 0.0)
    queue.submit(2, 10.0)
    queue.told(starts, 20.0)
    queue.end(1, 110_000.0)
    queue.submit(3, 110_010.0)
    queue.told(starts, 110_020.0)
    return queue


def test_what_late_starts_taught_is_known_after_a_restart(tmp_path: Path) -> None:
    before = Starts(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    queue = after_a_late_start(before)
    after = Starts(Scheduling(), lambda: 0.0, tmp_path / "starts.json", queue.state)
    anew = Starts(Scheduling(), lambda: 0.0)
    queue.submit(4, 110_030.0)
    told = [queue.told(starts, 110_040.0) for starts in (before, after, anew)]
    assert told[1] == told[0]
    assert told[1][JobId(4)][1] > told[2][JobId(4)][1]


def test_who_was_told_before_a_restart_is_still_held_to_that(tmp_path: Path) -> None:
    before = Starts(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    queue = after_a_late_start(before)
    after = Starts(Scheduling(), lambda: 0.0, tmp_path / "starts.json", queue.state)
    assert queue.told(after, 110_080.0) == queue.told(before, 110_080.0)
    queue.end(2, 300_000.0)
    queue.submit(4, 300_010.0)
    assert queue.told(after, 300_020.0) == queue.told(before, 300_020.0)


def test_a_number_that_was_given_again_after_a_backup_is_another_job(tmp_path: Path) -> None:
    file = tmp_path / "starts.json"
    after_a_late_start(Starts(Scheduling(), lambda: 0.0, file))
    assert json.loads(file.read_bytes())["memory"]["single"]["waiting"]["3"]["at"] == 110_020.0
    restored = Queue()
    restored.submit(1, 400_000.0)
    restored.submit(3, 400_000.0)
    after = Starts(Scheduling(), lambda: 0.0, file, restored.state)
    restored.told(after, 400_010.0)
    assert json.loads(file.read_bytes())["memory"]["single"]["waiting"]["3"]["at"] == 400_010.0


@pytest.mark.parametrize("spoilt", ["", "{", '{"scheduling": {}, "memory": {"single": 3}}'])
def test_a_file_that_cannot_be_read_is_learnt_anew(tmp_path: Path, spoilt: str) -> None:
    (tmp_path / "starts.json").write_text(spoilt)
    starts = Starts(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    assert JobId(3) in after_a_late_start(starts).told(starts, 110_030.0)


def test_under_other_settings_it_is_learnt_anew(tmp_path: Path) -> None:
    """As those are that a later version has other defaults for: the file names all of them."""
    file, other = tmp_path / "starts.json", Scheduling(policy="fifo")
    queue = after_a_late_start(Starts(load({"GPUQ_HOME": str(tmp_path)}).scheduling, lambda: 0.0, file))
    queue.submit(4, 110_030.0)
    assert json.loads(file.read_bytes())["scheduling"] == asdict(load({"GPUQ_HOME": str(tmp_path)}).scheduling)
    found = [queue.told(Starts(other, lambda: 0.0, kept, queue.state), 110_040.0) for kept in (file, None)]
    assert found[0] == found[1]


def test_a_full_disk_hurts_nobody(tmp_path: Path) -> None:
    starts = Starts(Scheduling(), lambda: 0.0, tmp_path / "missing" / "starts.json")
    assert JobId(3) in after_a_late_start(starts).told(starts, 110_030.0)


def seen_starts(count: int, *, wait_s: float = 3600.0) -> tuple[Starts, Queue, float]:
    """So many starts were told, each at another moment, and came as told."""
    starts, queue, now = Starts(Scheduling(), lambda: 0.0), Queue(), 0.0
    queue.submit(1, now)
    for number in range(2, count + 2):
        queue.submit(number, now + 10.0)
        queue.told(starts, now + 20.0)
        now += wait_s
        queue.end(number - 1, now)
    queue.submit(count + 2, now + 10.0)
    queue.told(starts, now + 20.0)
    return starts, queue, now + 20.0


def test_an_estimate_is_shown_only_after_enough_starts_have_corrected_it() -> None:
    starts, _, _ = seen_starts(8)
    assert starts.jobs
    assert starts.calibrated() == ({}, None)
    starts, _, _ = seen_starts(10)
    assert starts.calibrated() == (starts.jobs, starts.newcomer)


def test_no_estimate_rests_on_a_duration_that_nobody_forecast() -> None:
    starts, queue, now = seen_starts(10)
    unknown = dict.fromkeys(queue.answers, Forecast())
    starts.refresh(queue.state, unknown, LIMITS, now + 60.0)
    shown, newcomer = starts.calibrated()
    assert list(shown) == [JobId(12)], "it waits for one whose duration is known"
    assert newcomer is None, "it would wait for one whose duration is not"


def test_a_band_too_wide_to_plan_with_is_not_shown() -> None:
    starts, _, now = seen_starts(10)
    assert starts.calibrated()[0]
    starts.jobs = dict.fromkeys(starts.jobs, (now + 2640.0, now + 61 * 3600.0))
    assert starts.calibrated()[0] == {}


def test_those_who_wait_are_in_the_order_in_which_they_will_start() -> None:
    """The shortest goes first, though it came last."""
    queue = Queue()
    for number in (1, 2, 3):
        queue.submit(number, 10.0 * number)
    minute = Forecast(duration_p50_s=60.0, duration_p90_s=90.0)
    apply(queue.state, Submitted(a_job(4, kind="quick", signature="quick", submitted_at=40.0)), 40.0)
    queue.answers.update(dict.fromkeys(needed_forecasts(queue.state, queue.answers, LIMITS, 40.0), minute))
    starts = Starts(Scheduling(policy="shortest"), lambda: 0.0)
    queue.told(starts, 50.0)
    assert starts.order == [JobId(4), JobId(2), JobId(3)]
