"""The law, the similarity of kinds, and the forecasts of a fitted part."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.history.history import MeasuredRun
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.interference import LAW, Interference, Profile
from gpuq.learn.interference.fit import fit
from gpuq.learn.interference.law import slowdown
from gpuq.learn.interference.learned import Shape, similarity
from gpuq.learn.interference.profile import informative_inputs, observed
from tests.learn.interference.world import expect

FLOATS = st.floats(0, 100)
PROFILES = st.builds(
    Profile,
    kind=st.sampled_from(["a", "b", "c", "d", "e"]),
    model=st.none() | st.sampled_from(["x", "y"]),
    utilization_pct=st.none() | FLOATS,
    batch_log2=st.none() | st.floats(0, 12),
    step_log=st.none() | st.floats(-5, 5),
)


def test_law_of_light_jobs_is_1_and_of_full_jobs_is_2():
    assert slowdown(20, 30) == pytest.approx(1.0, abs=0.01)
    assert slowdown(100, 100) == pytest.approx(2.0, abs=0.01)
    assert slowdown(50, None) is None


@given(FLOATS, FLOATS, st.floats(0, 20))
def test_more_utilisation_never_slows_less(one, other, more):
    assert 1.0 <= (slowdown(one, other) or 0) <= (slowdown(one + more, other) or 0)


@given(FLOATS, FLOATS)
def test_without_evidence_the_law_alone_is_used(one, other):
    expected, upper = expect(LAW, Profile("a", utilization_pct=one), Profile("b", utilization_pct=other))

    assert expected == pytest.approx(slowdown(one, other))
    assert upper >= expected


@given(st.lists(PROFILES, min_size=1, max_size=5, unique_by=lambda profile: profile.kind))
def test_similarity_is_a_covariance_with_unknown_inputs(profiles):
    inputs = informative_inputs(profiles)
    shape = Shape(inputs=inputs, reaches=(1.0,) * len(inputs), alike=0.9)
    table = similarity(profiles, profiles, shape)

    assert np.allclose(table, table.T)
    assert np.all(np.diag(table) == 1.0)
    assert np.linalg.eigvalsh(table).min() > -1e-9


def test_how_many_of_two_kinds_are_known():
    a, b, c = Profile("a"), Profile("b"), Profile("c")
    part = Interference((a, b), ((0, 1, 0.5),))

    assert [part.known(*pair) for pair in ((a, b), (a, c), (c, c))] == [2, 1, 0]


def test_measured_pair_moves_only_its_kinds_and_similar_ones():
    a, b, c, d = (Profile(name, utilization_pct=50.0) for name in "abcd")
    part = Interference((a, b), ((0, 1, 2.0),))
    law = slowdown(50, 50)

    assert expect(part, a, b)[0] > expect(part, a, c)[0] > (law or 0)
    assert expect(part, c, d)[0] > 1.0


def test_batch_of_pairs_is_answered_as_one_by_one():
    kinds = [Profile(name, utilization_pct=40.0 + 10 * place) for place, name in enumerate("abcd")]
    part = Interference(tuple(kinds[:2]), ((0, 1, 1.0), (1, 0, -0.5)))
    ones, besides = [kinds[0], kinds[2], kinds[3]], [kinds[1], kinds[0], kinds[3]]
    expected, upper = part.expect_many(ones, besides)

    for place, (one, beside) in enumerate(zip(ones, besides, strict=True)):
        assert expect(part, one, beside) == pytest.approx((expected[place], upper[place]))


def a_run(**changes: object) -> MeasuredRun:
    values: dict[str, object] = {
        "known": JobFeatures(batch_log2=5.0, tokens=("model:bert", "script:train")),
        "peak_utilization_pct": 60.0,
        "peak_memory_bytes": 1,
        "duration_s": 1.0,
        "alone_rate": 4.0,
        "whole": True,
        "shared": False,
        "attempt": None,
    }
    return MeasuredRun(**{**values, **changes})  # type: ignore[arg-type]


def test_a_profile_is_what_the_kind_showed_alone():
    profile = observed("kind", [a_run(power_w=90.0), a_run(peak_utilization_pct=20.0, shared=True, alone_rate=None)])

    assert profile == Profile(
        "kind", "model:bert", 60.0, None, 5.0, -math.log(4.0), memory_log=0.0, power_log=math.log(90.0)
    )


def test_profile_of_a_kind_without_runs_is_its_forecast():
    profile = observed("kind", [], JobFeatures(batch_log2=3.0, tokens=("script:train", "folder:vision")), 70.0)

    assert profile == Profile("kind", "folder:vision script:train", 70.0, None, 3.0, None)


def test_light_pairs_are_no_evidence_for_heavy_ones() -> None:
    """A queue measures what it admits: 40 beside 50 slowed neither, which does not make 50 beside 95 harmless."""
    profiles = {name: Profile(name, utilization_pct=pct) for name, pct in (("a", 40.0), ("b", 50.0), ("c", 45.0))}
    measured = {(a, b): [1.02] for a in profiles for b in profiles if a != b}
    learned = fit(profiles, measured, 0.95)
    assert learned is not None
    heavy, light = Profile("heavy", utilization_pct=95.0), Profile("light", utilization_pct=50.0)

    assert learned.reaches(profiles["b"], light)
    assert not learned.reaches(profiles["b"], heavy)
    assert not learned.reaches(heavy, profiles["b"])


def test_load_does_not_limit_pairs_of_unknown_utilisation() -> None:
    learned = fit({}, {("a", "b"): [1.2], ("b", "a"): [1.3]}, 0.95)
    assert learned is not None
    assert learned.reaches(Profile("a"), Profile("new"))
    known = fit({"a": Profile("a", utilization_pct=40.0)}, {("a", "b"): [1.2], ("b", "a"): [1.3]}, 0.95)
    assert known is not None
    assert not known.reaches(Profile("a", utilization_pct=40.0), Profile("new"))


def test_shape_keeps_the_stored_key_of_its_inputs():
    """Models on the shelf of older versions have it."""
    stored = b'{"traits": [{"name": "model"}], "reaches": [2.0]}'
    shape = msgspec.json.decode(stored, type=Shape)
    assert [each.name for each in shape.inputs] == ["model"]
    assert b'"traits"' in msgspec.json.encode(shape)
