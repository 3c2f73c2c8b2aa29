"""Quantities as text: what each function writes, and that unknown is not zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq import format as fmt


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (42.9, "0:42"), (3723, "1:02:03"), (2 * 86400 + 61, "2-00:01:01")]
)
def test_duration_is_written_as_slurm_writes_it(seconds: float | None, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(12, "12s"), (2870, "48m"), (6000, "1h40m"), (51 * 3600, "2d3h")])
def test_about_rounds_an_estimate(seconds: float, text: str) -> None:
    assert fmt.about(seconds) == text


def test_an_expected_start_that_was_not_checked_promises_nothing() -> None:
    start = {"p50_unix": 2000.0, "p90_unix": 3000.0, "checked": False}
    assert fmt.expected_start(start, 1100.0) == "in about 15m, not yet checked against real starts"
    assert fmt.expected_start({**start, "checked": True}, 1100.0) == "in about 15m, nine times in ten within 32m"


def test_unknown_is_a_dash_and_not_a_zero() -> None:
    assert {fmt.gib(None), fmt.percent(None), fmt.slowdown(None), fmt.rate(None), fmt.local_time(None)} == {"-"}
    assert fmt.gib(0) == "0 MiB"


def test_gib_writes_small_memory_in_mib() -> None:
    assert fmt.gib(int(9.1 * 2**30)) == "9.1 GiB"
    assert fmt.gib(50 * 2**20) == "50 MiB"
    assert fmt.gib(141 * 2**30, "G") == "141G"


def test_slowdown_below_1_is_a_negative_percentage() -> None:
    assert fmt.slowdown(1.04) == "4%"
    assert fmt.slowdown(0.97) == "-3%"
    assert fmt.slowdown(0.999) == "0%"


@given(st.text())
def test_clean_leaves_no_control_character(name: str) -> None:
    assert fmt.clean(name).isprintable()


def test_clean_escapes_a_lone_surrogate() -> None:
    assert fmt.clean("a\udc80\x1b[2J") == "a\\udc80\\x1b[2J"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0s"), (0.00042, "0.42ms"), (0.0123, "12.3ms"), (0.85, "850ms"), (2.5, "2.5s"), (42, "42s"),
        (99.4, "99s"), (600, "10m"), (720, "12m"), (5940, "99m"), (7260, "2h01"), (12000, "3h20"), (47 * 3600, "47h00"),
        (49 * 3600, "2d01h"), (52 * 3600, "2d04h"), (200 * 86400, "200d"),
    ],
)  # fmt: skip
def test_two_places(seconds: float | None, text: str) -> None:
    assert fmt.two_places(seconds) == text


def test_rfc3339_is_utc_to_the_millisecond_and_when_reads_it_back() -> None:
    assert fmt.rfc3339(1_764_000_000.1234) == "2025-11-24T16:00:00.123Z"
    assert fmt.when(fmt.rfc3339(1_764_000_000.125)) == 1_764_000_000.125
    assert fmt.rfc3339_or_none(None) is None
    assert fmt.when("yesterday") is None


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (0, "0%"), (0.004, "0.4%"), (0.5, "50%"), (-0.02, "-2.0%")])
def test_share(value: float | None, text: str) -> None:
    assert fmt.share(value) == text


def test_count_hours_and_ratio() -> None:
    assert (fmt.count(None), fmt.count(1234.0), fmt.count(0.5), fmt.count(0)) == ("-", "1,234", "0.5", "0")
    assert (fmt.hours(1234), fmt.hours(0.75), fmt.hours(None)) == ("1,234", "0.75", "-")
    assert (fmt.hours(0.000605), fmt.hours(-0.000605), fmt.hours(0.0)) == ("<0.01", ">-0.01", "0")
    assert (fmt.ratio(1.25), fmt.ratio(1234.5), fmt.ratio(None)) == ("1.25", "1,234", "-")
