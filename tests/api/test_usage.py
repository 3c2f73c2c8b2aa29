"""Reports of a small week whose sums were done by hand.

Device-hours from Monday, 17 November 2025, 00:00 UTC; A and B share gpu0 from 2:00 to 4:00:

    A  ann  nlp      gpu0        0:00-4:00  completed   limit 6 h  peak 50%  slowdown 1.25  1 kWh, 0.5 idle
    B  bob  vision   gpu0        2:00-5:00  completed   no limit   peak 40%  slowdown 1.6   energy unknown
    C  ann  nlp      gpu1, gpu2  0:00-1:00  failed      limit 2 h  unknown   no partner     2 kWh, idle unknown
    D  ann  -        gpu1        a week later, 0:00-1:00  cancelled, no limit, peak 0%, energy unknown

A alone: 2 + 2 / 1.25 = 3.6 of the 4 held; its part of the occupied time is 2 + 2 / 2 = 3: saved 0.6, slowed 0.4.
B alone: 1 + 2 / 1.6 = 2.25 of 3; its part is 2: saved 0.25, slowed 0.75. Together 0.85 = T / x + T / y - T of T = 2.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.adapters.store.row_types import AttemptRow, JobRow, Run
from gpuq.api.contract.schema_predict import UsageGroup
from gpuq.api.usage import end_state, usage
from gpuq.cli.verbs import report
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.outcome import AttemptOutcome
from tests.api.conftest import Endpoint
from tests.api.support import record, row
from tests.support import forked

HOUR = 3600.0
MONDAY = datetime(2025, 11, 17, tzinfo=UTC).timestamp()
KWH = 3.6e6


def ran(
    job: int, owner: str, hours: tuple[float, float], devices: tuple[str, ...], state: JobState, **more: Any
) -> tuple[JobRow, AttemptRow]:
    start, end = (MONDAY + HOUR * hour for hour in hours)
    asked = record(start, project=more.get("project"), time_limit_s=more.get("limit"))
    attempt = AttemptRow(
        job=JobId(job), number=1, host="h", devices=devices, launched_at=start, launch={}, features={}, model_version=None,
        started_at=start, ended_at=end, ending=more.get("ending", "exited"), exit_code=more.get("exit_code", 0),
        stop_reason=more.get("stop_reason"), actual=AttemptOutcome(**more.get("actual", {})),
    )  # fmt: skip
    return row(job, msgspec.structs.replace(asked, owner=owner), state, attempt=1), attempt


def runs(rows: Iterable[tuple[JobRow, AttemptRow]]) -> list[Run]:
    return [Run.of(job, attempt) for job, attempt in rows]


def week() -> list[tuple[JobRow, AttemptRow]]:
    peaks = {"peak_utilization_pct": 50.0, "slowdown": 1.25, "energy_joules": KWH, "idle_joules": KWH / 2}
    return [
        ran(1, "ann", (0, 4), ("gpu0",), JobState.COMPLETED, project="nlp", limit=6 * HOUR, actual=peaks),
        ran(
            2, "bob", (2, 5), ("gpu0",), JobState.COMPLETED, project="vision",
            actual={"peak_utilization_pct": 40.0, "slowdown": 1.6},
        ),
        ran(
            3, "ann", (0, 1), ("gpu1", "gpu2"), JobState.FAILED, project="nlp", limit=2 * HOUR, exit_code=1,
            actual={"energy_joules": 2 * KWH},
        ),
        ran(4, "ann", (168, 169), ("gpu1",), JobState.CANCELLED, ending="stopped", actual={"peak_utilization_pct": 0.0}),
    ]  # fmt: skip


def figures(group: UsageGroup) -> dict[str, float | None]:
    names = ("requested", "held", "used_at_most", "idle_at_least", "shared", "saved", "slowed", "lost")
    found = {name: getattr(group, f"{name}_hours") for name in names}
    return {name: None if value is None else round(value, 9) for name, value in found.items()}


def test_the_week_by_user() -> None:
    total, (ann, bob) = usage(runs(week()), 0.0, ["user"], 0.5)
    assert (ann.user, ann.jobs, ann.attempts, ann.project, ann.week) == ("ann", 3, 3, None, None)
    assert figures(ann) == {
        "requested": 10.0, "held": 7.0, "used_at_most": 2.0, "idle_at_least": 3.0, "shared": 2.0, "saved": 0.6,
        "slowed": 0.4, "lost": 2.0,
    }  # fmt: skip
    assert ann.unknown == {"requested": 1, "used_at_most": 1, "idle_at_least": 1, "energy_kwh": 1, "idle_kwh": 2}
    assert ann.hours_by_end == {"CANCELLED": 1.0, "COMPLETED": 4.0, "FAILED": 2.0}
    assert (ann.energy_kwh, ann.idle_kwh, ann.cost) == (3.0, 0.5, 1.5)
    assert figures(bob) == {
        "requested": None, "held": 3.0, "used_at_most": 1.2, "idle_at_least": 1.8, "shared": 2.0, "saved": 0.25,
        "slowed": 0.75, "lost": 0.0,
    }  # fmt: skip
    assert (bob.energy_kwh, bob.idle_kwh, bob.cost) == (None, None, None), "unknown, and not 0"
    assert (total.held_hours, round(total.saved_hours or 0, 9), total.jobs) == (10.0, 0.85, 4)


def test_the_week_by_week_and_project() -> None:
    _, found = usage(runs(week()), 0.0, ["week", "project"], 0.5)
    keys = [(group.week, group.project, group.held_hours) for group in found]
    assert keys == [("2025-W47", "nlp", 6.0), ("2025-W47", "vision", 3.0), ("2025-W48", None, 1.0)]


def test_what_was_saved_is_unknown_where_the_slowdown_is() -> None:
    rows = week()[:2]
    del rows[1]
    beside = ran(2, "bob", (2, 5), ("gpu0",), JobState.COMPLETED)
    _, (ann, bob) = usage(runs([*rows, beside]), 0.0, ["user"], 0.5)
    assert (round(ann.saved_hours or 0, 9), bob.saved_hours, bob.unknown["saved"]) == (0.6, None, 1)
    for impossible in (0.0, -1.0):
        beside = ran(2, "bob", (2, 5), ("gpu0",), JobState.COMPLETED, actual={"slowdown": impossible})
        _, (_, bob) = usage(runs([*rows, beside]), 0.0, ["user"], 0.5)
        assert (bob.saved_hours, bob.unknown["saved"]) == (None, 1)


def test_partners_that_still_run_or_are_not_in_the_figures_count_as_partners() -> None:
    [a, b, *_] = runs(week())
    only_ann, _ = usage([a, b], 0.0, [], 0.5, lambda run: run.owner == "ann")
    running = msgspec.structs.replace(b, ended_at=None, started_at=MONDAY + 2 * HOUR)
    beside_running, _ = usage([a, running], 0.0, [], 0.5)
    assert figures(only_ann) == figures(beside_running)
    assert round(only_ann.saved_hours or 0, 9) == 0.6


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"exit_code": 0}, JobState.COMPLETED),
        ({"exit_code": 1}, JobState.FAILED),
        ({"ending": "timed out"}, JobState.TIMEOUT),
        ({"ending": "host out of memory"}, JobState.OUT_OF_MEMORY),
        ({"ending": "lost"}, JobState.NODE_FAIL),
        ({"ending": "stopped", "stop_reason": StopReason.PREEMPTED}, JobState.PREEMPTED),
        ({"ending": "stopped", "stop_reason": StopReason.CANCELLED}, JobState.CANCELLED),
    ],
)
def test_an_attempt_after_which_the_job_waited_again_has_an_end_of_its_own(
    more: dict[str, Any], state: JobState
) -> None:
    assert end_state(Run.of(*ran(1, "ann", (0, 1), ("gpu0",), JobState.PENDING, **more))) is state


_HOURS = st.floats(0, 10, width=16)


@settings(max_examples=50)
@given(st.lists(st.tuples(_HOURS, _HOURS, st.sampled_from(["gpu0", "gpu1"])), min_size=1, max_size=8))
def test_without_slowdown_saved_is_held_minus_the_time_that_devices_were_occupied(
    spans: list[tuple[float, float, str]],
) -> None:
    rows = [
        ran(number, "ann", (start, start + length), (device,), JobState.COMPLETED, actual={"slowdown": 1.0})
        for number, (start, length, device) in enumerate(spans, 1)
    ]
    occupied = 0.0
    for device in ("gpu0", "gpu1"):
        until = 0.0
        for start, length, _ in sorted(span for span in spans if span[2] == device):
            occupied += max(0.0, start + length - max(until, start))
            until = max(until, start + length)
    total, _ = usage(runs(rows), 0.0, [], 0.5)
    assert total.saved_hours == pytest.approx(total.held_hours - occupied, abs=1e-5)


# --- through the real command --------------------------------------------------------------------------------------


async def gpuq(endpoint: Endpoint, *words: str) -> Any:
    env = {"GPUQ_HOME": str(endpoint.settings.home.root), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
    return await asyncio.to_thread(forked.gpuq, *words, env=env, cwd=endpoint.settings.home.root, text=True)


@pytest.fixture
def recorded(endpoint: Endpoint) -> Endpoint:
    for job, attempt in week():
        endpoint.store.job_rows[job.id] = job
        endpoint.store.set_attempts(attempt)
    return endpoint


async def test_the_four_reports_as_tables(recorded: Endpoint) -> None:
    since = ("--days", "3660")
    done = await gpuq(recorded, "report", "use", "--by", "user", *since)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:4] == [
        ["USER", "REQUESTED", "HELD", "USED", "SAVED", "LOST"],
        ["ann", "10", "7", "2", "0.6", "2"],
        ["bob", "-", "3", "1.2", "0.25", "0"],
        ["all", "10", "10", "3.2", "0.85", "2"],
    ]
    assert "requested is unknown for 2 of 4 attempts: they are not in that sum." in done.stdout
    waste = (await gpuq(recorded, "report", "waste", *since)).stdout.splitlines()
    assert waste[1].split() == ["10", "4.8", "2", "0", "0", "0", "1"]
    energy = (await gpuq(recorded, "report", "energy", "--by", "week", "--price", "0.5", *since)).stdout
    assert [line.split() for line in energy.splitlines()[1:4]] == [
        ["2025-W47", "3", "0.5", "1.5"], ["2025-W48", "-", "-", "-"], ["all", "3", "0.5", "1.5"],
    ]  # fmt: skip
    sharing = (await gpuq(recorded, "report", "sharing", *since)).stdout.splitlines()
    assert sharing[1].split() == ["10", "4", "0.85", "1.15"]
    assert "Nothing has ended since" in (await gpuq(recorded, "report", "use", "--days", "1")).stdout


async def test_the_same_as_csv_json_and_a_page(recorded: Endpoint) -> None:
    recorded.store.job_rows[JobId(2)] = ran(2, "=cmd()", (2, 5), ("gpu0",), JobState.COMPLETED)[0]
    words = ("report", "use", "--by", "user,week", "--days", "3660")
    table = list(csv.DictReader(io.StringIO((await gpuq(recorded, *words, "--csv")).stdout)))
    assert [(line["user"], line["week"], line["held_hours"]) for line in table] == [
        ("ann", "2025-W47", "6.0"), ("'=cmd()", "2025-W47", "3.0"), ("ann", "2025-W48", "1.0"),
    ]  # fmt: skip
    assert table[1]["requested_hours"] == "", "unknown, and not 0"
    assert [report._cell(f"{sign}cmd()") for sign in "=+-@"] == ["'=cmd()", "'+cmd()", "'-cmd()", "'@cmd()"]
    assert (report._cell("ann-b"), report._cell(None)) == ("ann-b", "")
    plain = json.loads((await gpuq(recorded, *words, "--json")).stdout)
    assert plain["groups"][0]["saved_hours"] == pytest.approx(0.6)
    recorded.store.job_rows[JobId(2)] = ran(2, """<script>alert("it's")""", (2, 5), ("gpu0",), JobState.COMPLETED)[0]
    page = (await gpuq(recorded, *words, "--html")).stdout
    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;alert(&#34;it&#39;s&#34;)" in page
    assert "<script" not in page


async def test_a_user_sees_the_figures_of_the_own_jobs(recorded: Endpoint) -> None:
    _, found = await recorded.get("/api/v1/report/usage?days=3660&by=user&owner=bob")
    assert [group["user"] for group in found["groups"]] == ["bob"]
    assert found["groups"][0]["saved_hours"] == pytest.approx(0.25), "ann's attempts stay its partners"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("use", "--by", "host"), "--by `host` is no way to group"),
        (("use", "--days", "0"), "is not a whole number"),
        (("energy", "--price", "cheap"), "is not a price"),
        (("energy", "--price", "nan"), "is not a price"),
        (("use", "--csv", "--html"), "exclude each other"),
        (("shadow", "--by", "user"), "takes --days only"),
        (("costs",), "invalid choice"),
    ],
)
async def test_bad_input_is_refused_with_the_fix(endpoint: Endpoint, words: tuple[str, ...], sentence: str) -> None:
    done = await gpuq(endpoint, "report", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


async def test_the_api_names_the_parameter_that_is_wrong(endpoint: Endpoint) -> None:
    for query in ("by=host", "price=-1", "price=much"):
        status, problem = await endpoint.get(f"/api/v1/report/usage?{query}")
        assert (status, query.partition("=")[0] in problem["detail"]) == (422, True)
