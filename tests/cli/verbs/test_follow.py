"""`logs`, `wait` and `run`: output as it comes, ends, exit codes, and a daemon that goes away meanwhile."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest

from gpuq.cli.client import HttpClient
from gpuq.cli.verbs.follow import Waiting, exit_code
from gpuq.cli.verbs.logs import last_lines
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request, problem, serve

LOGS = "/api/v1/jobs/42/logs"


def listed(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {"jobs": list(jobs), "next": None}


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("COMPLETED", 0, 0),
        ("FAILED", 3, 3),
        ("FAILED", -15, 143),
        ("FAILED", 127, 127),
        ("FAILED", 256, 255),
        ("FAILED", None, 125),
        ("TIMEOUT", 143, 124),
        ("OUT_OF_MEMORY", 1, 1),
        ("OUT_OF_MEMORY", None, 125),
        ("CANCELLED", 143, 125),
        ("CANCELLED", None, 125),
        ("NODE_FAIL", None, 125),
        ("PREEMPTED", 143, 125),
    ],
)
def test_the_exit_code_of_every_end(state: str, code: int | None, expected: int) -> None:
    assert exit_code(samples.ended(1, state, code)) == expected


def test_jobs_are_read_over_pages_that_end_before_their_limit(gpuq: Command, api: FakeApi) -> None:
    def page(request: Request) -> Reply:
        first = "after" not in request.query
        return Reply({"jobs": [samples.ended(43 if first else 42, "COMPLETED", 0)], "next": 43 if first else None})

    api.on("GET", "/api/v1/jobs", page)
    assert gpuq("wait", "42", "43").code == 0


def test_wait_looks_until_the_end_and_gives_the_jobs_code(gpuq: Command, api: FakeApi) -> None:
    api.on(
        "GET",
        "/api/v1/jobs",
        listed(samples.job(42)),
        listed(samples.running(42)),
        listed(samples.ended(42, "FAILED", 9)),
    )
    done = gpuq("wait", "42")
    assert (done.code, done.out) == (9, "")
    assert done.err == "gpuq: job 42 ended FAILED with exit code 9.\n"
    assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ended with exit code 9", ""),
        ("it printed no loss", " (it printed no loss)"),
        ("ended with exit code 9: OSError: disk full", " (OSError: disk full)"),
    ],
)
def test_an_end_is_reported_once(gpuq: Command, api: FakeApi, reason: str, shown: str) -> None:
    api.on("GET", "/api/v1/jobs", listed({**samples.ended(42, "FAILED", 9), "reason": reason}))
    assert gpuq("wait", "42").err == f"gpuq: job 42 ended FAILED with exit code 9{shown}.\n"


def test_wait_for_several_gives_the_largest_code(gpuq: Command, api: FakeApi) -> None:
    ended = {
        1: samples.ended(1, "COMPLETED", 0),
        2: samples.ended(2, "TIMEOUT", None),
        3: samples.ended(3, "FAILED", 3),
    }

    def some(request: Request) -> Reply:
        return Reply(listed(*(ended[int(number)] for number in request.query["ids"].split(","))))

    api.on("GET", "/api/v1/jobs", some)
    done = gpuq("wait", "1-3", "--json")
    assert done.code == 124
    assert [job["exit_code"] for job in done.json] == [0, None, 3]


def test_wait_for_an_unknown_job_is_code_3(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", listed(samples.ended(1, "COMPLETED", 0)))
    done = gpuq("wait", "1", "2")
    assert done.code == 3
    assert "There is no job 2." in done.err


@pytest.mark.parametrize(("count", "summary"), [(1, ""), (2, "gpuq: array 28 ended: 1 COMPLETED, 1 FAILED.\n")])
def test_the_end_of_an_array_of_one_task_is_one_line(gpuq: Command, api: FakeApi, count: int, summary: str) -> None:
    states = {"COMPLETED": count - 1, "FAILED": 1} if count > 1 else {"FAILED": 1}
    whole = {"id": 28, "count": count, "tasks": "0-1"[: 2 * count - 1], "states": states, "name": "sweep"}
    failed = {**samples.ended(28, "FAILED", 3), "array": 28, "task": 0}
    api.on("GET", "/api/v1/arrays", {"arrays": [whole]})
    api.on("GET", "/api/v1/jobs", listed(failed))
    assert gpuq("wait", "28").err == f"{summary}gpuq: job 28_0 ended FAILED with exit code 3.\n"


def test_wait_gives_up_after_its_timeout(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", listed(samples.running(42)))
    done = gpuq("wait", "42", "--timeout", "0.2s")
    assert done.code == 124
    assert "they go on" in done.err


def test_out_of_memory_is_the_end_only_if_the_job_does_not_come_back(gpuq: Command, api: FakeApi) -> None:
    out_of_memory, again = samples.ended(42, "OUT_OF_MEMORY", 1), samples.job(42, attempt=1)
    completed = samples.ended(42, "COMPLETED", 0, attempt=2)
    api.on("GET", "/api/v1/jobs", listed(out_of_memory), listed(again), listed(completed))
    assert gpuq("wait", "42").code == 0
    api.on("GET", "/api/v1/jobs", listed(out_of_memory))
    done = gpuq("wait", "42")
    assert done.code == 1
    assert "ended OUT_OF_MEMORY" in done.err


def test_many_that_may_come_back_are_looked_at_again_together(gpuq: Command, api: FakeApi) -> None:
    lost = [samples.ended(job, "NODE_FAIL", None) for job in range(1, 41)]
    api.on("GET", "/api/v1/jobs", listed(*lost))
    assert gpuq("wait", "1-40").code == 125
    assert len(api.asked("GET", "/api/v1/jobs")) == 2


def test_jobs_that_have_not_ended_are_read_once(gpuq: Command, api: FakeApi) -> None:
    api.on(
        "GET", "/api/v1/jobs", listed(samples.running(1), samples.running(2)), listed(samples.ended(1, "COMPLETED", 0))
    )
    assert gpuq("wait", "1", "2", "--timeout", "0.2s").code == 124
    first, *later = [(request.query["ids"], request.query.get("state")) for request in api.asked("GET", "/api/v1/jobs")]
    assert (first, set(later)) == (("1,2", None), {("1,2", "ended"), ("2", "ended")})


def test_a_wait_in_steps_reads_open_jobs_once() -> None:
    answers = iter([listed(samples.running(1)), listed(), listed(samples.ended(1, "COMPLETED", 0))])
    states: list[str | None] = []

    class Client:
        def get(self, _: str, **query: Any) -> dict[str, Any]:
            states.append(query["state"])
            return next(answers)

    waiting, client = Waiting([1]), cast(HttpClient, Client())
    assert waiting(client, 0.0) is None
    assert waiting(client, 0.0) is None
    assert [job["state"] for job in waiting(client, 0.0) or ()] == ["COMPLETED"]
    assert states == [None, "ended", "ended"]


def test_follow_copies_bytes_as_they_are_and_ends_with_the_jobs_code(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.job(42), samples.running(42), samples.ended(42, "FAILED", 5))
    api.on("GET", LOGS, Reply(raw=b"epoch 1\n\xff\x00\x1b[31m\n"), Reply(raw=b""))
    done = gpuq("logs", "-f", "42")
    assert done.code == 5
    assert done.out.encode(errors="surrogateescape") == b"epoch 1\n\xff\x00\x1b[31m\n"
    first, last = api.asked("GET", LOGS)
    assert first.query == {"offset": "0", "attempt": "1", "follow": "1"}
    assert last.query["offset"] == "16"


def test_follow_continues_where_the_connection_broke(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.running(42), samples.ended(42, "COMPLETED", 0))
    api.on("GET", LOGS, Reply(cut_after=b"half a li"), Reply(raw=b"ne\n"))
    done = gpuq("logs", "-f", "42")
    assert (done.code, done.out) == (0, "half a line\n")
    assert [request.query["offset"] for request in api.asked("GET", LOGS)] == ["0", "9"]


def test_follow_counts_dropped_output_into_the_offset(gpuq: Command, api: FakeApi) -> None:
    mark = b"\n[gpuq: 1000 bytes of output were dropped here]\n"
    api.on("GET", "/api/v1/jobs/42", samples.running(42), samples.ended(42, "COMPLETED", 0))
    api.on("GET", LOGS, Reply(raw=b"ab" + mark + b"cd"), Reply(raw=b""))
    gpuq("logs", "-f", "42")
    assert api.asked("GET", LOGS)[1].query["offset"] == "1004"


def test_follow_reads_the_next_attempt_from_its_start(gpuq: Command, api: FakeApi) -> None:
    api.on(
        "GET",
        "/api/v1/jobs/42",
        samples.running(42),
        samples.running(42, attempt=2),
        samples.ended(42, "COMPLETED", 0, attempt=2),
    )
    api.on("GET", LOGS, Reply(raw=b"one\n"), Reply(raw=b"two\n"), Reply(raw=b""))
    done = gpuq("logs", "-f", "42")
    assert done.out == "one\ntwo\n"
    assert "starts again (attempt 2)" in done.err
    asked = [(request.query["attempt"], request.query["offset"]) for request in api.asked("GET", LOGS)]
    assert asked == [("1", "0"), ("2", "0"), ("2", "4")]


def test_follow_waits_for_a_daemon_that_restarts(gpuq: Command, home: Path) -> None:
    """The jobs go on without it; so does the follower."""
    before, after = FakeApi(home), FakeApi(home)
    before.on("GET", "/api/v1/jobs/42", samples.running(42))
    before.on("GET", LOGS, Reply(cut_after=b"one\n"))
    after.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0))
    after.on("GET", LOGS, lambda request: Reply(raw=b"one\ntwo\n"[int(request.query["offset"]) :]))
    socket = home / "run" / "api.sock"
    with serve(before, socket):
        process = gpuq.start("logs", "-f", "42")
        while not before.asked("GET", LOGS):
            assert process.poll() is None
    assert process.stderr is not None
    assert b"waiting for it" in process.stderr.readline()
    with serve(after, socket):
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.endswith(b"two\n")
    assert out.replace(b"one\n", b"") == b"two\n"


def test_a_log_on_another_host_is_noted_once(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.running(42), samples.running(42), samples.ended(42, "COMPLETED", 0))
    api.on("GET", LOGS, problem(404, 3, "The log is not here.", "It ran on host b."))
    done = gpuq("logs", "-f", "42")
    assert done.code == 0
    assert done.err.count("The log is not here.") == 1


def test_an_unknown_id_is_code_3_also_when_following(gpuq: Command, api: FakeApi) -> None:
    for path in ("/api/v1/jobs/42", LOGS):
        api.on("GET", path, problem(404, 3, "There is no job 42.", "Look."))
    for words in (["-f", "42"], ["42"], ["-n", "3", "42"]):
        done = gpuq("logs", *words)
        assert done.code == 3
        assert done.err.startswith("gpuq: There is no job 42.")
    assert gpuq("logs", "4-").code == 2


def test_a_whole_log_is_fetched_piece_by_piece(gpuq: Command, api: FakeApi) -> None:
    whole = bytes(range(256)) * 10

    def piece(request: Request) -> Reply:
        offset = int(request.query["offset"])
        part = whole[offset : offset + 1000]
        return Reply(raw=part, headers={"X-Gpuq-Next-Offset": str(offset + len(part))})

    api.on("GET", LOGS, piece)
    assert gpuq("logs", "42").out.encode(errors="surrogateescape") == whole


def test_json_logs_are_valid_json_whatever_the_job_wrote(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", LOGS, Reply(raw=b"a\xff\x00\n"))
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0))
    headers = {"X-Gpuq-Next-Offset": "4", "X-Gpuq-Attempt": "1"}
    api.on("GET", LOGS, lambda r: Reply(raw=b"a\xff\x00\n"[int(r.query["offset"]) :], headers=headers))
    shown = gpuq("logs", "42", "--json").json
    assert shown == {"id": 42, "state": "COMPLETED", "exit_code": 0, "attempt": 1, "log": "a\ufffd\x00\n"}


def test_the_logs_of_several_jobs_each_stand_below_an_id(gpuq: Command, api: FakeApi) -> None:
    for job, text in ((3, b"a\n"), (4, b""), (5, b"no end"), (7, b"b\n")):
        headers = {"X-Gpuq-Attempt": "1", "X-Gpuq-Next-Offset": str(len(text))}
        api.on(
            "GET",
            f"/api/v1/jobs/{job}/logs",
            lambda r, t=text, h=headers: Reply(raw=t[int(r.query["offset"]) :], headers=h),
        )
    assert gpuq("logs", "3-5", "7").out == "==> job 3 <==\na\n==> job 5 <==\nno end\n==> job 7 <==\nb\n"
    assert "2 jobs are named, and this takes one." in gpuq("logs", "-f", "3", "5").err


@pytest.fixture
def twice(api: FakeApi) -> FakeApi:
    """Job 42 failed and ran again: the first attempt's log is `first`, the second one's is `second`."""
    logs = {"1": b"a\nfirst\n", "2": b"b\nsecond\n"}
    attempts = [{"number": 1, "ending": "killed"}, {"number": 2, "ending": "exited"}]

    def log(request: Request) -> Reply:
        number = request.query.get("attempt", "2")
        if number not in logs:
            return problem(404, 3, f"Job 42 has no attempt {number}.", "Look.")
        return Reply(raw=logs[number], headers={"X-Gpuq-Attempt": number})

    api.on("GET", LOGS, log)
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0) | {"attempt": 2, "attempts": attempts})
    return api


def test_logs_are_of_the_last_attempt_and_mention_the_earlier_ones(gpuq: Command, twice: FakeApi) -> None:
    done = gpuq("logs", "42")
    assert (done.code, done.out) == (0, "b\nsecond\n")
    assert done.err == (
        "gpuq: this was attempt 2 of job 42; `gpuq logs 42 --all-attempts` prints the earlier ones too.\n"
    )


def test_a_task_is_named_as_a_task_of_its_array(gpuq: Command, twice: FakeApi) -> None:
    array = {"id": 40, "count": 5, "tasks": "0-4", "name": "sweep"}
    twice.on(
        "GET", "/api/v1/arrays", lambda asked: Reply({"arrays": [array] * ("40" in asked.query["ids"].split(","))})
    )
    task = samples.ended(42, "COMPLETED", 0) | {"attempt": 2, "attempts": [{"number": 2}], "array": 40, "task": 2}
    twice.on("GET", "/api/v1/jobs/42", task)
    assert "attempt 2 of job 40_2; `gpuq logs 40_2 --all-attempts`" in gpuq("logs", "40_2").err
    assert "`gpuq logs 40_2 --all-attempts`" in gpuq("logs", "-f", "40_2").err
    assert "==> job 40_2, attempt 2" in gpuq("logs", "40_2", "--all-attempts").out


def test_a_job_that_never_started_has_no_output_and_says_so(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", LOGS, Reply(raw=b"", headers={"X-Gpuq-Attempt": "0"}))
    done = gpuq("logs", "42")
    assert (done.code, done.out) == (0, "")
    assert done.err == "gpuq: job 42 has not started, so there is no output.\n"
    api.on("GET", "/api/v1/arrays", {"arrays": [{"id": 42, "count": 1, "tasks": "0", "name": "sweep"}]})
    assert gpuq("logs", "42").err == "gpuq: none of these jobs has written anything.\n"


def test_an_earlier_attempt_can_be_selected(gpuq: Command, twice: FakeApi) -> None:
    done = gpuq("logs", "42", "--attempt", "1", "-n", "1")
    assert (done.code, done.out, done.err) == (0, "first\n", "")
    assert gpuq("logs", "42", "--attempt", "1", "--json").json["log"] == "a\nfirst\n"
    done = gpuq("logs", "42", "--attempt", "3")
    assert (done.code, done.out) == (3, "")
    assert "no attempt 3" in done.err


def test_all_attempts_come_in_order_each_under_its_number(gpuq: Command, twice: FakeApi) -> None:
    done = gpuq("logs", "42", "--all-attempts")
    assert (done.code, done.err) == (0, "")
    assert done.out == ("==> job 42, attempt 1 (killed) <==\na\nfirst\n==> job 42, attempt 2 (exited) <==\nb\nsecond\n")
    assert gpuq("logs", "42", "--all-attempts", "--json").json["attempts"] == [
        {"attempt": 1, "ending": "killed", "log": "a\nfirst\n"},
        {"attempt": 2, "ending": "exited", "log": "b\nsecond\n"},
    ]


def test_an_attempt_whose_log_is_gone_is_named_and_the_others_are_printed(gpuq: Command, twice: FakeApi) -> None:
    attempts = [{"number": 3, "ending": "killed"}, {"number": 2, "ending": "exited"}]
    twice.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0) | {"attempts": attempts})
    done = gpuq("logs", "42", "--all-attempts")
    assert done.code == 3
    assert "second" in done.out
    assert "no attempt 3" in done.err
    logs = [attempt["log"] for attempt in gpuq("logs", "42", "--all-attempts", "--json").json["attempts"]]
    assert logs == [None, "b\nsecond\n"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--attempt", "x"], "--attempt `x` is not a whole number"),
        (["--attempt", "0"], "--attempt `0` is not a whole number"),
        (["--lines", "-5"], "--lines `-5` is not a whole number"),
        (["--attempt", "1", "--all-attempts"], "exclude each other"),
        (["-f", "--attempt", "1"], "--follow goes with none of"),
    ],
)
def test_bad_options_of_logs(gpuq: Command, api: FakeApi, words: list[str], sentence: str) -> None:
    done = gpuq("logs", "42", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert api.requests == []


def test_the_last_lines_are_looked_for_in_growing_pieces(gpuq: Command, api: FakeApi) -> None:
    whole = b"first\n" + b"x" * 400_000 + b"\nlast\n"

    def tail(request: Request) -> Reply:
        start = max(0, len(whole) + int(request.query["offset"]))
        return Reply(raw=whole[start:], headers={"X-Gpuq-Offset": str(start), "X-Gpuq-Next-Offset": str(len(whole))})

    api.on("GET", LOGS, tail)
    assert gpuq("logs", "-n", "1", "42").out == "last\n"
    assert len(api.requests) == 1
    assert gpuq("logs", "-n", "3", "42").out.encode() == whole
    assert len(api.requests) == 3


@pytest.mark.parametrize(
    ("raw", "count", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb", 1, b"b"),
        (b"a\n", 5, b"a\n"),
        (b"", 3, b""),
        (b"a\nb\n", 0, b""),
        (b"\n\n", 1, b"\n"),
    ],
)
def test_last_lines(raw: bytes, count: int, expected: bytes) -> None:
    assert last_lines(raw, count) == expected


def test_run_has_no_json_and_says_so_before_it_submits(gpuq: Command, api: FakeApi) -> None:
    done = gpuq("run", "--json", "--", "true")
    assert (done.code, "prints what the job prints, and no JSON" in done.err) == (2, True)
    assert not api.requests


def test_run_submits_follows_and_ends_with_the_jobs_code(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    api.on("GET", "/api/v1/jobs/42", samples.running(42), samples.ended(42, "FAILED", 77))
    api.on("GET", LOGS, Reply(raw=b"hello\n"), Reply(raw=b""))
    done = gpuq("run", "--", "true")
    assert (done.code, done.out) == (77, "hello\n")
    assert "job 42 (true) is queued" in done.err


def test_ctrl_c_without_a_terminal_leaves_the_job_running(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    api.on("GET", "/api/v1/jobs/42", samples.job(42))
    process = gpuq.start("run", "--", "true")
    while not api.asked("GET", "/api/v1/jobs/42"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"job 42 goes on" in err
    assert api.asked("POST", "/api/v1/jobs/42/cancel") == []


def test_ctrl_c_while_waiting_says_how_to_wait_again(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    api.on("GET", "/api/v1/jobs", listed(samples.job(42)))
    process = gpuq.start("submit", "--wait", "--", "true")
    while not api.asked("GET", "/api/v1/jobs"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"job 42 goes on. `gpuq wait 42` waits again, `gpuq cancel 42` ends it." in err


@pytest.mark.parametrize(("typed", "cancels"), [(b"c\n", True), (b"d\n", False)])
def test_ctrl_c_on_a_terminal_asks(gpuq: Command, api: FakeApi, typed: bytes, cancels: bool) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    api.on("GET", "/api/v1/jobs/42", samples.job(42))
    api.on("POST", "/api/v1/jobs/42/cancel", {"id": 42, "asked": "cancel", "state": "CANCELLED", "done": True})
    api.on("GET", "/api/v1/jobs", listed(samples.ended(42, "CANCELLED", None)))
    leader, follower = pty.openpty()
    process = gpuq.start(
        "run", "--", "true", stdin=follower, stdout=subprocess.DEVNULL, stderr=follower, start_new_session=True
    )
    os.close(follower)
    while not api.asked("GET", "/api/v1/jobs/42"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = b""
    while b"[d/c] " not in said:
        said += os.read(leader, 4096)
    os.write(leader, typed)
    assert process.wait(timeout=60) == 130
    os.close(leader)
    assert bool(api.asked("POST", "/api/v1/jobs/42/cancel")) is cancels


def test_following_costs_no_busy_loop(gpuq: Command, api: FakeApi) -> None:
    """While the job waits, a look every 0.15 s: in a second no more than a handful."""
    started = time.monotonic()

    def until_a_second_is_over(_: Request) -> Reply:
        return Reply(
            samples.ended(42, "CANCELLED", None, attempt=0) if time.monotonic() - started > 1 else samples.job(42)
        )

    api.on("GET", "/api/v1/jobs/42", until_a_second_is_over)
    assert gpuq("logs", "-f", "42").code == 125
    assert len(api.requests) < 12


def test_a_search_is_the_apis_and_that_of_a_followed_job_is_done_here(gpuq: Command, api: FakeApi) -> None:
    found = Reply(raw=b"loss 1\nloss 2\nloss 3\n", headers={"X-Gpuq-Attempt": "1"})
    api.on("GET", "/api/v1/jobs/42", samples.running(42))
    api.on("GET", LOGS, found)
    assert gpuq("logs", "42", "--grep", "loss").out == "loss 1\nloss 2\nloss 3\n"
    assert gpuq("logs", "42", "--grep", "loss", "-n", "2").out == "loss 2\nloss 3\n"
    assert gpuq("logs", "42", "--grep", "loss", "--json").json["log"] == "loss 1\nloss 2\nloss 3\n"
    assert {request.query["search"] for request in api.asked("GET", LOGS)} == {"loss"}
    api.on("GET", "/api/v1/jobs/42", samples.running(42), samples.ended(42, "FAILED", 5))
    api.on("GET", LOGS, Reply(cut_after=b"other\nlo"), Reply(raw=b"ss 4\nrest\nloss 5"))
    done = gpuq("logs", "-f", "42", "--grep", "loss")
    assert (done.code, done.out) == (5, "loss 4\nloss 5\n")
    assert [request.query["offset"] for request in api.asked("GET", LOGS)[-2:]] == ["0", "8"]
    assert gpuq("logs", "42", "--grep", "").code == 2


def test_the_end_of_a_job_that_reads_input_says_that_there_is_none(gpuq: Command, api: FakeApi) -> None:
    reason = "ended with exit code 1: EOFError: EOF when reading a line"
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.ended(42, "FAILED", 1, reason=reason)], "next": None})
    said = gpuq("wait", "42").err
    assert (
        "job 42 ended FAILED with exit code 1 (EOFError: EOF when reading a line; a job's standard input is empty)"
        in said
    )
