"""The demo must be able to fail: its claims, the refusal it looks for, and what it leaves behind."""

import subprocess
import sys
from contextlib import suppress

import pytest

from tests.workloads.jobs import job, refused
from workloads.demo import gpuq as demo_gpuq
from workloads.demo import story
from workloads.demo.gpuq import DemoFailed, Gpuq

SHARED = [job(4), job(5, "words", started_at_unix=130.0, ended_at_unix=150.0), job(6, "pets", started_at_unix=102.0)]


class FakeGpuq:
    """Answers each look at a job with the next of the given ones."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def job(self, _number):
        return self.looks.pop(0)


def test_all_claims_hold_for_two_that_shared_and_one_refused():
    story._check(story.Seen(together=SHARED, refusal=refused(5)))


def test_it_fails_when_nobody_shared():
    apart = [job(4), job(5, started_at_unix=130.0, ended_at_unix=150.0)]
    with pytest.raises(DemoFailed, match="no two jobs shared"):
        story._check(story.Seen(together=apart, refusal=refused(5)))


def test_it_fails_when_no_slowdown_was_measured():
    blind = [{**one, "actual": {**one["actual"], "slowdown": None}} for one in SHARED]
    with pytest.raises(DemoFailed, match="no slowdown"):
        story._check(story.Seen(together=blind, refusal=refused(5)))


def test_it_fails_when_nobody_was_refused():
    with pytest.raises(DemoFailed, match="no job was refused"):
        story._check(story.Seen(together=SHARED, refusal=None))


def test_a_busy_machine_is_named_as_the_cause():
    apart = [job(4), job(5, started_at_unix=130.0, ended_at_unix=150.0)]
    with pytest.raises(DemoFailed, match="64% of the two cores busy"):
        story._check(story.Seen(together=apart, refusal=refused(5, committed=119.0)))


def test_a_job_that_did_not_complete_fails_the_demo():
    class Logs:
        def run(self, *_words):
            return "Traceback: no such file"

    with pytest.raises(DemoFailed, match="no such file"):
        story._all_completed(Logs(), [job(4, state="FAILED", exit_code=1)])


def test_the_refusal_is_kept_as_it_was_when_first_seen():
    unlooked = job(5, state="PENDING", verdict=None)
    assert story._refusal(FakeGpuq(unlooked, refused(5)), 5) == refused(5)


def test_a_job_that_started_was_not_refused():
    assert story._refusal(FakeGpuq(job(5, state="RUNNING")), 5) is None


def test_both_acts_give_the_same_work_the_same_kind_of_command():
    """Only the values of `--steps` and `--seconds` differ; those do not make another kind."""
    work = story.Work("pets", "segmentation", 8, 14, ("--data-dir", "/d"))
    first, second = work.command(seconds=14), work.command(steps=77)
    assert [word for word in first if word.startswith("-")] == [word for word in second if word.startswith("-")]


def test_the_steps_of_a_run_are_read_from_its_summary():
    assert story.steps_made('talk\n{"steps": 12}\nmore talk\n') == 12
    with pytest.raises(DemoFailed):
        story.steps_made("talk\n")


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
    with suppress(SystemExit):
        assert story.main() == 1
    assert "two CPU cores" in capsys.readouterr().out
