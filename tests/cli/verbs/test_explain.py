"""`gpuq explain`: why a job waits, or runs where it runs."""

from __future__ import annotations

import re
import time

import pytest

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi


def explanation(job_id: int, state: str, verdict: dict[str, object] | None, **more: object) -> dict[str, object]:
    output = {
        "id": job_id,
        "state": state,
        "sentence": "It waits.",
        "verdict": verdict,
        "position": None,
        "waiting": None,
    }
    return {**output, "device": None, "partners": [], "forecast": None, "attempts": [], **more}


def test_explain_says_why_no_partner_is_paused(gpuq: Command, api: FakeApi) -> None:
    why = "never so far, since job 43 beside it was not submitted with --blink"
    api.on("GET", "/api/v1/jobs/42/explanation", explanation(42, "RUNNING", None, blink=why))
    assert why in gpuq("explain", "42", COLUMNS="300").out


def test_explain_shows_a_loan(gpuq: Command, api: FakeApi) -> None:
    for cores, sentence in (
        ((2, 3), "2 idle cores of its host are lent to it."),
        ((2,), "1 idle core of its host is lent"),
    ):
        api.on("GET", "/api/v1/jobs/42/explanation", explanation(42, "RUNNING", None, lent_cores=cores))
        assert sentence in gpuq("explain", "42", COLUMNS="300").out


def test_explain_shows_the_sum_that_refuses(gpuq: Command, api: FakeApi) -> None:
    output = explanation(45, "PENDING", samples.OVERLOAD, position=2, waiting=3, forecast=samples.FORECAST)
    api.on("GET", "/api/v1/jobs/45/explanation", output)
    out = gpuq("explain", "45", COLUMNS="200").out
    assert out.startswith(
        "job 45 waits: position 2 of 3; 1 ahead; expected start: unknown, there is no estimate yet.\n"
        "When it was last looked at: PredictedLoad on cpu0: peak utilisation 54% + 53% = 107% > 100%, beside job 41.\n"
    )
    assert "9.0 GiB (at most 9.8 GiB)" in out
    assert gpuq("explain", "45", "--json").json == output


def test_the_first_in_line_reads_its_verdict_first(gpuq: Command, api: FakeApi) -> None:
    soon = {"p50_unix": time.time() + 3000.0, "p90_unix": time.time() + 8000.0}
    output = explanation(45, "PENDING", samples.OVERLOAD, position=1, waiting=3, expected_start=soon)
    api.on("GET", "/api/v1/jobs/45/explanation", output)
    out = gpuq("explain", "45", COLUMNS="200").out
    assert out.startswith("job 45 waits: PredictedLoad on cpu0: ")
    assert "It is the first of 3 waiting jobs; expected start: in about 50m, nine times in ten within 2h13m." in out


def test_a_job_far_behind_reads_its_position_first_at_80_columns(gpuq: Command, api: FakeApi) -> None:
    output = explanation(150, "PENDING", samples.OVERLOAD, position=134, waiting=172)
    api.on("GET", "/api/v1/jobs/150/explanation", output)
    assert gpuq("explain", "150").out.startswith(
        "job 150 waits: position 134 of 172; 133 ahead; expected start: unknown,"
    )


def test_the_budget_is_compared_with_the_expected_slowdown(gpuq: Command, api: FakeApi) -> None:
    """A bound of 32% beside a budget of 15% was read as a broken promise."""
    numbers = {**samples.FITS["numbers"], "expected_slowdown": 1.03, "upper_slowdown": 1.32}
    verdict = {**samples.FITS, "numbers": numbers}
    output = explanation(42, "RUNNING", verdict, device="box/cpu0", device_name="cpu0", partners=[43])
    api.on("GET", "/api/v1/jobs/42/explanation", output)
    out = gpuq("explain", "42", COLUMNS="400").out
    assert "slowdown 3% expected (at most 32%), and the budget for what is expected is 15%." in out
    beyond = {**numbers, "resident_slowdown": 1.02, "slowdown_evidence": "measured", "risk": 0.06}
    output["verdict"] = {**verdict, "rule": "KnownPair", "numbers": beyond}
    assert "partner's 2% (measured); the risk of more than that is 6.0%;" in gpuq("explain", "42", COLUMNS="400").out


