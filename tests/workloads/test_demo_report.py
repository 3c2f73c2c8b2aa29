"""The demo's arithmetic and tables, on jobs with known numbers."""

import io

import pytest
from rich.console import Console

from tests.workloads.jobs import DEVICE, GIB, job, refused
from workloads.demo import report, screen

UNMEASURED = dict.fromkeys(("peak_utilization_pct", "peak_memory_bytes", "alone_rate", "shared_rate", "slowdown"))


def drawn(renderable: object) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(renderable)
    return out.getvalue()


def test_packing_saving_is_one_less_time_together_over_times_alone():
    alone = [job(1, started_at_unix=0, ended_at_unix=30), job(2, started_at_unix=30, ended_at_unix=50)]
    together = [job(3, started_at_unix=100, ended_at_unix=132), job(4, started_at_unix=102, ended_at_unix=125)]
    assert report.packing_saving(together, alone) == pytest.approx(1 - 32 / 50)


def test_the_saving_is_negative_when_together_took_longer():
    alone = [job(1, started_at_unix=0, ended_at_unix=10)]
    assert report.packing_saving([job(2, started_at_unix=0, ended_at_unix=12)], alone) == pytest.approx(-0.2)


def test_overlap_counts_the_seconds_in_which_both_ran():
    one, other = job(1, started_at_unix=0, ended_at_unix=10), job(2, started_at_unix=7, ended_at_unix=20)
    assert report.overlap(one, other) == report.overlap(other, one) == 3
    assert report.overlap(one, job(3, started_at_unix=10, ended_at_unix=20)) == 0


def test_the_table_shows_forecast_beside_measured_with_the_interval():
    text = drawn(report.comparison([job(4)], [job(1)]))
    assert "55%" in text
    assert "53%" in text
    assert "1.04 [0.99, 1.10]" in text
    assert "slowdown beside 7" in text
    assert "1.00 GiB (≤ 1.25 GiB)" in text
    assert "6.2 alone" in text
    assert "6.0 shared" in text


def test_what_was_not_measured_is_a_dash_and_never_a_zero():
    text = drawn(report.comparison([job(4, forecast=None, actual={**UNMEASURED, "partners": []})], []))
    assert report.UNKNOWN in text
    assert "0" not in text.replace("40", "")


def test_the_learned_table_fits_80_columns_on_one_line_each():
    cluster = {
        "peak_utilization_pct": 50.0,
        "peak_memory_bytes": 2 * GIB,
        "evidence": "cluster of 2 kinds, nearest x:/a b",
    }
    rows = [("batch 128:", "before training", None), ("never run", "after", {**cluster, "model_version": "v1"})]
    lines = [line for line in drawn(report.learned(rows)).splitlines() if line.strip()]
    assert len(lines) == 5
    assert "cluster of 2 kinds" in lines[-1]


def test_a_forecast_has_changed_only_if_its_numbers_have():
    known = job(1)["forecast"]
    assert not report.changed(known, {**known, "model_version": "v0002"})
    assert report.changed(None, known)
    assert report.changed(known, {**known, "upper_memory_bytes": 5})


def test_foreign_load_is_what_the_residents_do_not_explain():
    assert report.foreign_load(refused(5, committed=119.0), [job(4)]) == pytest.approx(119.0 - 54.6)
    assert report.foreign_load(refused(5, committed=50.0), [job(4)]) == 0
    assert report.foreign_load(None, [job(4)]) == 0


def test_a_line_tells_who_runs_beside_whom_and_why_another_waits():
    running = job(4, state="RUNNING", partners=[6], live={"rate": 6.12, "utilization_pct": 53.0, "memory_bytes": GIB})
    text = screen.line([running, refused(5)], [DEVICE], 93.2)
    assert text == (
        "[  93 s] vm/cpu0: 81% busy, 1.00 GiB of 20.00 GiB | 4 images running beside 6 6.1 steps/s 53% "
        "| 5 words waits (PredictedLoad: 106% > 100%)"
    )


def test_the_live_table_shows_the_same():
    running = job(4, state="RUNNING", partners=[6], live={"rate": 6.12, "utilization_pct": None, "memory_bytes": GIB})
    text = drawn(screen.table([running, refused(5)], [DEVICE]))
    assert "4 images" in text
    assert "PredictedLoad" in text


def test_off_a_terminal_a_line_is_printed_when_a_state_changes_and_not_before():
    out = io.StringIO()
    shown = screen.Screen(Console(file=out, width=200))
    with shown.board() as board:
        board.show([job(4, state="RUNNING")], [DEVICE])
        board.show([job(4, state="RUNNING")], [DEVICE])
        board.show([job(4, state="COMPLETED")], [DEVICE])
    assert len(out.getvalue().splitlines()) == 2
