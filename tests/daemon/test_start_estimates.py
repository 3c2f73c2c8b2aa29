"""Expected starts in the live view: for waiting jobs and for a newcomer, none after a fault; calibration outlives the daemon."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import EndReservation, Launch, Reserve
from gpuq.core.state.apply import apply
from gpuq.core.state.device import HostId, Reading
from gpuq.core.state.events import HostDrained, QuotaSet, Submitted
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobId
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.daemon.start_estimates import StartEstimates
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling, load
from tests.support.nouns import a_device, a_job, a_reading, a_report, a_start, an_exit

LIMITS = Limits(residents_per_device=1)
HOUR = Forecast(duration_p50_s=3600.0, duration_p90_s=7200.0)


def a_busy_device_and_a_waiting_job() -> tuple[State, ForecastTable]:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    for number in (1, 2):
        apply(state, Submitted(a_job(number)), 0.0)
    answers = ForecastTable(lambda questions: dict.fromkeys(questions, HOUR))
    for action in decide(state, answers, PassCache(), LIMITS, packed, 0.0):
        if isinstance(action, Launch):
            apply(state, action, 0.0)
    return state, answers


def test_a_waiting_job_and_a_newcomer_behind_it_have_estimates() -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    (moments,) = starts.jobs.values()
    assert 0 < moments[0] < moments[1]
    assert starts.newcomer is not None
    assert starts.newcomer[0] > moments[0]


def test_estimates_are_kept_for_some_seconds() -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 1.0)
    first = starts.jobs
    starts.refresh(state, answers, LIMITS, 2.0)
    assert starts.jobs is first
    starts.refresh(state, answers, LIMITS, 20.0)
    assert starts.jobs is not first


def test_after_a_fault_there_are_no_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    monkeypatch.setattr(starts._estimator, "estimate", lambda context, jobs: 1 / 0)
    starts.refresh(state, answers, LIMITS, 1.0)
    assert starts.jobs == {}
    assert starts.newcomer is None


def test_a_reserved_device_is_not_promised_to_a_newcomer() -> None:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    apply(state, Submitted(a_job(1)), 0.0)
    answers = ForecastTable(lambda questions: dict.fromkeys(questions, HOUR))
    moments = []
    for change in (Reserve(Reservation(JobId(1), tuple(state.devices))), EndReservation(JobId(1))):
        assert apply(state, change, 0.0)
        starts = StartEstimates(Scheduling(), lambda: 0.0)
        starts.refresh(state, answers, LIMITS, 1.0)
        moments.append(starts.newcomer)
        assert starts.jobs[JobId(1)] == (1.0, 1.0)
    assert moments[0] is not None
    assert moments[0][0] > 1.0


@pytest.mark.parametrize("reading", [a_reading(0.0, unwell="ECC"), a_reading(0.0, foreign_memory=2**34)])
def test_a_job_that_an_idle_device_refuses_is_not_said_to_start_soon(reading: Reading) -> None:
    state = State()
    apply(state, a_report(a_device(), readings={"gpu0": reading}), 0.0)
    apply(state, Submitted(a_job(1)), 0.0)
    answers = ForecastTable(lambda questions: dict.fromkeys(questions, HOUR))
    for action in decide(state, answers, PassCache(), LIMITS, packed, 0.0):
        assert not isinstance(action, Launch)
        apply(state, action, 0.0)
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 1.0)
    assert starts.jobs == {}


def test_the_end_of_a_job_on_a_drained_host_is_promised_to_none() -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    apply(state, HostDrained(HostId("host"), "ann", "a new fan"), 5.0)
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    assert (starts.jobs, starts.newcomer) == ({}, None)


class Queue:
    """One device; jobs of an hour wait for it. Time is passed in."""

    def __init__(self) -> None:
        self.state = State()
        apply(self.state, a_report(a_device()), 0.0)
        self.answers = ForecastTable(lambda questions: dict.fromkeys(questions, HOUR))

    def submit(self, number: int, now: float) -> None:
        apply(self.state, Submitted(a_job(number, submitted_at=now)), now)
        self.launch(now)

    def launch(self, now: float) -> None:
        apply(self.state, a_report(a_device(), readings={"gpu0": a_reading(now)}), now)
        for action in decide(self.state, self.answers, PassCache(), LIMITS, packed, now):
            apply(self.state, action, now)
            if isinstance(action, Launch):
                apply(self.state, a_start(action.attempt.id.job, at=now), now)

    def end(self, number: int, now: float) -> None:
        apply(self.state, an_exit(number), now)
        self.launch(now)

    def estimated(self, starts: StartEstimates, now: float) -> dict[JobId, Any]:
        starts.refresh(self.state, self.answers, LIMITS, now)
        return starts.jobs


def after_a_late_start(starts: StartEstimates) -> Queue:
    """Job 1 lasted thirty times as long as forecast, so job 2 started that much later than estimated; job 3 waits for it."""
    queue = Queue()
    queue.submit(1, 0.0)
    queue.submit(2, 10.0)
    queue.estimated(starts, 20.0)
    queue.end(1, 110_000.0)
    queue.submit(3, 110_010.0)
    queue.estimated(starts, 110_020.0)
    return queue


def test_calibration_by_late_starts_outlives_a_restart(tmp_path: Path) -> None:
    before = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    queue = after_a_late_start(before)
    after = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "starts.json", queue.state)
    fresh = StartEstimates(Scheduling(), lambda: 0.0)
    queue.submit(4, 110_030.0)
    found = [queue.estimated(starts, 110_040.0) for starts in (before, after, fresh)]
    assert found[1] == found[0]
    assert found[1][JobId(4)][1] > found[2][JobId(4)][1]


def test_estimates_from_before_a_restart_still_calibrate(tmp_path: Path) -> None:
    before = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    queue = after_a_late_start(before)
    after = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "starts.json", queue.state)
    assert queue.estimated(after, 110_080.0) == queue.estimated(before, 110_080.0)
    queue.end(2, 300_000.0)
    queue.submit(4, 300_010.0)
    assert queue.estimated(after, 300_020.0) == queue.estimated(before, 300_020.0)


def test_a_job_with_a_reused_number_after_a_restore_is_another_job(tmp_path: Path) -> None:
    file = tmp_path / "starts.json"
    after_a_late_start(StartEstimates(Scheduling(), lambda: 0.0, file))
    assert json.loads(file.read_bytes())["learned"]["calibration"]["waiting"]["3"]["at"] == 110_020.0
    restored = Queue()
    restored.submit(1, 400_000.0)
    restored.submit(3, 400_000.0)
    after = StartEstimates(Scheduling(), lambda: 0.0, file, restored.state)
    restored.estimated(after, 400_010.0)
    assert json.loads(file.read_bytes())["learned"]["calibration"]["waiting"]["3"]["at"] == 400_010.0


@pytest.mark.parametrize(
    "spoilt", ["", "{", '{"scheduling": {}, "memory": {"arrivals": []}}', '{"learned": {"ended_s": 3}}']
)
def test_an_old_or_broken_file_is_discarded_with_a_log_line(
    tmp_path: Path, spoilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "starts.json").write_text(spoilt)
    starts = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "starts.json")
    assert JobId(3) in after_a_late_start(starts).estimated(starts, 110_030.0)
    assert "discarding start-time calibration: starts.json" in caplog.text


def test_under_other_settings_calibration_is_discarded(tmp_path: Path) -> None:
    """The file names all settings, so that a later version with other defaults discards it, too."""
    file, other = tmp_path / "starts.json", Scheduling(policy="fifo")
    queue = after_a_late_start(StartEstimates(load({"GPUQ_HOME": str(tmp_path)}).scheduling, lambda: 0.0, file))
    queue.submit(4, 110_030.0)
    assert json.loads(file.read_bytes())["scheduling"] == asdict(load({"GPUQ_HOME": str(tmp_path)}).scheduling)
    found = [queue.estimated(StartEstimates(other, lambda: 0.0, kept, queue.state), 110_040.0) for kept in (file, None)]
    assert found[0] == found[1]


def test_a_full_disk_does_not_stop_estimates(tmp_path: Path) -> None:
    starts = StartEstimates(Scheduling(), lambda: 0.0, tmp_path / "missing" / "starts.json")
    assert JobId(3) in after_a_late_start(starts).estimated(starts, 110_030.0)


def seen_starts(count: int, *, wait_s: float = 3600.0) -> tuple[StartEstimates, Queue, float]:
    """So many jobs were estimated, each at another moment, and have started."""
    starts, queue, now = StartEstimates(Scheduling(), lambda: 0.0), Queue(), 0.0
    queue.submit(1, now)
    for number in range(2, count + 2):
        queue.submit(number, now + 10.0)
        queue.estimated(starts, now + 20.0)
        now += wait_s
        queue.end(number - 1, now)
    queue.submit(count + 2, now + 10.0)
    queue.estimated(starts, now + 20.0)
    return starts, queue, now + 20.0


def test_estimates_count_as_checked_only_after_enough_starts() -> None:
    starts, _, _ = seen_starts(8)
    assert starts.jobs
    assert (starts.shown(), starts.are_checked) == ((starts.jobs, starts.newcomer), False)
    starts, _, _ = seen_starts(10)
    assert (starts.shown(), starts.are_checked) == ((starts.jobs, starts.newcomer), True)


def test_no_estimate_is_shown_behind_a_job_without_a_forecast() -> None:
    starts, queue, now = seen_starts(10)
    unknown = ForecastTable(lambda questions: dict.fromkeys(questions, Forecast()))
    starts.refresh(queue.state, unknown, LIMITS, now + 60.0)
    shown, newcomer = starts.shown()
    assert list(shown) == [JobId(12)], "it waits for one whose duration is known"
    assert newcomer is None, "it would wait for one whose duration is not"


def test_an_estimate_too_wide_to_plan_with_is_not_shown() -> None:
    starts, _, now = seen_starts(10)
    assert starts.shown()[0]
    starts.jobs = dict.fromkeys(starts.jobs, (now + 2640.0, now + 61 * 3600.0))
    assert starts.shown()[0] == {}


def test_waiting_jobs_are_in_the_order_in_which_they_will_start() -> None:
    """The shortest goes first, though it came last."""
    queue = Queue()
    for number in (1, 2, 3):
        queue.submit(number, 10.0 * number)
    minute = Forecast(duration_p50_s=60.0, duration_p90_s=90.0)
    apply(queue.state, Submitted(a_job(4, kind="quick", signature="quick", submitted_at=40.0)), 40.0)
    queue.answers = ForecastTable(lambda questions: {q: minute if q.kind == "quick" else HOUR for q in questions})
    starts = StartEstimates(Scheduling(policy="shortest"), lambda: 0.0)
    queue.estimated(starts, 50.0)
    assert starts.order == [JobId(4), JobId(2), JobId(3)]


def test_a_job_over_its_quota_has_no_estimate_and_stands_behind_the_others() -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    account = Account(QuotaScope.USER, "ada")
    apply(state, QuotaSet(Quota(account, running_devices=1), "root"), 1.0)
    apply(state, Submitted(a_job(3, owner="bob")), 2.0)
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    assert list(starts.jobs) == [3]
    assert starts.order == [3, 2]


def test_a_flood_is_expected_to_start_after_the_jobs_of_others() -> None:
    state, answers = a_busy_device_and_a_waiting_job()
    for number in range(3, 9):
        apply(state, Submitted(a_job(number)), 0.0)
    apply(state, Submitted(a_job(9, owner="bob")), 2.0)
    starts = StartEstimates(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    assert starts.order[:2] == [9, 2]
