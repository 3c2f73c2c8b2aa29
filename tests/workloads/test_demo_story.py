"""The demo must be able to fail: its claims, the refusal it looks for, and what it leaves behind."""

import subprocess
import sys
from itertools import count

import pytest

from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.measuring.slowdown import slowdown
from gpuq.core.scheduling.admit import load_limit
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from tests.workloads.jobs import job, refused
from workloads.demo import gpuq as demo_gpuq
from workloads.demo import story
from workloads.demo.gpuq import DemoFailed, Gpuq

ALONE = [job(1), job(2), job(3)]
SHARED = [job(4, "shallow"), job(5, "deep", started_at_unix=102.0)]


def seen(**changes):
    return story.Seen(**{"alone": ALONE, "together": SHARED, "refusal": refused(6), **changes})


def without(one, *names):
    return {**one, "actual": {**one["actual"], **dict.fromkeys(names)}}


class FakeGpuq:
    """Answers each look at a job with the next of the given ones."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def job(self, _number):
        return self.looks.pop(0)


def test_all_claims_hold_for_two_that_shared_and_one_refused():
    story.check(seen())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"alone": []}, "a first run was not measured"),
        ({"alone": [job(1), without(job(2), "peak_utilization_pct")]}, "a first run was not measured"),
        ({"together": [job(4), job(5, started_at_unix=130.0, ended_at_unix=150.0)]}, "no two jobs shared"),
        ({"together": [job(4), job(5, device="vm/cpu1")]}, "no two jobs shared"),
        ({"together": [without(one, "slowdown") for one in SHARED]}, "no slowdown was measured"),
        ({"together": [without(one, "slowdown_low") for one in SHARED]}, "with an interval"),
        ({"refusal": None}, "not refused"),
    ],
)
def test_each_claim_can_fail(changes, said):
    with pytest.raises(DemoFailed, match=said):
        story.check(seen(**changes))


def test_two_small_ones_fit_beside_any_other_work_and_a_wide_one_beside_none():
    small, wide = 100 * story.CORES_OF_A_WAITING_JOB / story.CORES, 85.0
    everything_else = 100.0 - small  # what others can take while one of the two runs
    assert 2 * small + everything_else <= load_limit(float(story.WAITING_MAY_LOSE), Limits(), 2) - 10
    assert 2 * small + wide >= load_limit(float(story.COMPUTING_MAY_LOSE), Limits(), 3) + 5


def test_so_they_do_within_a_quota_of_one_core():
    small, wide, gpuqs_own = 100 * story.CORES_OF_A_WAITING_JOB / story.CORES, 40.0, 8.0
    limits = Limits(utilization_pct=float(story.settings(1.0)["GPUQ_ADMISSION_UTILIZATION_PCT"]))
    assert 2 * small + gpuqs_own <= load_limit(float(story.WAITING_MAY_LOSE), limits, 2) - 10
    assert 2 * small + wide >= load_limit(float(story.COMPUTING_MAY_LOSE), limits, 3) + 10


def test_storage_is_as_slow_as_makes_a_job_compute_for_the_wanted_part_of_a_core():
    pace = story.storage_mbps(0.009)
    steps_per_s = pace * 1e6 / (story.BATCH_SIZE * story.mlp.ROW_BYTES)
    assert steps_per_s * 0.009 == pytest.approx(story.CORES_OF_A_WAITING_JOB)


def test_under_a_quota_the_load_limit_is_its_share():
    assert "GPUQ_ADMISSION_UTILIZATION_PCT" not in story.settings(None)
    assert "GPUQ_ADMISSION_UTILIZATION_PCT" not in story.settings(4.0)
    assert story.settings(1.0)["GPUQ_ADMISSION_UTILIZATION_PCT"] == "50"
    with pytest.raises(DemoFailed, match=r"0\.50"):
        story.settings(0.5)


def measurement(*segments):
    return Measurement(segments=tuple(segments))


def windows(partners, *rates, **foreign):
    count = len(rates)
    square_sum = sum(rate * rate for rate in rates)
    return Segment(partners, 5.0 * count, int(5 * sum(rates)), count, sum(rates), square_sum, **foreign)


def test_the_width_is_known_once_both_sides_have_two_windows():
    beside = (AttemptId(JobId(5), 1),)
    alone = measurement(windows((), 20.0, 20.2))
    assert story.half_width(measurement(windows(beside, 19.0, 19.2, 19.1)), alone) < 0.1
    assert story.half_width(measurement(windows(beside, 19.0)), alone) is None
    assert story.half_width(measurement(windows(beside, 19.0, 19.2)), Measurement()) is None
    own = measurement(windows((), 20.0, 20.1), windows(beside, 19.0, 19.2))
    assert story.half_width(own, Measurement()) is not None


def test_a_single_window_without_foreign_load_does_not_hide_the_interval_of_all_windows():
    beside = (AttemptId(JobId(5), 1),)
    taken = {"foreign": True, "held_back_s": 2.0}
    now = measurement(
        windows((), 20.0, 20.1), windows(beside, 19.0), windows(beside, 19.2, 19.1, **taken), windows((), 20.2, **taken)
    )

    assert slowdown(now).low is None
    assert story.half_width(now, Measurement()) < 0.1


@pytest.mark.parametrize(
    ("seconds", "widths", "ends"),
    [
        (16.0, [0.01, 0.01], False),
        (17.0, [0.01, 0.01], True),
        (17.0, [0.01, 0.2], False),
        (37.0, [0.01, 0.2], True),
        (17.0, [None, 0.01], False),
        (23.0, [None, None], True),
    ],
)
def test_two_run_together_until_both_are_measured_well_or_it_takes_too_long(seconds, widths, ends):
    assert story.enough(seconds, widths) is ends


def test_a_job_trains_from_its_first_step():
    now = [100.0]
    trained = story.Trained(clock=lambda: now[0])
    assert trained.seconds(job(4, live=None)) == trained.seconds(job(4, live={"steps": 0})) == 0
    assert trained.seconds(job(4, live={"steps": 3})) == 0
    now[0] = 107.0
    assert trained.seconds(job(4, live={"steps": 99})) == 7.0


def test_a_pair_that_was_refused_is_explained_by_the_load_of_others():
    waiting = refused(5, committed=90.0)
    waiting["verdict"]["numbers"]["foreign_pct"] = 72.0
    said = story.why_they_did_not_share([job(4, state="RUNNING"), waiting])
    assert "140% would be used, 72% of it by other processes, and the limit is 100%" in said
    assert "4 images is RUNNING" in story.why_they_did_not_share([job(4, state="RUNNING"), job(5)])


def test_a_demo_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr(story.time, "sleep", lambda _: None)
    shown = story.Screen(clock=count(0, story.LIMIT_S / 4).__next__)
    with pytest.raises(DemoFailed, match="takes longer"):
        story.watch(shown, FakeGpuq(*[job(4)] * 4), [4], lambda _: False)


def test_a_job_that_did_not_complete_fails_the_demo():
    class Logs:
        def run(self, *_words):
            return "Traceback: no such file"

    with pytest.raises(DemoFailed, match="no such file"):
        story.all_completed(Logs(), [job(4, state="FAILED", exit_code=1)])


def test_the_refusal_is_kept_as_it_was_when_first_seen():
    unlooked = job(5, state="PENDING", verdict=None)
    assert story.refusal(FakeGpuq(unlooked, refused(5)), 5) == refused(5)


def test_a_job_that_started_was_not_refused():
    assert story.refusal(FakeGpuq(job(5, state="RUNNING")), 5) is None


def test_a_gpuq_that_cannot_start_fails_with_its_own_words_and_leaves_nothing():
    gpuq = Gpuq({"GPUQ_DEVICES_CPU_COUNT": "many"})
    with pytest.raises(DemoFailed, match="devices"), gpuq:
        gpuq.wait_ready()
    assert not gpuq.home.exists()


def test_a_process_left_behind_is_found_killed_and_counted_as_failure(monkeypatch):
    monkeypatch.setattr(demo_gpuq, "GONE_WITHIN_S", 0.2)
    gpuq = Gpuq({})
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=gpuq.env) as left:
        with pytest.raises(DemoFailed, match=str(left.pid)):
            gpuq.stop()
        assert left.wait(5) == -9
    assert not gpuq.home.exists()


def test_the_demo_refuses_a_machine_with_one_core(monkeypatch, capsys):
    monkeypatch.setattr(story.os, "sched_getaffinity", lambda _pid: {0})
    monkeypatch.setattr(story.signal, "signal", lambda *_: None)
    assert story.main() == 1
    assert "two CPU cores" in capsys.readouterr().out
