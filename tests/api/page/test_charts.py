"""The charts of a job: what is drawn of its series."""

from __future__ import annotations

import re
import time

import msgspec
import pytest

from gpuq.api.page.charts import path
from gpuq.api.series import MOST, Point, SeriesWriter
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.messages.outcome import AttemptOutcome
from tests.api.conftest import Endpoint
from tests.api.support import GIB, afternoon


def test_a_curve_is_broken_where_nothing_was_measured() -> None:
    points = [(0.0, 0.0), (10.0, 50.0), (20.0, None), (30.0, 50.0), (90.0, 100.0), (100.0, 100.0)]
    assert path(points, (0.0, 100.0), 100.0) == "M0 1000h0L100 500L300 500M900 0h0L1000 0"


def test_points_outside_of_the_period_are_left_out() -> None:
    assert path([(-5.0, 1.0), (50.0, 1.0), (105.0, 1.0)], (0.0, 100.0), 1.0) == "M500 0h0"


@pytest.mark.parametrize("points", [[], [(1.0, None)]])
def test_nothing_known_draws_nothing(points: list[tuple[float, float | None]]) -> None:
    assert path(points, (0.0, 100.0), 1.0) == ""


def write_series(endpoint: Endpoint, count: int = 60) -> None:
    """What jobs 42 and 43 of the afternoon used, a point every ten seconds until now."""
    folder = endpoint.settings.home.series
    folder.mkdir(exist_ok=True)
    writer = SeriesWriter(folder)
    start = time.time() - 10 * count
    for number in range(count):
        at = start + 10 * number
        used = int((20 + number % 7) * GIB)
        writer.write(
            {
                (42, 1): Point(at, 50.0 + number % 9, used, 11.0 + number % 3, 410.0, (43,)),
                (43, 1): Point(at, 28.0, 19 * GIB, 4.2, 410.0, (42,)),
            }
        )


async def test_a_job_is_drawn_with_its_forecast_and_its_partners(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    write_series(endpoint)
    async with endpoint.socket.get("/jobs/42") as answer:
        html = await answer.text()
    for words in (
        "memory of #43",
        "forecast: 28.5 GiB, at most",
        "now 27.1 GiB",
        "predicted peak: 61%",
        "Power of its",
    ):
        assert words in html, words
    assert len(re.findall(r'<path class="series" d="M', html)) == 4


async def test_a_limit_far_above_what_was_used_does_not_press_the_curve_to_the_floor(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    job = AttemptId(JobId(37), 1)
    used = AttemptOutcome(peak_memory_bytes=9 * 2**20, peak_utilization_pct=58.0)
    endpoint.store.set_attempts(msgspec.structs.replace(endpoint.store.attempt_rows[job], actual=used))
    async with endpoint.socket.get("/jobs/37") as answer:
        html = await answer.text()
    assert '<b>Memory</b> peak 9 MiB<span class="top">0 to 10 MiB</span>' in html
    assert "limit: the memory it was promised: 32.7 GiB, above the chart" in html
    assert "forecast: 28.4 GiB, at most 32.7 GiB, above the chart" in html
    assert "<b>Utilisation</b> peak 58%" in html
    assert html.count('<line class="promise"') == 1, "that of the utilisation"
    assert html.count("othing was recorded over time") == 1


async def test_a_run_of_which_nothing_was_measured_has_no_empty_charts(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    row = endpoint.store.attempt_rows[AttemptId(JobId(37), 1)]
    endpoint.store.set_attempts(msgspec.structs.replace(row, actual=AttemptOutcome()))
    async with endpoint.socket.get("/jobs/37") as answer:
        html = await answer.text()
    assert "What it used" not in html
    assert "limit: the memory it was promised" not in html


async def test_a_long_run_is_drawn_with_few_points_and_a_short_one_without_any(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    write_series(endpoint, MOST)
    async with endpoint.socket.get("/jobs/42?attempt=1") as answer:
        html = await answer.text()
    assert html.count("L") < 4 * 400
    async with endpoint.socket.get("/jobs/37") as answer:
        assert "Nothing was recorded over time" in await answer.text()
