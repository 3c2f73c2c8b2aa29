"""The other verbs: what they ask of the API, and what they say."""

from __future__ import annotations

import os
import pty
import termios
from contextlib import suppress

import pytest

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request, problem


def test_queue_asks_for_my_live_jobs_and_shows_running_ones_first(gpuq: Command, api: FakeApi) -> None:
    jobs = [samples.job(1), samples.running(2)]
    api.on("GET", "/api/v1/jobs", {"jobs": jobs, "next": None})
    done = gpuq("queue")
    assert api.requests[0].query["owner"] == "me"
    assert set(api.requests[0].query["state"].split(",")) == {"PENDING", "HELD", "STARTING", "RUNNING", "COMPLETING"}
    assert [line.split()[0] for line in done.out.splitlines()] == ["ID", "2", "1"]
    assert [job["id"] for job in gpuq("queue", "--json").json] == [2, 1]


def test_queue_all_follows_the_pages_and_sorts_by_id(gpuq: Command, api: FakeApi) -> None:
    def page(request: Request) -> Reply:
        after = int(request.query.get("after", 4))
        return Reply({"jobs": [samples.job(after - 1)], "next": after - 1 if after > 2 else None})

    api.on("GET", "/api/v1/jobs", page)
    assert [job["id"] for job in gpuq("queue", "--all", "--json").json] == [1, 2, 3]
    assert api.requests[0].query.get("state") is None
    assert api.requests[0].query["owner"] == "all"
    api.requests.clear()
    assert [job["id"] for job in gpuq("queue", "--all", "-n", "2", "--json").json] == [2, 3]


def test_queue_takes_states_by_code(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    done = gpuq("queue", "-s", "f,TIMEOUT")
    assert (done.code, done.out, done.err) == (0, "", "No jobs.\n")
    assert api.requests[0].query["state"] == "FAILED,TIMEOUT"
    assert gpuq("queue", "-s", "ASLEEP").code == 2


def test_an_empty_queue_says_where_the_past_is(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    done = gpuq("queue")
    assert (done.code, done.out) == (0, "")
    assert "--all" in done.err
    assert gpuq("queue", "--json").out == "[]\n"


def test_a_name_with_escape_codes_does_not_reach_the_terminal(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1, name="\x1b]0;owned\x07\ud800")], "next": None})
    out = gpuq("queue").out
    assert "\x1b" not in out
    assert "\\x1b" in out


def test_show_has_every_part(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "peak_utilization_pct": 57.0, "slowdown": 1.06, "alone_rate": 12.5, "partners": [43]}
    job = samples.ended(42, "FAILED", 2, actual=actual, partners=[], max_slowdown=1.15, time_limit_s=3600.0)
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    for part in (
        "job 42",
        "FAILED",
        "exit code",
        "box/cpu0",
        "57%",
        "6%",
        "12.5 steps/s",
        "9.8 GiB",
        "12 attempts of",
        "15% at most",
    ):
        assert part in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert gpuq("show", "42", "--json").json == job


@pytest.mark.parametrize("ended", [False, True])
def test_show_says_why_no_steps_are_counted(gpuq: Command, api: FakeApi, ended: bool) -> None:
    why = "no Python with the step counter has started in it; `python -I`, -E and -S keep the counter out"
    uncounted = {"steps": None, "not_counted": why}
    if ended:
        job = samples.ended(42, "COMPLETED", 0, actual={**samples.NO_ACTUAL, **uncounted})
    else:
        job = samples.running(42, live={"memory_bytes": None, "utilization_pct": None, "rate": None, **uncounted})
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    assert f"not counted: {why}" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())


def test_show_lists_attempts_when_there_was_more_than_one(gpuq: Command, api: FakeApi) -> None:
    attempt = {
        "number": 1,
        "device": "box/cpu0",
        "started_at": "2026-11-20T22:30:00Z",
        "ended_at": "2026-11-20T22:31:00Z",
    }
    attempts = [{**attempt, "ending": "out of memory", "exit_code": 1}, {**attempt, "number": 2}]
    api.on("GET", "/api/v1/jobs/42", samples.running(42, attempts=attempts))
    out = gpuq("show", "42").out
    assert "out of memory" in out
    assert "2026-11-20 22:30:00  1:00" in out