def test_explain_says_why_it_runs_beside_another(gpuq: Command, api: FakeApi) -> None:
    output = explanation(42, "RUNNING", samples.FITS, device="box/cpu0", device_name="cpu0", partners=[43])
    api.on("GET", "/api/v1/jobs/42/explanation", output)
    out = gpuq("explain", "42", COLUMNS="300").out
    assert out.startswith(
        "job 42 runs on cpu0 beside 43 because it fitted beside job 43: peak utilisation 54% + 33% = 87% <= 100%"
    )
    assert "9.8 GiB + 6.0 GiB promised + 8.0 GiB kept free = 23.8 GiB <= 80.0 GiB" in out


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
        (
            "SlowdownRisk",
            False,
            {"beside": "41", "expected_slowdown": 1.05, "budget": 1.15, "risk": 0.25, "most_risk": 0.1},
            "the risk of more than that is 25%, and 10% is the most",
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
        ("Exclusive", False, {"compute_mode": "exclusive"}, "one process at a time"),
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
def test_every_rule_has_a_sentence(
    gpuq: Command, api: FakeApi, rule: str, admitted: bool, numbers: dict[str, object], expected: str
) -> None:
    verdict = {"admitted": admitted, "rule": rule, "device": "d", "numbers": numbers, "sentence": "the server's words"}
    state = "RUNNING" if admitted else "PENDING"
    api.on("GET", "/api/v1/jobs/45/explanation", explanation(45, state, verdict))
    assert expected in gpuq("explain", "45", COLUMNS="300").out


def test_explain_of_an_unknown_kind_has_no_empty_table(gpuq: Command, api: FakeApi) -> None:
    unknown = {**dict.fromkeys(samples.FORECAST), "evidence": "none"}
    for forecast in (None, unknown):
        output = explanation(45, "PENDING", samples.OVERLOAD, forecast=forecast)
        api.on("GET", "/api/v1/jobs/45/explanation", output)
        out = gpuq("explain", "45").out
        assert "none: nothing like it has run yet" in out
        assert "peak memory" not in out


def test_all_moments_of_one_screen_are_in_the_readers_zone(gpuq: Command, api: FakeApi) -> None:
    numbers = {"begin_at": 1_790_000_000.949}
    verdict = {**samples.OVERLOAD, "rule": "BeginTime", "device": None, "device_name": None, "numbers": numbers}
    newer = {**verdict, "rule": "OfTomorrow", "sentence": "Not before 2026-09-21T14:13:20.949Z."}
    for one in (verdict, newer):
        api.on("GET", "/api/v1/jobs/45/explanation", explanation(45, "PENDING", one))
        assert "before 2026-09-21 16:13:20.\n" in gpuq("explain", "45", COLUMNS="300", TZ="UTC-2").out


def test_explain_says_that_the_runs_of_a_job_used_no_device(gpuq: Command, api: FakeApi) -> None:
    forecast = {**samples.FORECAST, "peak_utilization_pct": 0.0}
    api.on("GET", "/api/v1/jobs/42/explanation", explanation(42, "PENDING", samples.OVERLOAD, forecast=forecast))
    assert "0%: its runs used none of a device" in gpuq("explain", "42").out


def test_explain_of_runs_that_showed_nothing_does_not_say_that_nothing_ran(gpuq: Command, api: FakeApi) -> None:
    forecast = {"evidence": "own history, 7 runs"}
    api.on("GET", "/api/v1/jobs/42/explanation", explanation(42, "PENDING", samples.OVERLOAD, forecast=forecast))
    out = gpuq("explain", "42").out
    assert "none: its needs are not measured (own history, 7 runs)" in out
    assert "nothing like it has run" not in out


def test_a_start_that_takes_long_is_said_with_what_may_hold_it_up(gpuq: Command, api: FakeApi) -> None:
    def out(ago_s: float) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago_s))
        attempts = [{"number": 1, "launched_at": at, "host": "node2"}]
        answer = explanation(42, "STARTING", None, device="cpu-0", attempts=attempts)
        api.on("GET", "/api/v1/jobs/42/explanation", answer)
        return str(gpuq("explain", "42", COLUMNS="400").out)

    assert "does not run yet" not in out(5)
    late = out(150)
    assert late.startswith("job 42 starts on cpu-0 alone")
    assert re.search(
        r"\nIt was to start on node2 2:3\d ago, and does not run yet: the host is away, or the job's", late
    )
    assert "`gpuq cancel 42` ends it." in late
