"""Methods judged on what was held out from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest

from gpuq.lab.evaluate.answers import AnswerPairs, AnswerSingles, Directed, Expected, Slowdowns, unknown
from gpuq.lab.evaluate.baselines import PAIR_BASELINES
from gpuq.lab.evaluate.clean import clean
from gpuq.lab.evaluate.figures import Numbers
from gpuq.lab.evaluate.holdout import by_model, by_pair
from gpuq.lab.evaluate.judge import Method, judge_pairs, judge_singles, peak_figures, slowdown_figures
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from tests.lab.evaluate import tables


def test_slowdown_figures_counted_by_hand() -> None:
    # Pairs: (1.0, 1.1) under budget, (1.1, 1.5) over, (1.0, ?) not known, (1.2, 1.0) over.
    measured = np.array([1.0, 1.1, 1.1, 1.5, 1.0, np.nan, 1.2, 1.0])
    expected = np.array([1.0, 1.1, 1.1, 1.0, 1.0, 1.0, 1.5, np.nan])
    found = slowdown_figures(Slowdowns.of(expected, expected * 1.2), measured)
    assert (found.n, found.pairs) == (6, 2)
    assert found.error_pct == pytest.approx(100 * (0.5 / 1.5 + 0.3 / 1.2) / 6)
    # The worse: 1.1 expected for the good, 1.1 for the bad: a tie; both are admitted.
    assert (found.auc, found.precision, found.recall) == (0.5, 0.5, 1.0)
    assert found.coverage_pct == pytest.approx(100 * 5 / 6)
    assert found.median_error_pct == 0
    # One of six bounds failed: 1 - 0.95^6.
    assert found.coverage_chance == pytest.approx(1 - 0.95**6)


def test_slowdown_asked_about_twice_counts_once_against_its_bound() -> None:
    measured, upper = np.array([1.2, 1.2, 1.0, 1.0]), np.array([1.1, 1.1, 1.1, 1.1])
    found = slowdown_figures(
        Slowdowns.of(upper, upper), measured, ["a beside b", "a beside b", "b beside a", "b beside a"]
    )
    assert found.coverage_pct == 50
    assert found.coverage_chance == pytest.approx(1 - 0.95**2)


def test_the_budget_is_that_of_the_question() -> None:
    measured = np.array([1.3, 1.2, 1.6, 1.0])
    at = [slowdown_figures(Slowdowns.of(measured, measured), measured, budget=budget).recall for budget in (1.15, 1.5)]
    assert at == [None, 1.0]


def test_the_order_of_rows_in_a_file_changes_nothing() -> None:
    alone = tables.singles()
    rows = tables.pairs(alone)
    methods = [Method(name, pairs=PAIR_BASELINES[name]) for name in ("forest", "boosting")]
    one, back = (judge_pairs(by_pair(clean(alone, pairs)).pairs[:1], methods)[None] for pairs in (rows, rows[::-1]))
    assert one.keys() == back.keys() == {"forest", "boosting"}
    for name, figures in one.items():
        # Sums of the same numbers in another order may differ in the last digit.
        assert asdict(figures) == pytest.approx(asdict(back[name]), rel=1e-12)


def test_peak_figures_know_that_a_device_has_a_hundred_percent() -> None:
    found = peak_figures(np.array([150.0, 40]), np.array([200.0, 60]), np.array([100.0, 50]), "utilization")
    assert (found.error, found.coverage_pct, found.overshoot) == (5, 100, pytest.approx(1.1))
    memory = peak_figures(np.array([150.0, 40]), np.array([200.0, 45]), np.array([100.0, 50]), "memory")
    assert (memory.error, memory.coverage_pct, memory.far_below_pct) == (35, 50, 50)


def test_method_is_not_judged_on_questions_without_an_answer() -> None:
    found = peak_figures(np.array([np.nan, 40]), np.array([np.nan, np.nan]), np.array([100.0, 50]), "memory")
    assert (found.n, found.error, found.coverage_pct) == (1, 20, None)


class Spy:
    """Records what it was shown, and predicts nothing."""

    def __init__(self) -> None:
        self.shown: list[tuple[Sequence[Directed], Sequence[tuple[SingleMeasurement, SingleMeasurement]]]] = []
        self.asked: list[SingleMeasurement] = []

    def pairs(self, known: Sequence[Directed]) -> AnswerPairs:
        def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
            self.shown.append((known, questions))
            return Slowdowns.of(unknown(len(questions)), unknown(len(questions)))

        return answer

    def peaks(self, known: Sequence[SingleMeasurement], measured: Numbers) -> AnswerSingles:
        def answer(questions: Sequence[SingleMeasurement]) -> Expected:
            self.asked += questions
            return Expected(unknown(len(questions)), unknown(len(questions)))

        return answer


def test_types_of_devices_and_modes_are_learned_apart() -> None:
    v100, k80 = tables.singles("V100"), tables.singles("K80")
    table = clean([*v100, *k80], [*tables.pairs(v100), *tables.pairs(k80), *tables.pairs(k80, None)])
    spy = Spy()
    by_group = judge_pairs(by_pair(table).pairs, [Method("spy", pairs=spy.pairs)])
    assert set(by_group) == {None, ("V100", "mps"), ("K80", "mps"), ("K80", None)}
    for known, questions in spy.shown:
        devices = {single.device_type for row in known for single in (row.job, row.beside)}
        assert devices == {single.device_type for question in questions for single in question}


def test_questions_contain_nothing_that_was_measured() -> None:
    spy = Spy()
    judge_singles(by_model(clean(tables.singles(), [])).singles, [Method("spy", utilization=spy.peaks)], "utilization")
    assert len(spy.asked) == 12
    for question in spy.asked:
        assert question == SingleMeasurement("V100", question.job, question.model, question.batch_size)


def test_perfect_method_has_no_error_and_silent_method_has_no_figures() -> None:
    alone = tables.singles()
    table = clean(alone, tables.pairs(alone, noise=0))

    def truth(known: Sequence[Directed]) -> AnswerPairs:
        def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
            sums = np.array([(a.utilization_pct or 0) + (b.utilization_pct or 0) for a, b in questions])
            point = np.maximum(1.0, sums / 100) * 1.05
            return Slowdowns.of(point, point)

        return answer

    found = judge_pairs(by_model(table).pairs, [Method("truth", pairs=truth), Method("silent", pairs=Spy().pairs)])[
        None
    ]
    assert found["truth"].error_pct == pytest.approx(0, abs=1e-9)
    assert (found["truth"].auc, found["truth"].precision, found["truth"].recall) == (1, 1, 1)
    assert (found["silent"].n, found["silent"].error_pct, found["silent"].auc) == (0, None, None)


def test_nothing_to_judge_is_no_error() -> None:
    table = clean([], [])
    assert judge_pairs(by_model(table).pairs, [Method("spy", pairs=Spy().pairs)]) == {None: {}}
    assert judge_singles((), [Method("spy", memory=Spy().peaks)], "memory") == {}
    lonely = clean([], [PairMeasurement("V100", None, "a", "a", 1.2, 1.3)])
    assert judge_pairs(by_model(lonely).pairs, [Method("spy", pairs=Spy().pairs)])[None]["spy"].n == 0
