"""Sizes, durations, slowdowns and ids as people write them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.cli.quantities import parse_begin, parse_duration, parse_moment, parse_ranges, parse_size, parse_slowdown
from gpuq.errors import BadInput

UNITS = {
    "K": 2**10,
    "KiB": 2**10,
    "KB": 10**3,
    "M": 2**20,
    "G": 2**30,
    "GiB": 2**30,
    "GB": 10**9,
    "T": 2**40,
    "Gi": 2**30,
}


@given(st.integers(1, 1000), st.sampled_from(sorted(UNITS)), st.booleans(), st.booleans())
def test_a_size_is_its_number_times_its_unit(number: int, unit: str, lower: bool, space: bool) -> None:
    text = f"{number}{' ' if space else ''}{unit.lower() if lower else unit}"
    assert parse_size(text) == number * UNITS[unit]


@given(st.integers(1, 2**50))
def test_a_size_round_trips_through_text(size: int) -> None:
    assert parse_size(f"{size}B") == size


@pytest.mark.parametrize(
    "text", ["", "10", "G", "-1G", "10X", "1e3G", "0G", "0.0M", "nan G", "10 G B", "9" * 400 + "G", "1,5G"]
)
def test_an_invalid_size_is_refused_with_a_fix(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_size(text)
    assert caught.value.fix


@given(st.integers(0, 300), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_slurms_clock_is_read_as_slurm_reads_it(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if total == 0:
        return
    assert parse_duration(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == total
    if hours or minutes or seconds:
        assert parse_duration(f"{hours}:{minutes:02}:{seconds:02}") == total - days * 86400
        assert parse_duration(f"{hours}h{minutes}m{seconds}s") == total - days * 86400


@given(st.integers(1, 10_000))
def test_a_lone_number_is_minutes(number: int) -> None:
    assert parse_duration(str(number)) == number * 60


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("2h30m", 9000),
        ("45s", 45),
        ("1d", 86400),
        ("10min", 600),
        ("1.5h", 5400),
        ("05:30", 330),
        ("1-12", 129_600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "h", "1:99", "1:2:3:4", "-5", "2x", "1h1h", "99999999999", "1" * 50, "0s", "30m2h"]
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_duration(text)


@given(st.integers(0, 400))
def test_percent_and_ratio_agree(percent: int) -> None:
    ratio = parse_slowdown(f"{percent}%")
    assert math.isclose(ratio, 1 + percent / 100)
    assert math.isclose(parse_slowdown(f"{ratio:.4f}"), ratio)


@given(st.floats(5.001, 1e6))
def test_a_bare_number_above_5_is_refused_as_a_percentage(number: float) -> None:
    with pytest.raises(BadInput, match="times as slow") as caught:
        parse_slowdown(f"{number:.3f}")
    assert "%" in caught.value.fix


@pytest.mark.parametrize("text", ["", "15 percent", "0.9", "0", "-10%", "401%", "1e1", "nan", "inf%"])
def test_an_invalid_slowdown_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_slowdown(text)


@given(st.text(max_size=30))
def test_no_text_raises_anything_but_bad_input(text: str) -> None:
    for parse in (parse_size, parse_duration, parse_slowdown):
        with suppress(BadInput):
            assert math.isfinite(parse(text))
    with suppress(BadInput):
        assert parse_ranges([text])


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("8h", 1000 + 8 * 3600),
        ("30", 1000 + 30 * 60),
        ("1-12:00:00", 1000 + 36 * 3600),
        ("1970-01-02T00:00:00Z", 86_400),
        ("1970-01-02T02:00:00+02:00", 86_400),
    ],
)
def test_moments_are_named_from_now_or_by_the_calendar(text: str, moment: float) -> None:
    assert parse_moment(text, now=1000) == moment


def test_a_moment_without_an_offset_is_local_time() -> None:
    at = parse_moment("2026-07-01T08:00", now=1.7e9)
    assert datetime.fromtimestamp(at).isoformat() == "2026-07-01T08:00:00"  # noqa: DTZ006 - local is what is meant


@pytest.mark.parametrize("text", ["", "soon", "1970-01-01", "2526-01-01", "08:61:00x", "1e400"])
def test_an_invalid_or_past_moment_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_moment(text, now=86_400)


@pytest.mark.parametrize("word", ["", "x", "4-", "-4", "5-4", "4.2", "٤", "9" * 30])
def test_an_invalid_id_is_refused(word: str) -> None:
    with pytest.raises(BadInput):
        parse_ranges([word])


EVENING = datetime(2026, 3, 1, 20, 30).astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("22:00", 1.5 * 3600),
        ("20:30", 24 * 3600),
        ("6:15:30", 9.75 * 3600 + 30),
        ("midnight", 3.5 * 3600),
        ("now", 0),
        ("now+90", 90),
        ("now+2hours", 7200),
        ("now+10min", 600),
        ("NOW+1day", 86400),
        ("8h", 8 * 3600),
    ],
)
def test_a_start_is_the_next_time_a_clock_shows_or_a_while_from_now(text: str, seconds: float) -> None:
    assert parse_begin(text, EVENING) == EVENING + seconds


def test_only_a_time_of_the_clock_counts_from_another_moment() -> None:
    later = EVENING + 12 * 3600
    assert parse_begin("6:00", EVENING, later) == EVENING + 33.5 * 3600
    assert parse_begin("now+1hour", EVENING, later) == EVENING + 3600


@pytest.mark.parametrize(
    "text", ["25:00", "now+3parsecs", "soon", "2020-01-01", "now+", "tomorrowish", "now+99999999hours"]
)
def test_a_start_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"unit|neither|passed|clock|ahead"):
        parse_begin(text, EVENING)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On 28 March 2027 clocks go from 2:00 to 3:00."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_a_time_that_no_clock_shows_is_refused() -> None:
    now = parse_moment("2027-03-27T12:00", now=1.7e9)
    for text in ("2027-03-28T02:30", "2027-03-28 02:00"):
        with pytest.raises(BadInput, match="does not exist"):
            parse_begin(text, now)
    assert parse_begin("2027-03-28T03:00", now) - parse_begin("2027-03-28T01:59", now) == 60
    assert parse_begin("2027-03-28T02:30:00+01:00", now) == parse_begin("2027-03-28T03:30", now)


@pytest.mark.usefixtures("berlin")
def test_a_time_of_the_clock_is_on_the_next_day_that_has_it() -> None:
    now = parse_moment("2027-03-27T12:00", now=1.7e9)
    assert parse_begin("2:30", now) == parse_moment("2027-03-29T02:30", now)