def test_show_of_a_job_that_nothing_is_known_of(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/1", samples.job(1, name=None))
    assert "nothing is known of this kind yet" in gpuq("show", "1").out


def test_show_says_what_a_slowdown_rests_on_and_what_else_says(gpuq: Command, api: FakeApi) -> None:
    actual = {
        **samples.NO_ACTUAL,
        "slowdown": 1.06,
        "slowdown_basis": "measured by blinks",
        "slowdown_otherwise": [{"basis": "kind's alone rate", "value": 1.1, "low": None, "high": None}],
        "blink": "7 times",
        "partners": [43],
    }
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual, blink=True))
    out = gpuq("show", "42").out
    assert "6% measured by blinks, 10% against its kind alone" in out
    assert "7 times" in out
    assert "measured by blinks" in out


def test_explain_says_why_nobody_is_paused(gpuq: Command, api: FakeApi) -> None:
    why = "never so far, since job 43 beside it was not submitted with --blink"
    api.on("GET", "/api/v1/jobs/42/explanation", explanation(42, "RUNNING", None, blink=why))
    assert why in gpuq("explain", "42", COLUMNS="300").out


def explanation(job_id: int, state: str, verdict: dict[str, object] | None, **more: object) -> dict[str, object]:
    told = {
        "id": job_id,
        "state": state,
        "sentence": "It waits.",
        "verdict": verdict,
        "position": None,
        "waiting": None,
    }
    return {**told, "device": None, "partners": [], "forecast": None, "attempts": [], **more}


def test_explain_shows_the_sum_that_refuses(gpuq: Command, api: FakeApi) -> None:
    told = explanation(45, "PENDING", samples.OVERLOAD, position=2, waiting=3, forecast=samples.FORECAST)
    api.on("GET", "/api/v1/jobs/45/explanation", told)
    out = gpuq("explain", "45", COLUMNS="200").out
    assert out.startswith(
        "job 45 waits: PredictedLoad on box/cpu0: peak utilisation 54% + 53% = 107% > 100%, beside job 41.\n"
    )
    assert "It is number 2 of 3 waiting jobs." in out
    assert "9.0 GiB (at most 9.8 GiB)" in out
    assert gpuq("explain", "45", "--json").json == told


def test_explain_says_why_it_runs_beside_another(gpuq: Command, api: FakeApi) -> None:
    told = explanation(42, "RUNNING", samples.FITS, device="box/cpu0", partners=[43])
    api.on("GET", "/api/v1/jobs/42/explanation", told)
    out = gpuq("explain", "42", COLUMNS="300").out
    assert out.startswith(
        "job 42 runs on cpu0 beside 43 because it fitted beside job 43: peak utilisation 54% + 33% = 87% <= 100%"
    )
    assert "9.8 GiB + 6.0 GiB spoken for + 8.0 GiB kept free = 23.8 GiB <= 80.0 GiB" in out


