"""The other verbs: what they ask of the API, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request, problem


def test_queue_asks_for_my_live_jobs_and_shows_running_ones_first(gpuq: Command, api: FakeApi) -> None:
    jobs = [samples.job(1), samples.running(2)]
    api.on("GET", "/api/v1/jobs", {"jobs": jobs, "next": None})
    done = gpuq("queue")
    assert api.requests[0].query["owner"] == "me"
    assert set(api.requests[0].query["state"].split(",")) == {"PENDING", "HELD", "STARTING", "RUNNING", "COMPLETING"}
    rows = [line.split()[0] for line in done.out.splitlines() if line]
    assert rows == ["ID", "2", "ID", "1", "1"], "two tables, and the totals"
    assert done.out.endswith("\n1 running, 1 waiting\n")
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


def test_queue_all_shows_the_recent_past_and_says_how_to_see_more(gpuq: Command, api: FakeApi) -> None:
    """A screen of every job ever was of no use; a program that asks for JSON still gets all of them."""
    past = [samples.ended(n, "COMPLETED", 0) for n in range(300, 0, -1)]

    def page(request: Request) -> Reply:
        live = "RUNNING" in request.query.get("state", "")
        jobs = [samples.running(301)] if live else past[: int(request.query["limit"])]
        return Reply({"jobs": jobs, "next": None})

    api.on("GET", "/api/v1/jobs", page)
    done = gpuq("queue", "-a")
    assert "only the last 30 ended jobs are shown; -n 500 shows the newest 500 jobs" in done.err
    assert done.out.endswith("\n1 running, 30 completed\n")
    assert [line.split()[0] for line in done.out.splitlines()[1:3]] == ["271", "272"], (
        "oldest first, the newest by the prompt"
    )
    assert len(gpuq("queue", "-a", "--json").json) == 300
    assert gpuq("queue", "-a", "-n", "2").out.count(" CD ") == 2


def test_waiting_jobs_are_in_start_order_and_held_ones_last(gpuq: Command, api: FakeApi) -> None:
    jobs = [
        samples.job(1, position=3),
        samples.job(2, state="HELD"),
        samples.job(3, position=1),
        samples.job(4, position=2),
    ]
    api.on("GET", "/api/v1/jobs", {"jobs": jobs, "next": None})
    assert [line.split()[0] for line in gpuq("queue").out.splitlines()[1:5]] == ["3", "4", "1", "2"]
    assert [job["id"] for job in gpuq("queue", "--json").json] == [3, 4, 1, 2]


def test_queue_takes_states_by_code(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    done = gpuq("queue", "-s", "f,TIMEOUT")
    assert (done.code, done.out, done.err) == (0, "", "No such jobs.\n")
    assert api.requests[0].query["state"] == "FAILED,TIMEOUT"
    assert gpuq("queue", "-s", "ASLEEP").code == 2


def test_an_empty_queue_mentions_ended_jobs(gpuq: Command, api: FakeApi) -> None:
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


def answered(verb: str, **fields: Any) -> dict[str, Any]:
    """The API's answer to a request about many jobs."""
    return {"asked": verb, "dry_run": False, "jobs": {}, "now": {}, "refused": [], "missing": [], **fields}


@pytest.mark.parametrize(
    ("verb", "word", "before", "after"),
    [
        ("cancel", "cancelled", "PENDING", "CANCELLED"),
        ("hold", "held", "PENDING", "HELD"),
        ("release", "released", "HELD", "PENDING"),
    ],
)
def test_control_verbs_print_the_outcome_for_one_job(
    gpuq: Command, api: FakeApi, verb: str, word: str, before: str, after: str
) -> None:
    api.on("POST", f"/api/v1/jobs/{verb}", answered(verb, jobs={before: [42]}, now={after: [42]}))
    done = gpuq(verb, "42")
    assert (done.code, done.out, done.err) == (0, "", f"Job 42 is {word}.\n")
    assert api.requests[0].body == {"where": {"ids": [42]}, "dry_run": False}


def test_cancel_of_a_few_prints_each_and_exits_with_the_largest_code(gpuq: Command, api: FakeApi) -> None:
    why = "has already ended: it is COMPLETED"
    refused = [{"state": "COMPLETED", "ids": [2], "why": why}]
    jobs = {"RUNNING": [3, 4]}
    now = {"RUNNING": [3], "COMPLETING": [4]}
    api.on("POST", "/api/v1/jobs/cancel", answered("cancel", jobs=jobs, now=now, refused=refused, missing=[[1, 1]]))
    done = gpuq("kill", "1-4")
    assert done.code == 6
    assert done.err.splitlines() == [
        "Job 3 will be cancelled in a moment.",
        "Job 4 is being stopped.",
        f"gpuq: Job 2 {why}.",
        "gpuq: There is no job 1.",
        "  `gpuq show ID` tells the job's state.",
        "  `gpuq queue -a -n 500` lists the newest 500 jobs.",
    ]
    assert [request.body["where"]["ids"] for request in api.requests] == [[[1, 4]]]
    api.on("POST", "/api/v1/jobs/cancel", answered("cancel", missing=[[9, 9]]))
    assert gpuq("cancel", "9").code == 3


