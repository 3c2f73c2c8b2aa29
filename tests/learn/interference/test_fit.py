"""What is learned from measured pairs, against the law alone."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from functools import cache
from statistics import fmean

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuq.core.state.forecast import BUDGETS
from gpuq.learn.interference import LAW, Interference, Profile
from gpuq.learn.interference import fit as fit_module
from gpuq.learn.interference.fit import LeftOut, fit
from gpuq.learn.interference.learned import Admission
from tests.learn.interference import world
from tests.learn.interference.world import expect


@cache
def learned_without(*left_out: str) -> Interference:
    profiles = world.kinds()
    pairs = {pair: values for pair, values in world.pairs(profiles).items() if not set(left_out) & set(pair)}
    found = fit(profiles, pairs, 0.95)
    assert found is not None
    return found


def error(of: Interference, pairs: list[tuple[Profile, Profile]]) -> float:
    expected, _ = of.expect_many([a for a, _ in pairs], [b for _, b in pairs])
    return fmean(abs(value / world.slowdown(a, b) - 1) for value, (a, b) in zip(expected, pairs, strict=True))


def test_fit_without_pairs_returns_none():
    assert fit({}, {}, 0.95) is None
    assert fit({}, {("a", "b"): [math.nan, -1.0, math.inf]}, 0.95) is None


def test_one_measured_pair_already_helps_its_kinds():
    profiles = world.kinds()
    one, beside, third = profiles["rnn:8"], profiles["gan:8"], profiles["gan:4"]
    found = fit(profiles, {(one.kind, beside.kind): [world.slowdown(one, beside)]}, 0.95)

    assert found is not None
    assert error(found, [(one, beside)]) < error(LAW, [(one, beside)])
    assert error(found, [(one, third)]) < error(LAW, [(one, third)]), "and beside a kind that is alike"


def test_unmeasured_pair_is_predicted_from_measured_ones():
    profiles = world.kinds()
    pairs = world.pairs(profiles)
    missing = [("cnn:2", "gan:8"), ("rnn:4", "cnn:8"), ("gan:1", "rnn:8")]
    known = {pair: values for pair, values in pairs.items() if pair not in missing and pair[::-1] not in missing}
    found = fit(profiles, known, 0.95)

    assert found is not None
    asked = [(profiles[a], profiles[b]) for a, b in missing]
    assert error(found, asked) < 0.05 < error(LAW, asked)


def test_new_kind_is_predicted_better_than_by_the_law():
    profiles = world.kinds()
    new = profiles["gan:8"]
    asked = [(new, other) for other in profiles.values() if other is not new]
    asked += [pair[::-1] for pair in asked]

    assert error(learned_without("gan:8"), asked) < error(LAW, asked)


def test_fit_works_without_utilisations():
    profiles = world.kinds()
    pairs = world.pairs(profiles)
    missing = ("rnn:4", "gan:8")
    known = {pair: values for pair, values in pairs.items() if pair != missing}
    found = fit({}, known, 0.95)

    assert found is not None
    value, _ = expect(found, Profile(missing[0]), Profile(missing[1]))
    assert value == pytest.approx(world.slowdown(profiles[missing[0]], profiles[missing[1]]), rel=0.12)


def test_light_pairs_that_are_slowed_are_predicted_from_each_other():
    """Each model slows others, by up to a fifth, and no two of these jobs fill a third of the device."""
    chance = random.Random(0)
    profiles = {
        f"{model}:{batch}": Profile(f"{model}:{batch}", model, 5.0 + 5 * batch, batch_log2=float(batch))
        for model in "abcdefgh"
        for batch in range(3)
    }
    costs = {model: 0.025 * place for place, model in enumerate("abcdefgh")}
    pairs = {
        (a, b): [math.exp(costs[a[0]] / 4 + costs[b[0]] + chance.gauss(0, 0.02))]
        for a, b in itertools.product(profiles, repeat=2)
        if chance.random() < 0.25
    }
    found = fit(profiles, pairs, 0.95)
    asked = [pair for pair in itertools.product(profiles, repeat=2) if pair not in pairs]

    assert found is not None
    expected, _ = found.expect_many([profiles[a] for a, _ in asked], [profiles[b] for _, b in asked])
    truth = [math.exp(costs[a[0]] / 4 + costs[b[0]]) for a, b in asked]
    assert fmean(abs(value / true - 1) for value, true in zip(expected, truth, strict=True)) < 0.009


def test_without_clear_evidence_of_slowed_light_pairs_they_are_not_expected_to_be():
    assert learned_without().shape.leak == 0


def test_bounds_hold_as_often_as_they_should_for_kinds_never_seen():
    profiles = world.kinds()
    held = []
    for kind in list(profiles)[::3]:
        asked = [(a, b) for a in profiles.values() for b in profiles.values() if kind in (a.kind, b.kind)]
        _, upper = learned_without(kind).expect_many([a for a, _ in asked], [b for _, b in asked])
        held += [world.slowdown(a, b) <= bound for (a, b), bound in zip(asked, upper, strict=True)]

    assert fmean(held) >= 0.9


def test_light_pairs_that_are_slowed_all_the_same_do_not_widen_all_other_bounds():
    """Their doubt is almost nothing: a factor that makes up for it would have to be ten."""
    chance = random.Random(0)
    light = [LeftOut(("a", "b"), 0, 0.0, 0.02, chance.gauss(0, 0.1), frozenset("a")) for _ in range(200)]
    heavy = [LeftOut(("c", "d"), 0, 0.5, 0.3, 0.5 + chance.gauss(0, 0.2), frozenset("c")) for _ in range(200)]
    misfit = fit_module._misfit([*light, *heavy])
    factors = {of: fit_module._factor([*light, *heavy], 0.95, 2.5, of) for of in (0.0, misfit)}

    assert factors[misfit] * math.hypot(0.3, misfit) < 0.5 * factors[0.0] * 0.3
    assert fmean(one.measured <= one.expected + factors[misfit] * math.hypot(one.doubt, misfit) for one in light) >= 0.9
    assert fit_module._misfit(heavy) == 0, "and where doubt says it all nothing is added"


@pytest.mark.parametrize(
    ("models", "apart", "least", "most"), [(3, 1.0, 1.25, 1.45), (3, 0.0, 1.0, 1.02), (60, 1.0, 1.0, 1.02)]
)
def test_bounds_from_few_models_that_err_alike_are_wider(models, apart, least, most):
    chance = random.Random(1)
    errors = [(str(model), chance.gauss(0, apart)) for model in range(models)]
    units = [frozenset({model}) for model, _ in errors for _ in range(100)]
    scores = [error + chance.gauss(0, 0.3) for _, error in errors for _ in range(100)]

    assert least <= fit_module._widening(scores, units, 0.95) <= most


def test_the_same_pairs_give_the_same_part_and_it_survives_json():
    profiles = world.kinds()
    few = dict(list(world.pairs(profiles).items())[:20])
    one, again = fit(profiles, few, 0.95), fit(profiles, few, 0.95)

    assert one == again
    assert msgspec.json.decode(msgspec.json.encode(one), type=Interference) == one


def test_the_order_of_pairs_changes_nothing():
    profiles = world.kinds()
    pairs = world.pairs(profiles)

    assert fit(profiles, pairs, 0.95) == fit(profiles, dict(reversed(pairs.items())), 0.95)


def test_a_flood_of_one_kinds_pairs_leaves_those_of_others(monkeypatch):
    monkeypatch.setattr(fit_module, "MOST_PAIRS", 12)
    flood = {(f"busy {i % 4}", f"busy {i // 4}"): [1.1] for i in range(16)}
    found = fit({}, {("rare", "busy 0"): [1.2], **flood}, 0.95)

    assert found is not None
    assert len(found.pairs) == 12
    assert {profile.kind for profile in found.kinds} == {"rare", *(f"busy {i}" for i in range(4))}


def test_of_too_many_pairs_both_directions_are_kept_and_none_of_the_kinds_is_lost(monkeypatch):
    monkeypatch.setattr(fit_module, "MOST_PAIRS", 60)
    kinds = [f"k{i:02}" for i in range(12)]
    kept = fit_module._chosen({(a, b): [1.1] for a in kinds for b in kinds})

    assert 58 <= len(kept) <= 60
    assert all((b, a) in kept for a, b in kept)
    assert {kind for pair in kept for kind in pair} == set(kinds)


def test_a_job_beside_itself_is_calibrated_by_the_worse_of_the_two():
    """Each of forty sweeps keeps 1.15 by the mean of its two jobs, and exceeds it by the worse: 1.05 and 1.22."""
    profiles = {f"k{i:02}": Profile(f"k{i:02}", utilization_pct=50.0) for i in range(40)}
    found = fit(profiles, {(name, name): [1.05, 1.22] for name in profiles}, 0.95)

    assert found is not None
    sweeps = list(profiles.values())
    found_risks = found.risks(sweeps, sweeps, found.expect_many(sweeps, sweeps)[0])
    assert min(of[BUDGETS.index(1.15)] for of in found_risks) > 0.1
    assert max(of[BUDGETS.index(1.5)] for of in found_risks) <= 0.1


def test_of_few_models_new_sizes_of_those_are_admitted_and_other_models_are_not():
    """Sixteen sizes of three models, and forecasts that are right: of a fourth model that shows nothing."""
    sizes = [Profile(f"{model}:{size}", model) for model in "abc" for size in range(16)]

    def left_out(unit: Callable[[Profile], str]) -> dict[int, list[LeftOut]]:
        rows = [
            LeftOut(pair, 0, 0.05, 0.1, 0.05, frozenset({unit(size)}))
            for size in sizes
            for pair in ((size.kind, "other"), ("other", size.kind))
        ]
        return {0: [], 1: rows, 2: []}

    kinds, models = left_out(lambda size: size.kind), left_out(lambda size: str(size.model))
    factors, admission = fit_module.calibrated({0: [], 1: [], 2: []}, kinds, models, [], 0.95)
    part = Interference((*sizes, Profile("other", "d")), (), factors=factors, admission=admission)

    def risk(model: str | None) -> float:
        found = part.risks([Profile("new", model)], [part.kinds[0]], np.exp([0.05]))
        return found[0][BUDGETS.index(1.15)]

    assert risk("b") <= 0.1
    assert risk("e") == risk(None) == 1

    stored = msgspec.to_builtins(admission)
    for tiers in (stored, stored["few"], stored["law_beside"]):
        del tiers["one_resized"], tiers["neither_resized"]
    part = msgspec.structs.replace(part, admission=msgspec.convert(stored, Admission))
    assert risk("b") == risk("e"), "a model of an older gpuq knows new kinds only"


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")),
        st.lists(st.floats(0.5, 50), min_size=1, max_size=2),
        min_size=1,
        max_size=6,
    ),
    st.none() | st.floats(0, 100),
)
@example(
    {
        ("d", "c"): [0.99999, 0.99999],
        ("a", "c"): [32.591682259579784, 35.8085617305854],
        ("d", "b"): [19.128755337081927],
        ("a", "b"): [40.850184156097185],
        ("c", "a"): [41.627819661957986, 20.22301426862454],
    },
    0.0,
)
def test_forecast_is_finite_and_its_bound_no_lower(measured, utilization):
    profiles = {name: Profile(name, utilization_pct=utilization) for name in "abcd"}
    found = fit(profiles, measured, 0.95)

    assert found is not None
    for one in (*profiles.values(), Profile("never seen", utilization_pct=50.0)):
        expected, upper = expect(found, one, profiles["a"])
        assert 1.0 <= expected <= upper < math.inf
