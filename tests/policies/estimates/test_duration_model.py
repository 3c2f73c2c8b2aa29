"""Worlds of durations: wide where nothing was seen, narrow where it was, and never shorter for what has run longer."""

from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.state.job import KindId
from gpuq.policies.estimates.duration_model import Aged, Asked, Lasting
from gpuq.policies.estimates.waiting import Duration, quantile

STRANGE, OTHER = Asked(KindId("strange"), None), Asked(KindId("other"), None)
KNOWN = Asked(KindId("known"), Duration(600.0, 900.0))
HOUR, WORLDS = 3600.0, 200


def medians(lasting: Lasting, asked: Asked, *running: Aged) -> list[float]:
    """Of what is asked, in each world."""
    return [world[asked].p50_s for world in lasting.worlds(running, [asked], WORLDS, Random(1))]


def test_of_a_strange_kind_at_a_new_site_only_the_magnitude_is_guessed() -> None:
    drawn = medians(Lasting(), STRANGE)
    assert 600 < median(drawn) < 6 * HOUR
    assert quantile(drawn, 0.9) > 10 * median(drawn)
    assert max(drawn) <= 30 * 24 * HOUR * 1.001


def test_what_is_foretold_is_nearly_believed() -> None:
    drawn = medians(Lasting(), KNOWN)
    assert median(drawn) == pytest.approx(600, rel=0.2)
    assert quantile(drawn, 0.9) < 10 * 600


def test_what_ended_of_a_kind_says_how_long_it_lasts() -> None:
    lasting = Lasting()
    for _ in range(20):
        lasting.ended(STRANGE, 5 * HOUR)
    drawn = medians(lasting, STRANGE)
    assert quantile(drawn, 0.1) == pytest.approx(5 * HOUR, rel=0.3)
    assert quantile(drawn, 0.9) == pytest.approx(5 * HOUR, rel=0.3)


def test_a_site_of_short_kinds_makes_strange_ones_shorter() -> None:
    lasting = Lasting()
    for number in range(30):
        lasting.ended(Asked(KindId(f"short {number}"), None), 20.0)
    assert median(medians(lasting, STRANGE)) < 120


def test_kinds_that_still_run_say_that_the_site_is_not_all_short() -> None:
    short, both = Lasting(), Lasting()
    for lasting in (short, both):
        for number in range(5):
            lasting.ended(Asked(KindId(f"short {number}"), None), 20.0)
    running = [Aged(Asked(KindId(f"long {number}"), None), 50 * HOUR) for number in range(5)]
    assert median(medians(both, STRANGE, *running)) > median(medians(short, STRANGE))


def test_who_runs_tells_of_its_like_and_of_no_others() -> None:
    old = [Aged(KNOWN, 10 * HOUR)] * 3
    assert quantile(medians(Lasting(), KNOWN, *old), 0.1) > 5 * HOUR
    other = Asked(KindId("other"), KNOWN.foretold)
    assert medians(Lasting(), other, *old)[0] < HOUR


def test_forecasts_that_were_far_off_are_believed_less() -> None:
    good, bad = Lasting(), Lasting()
    for number in range(20):
        asked = Asked(KindId(f"kind {number}"), Duration(600.0, 900.0))
        good.ended(asked, 610.0)
        bad.ended(asked, 600.0 * (20 if number % 2 else 1 / 20))
    assert quantile(medians(bad, KNOWN), 0.9) > 2 * quantile(medians(good, KNOWN), 0.9)


def test_all_that_runs_is_in_each_world_with_one_duration_for_a_kind() -> None:
    twice = Asked(KNOWN.kind, Duration(1200.0, 1800.0))
    for world in Lasting().worlds([Aged(KNOWN, 10.0)], [twice, OTHER], 5, Random(2)):
        assert world[twice].p50_s == pytest.approx(2 * world[KNOWN].p50_s)
        assert world[OTHER].p50_s <= world[OTHER].p90_s


@given(st.floats(1.0, 1e6), st.floats(1.1, 10.0), st.integers(0, 99))
def test_who_has_run_longer_will_not_have_lasted_shorter(age: float, older: float, seed: int) -> None:
    def drawn(elapsed_s: float) -> list[float]:
        return [world[KNOWN].p50_s for world in Lasting().worlds([Aged(KNOWN, elapsed_s)], [], 50, Random(seed))]

    assert all(one >= other for one, other in zip(drawn(age * older), drawn(age), strict=True))


def test_the_same_chance_gives_the_same_worlds() -> None:
    asked = [STRANGE, OTHER, KNOWN]
    assert Lasting().worlds([], asked, 5, Random(3)) == Lasting().worlds([], asked, 5, Random(3))
