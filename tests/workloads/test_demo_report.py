"""The demo's arithmetic, report and progress lines, on jobs with known numbers."""

import io

import pytest
from rich.console import Console

from tests.workloads.jobs import job, refused
from workloads.demo import report, screen

UNMEASURED = dict.fromkeys(("peak_utilization_pct", "peak_memory_bytes", "alone_rate", "shared_rate", "slowdown"))
ADMITTED = {
    "admitted": True,
    "rule": "Fits",
    "numbers": {"newcomer_pct": 54.6, "committed_pct": 68.0, "limit_pct": 115.0},
}
SHARED = [job(4, "shallow"), job(5, "deep", verdict=ADMITTED, started_at_unix=102.0)]


def text(lines):
    assert all(len(line) <= report.WIDTH for line in lines)
    return " ".join(" ".join(lines).split())


def test_two_that_do_not_slow_each_other_save_half():
    assert report.share_saved([1.0, 1.0]) == pytest.approx(0.5)
    assert report.share_saved([1.5, 1.5]) == pytest.approx(0.25)
    assert report.share_saved([3.0, 3.0]) == pytest.approx(-0.5)


def test_what_was_saved_is_not_known_without_both_slowdowns():
    assert report.share_saved([1.0, None]) is None
    assert report.share_saved([1.0]) is None


def test_overlap_counts_the_seconds_in_which_both_ran():
    one, other = job(1, started_at_unix=0, ended_at_unix=10), job(2, started_at_unix=7, ended_at_unix=20)
    assert report.overlap(one, other) == report.overlap(other, one) == 3
    assert report.overlap(one, job(3, started_at_unix=10, ended_at_unix=20)) == 0


def test_a_slowdown_counts_as_measured_only_with_its_interval():
    assert report.measured(job(4))
    assert not report.measured(job(4, actual={**job(4)["actual"], "slowdown_low": None}))
    assert not report.measured(job(4, actual=UNMEASURED))


def test_a_slowdown_without_an_interval_gives_way_to_one_with_it():
    otherwise = [
        {"value": 1.02, "low": None, "high": None, "basis": "kind"},
        {"value": 1.03, "low": 1.0, "high": 1.06, "basis": "beside foreign load"},
    ]
    mixed = job(4, actual={**job(4)["actual"], "slowdown_low": None, "slowdown_otherwise": otherwise})

    assert report.measured(mixed)
    said = text(report.shared([mixed, SHARED[1]]))
    assert "3.0% (95% interval 0.0 to 6.0%): 6.0 steps/s beside other processes" in said


def test_what_was_lost_is_in_percent_and_never_minus_nothing():
    assert [report.lost(value) for value in (1.0, 0.9999, 1.041, 0.95)] == ["0.0%", "0.0%", "4.1%", "-5.0%"]


def test_foreign_load_is_what_the_residents_do_not_explain():
    assert report.foreign_load(refused(5, committed=119.0)["verdict"], [job(4)]) == pytest.approx(119.0 - 54.6)
    assert report.foreign_load(refused(5, committed=50.0)["verdict"], [job(4)]) == 0
    assert report.foreign_load({"numbers": {}}, [job(4)]) is None
    assert report.foreign_load(refused(5)["verdict"], [job(4, forecast=None)]) is None


def test_the_report_says_who_shared_and_by_which_sum():
    said = text(report.shared(SHARED))
    assert "4 shallow with 5 deep, 28 s" in said
    assert (
        "admitted: 55% forecast (own history, 1 run) + 68% in use (13% of it other processes) = 123%, limit 115%"
        in said
    )
    assert "4 shallow with 5 deep on gpu7, 28 s" in text(report.shared(SHARED, on="gpu7"))


def test_the_report_says_what_each_lost_with_the_interval_and_what_was_saved():
    said = text(report.shared(SHARED))
    assert "5 deep 4.2% (95% interval -1.0 to 10.0%): 6.0 steps/s" in said
    assert "saved 48%: 28 s together did what takes 54 s one after the other" in said


def test_what_was_not_measured_is_a_dash_and_never_a_zero():
    blind = job(5, "deep", verdict=ADMITTED, actual=UNMEASURED)
    said = text(report.shared([job(4, "shallow"), blind]))
    assert f"5 deep {report.UNKNOWN}, not measured" in said
    assert "saved not known" in said
    assert text(report.first_runs([blind])) == "alone 5 deep uses – of the device and –"


def test_what_other_processes_did_to_a_measurement_is_said():
    disturbed = {
        **UNMEASURED,
        "held_back": 0.31,
        "disturbed_rate": 5.5,
        "utilization_is_bound": True,
        "peak_utilization_pct": 40.0,
    }
    blind = job(5, "deep", verdict=ADMITTED, actual=disturbed)
    foreign = {**job(4)["actual"], "slowdown_basis": "beside foreign load"}
    said = text(report.shared([job(4, actual=foreign), blind]))
    assert "6.0 steps/s beside other processes" in said
    assert "not measured: other processes took up to 31% of its time" in said
    assert text(report.first_runs([blind])) == "alone 5 deep uses at most 40% of the device and –, 5.5 steps/s"


def test_the_report_says_what_was_refused_and_the_sum():
    job_6 = refused(6, committed=106.0)
    job_6["verdict"]["numbers"] |= {"residents": "4 5", "foreign_pct": 50.0}
    assert text(report.refused(job_6)) == (
        "refused 6 words beside 4 and 5, by PredictedLoad: 50% forecast + 106% in use (50% of it other processes) = 156%, "
        "limit 100%"
    )


def test_a_refusal_without_a_sum_gives_its_sentence():
    verdict = {"admitted": False, "rule": "FirstRunExclusive", "numbers": {}, "sentence": "nothing is known of it"}
    said = text(report.refused(job(6, "wide", verdict=verdict)))
    assert said == "refused 6 wide by FirstRunExclusive: nothing is known of it"


def running(number, **changes):
    live = {"rate": 6.12, "utilization_pct": 53.0, "memory_bytes": 2**30, "steps": 9}
    return job(number, state="RUNNING", ended_at_unix=None, **{"live": live, **changes})


def test_a_line_says_how_fast_each_runs_and_by_which_sum_another_waits():
    waiting = {**refused(5), "ended_at_unix": None}
    assert screen.line([running(4), waiting]) == "4 images 6.1 steps/s 53%; 5 words waits (106% > 100%)"
    assert screen.line([job(4)]) == "all ended"


def test_off_a_terminal_a_line_is_printed_when_a_job_begins_or_ends_or_after_a_while():
    out, now = io.StringIO(), [0.0]
    shown = screen.Screen(Console(file=out, width=200), clock=lambda: now[0])
    with shown.board() as board:
        board.show([running(4)])
        board.show([running(4)])
        assert out.getvalue() == ""
        board.show([job(4)])
        assert len(out.getvalue().splitlines()) == 1
        now[0] = screen.LINE_EVERY_S + 1
        board.show([job(4)])
    assert len(out.getvalue().splitlines()) == 2