@pytest.mark.parametrize(
    ("rule", "admitted", "numbers", "expected"),
    [
        (
            "SlowdownBudget",
            False,
            {"beside": "k", "newcomer_slowdown": 1.3, "budget": 1.15},
            "30% slower beside a job of kind k",
        ),
        (
            "SlowdownBudget",
            False,
            {"resident": "41", "resident_slowdown": 1.3, "budget": 1.1},
            "slow job 41 by 30%, whose budget is 10%",
        ),
        ("FirstRunExclusive", False, {"newcomer": "45", "evidence": "none"}, "(evidence: none)"),
        ("FirstRunExclusive", True, {"needed_bytes": None, "committed_bytes": 0, "total_bytes": 2**30}, "alone"),
        ("Resources", False, {"residents": 2, "limit": 2}, "2 jobs are there, and 2 are the limit"),
        (
            "PredictedMemory",
            False,
            {"needed_bytes": 2**31, "committed_bytes": 2**30, "total_bytes": 2**31},
            "= 3.0 GiB > 2.0 GiB",
        ),
        ("Exclusive", False, {"newcomer": "45"}, "this job does not share"),
        ("UnsafePair", False, {"beside": "k"}, "ran out of memory before"),
        (
            "PredictedLoad",
            False,
            {"newcomer_pct": 54.0, "committed_pct": None, "limit_pct": 100.0, "residents": "41"},
            "the server's words",
        ),
        (
            "PredictedLoad",
            False,
            {"newcomer_pct": 49.0, "committed_pct": 149.0, "foreign_pct": 100.0, "limit_pct": 115.0, "residents": "3"},
            "49% + 149% = 198% > 115%, beside job 3 and what gpuq did not start (100%).",
        ),
        (
            "PredictedLoad",
            False,
            {"newcomer_pct": 54.0, "committed_pct": 53.0, "foreign_pct": 0.0, "limit_pct": 100.0, "residents": "41"},
            "54% + 53% = 107% > 100%, beside job 41.",
        ),
        ("RuleOfTomorrow", False, {"some_bytes": 2**30}, "the server's words"),
    ],
)
def test_every_rule_in_words(
    gpuq: Command, api: FakeApi, rule: str, admitted: bool, numbers: dict[str, object], expected: str
) -> None:
    verdict = {"admitted": admitted, "rule": rule, "device": "d", "numbers": numbers, "sentence": "the server's words"}
    state = "RUNNING" if admitted else "PENDING"
    api.on("GET", "/api/v1/jobs/45/explanation", explanation(45, state, verdict))
    assert expected in gpuq("explain", "45", COLUMNS="300").out


def test_explain_of_an_unknown_kind_has_no_empty_table(gpuq: Command, api: FakeApi) -> None:
    unknown = {**dict.fromkeys(samples.FORECAST), "evidence": "none"}
    for forecast in (None, unknown):
        told = explanation(45, "PENDING", samples.OVERLOAD, forecast=forecast)
        api.on("GET", "/api/v1/jobs/45/explanation", told)
        out = gpuq("explain", "45").out
        assert "none: nothing like it has run yet" in out
        assert "peak memory" not in out


def test_control_verbs_ask_for_each_job(gpuq: Command, api: FakeApi) -> None:
    for verb, word in (("cancel", "cancelled"), ("hold", "held"), ("release", "released")):
        api.on("POST", f"/api/v1/jobs/42/{verb}", {"id": 42, "asked": verb, "state": "PENDING", "done": True})
        done = gpuq(verb, "42")
        assert (done.code, done.out, done.err) == (0, "", f"Job 42 is {word}.\n")


