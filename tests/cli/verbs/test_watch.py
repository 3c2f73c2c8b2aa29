"""`gpuq watch`: what it shows of a job, renewed in place on a terminal and line by line elsewhere, and its exit codes."""

from __future__ import annotations

import os
import pty
import signal

from gpuq.cli.verbs import watch
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply
from tests.support.patience import Stopwatch

JOB = "/api/v1/jobs/42"


def test_a_running_job_is_shown_against_its_forecast() -> None:
    job = samples.running(42, partners=[43])
    text = "\n".join(watch.screen(job, 80, colour=False, now=samples.NOW))
    assert text.splitlines()[0] == "job 42  resnet  RUNNING"
    for wanted in ("1:12:00 of 2:00:00 expected", "~48m, at ", "of 9.8 GiB forecast at most", "job 43"):
        assert wanted in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_waiting_job_says_why_and_an_unknown_number_is_left_out() -> None:
    waiting = samples.job(51, verdict=samples.OVERLOAD, position=3, reason="PredictedLoad")
    text = "\n".join(watch.screen(waiting, 80, colour=False, now=samples.NOW))
    assert "PredictedLoad on cpu0" in text
    assert "place in queue    3" in text
    bare = samples.running(42, live=None, forecast=None)
    assert "memory" not in "\n".join(watch.screen(bare, 80, colour=False, now=samples.NOW))
    assert "0%" not in watch.line(bare, samples.NOW)


def test_without_a_terminal_each_look_is_a_line_and_the_exit_code_is_the_jobs(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", JOB, samples.running(42), Reply(samples.ended(42, "FAILED", 9)))
    done = gpuq("watch", "42", "-i", "1")
    assert done.code == 9
    first, last = done.out.splitlines()
    assert " 42 RUNNING on cpu0 " in first
    assert " 42 FAILED " in last
    assert "\033" not in done.out
    assert "ended FAILED with exit code 9" in done.err


def test_json_lines_are_the_answers_of_the_api(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", JOB, samples.running(42), samples.ended(42, "COMPLETED", 0))
    done = gpuq("watch", "42", "--json-lines", "-i", "1")
    assert done.code == 0
    assert [line.startswith('{"id": 42, ') for line in done.out.splitlines()] == [True, True]
    assert gpuq("watch", "42", "--json").json["state"] == "COMPLETED"


def test_a_look_every_zero_seconds_is_refused(gpuq: Command, api: FakeApi) -> None:
    done = gpuq("watch", "42", "-i", "0")
    assert (done.code, "--interval" in done.err) == (2, True)


def test_on_a_terminal_the_lines_are_written_over_and_ctrl_c_leaves_the_job(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", JOB, samples.running(42))
    ours, theirs = pty.openpty()
    env = {**gpuq.env, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80"}
    process = gpuq.start("watch", "42", "-i", "1", env=env, stdout=theirs, start_new_session=True)
    os.close(theirs)
    shown, waiting = b"", Stopwatch()
    while shown.count(b"job 42") < 2 and waiting.seconds < 60:
        shown += os.read(ours, 4096)
    assert b"\033[" + str(shown.partition(b"\033[J")[0].count(b"\n")).encode() + b"A" in shown
    assert b"\033[3" not in shown, "no colours"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, b"job 42 goes on" in err) == (130, True)
