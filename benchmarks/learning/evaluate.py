"""What `gpuq model evaluate` says of the measured public data: ours beside the best of its baselines, on the same rows.

The reach of each figure is the best baseline's: the tool must never be the worse choice. Each table is judged with whole
models (for the MPS pairs also one job) held out, then with pairs held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.table import Row, number
from gpuq.lab.evaluate.report import Plain, evaluate
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.lab.public import alnair, alnair_mps, gavel

# figure -> its unit, and on which side of the best baseline it should be
_SLOWDOWN = {"error_pct": ("%", "<="), "auc": ("", ">="), "directed_auc": ("", ">=")}
_SLOWDOWN_BESIDE = {"precision": "", "recall": "", "coverage_pct": "%", "overshoot": "x"}


@dataclass(frozen=True)
class _Case:
    name: str
    singles: Sequence[SingleMeasurement]
    pairs: Sequence[PairMeasurement]
    way: str


def run(data: Path) -> list[Row]:
    """The rows of the table."""
    return [row for case in _cases(data) for row in _rows(case)]


def _cases(data: Path) -> Iterator[_Case]:
    mps = alnair_mps.singles(data), alnair_mps.pairs(data)
    by_job = [replace(single, model=f"{single.job} alone") for single in mps[0]]
    yield _Case("MPS pairs", by_job, mps[1], "job")
    yield _Case("MPS pairs", *mps, "model")
    yield _Case("MPS pairs", *mps, "pair")
    pairs = gavel.singles(data), gavel.pairs(data)
    yield _Case("Gavel pairs", *pairs, "model")
    yield _Case("Gavel pairs", *pairs, "pair")
    path = alnair.workloads(data)
    singles = [] if path is None else alnair.workload_singles(path)
    seed = alnair.seed_pairs(data / alnair.SEED_PAIRS)
    yield _Case("the seed's jobs and pairs", singles, seed, "model")
    yield _Case("the seed's jobs and pairs", singles, seed, "pair")


def _rows(case: _Case) -> Iterator[Row]:
    told = evaluate(case.singles, case.pairs, "model" if case.way == "job" else case.way)
    name = f"{case.name}, by {case.way}"
    yield from _slowdowns(name, told)
    if len(told["groups"]) > 1:
        for group in told["groups"]:
            yield from _slowdowns(f"{name}, {group['device_type']}", group)
    for sparse in told["sparse"]:
        yield from _slowdowns(f"{case.name}, {sparse['how']}", sparse)
    for target, unit in (("utilization", "points"), ("memory", "%")):
        yield from _beside_best(f"{name}: {target} error", told, target, "error", unit)
        if told[target]["n"]:
            yield Row(f"{name}: {target} coverage", told[target]["coverage_pct"], "%")


def _slowdowns(name: str, told: Plain) -> Iterator[Row]:
    for figure, (unit, sense) in _SLOWDOWN.items():
        yield from _beside_best(
            f"{name}: slowdown {figure.removesuffix('_pct')}", told, "slowdown", figure, unit, sense
        )
    for figure, unit in _SLOWDOWN_BESIDE.items():
        yield Row(f"{name}: slowdown {figure.removesuffix('_pct')}", told["slowdown"][figure], unit)


def _beside_best(name: str, told: Plain, part: str, figure: str, unit: str, sense: str = "<=") -> Iterator[Row]:
    others = {
        called: found[part][figure] for called, found in told["baselines"].items() if found[part][figure] is not None
    }
    own = told[part][figure]
    if own is None or not others:
        return
    best = (min if sense == "<=" else max)(others.values())
    note = ", ".join(f"{called} {number(value)}" for called, value in others.items())
    yield Row(name, own, unit, best, sense, note=f"n = {told[part]['n']}; {note}")
