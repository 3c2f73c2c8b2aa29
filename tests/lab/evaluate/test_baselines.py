"""The methods that gpuq has to beat, on rows small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import pytest

from gpuq.lab.evaluate import baselines
from gpuq.lab.evaluate.answers import Directed
from gpuq.lab.measured import SingleMeasurement

DEVICE = "Test GPU"


def single(
    job: str, model: str | None = None, batch: float | None = None, utilization: float | None = None
) -> SingleMeasurement:
    return SingleMeasurement(DEVICE, job, model or job, batch_size=batch, utilization_pct=utilization)


def square(slowdown: dict[tuple[str, str], float], utilization: dict[str, float] | None = None) -> list[Directed]:
    alone = {name: single(name, utilization=(utilization or {}).get(name)) for pair in slowdown for name in pair}
    return [Directed(alone[a], alone[b], value) for (a, b), value in slowdown.items()]


def asked(*names: str, utilization: Sequence[float | None] = ()) -> list[tuple[SingleMeasurement, SingleMeasurement]]:
    values = [*utilization, None, None][:2]
    return [(single(names[0], utilization=values[0]), single(names[1], utilization=values[1]))]


def test_the_rule_admits_up_to_a_hundred_percent_and_orders_by_the_sum() -> None:
    answer = baselines.rule([])(
        asked("a", "b", utilization=(40, 60)) + asked("a", "b", utilization=(80, 60)) + asked("a", "b")
    )
    assert answer.point[:2] == pytest.approx([1.0, 1.4])
    assert list(answer.admitted(1.15)) == [True, False, False]
    assert answer.risk[0] < answer.risk[1]
    assert np.isnan(answer.point[2])


def test_constant_is_the_median_and_its_bound_covers_the_training_rows() -> None:
    rows = square({("a", "b"): 1.0, ("b", "a"): 1.2, ("a", "c"): 2.0})
    answer = baselines.constant(rows)(asked("x", "y"))
    assert answer.point[0] == pytest.approx(1.2)
    assert answer.upper[0] == pytest.approx(2.0)


def test_the_ridge_finds_rows_and_columns_that_multiply() -> None:
    suffers, does = {"a": 1.1, "b": 1.5, "c": 2.0}, {"a": 1.0, "b": 1.2, "c": 1.4}
    rows = square({(a, b): suffers[a] * does[b] for a in suffers for b in does if (a, b) != ("a", "c")})
    answer = baselines.ridge(rows, penalty=1e-6)(asked("a", "c"))
    assert answer.point[0] == pytest.approx(1.1 * 1.4, rel=1e-3)


def test_a_job_the_ridge_never_saw_counts_as_average() -> None:
    rows = square({("a", "b"): 1.5, ("b", "a"): 1.5})
    assert baselines.ridge(rows)(asked("x", "y")).point[0] == pytest.approx(1.5)


def test_the_forest_learns_from_profiles_alone() -> None:
    utilization = {f"j{i}": 10.0 * i for i in range(10)}
    rows = square(
        {
            (a, b): 1 + max(0, u + v - 100) / 100
            for a, u in utilization.items()
            for b, v in utilization.items()
            if a != b
        },
        utilization,
    )
    answer = baselines.forest(rows)
    light = answer(asked("new", "newer", utilization=(15, 25))).point[0]
    heavy = answer(asked("new", "newer", utilization=(85, 85))).point[0]
    assert light == pytest.approx(1.0, abs=0.05)
    assert heavy > 1.4


def test_both_directions_of_a_pair_are_left_out_together_whatever_the_order() -> None:
    rows = square({(a, b): 1.2 for a in "abcdef" for b in "abcdef"})
    folds = {(row.job.job, row.beside.job): fold for row, fold in zip(rows, baselines._pair_folds(rows), strict=True)}
    back = rows[::-1]
    again = {(row.job.job, row.beside.job): fold for row, fold in zip(back, baselines._pair_folds(back), strict=True)}
    assert folds == again
    assert all(folds[a, b] == folds[b, a] for a, b in folds)
    assert set(folds.values()) == set(range(5))


def test_forest_has_no_answer_without_measurements_alone() -> None:
    rows = square({("a", "b"): 1.5, ("b", "a"): 1.2, ("a", "c"): 1.1})
    assert np.isnan(baselines.forest(rows)(asked("a", "b")).point).all()


@pytest.mark.parametrize("method", list(baselines.PAIR_BASELINES.values()))
def test_pairs_without_any_evidence_are_unknown_or_by_the_rule(method: object) -> None:
    answer = method([])(asked("a", "b"))  # type: ignore[operator]
    assert np.isnan(answer.point).all()
    assert not answer.admitted(1.15).any()
    assert len(method([])([]).point) == 0  # type: ignore[operator]


def test_means_of_all_and_of_the_family() -> None:
    known = [single("a", "ResNet-18"), single("b", "resnet50"), single("c", "LSTM")]
    measured = np.array([10.0, 20.0, 90.0])
    question = [single("d", "ResNet101"), single("e", "GPT-2")]
    assert baselines.global_mean(known, measured)(question).point == pytest.approx([40, 40])
    assert baselines.family_mean(known, measured)(question).point == pytest.approx([15, 40])
    by_first_letter = baselines.family_mean(known, measured, lambda single: single.model[:1].lower())
    assert by_first_letter([single("f", "Llama")]).point == pytest.approx([90])


@pytest.mark.parametrize(("batch", "expected"), [(16, 30), (4, 10), (64, 50), (128, 60), (None, 30)])
def test_the_same_model_between_log_batch_sizes_and_beyond(batch: float | None, expected: float) -> None:
    known = [single("a", "m", 8), single("b", "m", 32)]
    # 20 at 2^3 and 40 at 2^5: ten more with each doubling.
    answer = baselines.same_model(known, np.array([20.0, 40.0]))([single("q", "m", batch)])
    assert answer.point == pytest.approx([expected])


def test_another_model_gets_its_family_and_a_lone_row_its_value() -> None:
    known = [single("a", "resnet18", 8), single("b", "lstm", 8)]
    answer = baselines.same_model(known, np.array([20.0, 90.0]))
    assert answer([single("q", "resnet50", 8), single("r", "lstm", 64)]).point == pytest.approx([20, 90])


def test_extrapolated_line_is_clipped_at_zero() -> None:
    answer = baselines.same_model([single("a", "m", 2), single("b", "m", 4)], np.array([5.0, 50.0]))
    assert answer([single("q", "m", 1)]).point == pytest.approx([0])


@pytest.mark.parametrize("method", list(baselines.SINGLE_BASELINES.values()))
def test_baselines_without_rows_have_no_answer(method: object) -> None:
    answer = method([], np.array([]))([single("a")])  # type: ignore[operator]
    assert answer.point == pytest.approx([nan], nan_ok=True)
