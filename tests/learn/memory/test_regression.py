"""Peaks of kinds that never ran: accuracy, bounds, and robustness to floods and poisoned rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.learn.features.inputs import job_inputs
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.memory.evidence_tiers import TIERS, groups_left_out
from gpuq.learn.memory.fit import MOST_ROWS, fair_rows, fit_peaks
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs, diagonal, table
from gpuq.learn.memory.predict import NewKindForecast, PeakPredictor
from gpuq.learn.memory.regression import FittedRegression, Peaks
from gpuq.learn.serving.model import Model, from_json, to_json
from gpuq.learn.serving.predictor import Predictor
from gpuq.settings import Learning
from tests.learn.memory.world import DEVICE, GIB, history, law, lawful, outcome


def fitted(outcomes: Sequence[Outcome]) -> Peaks:
    return fit_peaks(history(*outcomes), 0.95)[DEVICE]


def known(attempt: Outcome) -> JobFeatures:
    return JobFeatures.of(attempt.features)


def guess(peaks: Peaks, attempt: Outcome) -> NewKindForecast:
    (found,) = PeakPredictor(peaks, None).new_kinds([known(attempt)])
    assert found is not None
    return found


@cache
def lawful_peaks() -> Peaks:
    return fitted(lawful())


def model_of(peaks: Peaks) -> Model:
    return Model(trained_until=0.0, attempts=20, quantile=0.95, clusters={}, peaks={DEVICE: peaks})


def answer(of: Predictor, attempt: Outcome) -> Forecast:
    of.register(attempt.signature, attempt.features, attempt.kind)
    question = Question(attempt.signature, KindId(attempt.kind), DEVICE)
    return of.answer([question])[question]


@pytest.mark.parametrize("model", [0, 3])
@pytest.mark.parametrize("batch", [8, 256])
def test_new_batch_size_of_a_known_model_is_interpolated(model: int, batch: int):
    truth, memory = law(model, batch)
    found = guess(lawful_peaks(), outcome(0, model=f"net{'abcd'[model]}", batch=batch))
    assert found.tier.name == "sizes"
    assert found.tier.evidence == "script template, 5 runs of 5 kinds, the same model"
    assert found.utilization is not None
    assert found.memory is not None
    assert found.utilization[0] == pytest.approx(truth, abs=6)
    assert found.memory[0] == pytest.approx(memory, rel=0.4)


def of_work(number: int, work: float | None, batch: int = 32) -> Outcome:
    """A model whose utilisation goes with the work of a sample: five points per doubling."""
    truth = None if work is None else 5.0 * math.log2(work) - 90.0
    return outcome(number, model=f"{'abcdefghij'[number % 10]}net", batch=batch, utilization=truth, work=work)


def test_new_model_is_predicted_from_its_work_per_sample():
    peaks = fitted([of_work(i, 2.0 ** (20 + 2 * i), batch) for i in range(8) if i != 5 for batch in (16, 32, 64)])
    light, asked, unknown = (guess(peaks, of_work(9, work)) for work in (2.0**20, 2.0**30, None))
    assert asked.utilization is not None
    assert light.utilization is not None
    assert unknown.utilization is not None
    assert asked.utilization[0] == pytest.approx(60, abs=8)
    assert light.utilization[0] < 30
    assert 25 < unknown.utilization[0] < 65, "as the others, where its work is unknown"


def test_new_model_of_a_script_has_a_wider_bound_than_a_new_batch_size():
    same, other = (guess(lawful_peaks(), outcome(0, model=name, batch=8)) for name in ("netb", "other"))
    assert other.tier.evidence == "script template, 20 runs of 20 kinds"
    assert same.memory is not None
    assert other.memory is not None
    assert other.memory[1] / other.memory[0] > same.memory[1] / same.memory[0] > 1
    assert other.utilization is not None
    assert other.utilization[0] < other.utilization[1] <= 100


def test_new_script_is_predicted_by_its_owner_and_a_stranger_is_not():
    found = guess(lawful_peaks(), outcome(0, script="speech", model="wave"))
    assert found.tier.name == "owner"
    assert found.tier.evidence == "owner alice, 20 runs of 20 kinds"
    assert found.duration is None
    stranger = outcome(0, owner="bob", script="speech", model="wave")
    assert PeakPredictor(lawful_peaks(), None).new_kinds([known(stranger)]) == [None]


def test_model_family_is_evidence_across_owners_from_three_kinds_on():
    found = guess(lawful_peaks(), outcome(0, owner="bob", script="speech", model="neta", batch=16))
    assert found.tier.name == "cluster"
    assert found.tier.evidence == "5 kinds of the family neta, regressed in log batch"


def test_the_duration_of_a_new_kind_comes_from_its_template():
    found = guess(lawful_peaks(), outcome(0, model="netb", batch=8))
    assert found.duration is not None
    assert found.duration[0] == pytest.approx(200, rel=0.2)
    assert found.duration[1] >= found.duration[0]


def test_batch_of_jobs_is_answered_as_one_by_one():
    jobs = [known(outcome(0, model=f"net{letter}", batch=2**i)) for letter in "abxy" for i in range(9)]
    foreteller = PeakPredictor(lawful_peaks(), None)
    together = foreteller.new_kinds(jobs)
    for job, found in zip(jobs, together, strict=True):
        (alone,) = foreteller.new_kinds([job])
        assert alone is not None
        assert found is not None
        assert found.tier == alone.tier
        assert found.memory == pytest.approx(alone.memory, rel=1e-3)
        assert found.utilization == pytest.approx(alone.utilization, abs=0.1)


def test_a_model_comes_back_from_its_json_and_an_old_one_has_no_peaks():
    model = model_of(lawful_peaks())
    assert from_json(to_json(model)) == model
    text = to_json(model_of(lawful_peaks())).replace(b'"peaks"', b'"other"')
    assert from_json(text).peaks == {}


def test_the_same_history_gives_the_same_peaks():
    assert fitted(lawful(models=2)) == fitted(lawful(models=2))


def test_too_few_kinds_make_no_regression():
    assert fit_peaks(history(*lawful()[:2]), 0.95) == {}
    assert fit_peaks(history(), 0.95) == {}


def test_unmeasured_target_has_no_forecast():
    peaks = fitted([replace(one, peak_memory_bytes=None, duration_s=None) for one in lawful(models=2)])
    assert (peaks.memory, peaks.duration) == (None, None)
    found = guess(peaks, outcome(0, model="neta", batch=8))
    assert (found.memory, found.duration) == (None, None)
    assert not answer(Predictor(history(), model_of(peaks), Learning()), outcome(0, model="neta", batch=8)).known


def test_constant_history_is_predicted_exactly():
    same = [outcome(i, model=f"net{'abcdef'[i]}", utilization=40.0, memory=GIB) for i in range(6)]
    found = guess(fitted(same), outcome(9, model="netx"))
    assert found.utilization is not None
    assert found.memory is not None
    assert found.utilization[0] == pytest.approx(40, abs=1)
    assert found.memory[0] == pytest.approx(GIB, rel=0.02)


def test_a_flood_of_one_kind_moves_no_other():
    flood = [outcome(1000 + i, model="flood", batch=1, utilization=1.0, memory=2**20) for i in range(400)]
    few, many = fitted([*lawful(), flood[0]]), fitted([*lawful(), *flood])
    job = outcome(0, model="netc", batch=8)
    before, after = guess(few, job), guess(many, job)
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory[0] == pytest.approx(before.memory[0], rel=0.1)
    assert before.utilization is not None
    assert after.utilization is not None
    assert after.utilization[0] == pytest.approx(before.utilization[0], abs=3)


def test_owner_with_many_kinds_leaves_other_owners_their_rows():
    ours = lawful(models=1)
    flood = [outcome(100 + i, owner="mallory", kind=f"m{i}", utilization=1.0) for i in range(MOST_ROWS + 50)]
    kept = history(*ours, *flood)
    chosen = {row.kind for row, _ in fair_rows(kept)[DEVICE]}
    assert len(chosen) == MOST_ROWS
    assert {one.kind for one in ours} <= chosen


def test_poisoned_values_do_not_move_other_kinds():
    poison = outcome(500, script="vision", model="evil", batch=32, utilization=100.0, memory=2**50)
    job = outcome(0, model="netc", batch=8)
    clean, poisoned = guess(lawful_peaks(), job), guess(fitted([*lawful(), poison]), job)
    assert clean.memory is not None
    assert poisoned.memory is not None
    assert poisoned.memory[0] == pytest.approx(clean.memory[0], rel=0.3)


def test_own_runs_count_at_once_and_similar_kinds_count_less_with_each():
    of = Predictor(history(*lawful()), model_of(lawful_peaks()), Learning())
    unlike = outcome(900, model="netb", batch=8, utilization=90.0)
    first = answer(of, unlike).expected_utilization_pct or 0
    expected = [first]
    for i in range(4):
        of.learn(replace(unlike, attempt=(900 + i, 1)))
        expected.append(answer(of, unlike).expected_utilization_pct or 0)
    assert answer(of, unlike).evidence == "own history, 4 runs"
    assert expected == sorted(expected)
    assert first < 60
    assert 80 < expected[-1] <= 90


def test_a_forecast_is_cautious_where_admission_adds_up():
    of = Predictor(history(*lawful()), model_of(lawful_peaks()), Learning())
    found = answer(of, outcome(0, model="netx", batch=8))
    assert (found.peak_utilization_pct or 0) > (found.expected_utilization_pct or 0) > 0
    assert (found.upper_memory_bytes or 0) > (found.peak_memory_bytes or 0) > 0
    assert found.evidence == "script template, 20 runs of 20 kinds"


def test_leave_out_in_closed_form_equals_refitting():
    peaks = lawful_peaks()
    assert peaks.memory is not None
    side = KernelInputs([row.inputs for row in peaks.rows])
    ready = FittedRegression(peaks.rows, side, "memory", peaks.memory)
    group = [job_inputs(JobFeatures(tokens=row.tokens)).model for row in peaks.rows]
    numbers = [sorted(map(str, set(group))).index(str(own)) for own in group]
    closed = ready.left_out(numbers)
    for number in set(numbers):
        rest = [i for i, own in enumerate(numbers) if own != number]
        out = [i for i, own in enumerate(numbers) if own == number]
        fewer = replace_trust(peaks, rest)
        rows = [peaks.rows[i] for i in rest]
        there = KernelInputs([row.inputs for row in rows])
        other = FittedRegression(rows, there, "memory", fewer)
        asked = KernelInputs([peaks.rows[i].inputs for i in out])
        posterior = other.posterior(asked, CrossSimilarity(asked, there))
        assert posterior.mean == pytest.approx(closed.mean[out], abs=1e-3)
        assert posterior.variance == pytest.approx(closed.variance[out], rel=0.05, abs=1e-3)


def replace_trust(peaks: Peaks, places: Sequence[int]):
    import msgspec

    assert peaks.memory is not None
    return msgspec.structs.replace(peaks.memory, trust=tuple(peaks.memory.trust[i] for i in places))


def test_each_tier_is_calibrated_without_nearer_evidence():
    rows = lawful_peaks().rows
    assert groups_left_out(rows, "sizes") == list(range(20))
    by_model = groups_left_out(rows, "template")
    assert len(set(by_model)) == 4
    assert groups_left_out(rows, "owner") == [None] * 20
    assert set(TIERS) == set(lawful_peaks().utilization.margins)  # type: ignore[union-attr]


tokens = st.lists(
    st.sampled_from(
        ["owner:a", "owner:b", "project:p", "script:x", "script:y", "model:net50", "family:net", "word:w", "odd"]
    ),
    unique=True,
)
jobs = st.builds(
    lambda words, batch: JobFeatures(batch_log2=batch, tokens=tuple(words)), tokens, st.none() | st.floats(-3, 20)
)


@settings(deadline=None, max_examples=50)
@given(st.lists(jobs, min_size=1, max_size=8))
def test_kernel_gives_a_positive_semidefinite_covariance(found: list[JobFeatures]):
    """Symmetric, no negative eigenvalue, and with the diagonal that `diagonal` gives, for any jobs."""
    side = KernelInputs([job_inputs(job) for job in found])
    variances = table(dict.fromkeys(CrossSimilarity(side, side).terms(), 1.0))
    among = CrossSimilarity(side, side).covariance(variances)
    assert among == pytest.approx(among.T)
    assert np.linalg.eigvalsh(among).min() > -1e-6 * max(1.0, float(np.abs(among).max()))
    assert np.diag(among) == pytest.approx(diagonal(side, variances))


@settings(deadline=None, max_examples=50)
@given(jobs)
def test_bounds_of_any_job_are_in_order(job: JobFeatures):
    (found,) = PeakPredictor(lawful_peaks(), None).new_kinds([job])
    if found is not None:
        assert found.utilization is not None
        assert 0 <= found.utilization[0] <= found.utilization[1] <= 100
        assert found.memory is not None
        assert 0 < found.memory[0] <= found.memory[1] < math.inf