def test_cancel_of_many_is_one_request_and_a_summary(gpuq: Command, api: FakeApi) -> None:
    ended = [*range(85, 85 + 12)]
    refused = [{"state": "COMPLETED", "ids": ended, "why": "has already ended: it is COMPLETED"}]
    jobs = {"RUNNING": [*range(97, 109)], "PENDING": [*range(109, 7960)]}
    now = {"COMPLETING": jobs["RUNNING"], "CANCELLED": jobs["PENDING"]}
    answer = answered("cancel", jobs=jobs, now=now, refused=refused, missing=[[7960, 20085]])
    api.on("POST", "/api/v1/jobs/cancel", answer)
    done = gpuq("cancel", "85-20085")
    assert (done.code, done.out) == (6, "")
    assert done.err.splitlines()[:3] == [
        "Cancelled 7,863 jobs: 12 running, 7,851 waiting.",
        "gpuq: 12 could not be cancelled: 12 COMPLETED (85, 86, 87, 88, 89, 90, 91, 92, 93, 94, …).",
        "gpuq: of 12,126 of the ids there is no job (7960-20085).",
    ]
    assert len(api.requests) == 1
    assert gpuq("cancel", "85-20085", "--json").json == answer
    api.on("POST", "/api/v1/jobs/cancel", answered("cancel", jobs=jobs, now={**now, "PENDING": [7959]}))
    assert gpuq("cancel", "--all").err == "7,863 jobs will be cancelled in a moment: 12 running, 7,851 waiting.\n"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--all"], {"owner": "me"}),
        (["--all", "--user", "all"], {"owner": "all"}),
        (["-u", "ada"], {"owner": "ada"}),
        (
            ["--name", "sweep-*", "-s", "pd,RUNNING"],
            {"owner": "me", "name": "sweep-*", "state": ["PENDING", "RUNNING"]},
        ),
        (["--kind", "ada:*", "--project", "p"], {"owner": "me", "kind": "ada:*", "project": "p"}),
        (["7,9", "20-30", "--state", "HELD"], {"ids": [7, 9, [20, 30]], "state": ["HELD"]}),
        (["1-200000"], {"ids": [[1, 200000]]}),
    ],
)
def test_control_verbs_send_the_conditions(
    gpuq: Command, api: FakeApi, words: list[str], where: dict[str, Any]
) -> None:
    api.on("POST", "/api/v1/jobs/hold", answered("hold", dry_run=True, jobs={"PENDING": [1]}, now={"PENDING": [1]}))
    done = gpuq("hold", *words, "--dry-run")
    assert (done.code, done.err) == (0, "Would hold 1 job: 1 waiting.\n")
    assert [request.body for request in api.requests] == [{"where": where, "dry_run": True}]


def test_more_ids_than_one_request_takes_are_several(gpuq: Command, api: FakeApi) -> None:
    some = [
        answered("cancel", jobs={"HELD": [1]}, now={"CANCELLED": [1]}, missing=[[3, 3]]),
        answered("cancel", jobs={"HELD": [20_001]}, now={"CANCELLED": [20_001]}, missing=[[20_003, 20_003]]),
    ]
    for answer, ids in zip(some, ([5], [7]), strict=True):
        answer["refused"] = [{"state": "FAILED", "ids": ids, "why": "has already ended"}]
    api.on("POST", "/api/v1/jobs/cancel", *some)
    done = gpuq("cancel", "--json", ",".join(map(str, range(1, 20_006, 2))))
    sent = [request.body["where"]["ids"] for request in api.requests]
    assert ([len(ids) for ids in sent], sent[1]) == ([10_000, 3], [20_001, 20_003, 20_005])
    assert done.code == 6
    assert (done.json["jobs"], done.json["missing"]) == ({"HELD": [1, 20_001]}, [[3, 3], [20_003, 20_003]])
    assert [(one["state"], one["ids"]) for one in done.json["refused"]] == [("FAILED", [5, 7])]


def test_control_verbs_without_a_choice_do_nothing(gpuq: Command, api: FakeApi) -> None:
    for words in ([], ["--dry-run"], ["--all", "7"]):
        assert gpuq("cancel", *words).code == 2
    assert api.requests == []
    api.on("POST", "/api/v1/jobs/cancel", answered("cancel"))
    done = gpuq("cancel", "--all")
    assert (done.code, done.err) == (0, "No jobs to cancel.\n")