def test_cancel_goes_on_after_a_failure_and_ends_with_the_worst_code(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs/1/cancel", problem(404, 3, "There is no job 1.", "Look."))
    api.on("POST", "/api/v1/jobs/2/cancel", problem(409, 6, "Job 2 has already ended.", "Look."))
    api.on("POST", "/api/v1/jobs/3/cancel", Reply({"id": 3, "asked": "cancel", "state": "RUNNING", "done": False}, 202))
    done = gpuq("kill", "1-3")
    assert done.code == 6
    assert "Job 3 will be cancelled in a moment." in done.err
    assert [r.path for r in api.requests] == [f"/api/v1/jobs/{number}/cancel" for number in (1, 2, 3)]
    assert done.err.endswith("\n  Look.\n")
    assert done.err.count("Look.") == 1, "what is to be done about them is said once"


def test_a_job_that_is_being_stopped_is_not_called_cancelled_yet(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs/3/cancel", {"id": 3, "asked": "cancel", "state": "COMPLETING", "done": True})
    assert gpuq("cancel", "3").err == "Job 3 is being stopped.\n"


def test_a_cancel_whose_answer_is_lost_is_not_sent_again(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs/3/cancel", Reply(cut=True))
    done = gpuq("cancel", "3")
    assert done.code == 4
    assert "before you try again" in done.err
    assert len(api.requests) == 1


def test_gpus_json_is_the_apis(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert gpuq("gpus", "--json").json == samples.DEVICES
    api.on("GET", "/api/v1/gpus", [])
    done = gpuq("gpus")
    assert (done.out, "gpuq doctor" in done.err) == ("", True)


def test_gpus_shows_power_and_says_what_is_wrong(gpuq: Command, api: FakeApi) -> None:
    device = {**samples.DEVICES[1], "utilization_pct": 3.0, "power_watts": 123.4, "throttling": ["power_cap"]}
    api.on("GET", "/api/v1/gpus", [{**device, "unwell": "XID 48: an error\x1b[31m"}, samples.DEVICES[0]])
    out = gpuq("gpus").out
    assert "123W" in out
    assert "gets no new jobs: XID 48: an error" in out
    assert "\x1b" not in out
    assert "runs at lower clocks: power cap" in out
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert "POWER" not in gpuq("gpus").out


def test_show_tells_energy_and_a_memory_that_is_only_a_bound(gpuq: Command, api: FakeApi) -> None:
    actual = {"energy_joules": 360_000.0, "idle_joules": 90_000.0, "peak_memory_bytes": 60 * 2**30}
    job = samples.running(42, actual={**samples.NO_ACTUAL, **actual, "peak_memory_is_bound": True})
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    assert "energy: 100 Wh, 25 Wh of it what the device takes idle" in out
    assert "needs at most" in out


def test_model_verbs(gpuq: Command, api: FakeApi) -> None:
    status = {
        "serving": "v3",
        "published_at": 1.0,
        "scores": {"error": 0.5},
        "versions": [{"version": "v3", "problem": None, "card": {"attempts": 97, "figures": {"candidate": {"loss": 0.25}}}}],
        "drift": {
            "promised": 0.95,
            "overall": {"attempts": 9, "memory_coverage": 0.5, "utilization_error_pct": 3.25, "alarm": True},
            "kinds_watched": 2,
            "kinds_in_alarm": 1,
            "kinds": [{"kind": "ada:train.py", "device_type": "T4", "attempts": 5, "memory_coverage": 0.2, "alarm": True,
                       "widened": 1.5}],
        },
    }  # fmt: skip
    api.on("GET", "/api/v1/models", status)
    out = gpuq("model").out
    assert "50% of the latest attempts; 95% promised" in out
    assert "yes; 1 of 2 kinds fail more often than promised" in out
    assert "x1.50" in out
    assert "ada:train.py" in out
    assert " 97 " in out
    assert "v3" in out
    assert "1970-01-01" in out
    assert gpuq("model", "status", "--json").json == status
    api.on("POST", "/api/v1/models/train", {"published": False, "why": "not better"})
    api.on("POST", "/api/v1/models/rollback", problem(409, 6, "There is no version before.", "Train."))
    done = gpuq("model", "train")
    assert "not better" in done.out
    assert gpuq("model", "rollback").code == 6
    assert gpuq("model", "destroy").code == 2
    assert "characterize" in gpuq("model", "train", "--data", "here").err


def test_version_works_without_a_daemon(gpuq: Command) -> None:
    done = gpuq("version", "--json")
    assert done.code == 0
    assert done.json["daemon"] is None
    assert gpuq("--version").out.startswith("gpuq ")


def on_a_terminal(gpuq: Command, *words: str, **env: str) -> str:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    process = gpuq.start(*words, stdout=follower, env={**gpuq.env, "TERM": "xterm", **env})
    os.close(follower)
    said = b""
    with suppress(OSError):  # how Linux tells that the other end is closed
        while chunk := os.read(leader, 4096):
            said += chunk
    os.close(leader)
    process.communicate(timeout=10)
    assert process.returncode == 0
    return said.decode()


def test_colour_is_for_terminals_and_can_be_refused(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    assert "\x1b[32m42" in on_a_terminal(gpuq, "queue")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", TERM="dumb")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", "--no-color")
    assert "\x1b" not in gpuq("queue").out


def test_the_terminals_width_is_used(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    plain = on_a_terminal(gpuq, "--no-color", "queue").splitlines()
    assert max(map(len, plain)) <= 80
    assert "…" in plain[3]
    assert "llama-70b-finetune-lora" in gpuq("queue", COLUMNS="160").out


def test_the_bar_is_drawn_on_a_wide_terminal_only(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert "███████▌" in on_a_terminal(gpuq, "gpus", COLUMNS="120")
    assert "█" not in gpuq("gpus", COLUMNS="120").out


def test_a_terminal_that_cannot_show_a_character_gets_it_escaped(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1, name="größe")], "next": None})
    done = gpuq("queue", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert "gr\\xf6\\xdfe" in done.out


def test_report_shadow(gpuq: Command, api: FakeApi) -> None:
    told = {
        "on": True, "days": 7, "since": "2026-11-14T00:00:00Z", "definition": "Each job joins another.", "chances": 5,
        "counted": 3, "open": 1, "never_ran": 1, "slowdown_unknown": 0, "gpu_hours_run": 160.0, "gpu_hours_saved": 12.3,
        "wait_avoided_mean_s": 2040.0, "wait_avoided_hours": 1.7, "slowdown_mean": 1.06, "slowdown_worst": 1.14,
        "slowdown_upper_worst": 1.22, "delay_hours": 0.4,
        "pairs": [{
            "newcomer": "bert\x1b[31m", "beside": "resnet", "times": 3, "gpu_hours_saved": 12.3, "newcomer_slowdown": 1.07,
            "beside_slowdown": 1.02, "wait_avoided_mean_s": 2040.0, "evidence": "learned",
        }],
    }  # fmt: skip
    api.on("GET", "/api/v1/report/shadow", told)
    shown = gpuq("report", "shadow", "--days", "30").out
    out = " ".join(shown.split())
    assert api.requests[-1].query["days"] == "30"
    assert "Sharing would have saved 12.3 GPU-hours of 160, 8%." in out
    assert "3 jobs would have started earlier: 34m in the mean, 1h42m together." in out
    assert "slowed by 6% in the mean, 14% at most; foretold to stay under 22%" in out
    assert "1 still wait or run and 1 ended before they ran" in out
    assert "\x1b" not in shown
    assert shown.endswith("Each job joins another.\n")
    assert gpuq("report", "shadow", "--json").json == told
    for wrong in (("report",), ("report", "light"), ("report", "shadow", "--days", "0")):
        assert gpuq(*wrong).code == 2


def test_an_empty_week_is_a_sentence_and_says_how_to_turn_it_on(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/report/shadow", {"on": False, "days": 7, "chances": 0})
    out = " ".join(gpuq("report", "shadow").out.split())
    assert "Nobody had a chance to share in the last 7 days." in out
    assert "shadow = true" in out
    api.on("GET", "/api/v1/report/shadow", {"on": True, "days": 1, "chances": 0})
    assert gpuq("report", "shadow").out == "Nobody had a chance to share in the last day.\n"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--gpus", "none"), ("--jobs", "0"), ("--load", "0"), ("--load", "nan"), ("--seeds", "1.5"), ("--budget", "1"),
        ("--forecasts", "guess"), ("--host", "http://else:1"), ("--set", "admission.nothing=1"),
    ],
)  # fmt: skip
def test_simulate_refuses_what_makes_no_sense(gpuq: Command, wrong: tuple[str, str]) -> None:
    done = gpuq("simulate", *wrong)
    assert done.code == 2
    assert "Traceback" not in done.err


def test_simulate_without_a_history_says_what_to_do_instead(gpuq: Command) -> None:
    done = gpuq("simulate")
    assert (done.code, done.out) == (2, "")
    assert "No job has run here yet" in done.err
    assert "gpuq simulate jobs.csv" in done.err
