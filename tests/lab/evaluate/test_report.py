"""From two tables to figures, a table and a sentence."""

from __future__ import annotations

import json

import pytest

from gpuq.lab.evaluate.baselines import (
    PAIR_BASELINES,
    SINGLE_BASELINES,
    constant,
    global_mean,
    ridge,
    rule,
    same_model,
)
from gpuq.lab.evaluate.judge import Method
from gpuq.lab.evaluate.report import Plain, evaluate, lines, verdict
from gpuq.lab.measured import SingleMeasurement
from tests.lab.evaluate import tables

# A quick method in the place of gpuq's own: the report does not depend on which method it is.
QUICK = (
    Method("gpuq", pairs=ridge, utilization=same_model, memory=same_model),
    Method("rule", pairs=rule),
    Method("constant", pairs=constant),
    Method("global_mean", utilization=global_mean, memory=global_mean),
)
SLOWDOWN_KEYS = {"n", "error_pct", "auc", "precision", "recall", "coverage_pct"}
PEAK_KEYS = {"n", "error", "coverage_pct"}


@pytest.fixture(scope="module")
def report() -> Plain:
    alone = tables.singles(batches=(32,))
    return evaluate(alone, tables.pairs(alone), "model")


def test_every_promised_key_is_there_for_ours_and_for_every_baseline(report: Plain) -> None:
    assert set(report["baselines"]) == {*PAIR_BASELINES, *SINGLE_BASELINES}
    for figures in (report, *report["baselines"].values()):
        assert set(figures["slowdown"]) >= SLOWDOWN_KEYS
        assert set(figures["memory"]) >= PEAK_KEYS
        assert set(figures["utilization"]) >= PEAK_KEYS
    json.dumps(report, allow_nan=False)


def test_all_pairs_and_singles_are_judged(report: Plain) -> None:
    assert report["slowdown"]["n"] >= 2 * report["pairs"]
    assert report["utilization"]["n"] == report["memory"]["n"] == report["singles"]
    assert report["baselines"]["rule"]["memory"]["n"] == 0


def test_table_has_every_method_and_figure(report: Plain) -> None:
    text = "\n".join(lines(report))
    for part in ("gpuq", "rule", "forest", "peak memory", "peak utilisation", "AUC", report["verdict"]):
        assert part in text
    assert "None" not in text
    assert "nan" not in text


def test_pairs_alone_do_where_singles_have_no_utilisation() -> None:
    report = evaluate([], tables.pairs(tables.singles()), "pair", QUICK)
    assert report["slowdown"]["n"] > 0
    assert report["baselines"]["rule"]["slowdown"]["n"] == 0
    assert len(report["sparse"]) == 2
    assert any("pairs alone must do" in note for note in report["notes"])
    assert "20% of the pairs known" in "\n".join(lines(report))


def test_singles_alone_do_too() -> None:
    report = evaluate(tables.singles(), [], "pair", QUICK)
    assert report["memory"]["n"] == 12
    assert report["slowdown"] == {**dict.fromkeys(report["slowdown"]), "n": 0, "pairs": 0}


def test_single_row_is_not_judged_and_is_noted() -> None:
    report = evaluate([SingleMeasurement("V100", "a", "m")], [], "model")
    assert report["verdict"].startswith("Nothing could be judged")
    assert any("not judged" in note for note in report["notes"])


def test_each_type_of_device_has_a_table_of_its_own() -> None:
    both = [*tables.singles("V100"), *tables.singles("K80")]
    rows = [pair for alone in (both[:12], both[12:]) for pair in tables.pairs(alone)]
    report = evaluate(both, rows, "pair", QUICK)
    assert [group["device_type"] for group in report["groups"]] == ["K80", "V100"]
    assert "slowdown on K80, mps" in "\n".join(lines(report))


def test_the_same_tables_give_the_same_figures() -> None:
    alone = tables.singles()
    assert evaluate(alone, tables.pairs(alone), "pair", QUICK) == evaluate(alone, tables.pairs(alone), "pair", QUICK)


def test_the_verdict_says_where_ours_is_behind() -> None:
    alone = tables.singles()
    mean = Method("gpuq", pairs=constant, utilization=global_mean, memory=global_mean)
    report = evaluate(alone, tables.pairs(alone), "model", (mean, Method("rule", pairs=rule)))
    assert "behind in slowdown error" in report["verdict"]
    assert "of rule" in report["verdict"]
    same = {**report, "baselines": {"constant": {part: report[part] for part in ("slowdown", "memory", "utilization")}}}
    assert verdict(same).startswith("gpuq is level with or better than every baseline in 4 of 4")


def test_a_baseline_that_answers_few_questions_is_no_comparison(report: Plain) -> None:
    lucky = {**report["baselines"]["rule"], "slowdown": {**report["slowdown"], "error_pct": 0.1, "auc": 1.0, "n": 2}}
    assert "lucky" not in verdict({**report, "baselines": {**report["baselines"], "lucky": lucky}})
    often = {**lucky, "slowdown": {**lucky["slowdown"], "n": report["slowdown"]["n"]}}
    assert "of often" in verdict({**report, "baselines": {**report["baselines"], "often": often}})
