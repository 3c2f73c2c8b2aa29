"""The risk of pairs: what admission gets wrong stays below the risk that was set, and a shift is followed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from gpuq.core.state.forecast import BUDGETS
from gpuq.learn.interference.risk import (
    ENOUGH,
    LEVELS,
    Adaptation,
    LeftOutPairs,
    Meeting,
    RiskCalibration,
    calibration,
    law_calibration,
    measured_risks,
    risks,
    scaled,
    strictest,
    with_law,
)

AT = BUDGETS.index(1.15)
UNKNOWN = np.array([math.nan])
KNOWN = frozenset(("a", "b"))
NOT = RiskCalibration()


def pairs(count: int, seed: int, noise: float = 0.06) -> tuple[np.ndarray, np.ndarray]:
    """Logs of the worse slowdown of so many pairs, expected and measured."""
    chance = np.random.default_rng(seed)
    expected = chance.gamma(1.2, 0.12, count)
    return expected, expected + chance.normal(0, noise, count)


def calibrate(
    expected: Sequence[float], measured: Sequence[float], units: list[set[str]] | None = None
) -> RiskCalibration:
    return calibration(LeftOutPairs.of(expected, measured, units))


def calibrate_law(
    expected: Sequence[float], measured: Sequence[float], units: list[set[str]] | None = None
) -> RiskCalibration:
    return law_calibration(LeftOutPairs.of(expected, measured, units))


def risk_of(
    expected: float, law: float | None = None, calibrated: RiskCalibration = NOT, of_law: RiskCalibration = NOT
) -> float:
    by_law = UNKNOWN if law is None else np.array([law])
    return risks(calibrated, of_law, np.array([expected]), by_law)[0][AT]


@pytest.mark.parametrize("target", [0.1, 0.2])
def test_admitted_pairs_exceed_their_budget_at_most_as_often_as_the_risk_says(target):
    wrong = admitted = 0
    for seed in range(20):
        calibrated = calibrate(*pairs(200, seed))
        expected, measured = pairs(200, 1000 + seed)
        low = np.array([of[AT] <= target for of in risks(calibrated, NOT, expected, np.full(200, math.nan))])
        admitted += int(low.sum())
        wrong += int((measured[low] > math.log(1.15)).sum())

    assert wrong <= target * admitted
    assert admitted > 20 * 200 * 0.2, "and it is no empty promise"


def test_pairs_of_models_that_err_alike_show_less_than_as_many_independent_ones():
    def admitted_of_new_models(units: bool) -> list[float]:
        """The share of the admitted pairs of new models that exceed their budget, of each table that admits any."""
        found = []
        for seed in range(40):
            chance = np.random.default_rng(seed)
            expected, measured = (part.reshape(14, -1) for part in pairs(14 * 50, seed))
            new, new_measured = (part.reshape(200, -1) for part in pairs(200 * 20, 1000 + seed))
            measured, new_measured = (of + chance.normal(0, 0.04, (len(of), 1)) for of in (measured, new_measured))
            models = [{str(model)} for model in range(14) for _ in range(50)]
            calibrated = calibrate(expected.ravel(), measured.ravel(), models if units else None)
            low = new.ravel() <= calibrated.shown[AT][LEVELS.index(0.1)]
            if low.any():
                found.append(float((new_measured.ravel()[low] > math.log(1.15)).mean()))
        return found

    alike, counted_apart = admitted_of_new_models(True), admitted_of_new_models(False)
    assert np.mean([share > 0.1 for share in alike]) < 0.6 * np.mean([share > 0.1 for share in counted_apart])
    assert np.mean(alike) <= 0.1


def test_models_that_do_not_differ_count_as_independent_pairs():
    expected, measured = pairs(300, 4)
    models = [{str(place % 30)} for place in range(300)]
    apart, alike = (calibrate(expected, measured, units).shown[AT] for units in (None, models))

    assert alike == pytest.approx(apart, abs=0.02)


@pytest.mark.parametrize("good_first", [True, False])
def test_pairs_that_are_expected_to_be_slowed_equally_are_admitted_together_or_not_at_all(good_first):
    """Utilisations are whole percents, so many pairs share one expected slowdown. Half of these exceed their budget."""
    same = math.log(1.09)
    measured = [math.log(1.05)] * 30 + [math.log(1.6)] * 30
    calibrated = calibrate([same] * 60, measured if good_first else measured[::-1])

    assert risk_of(same, calibrated=calibrated) >= 0.5


def test_a_pair_at_a_threshold_is_admitted_whatever_its_seventh_decimal():
    light, heavy = np.full(60, 0.0600004), np.full(60, 0.12)
    calibrated = calibrate(np.concatenate([light, heavy]), np.concatenate([light, heavy + 0.1]))

    assert risk_of(0.0600004, calibrated=calibrated) == risk_of(0.0599996, calibrated=calibrated) <= 0.1


def test_the_lightest_pairs_are_refused_too_where_they_exceeded_their_budget():
    """By the law, and by what was learned where it follows the law, two jobs of 25% in all are slowed by nothing."""
    lightest = [0.0] * 60

    assert risk_of(0.0, law=0.0, of_law=calibrate_law(lightest, [0.3] * 60)) > 0.5
    assert risk_of(0.0, calibrated=calibrate(lightest, [0.3] * 60)) > 0.5
    assert risk_of(0.0, law=0.0, of_law=calibrate_law(lightest, lightest)) <= 0.1
    assert risk_of(0.0, calibrated=calibrate(lightest, lightest)) <= 0.1


def test_forecasts_that_are_no_good_admit_nothing():
    expected, measured = pairs(300, 0, noise=0.001)
    calibrated = calibrate(expected, np.random.default_rng(1).permutation(measured))

    assert min(of[AT] for of in risks(calibrated, NOT, expected, np.full(300, math.nan))) > 0.1


def test_a_pair_expected_beyond_the_budget_is_never_admitted():
    calibrated = calibrate(np.linspace(0.001, 0.3, 300), np.zeros(300))

    assert risk_of(math.log(1.14), calibrated=calibrated) <= 0.05
    assert risk_of(math.log(1.16), calibrated=calibrated) == 1


def test_the_risk_rises_with_what_is_expected_and_falls_with_the_budget():
    calibrated = calibrate(*pairs(400, 3))
    found = risks(calibrated, NOT, np.linspace(0.001, 0.5, 50), np.full(50, math.nan))

    assert found == sorted(found)
    assert all(list(of) == sorted(of, reverse=True) for of in found)


def test_without_calibration_half_of_the_budget_may_be_used_up_by_the_law_and_all_of_it_by_what_was_learned():
    budget = math.log(1.15)

    assert risk_of(0.99 * budget, law=0.49 * budget) == 0.1
    assert risk_of(0.1 * budget, law=0.6 * budget) > 0.1
    assert risk_of(1.1 * budget, law=0.1 * budget) > 0.1
    assert risk_of(0.49 * budget) == 0.1
    assert risk_of(0.6 * budget) > 0.1


def test_a_budget_with_too_few_pairs_takes_the_distance_that_others_need():
    light, heavy = np.full(ENOUGH - 1, 0.02), np.linspace(0.2, 0.5, 200)
    calibrated = calibrate(np.concatenate([light, heavy]), np.concatenate([light, heavy]))

    assert not calibrated.shown[AT]
    assert calibrated.shown[BUDGETS.index(1.5)]
    assert risk_of(0.07, law=0.1, calibrated=calibrated) <= 0.1, "which the law alone would refuse"


def test_the_law_is_trusted_as_far_as_it_proved_right():
    sums = np.linspace(0.0, 0.2, 200)
    right, wrong = calibrate_law(sums, sums), calibrate_law(sums, sums + 0.1)

    assert risk_of(0.1, law=0.13, of_law=right) <= 0.05
    assert risk_of(0.1, law=0.06, of_law=wrong) > 0.1 >= risk_of(0.1, law=0.03, of_law=wrong)
    assert risk_of(0.15, law=0.03, of_law=right) > 0.1, "it is expected to exceed its budget"


def test_where_forecasts_are_poor_the_law_counts_in_their_place():
    sums = np.linspace(0.0, 0.2, 200)
    expected = np.random.default_rng(0).permutation(sums)
    measured = np.where(sums > 0.13, 0.3, 0.0)
    poor, of_law = calibrate(expected, measured), calibrate_law(sums, measured)
    together = with_law(poor, of_law, LeftOutPairs.of(expected, measured, law=sums))

    assert risk_of(0.1, law=0.12, calibrated=poor, of_law=of_law) > 0.1
    assert risk_of(0.1, law=0.12, calibrated=together, of_law=of_law) <= 0.1, "or a new kind would never be measured"
    assert risk_of(0.15, law=0.12, calibrated=together, of_law=of_law) > 0.1, "it is expected to exceed its budget"
    assert risk_of(0.001, calibrated=together, of_law=of_law) > 0.1, "and forecasts admit nothing"


def test_where_the_law_is_poor_forecasts_count_alone():
    expected = np.linspace(0.0, 0.2, 200)
    sums = np.random.default_rng(0).permutation(expected)
    good, of_law = calibrate(expected, expected), calibrate_law(sums, expected)
    together = with_law(good, of_law, LeftOutPairs.of(expected, expected, law=sums))

    assert together.shown == good.shown
    assert risk_of(0.12, law=0.0, calibrated=together, of_law=of_law) <= 0.1


def test_where_forecasts_and_the_law_know_different_pairs_either_counts_at_half_of_the_risk():
    """Of the first 300 pairs forecasts say that they are not slowed, of the others the law does; of the rest neither does."""
    kept, lost = np.zeros(600), np.full(100, 0.3)
    expected = np.concatenate([np.full(300, 0.01), np.full(400, 0.12)])
    sums = np.concatenate([np.full(300, 0.3), np.full(300, 0.01), np.full(100, 0.3)])
    measured = np.concatenate([kept, lost])
    together = with_law(
        calibrate(expected, measured), calibrate_law(sums, measured), LeftOutPairs.of(expected, measured, law=sums)
    )

    assert risk_of(0.01, law=0.3, calibrated=together) <= 0.1
    assert risk_of(0.12, law=0.01, calibrated=together) <= 0.1
    assert risk_of(0.12, law=0.3, calibrated=together) > 0.1
    assert risk_of(0.01, law=0.3, calibrated=together) == 2 * risk_of(0.01, calibrated=calibrate(expected, measured))


def test_the_first_pairs_that_keep_their_budget_make_the_law_no_stricter_than_none():
    light = np.full(ENOUGH + 2, 0.01)

    assert risk_of(0.05, law=0.03) == risk_of(0.05, law=0.03, of_law=calibrate_law(light, light)) == 0.05
    assert risk_of(0.05, law=0.03, of_law=calibrate(light, light)) > 0.05, "without what is assumed"
    assert risk_of(0.05, law=0.03, of_law=calibrate_law(light, light + 0.2)) > 0.1


def test_of_two_calibrations_the_stricter_counts():
    good, bad = calibrate(*pairs(300, 0, noise=0.01)), calibrate(*pairs(300, 0, noise=0.1))
    found = strictest([good, bad])

    assert strictest([good]) == good
    assert found.shown[AT] == tuple(map(min, zip(good.shown[AT], bad.shown[AT], strict=True)))


def test_what_is_shown_of_kinds_alone_is_not_shown_of_a_new_model():
    """Seven batch sizes of each of two models: what is left out of one model says nothing of a third."""
    expected, measured = pairs(300, 0, noise=0.01)
    kinds = calibrate(expected, measured, [{str(place % 14)} for place in range(300)])
    models = calibrate(expected, measured, [{str(place % 2)} for place in range(300)])
    found = strictest([kinds, models])

    assert kinds.shown[AT]
    assert not any(found.shown)
    assert risk_of(0.05, law=0.1, calibrated=kinds) <= 0.1 < risk_of(0.05, law=0.1, calibrated=found)
    assert risk_of(0.05, law=0.05, calibrated=found) <= 0.1, "the load rule, with what is assumed of it"
    assert risk_of(0.05, law=0.05, calibrated=found, of_law=calibrate_law([0.05] * 40, [0.2] * 40)) > 0.1, (
        "unless refuted"
    )


def test_few_pairs_that_exceeded_a_budget_count_against_what_is_assumed_of_it():
    """Fewer than can show a risk of 10% at 1.15, while heavier pairs show that forecasts are right at 1.5."""
    heavy, light = np.linspace(0.2, 0.5, 200), np.full(10, 0.07)
    kept, half_exceeded = (np.concatenate([light + [0, more] * 5, heavy]) for more in (0.0, 0.2))
    expected = np.concatenate([light, heavy])

    assert risk_of(0.07, law=0.1, calibrated=calibrate(expected, kept)) <= 0.1
    assert risk_of(0.07, law=0.1, calibrated=calibrate(expected, half_exceeded)) > 0.1


def test_the_first_pairs_that_exceed_their_budget_count_against_the_load_rule():
    sums = np.full(12, 0.03)

    assert risk_of(0.1, law=0.03, of_law=calibrate_law(sums, sums)) <= 0.1
    assert risk_of(0.1, law=0.03, of_law=calibrate_law(sums, sums + [0, 0.2] * 6)) > 0.1


def test_what_is_assumed_of_the_load_rule_ends_for_light_pairs_too_where_heavier_ones_refute_it():
    """A sum of 100% is right in one of three cases, so why should half of the load be right in nine of ten?"""
    sums, exceeded = [0.002] * 7 + [0.05] * 60, [0.0] * 7 + [0.3, 0.3, 0.0] * 20

    assert risk_of(0.1, law=0.002, of_law=calibrate_law(sums[:7], exceeded[:7])) <= 0.1
    assert risk_of(0.1, law=0.002, of_law=calibrate_law(sums, exceeded)) > 0.1
    assert risk_of(0.1, law=0.002, of_law=calibrate_law([0.002] * 23 + sums, [0.0] * 23 + exceeded)) <= 0.1, (
        "unless they show it themselves"
    )


def test_a_calibration_of_before_few_pairs_counted_is_read():
    found = calibrate_law(np.linspace(0.0, 0.2, 200), np.linspace(0.0, 0.2, 200))

    assert risk_of(0.1, law=0.06, of_law=RiskCalibration(found.shown)) == risk_of(0.1, law=0.06, of_law=found)


def test_without_utilisations_nothing_is_assumed_of_a_pair_once_others_were_measured():
    assert risk_of(0.05) <= 0.1
    assert risk_of(0.05, calibrated=calibrate([0.05] * 12, [0.05] * 12)) > 0.1
    assert risk_of(0.05, calibrated=calibrate([0.05] * 24, [0.05] * 24)) <= 0.1


def test_more_measurements_of_a_pair_make_its_risk_clearer():
    assert measured_risks(1.1, 0.04, 5)[AT] > measured_risks(1.1, 0.01, 5)[AT]
    assert measured_risks(1.1, 0.04, 5)[AT] > measured_risks(1.1, 0.04, 50)[AT], (
        "the less is known of their spread, the less sure"
    )
    assert measured_risks(1.2, 0.01, 5)[AT] == 1
    assert set(measured_risks(1.1, 0.04, 5)) <= set(LEVELS)


def exceeded(risk: float, adapted: Adaptation, rounds: int, chance: np.random.Generator, shift: float) -> float:
    """The share of admitted pairs that exceed, if a pair of stated risk r exceeds with probability r times `shift`. For each that
    is asked about, a known pair shares again."""
    wrong = admitted = 0
    for stated in chance.choice([level for level in LEVELS if level <= 0.2], rounds):
        adapted.add("place", None, Meeting(KNOWN, False, risk, first=False))
        if scaled((float(stated),), adapted.factor("place", None, calibrated=True))[0] > risk:
            continue
        is_wrong = bool(chance.random() < stated * shift)
        # One of the two directions exceeds, the other does not.
        pair = frozenset((f"pair {chance.integers(2**40)}", "of kinds"))
        adapted.add("place", None, Meeting(pair, is_wrong, risk))
        adapted.add("place", None, Meeting(pair, False, risk))
        admitted += 1
        wrong += is_wrong
    return wrong / admitted


def test_after_a_shift_risks_are_raised_until_the_promise_holds_again_and_fall_back_later():
    chance, adapted = np.random.default_rng(0), Adaptation()
    exceeded(0.1, adapted, 300, chance, shift=1)
    assert adapted.factor("place", None, calibrated=True) < 1.5

    exceeded(0.1, adapted, 100, chance, shift=6)
    assert exceeded(0.1, adapted, 800, chance, shift=6) <= 0.12
    assert adapted.factor("place", None, calibrated=True) > 1.5

    exceeded(0.1, adapted, 600, chance, shift=0.5)
    assert adapted.factor("place", None, calibrated=True) < 1


def test_what_happened_under_another_model_or_elsewhere_counts_for_nothing():
    adapted = Adaptation()
    adapted.add("here", "1", Meeting(KNOWN, True, 0.1))

    assert adapted.factor("here", "1", calibrated=True) > 1
    assert adapted.factor("here", "2", calibrated=True) == adapted.factor("there", "1", calibrated=True) == 1


def test_a_new_model_that_was_not_calibrated_goes_on_where_the_last_one_was():
    adapted = Adaptation()
    adapted.add("here", "1", Meeting(KNOWN, True, 0.1))

    assert adapted.factor("here", "2", calibrated=False) == adapted.factor("here", "1", calibrated=True)


def test_a_pair_that_slows_two_owners_counts_for_all_whichever_of_them_ends_first() -> None:
    """Eve's jobs end first, and her share of what stops all is used up. The others were slowed all the same."""
    adapted = Adaptation()
    for number, other in enumerate(("bob", "dan", "fay", "gil") * 3):
        pair = frozenset((f"eve {number}", f"{other} {number}"))
        for owner in ("eve", other):
            adapted.add("here", "1", Meeting(pair, True, 0.1, owner=owner))
    assert 0.01 * adapted.factor("here", "1", calibrated=True, owners=["ann"]) > 0.1