def test_a_cancel_whose_answer_is_lost_is_not_sent_again(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs/cancel", Reply(cut=True))
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
    result = {"published": False, "version": "v3", "previous": "v3", "reason": "not better by the exact test", "attempts": 97,
              "guards": [{"name": "memory", "held": False}]}  # fmt: skip
    api.on("POST", "/api/v1/models/train", result)
    api.on("POST", "/api/v1/models/rollback", problem(409, 6, "There is no version before.", "Train."))
    done = gpuq("model", "train")
    assert done.out == "Not published, v3 still serves: not better by the exact test.\n"
    assert "-v" in done.err
    details = gpuq("model", "train", "-v").out
    assert details.startswith(done.out)
    assert "memory" in details
    api.on("POST", "/api/v1/models/train", {**result, "published": True, "version": "v4"})
    assert gpuq("model", "train").out.startswith("Published: v4 serves now, before it v3: ")
    assert gpuq("model", "rollback").code == 6
    assert gpuq("model", "destroy").code == 2
    assert "characterize" in gpuq("model", "train", "--data", "here").err


def test_version_works_without_a_daemon(gpuq: Command) -> None:
    done = gpuq("version", "--json")
    assert done.code == 0
    assert done.json["daemon"] is None
    assert gpuq("--version").out.startswith("gpuq ")


def test_report_shadow(gpuq: Command, api: FakeApi) -> None:
    output = {
        "on": True, "days": 7, "since": "2026-11-14T00:00:00Z", "definition": "Each job joins another.", "chances": 5,
        "counted": 3, "open": 1, "never_ran": 1, "slowdown_unknown": 0, "gpu_hours_run": 160.0, "gpu_hours_saved": 12.3,
        "wait_avoided_mean_s": 2040.0, "wait_avoided_hours": 1.7, "slowdown_mean": 1.06, "slowdown_worst": 1.14,
        "slowdown_upper_worst": 1.22, "delay_hours": 0.4,
        "pairs": [{
            "newcomer": "bert\x1b[31m", "beside": "resnet", "times": 3, "gpu_hours_saved": 12.3, "newcomer_slowdown": 1.07,
            "beside_slowdown": 1.02, "wait_avoided_mean_s": 2040.0, "evidence": "learned",
        }],
    }  # fmt: skip
    api.on("GET", "/api/v1/report/shadow", output)
    shown = gpuq("report", "shadow", "--days", "30").out
    out = " ".join(shown.split())
    assert api.requests[-1].query["days"] == "30"
    assert "Sharing would have saved 12.3 GPU-hours of 160, 8%." in out
    assert "3 jobs would have started earlier: 34m in the mean, 1h42m together." in out
    assert "slowed by 6% in the mean, 14% at most; predicted to stay under 22%" in out
    assert "1 still wait or run and 1 ended before they ran" in out
    assert "\x1b" not in shown
    assert shown.endswith("Each job joins another.\n")
    assert gpuq("report", "shadow", "--json").json == output
    for wrong in (("report",), ("report", "light"), ("report", "shadow", "--days", "0")):
        assert gpuq(*wrong).code == 2


def test_a_report_without_opportunities_says_why(gpuq: Command, api: FakeApi) -> None:
    nothing = {"on": False, "days": 7, "chances": 0, "attempts_ended": 40, "attempts_shared": 12}
    api.on("GET", "/api/v1/report/shadow", nothing)
    out = " ".join(gpuq("report", "shadow").out.split())
    assert out.startswith(
        "Shadow mode was off in the last 7 days, so it was not recorded what sharing would have done. "
    )
    assert "12 of the 40 runs that ended really shared a device" in out
    assert "shadow = true" in out
    api.on("GET", "/api/v1/report/shadow", {**nothing, "on": True, "days": 1, "attempts_shared": 0})
    output = "No waiting job could have joined one that ran alone in the last day; 40 runs ended in that time."
    assert " ".join(gpuq("report", "shadow").out.split()) == output


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


def test_json_lines_have_a_job_or_a_device_each(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1), samples.job(2)], "next": None})
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert [json.loads(line)["id"] for line in gpuq("queue", "--json-lines").out.splitlines()] == [1, 2]
    assert len(gpuq("gpus", "--jsonl").out.splitlines()) == len(samples.DEVICES)


def test_waiting_writes_a_line_as_each_job_ends(gpuq: Command, api: FakeApi) -> None:
    def jobs(*states: str) -> dict[str, Any]:
        return {"jobs": [samples.job(number, state=state) for number, state in enumerate(states, 1)], "next": None}

    late = {"jobs": [samples.job(1, state="FAILED", exit_code=3)], "next": None}
    api.on("GET", "/api/v1/jobs", jobs("RUNNING", "COMPLETED"), late)
    done = gpuq("wait", "1", "2", "--json-lines")
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [2, 1]
    assert done.code == 3