def test_one_owners_pairs_do_not_stop_the_sharing_of_all_others():
    adapted = Adaptation()
    adapted.add("here", "1", Meeting(frozenset(("ann's", "b")), False, 0.1, owner="ann"))
    for place in range(20):
        adapted.add("here", "1", Meeting(frozenset((f"eve {place}", "b")), True, 0.1, owner="eve"))

    assert 0.03 * adapted.factor("here", "1", calibrated=True, owners=["ann"]) <= 0.1
    assert 0.01 * adapted.factor("here", "1", calibrated=True, owners=["ann", "eve"]) > 0.1, (
        "whose own pairs are stopped"
    )

    for owner in ("bob", "dan", "fay", "gil"):
        for place in range(3):
            adapted.add("here", "1", Meeting(frozenset((f"{owner} {place}", "b")), True, 0.1, owner=owner))
    assert 0.01 * adapted.factor("here", "1", calibrated=True, owners=["ann"]) > 0.1, (
        "where many owners' pairs go wrong, all are"
    )


def test_known_pairs_that_keep_their_budgets_pay_for_new_ones():
    adapted = Adaptation()
    for place in range(8):
        adapted.add("here", None, Meeting(frozenset((f"bad {place}", "b")), True, 0.1))
    assert 0.01 * adapted.factor("here", None, calibrated=True) > 0.1

    for _ in range(1000):
        adapted.add("here", None, Meeting(KNOWN, False, 0.1, first=False))
    assert 0.01 * adapted.factor("here", None, calibrated=True) <= 0.1, "the surest are tried again, and no others"
    assert 0.02 * adapted.factor("here", None, calibrated=True) > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_where_even_the_surest_pairs_exceed_their_budgets_admission_stops(seed):
    chance, adapted, wrong = np.random.default_rng(seed), Adaptation(), 0
    for place, stated in enumerate(chance.choice(LEVELS, 2000)):
        if scaled((float(stated),), adapted.factor("place", None, calibrated=True))[0] <= 0.1:
            for _ in ("one", "the other"):
                adapted.add("place", None, Meeting(frozenset((f"bad {place}", "b")), True, 0.1))
            wrong += 1

    assert wrong <= 7


def test_pairs_beyond_their_budgets_by_less_than_a_measurement_shows_do_not_stop_the_surest():
    adapted = Adaptation()
    for place in range(50):
        adapted.add("here", None, Meeting(frozenset((f"near {place}", "b")), True, 0.1, shown=False))

    assert (
        0.01 * adapted.factor("here", None, calibrated=True)
        <= 0.1
        < 0.02 * adapted.factor("here", None, calibrated=True)
    )


def test_a_pair_that_is_wrong_in_both_directions_is_one_wrong_pair():
    once, twice = Adaptation(), Adaptation()
    for adapted, directions in ((once, (True, False)), (twice, (True, True))):
        for exceeds in directions:
            adapted.add("here", None, Meeting(KNOWN, exceeds, 0.1))

    assert once.factor("here", None, calibrated=True) == twice.factor("here", None, calibrated=True)
