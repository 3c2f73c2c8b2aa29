"""Peak memory of networks never seen, and bounds that hold as often as they say: SchedTune's 12 CNNs on 5 types of GPU.

Each network is predicted without any of its rows: by the predictor that serves, trained on the others (its margins by leaving
those out, one by one), and by its two parts alone. To beat: per type of GPU, a line through activations and parameters
(least squares), which the issue's 9.7% is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.table import Row
from gpuq.lab.public.schedtune import TrainedNetwork, outcomes, trained
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.memory.conformal import held_out
from gpuq.learn.memory.extend import extend
from gpuq.learn.memory.footprint import MIB, MeasuredPeak, fit, footprint, parts_of
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.statistics import SAME_KIND_MEMORY
from gpuq.learn.training import train
from gpuq.settings import Learning

LEARNING = Learning()
QUANTILE = LEARNING.quantile


def run(data: Path) -> list[Row]:
    rows, ended = trained(data), outcomes(data)
    truth = np.array([row.peak_memory_mib for row in rows])
    lines = _lines(rows)
    points, uppers = _served(ended)
    without = [replace(outcome, features={**outcome.features, "image_size": None, "model": None}) for outcome in ended]
    return [
        *_doublings(rows),
        Row(
            "memory, one model out: a line per GPU",
            _error(lines, truth),
            "%",
            note="to beat; on activations, parameters",
        ),
        Row("memory, one model out: rows > 10% under, a line", _under(lines, truth), "%"),
        *_judged("by similarity alone", truth, *_served(without)),
        *_judged("layers alone", truth, *_footprints(ended)),
        Row("memory, one model out: served", _error(points, truth), "%", reach=8.0, note=f"{len(rows)} rows"),
        Row("memory, one model out: rows > 10% under", _under(points, truth), "%", reach=5.0),
        Row("memory, 95% bound: coverage, low end", _covered(uppers, truth), "%", reach=94.0, sense=">="),
        Row("memory, 95% bound: coverage, high end", _covered(uppers, truth), "%", reach=97.0, note="more is too wide"),
        Row("memory, 95% bound: mean overshoot", float(np.mean(uppers / truth)), "x truth", reach=1.35),
    ]


def _judged(name: str, truth: np.ndarray, points: np.ndarray, uppers: np.ndarray) -> list[Row]:
    """The same figures of a part of the forecast, in one row and its note."""
    covered = f"{_covered(uppers, truth):.1f}% covered, overshoot {np.mean(uppers / truth):.2f}"
    note = f"{_under(points, truth):.1f}% of rows > 10% under; {covered}"
    return [Row(f"memory, one model out: {name}", _error(points, truth), "%", note=note)]


def _doublings(rows: Sequence[TrainedNetwork]) -> list[Row]:
    """A kind's own history, carried to the next doubling of the batch from two smaller sizes or more."""
    sizes: dict[tuple[str, str], dict[float, float]] = {}
    for row in rows:
        sizes.setdefault((row.device_type, row.model), {})[row.batch_size] = row.peak_memory_mib
    ratios = []
    for measured in sizes.values():
        batches = sorted(measured)
        peaks = [measured[batch] for batch in batches]
        for place in range(2, len(batches)):
            point, upper = extend(batches[:place], peaks[:place], batches[place], QUANTILE, SAME_KIND_MEMORY)
            proportional = peaks[place - 1] * batches[place] / batches[place - 1]
            ratios.append([value / peaks[place] for value in (proportional, point, upper)])
    proportional, points, uppers = np.array(ratios).T
    median = f"{len(ratios)} doublings; p90 {np.quantile(np.abs(points - 1), 0.9):.1%}"
    return [
        Row("memory, own runs to the next doubling: in proportion", _median(proportional), "%", note="median error"),
        Row("memory, own runs to the next doubling: extended", _median(points), "%", note=median),
        Row(
            "memory, own runs to the next doubling: 95% bound", float(np.mean(uppers >= 1) * 100), "%", note="coverage"
        ),
        Row("memory, own runs to the next doubling: overshoot", float(np.mean(uppers)), "x truth"),
    ]


def _measured(outcome: Outcome) -> MeasuredPeak:
    parts = parts_of(outcome.features)
    assert parts is not None, f"{outcome.kind} is not in the table of architectures"
    return MeasuredPeak(parts, outcome.device_type, float(outcome.peak_memory_bytes or 0))


def _footprints(ended: Sequence[Outcome]) -> tuple[np.ndarray, np.ndarray]:
    """(points, upper bounds) in MiB from coefficients fitted without the network."""
    found = np.zeros((len(ended), 2))
    for kept, out in held_out([_measured(outcome).parts.name for outcome in ended]):
        coefficients = fit([_measured(ended[place]) for place in kept], QUANTILE)
        for place in out:
            answer = footprint(ended[place].features, ended[place].device_type, coefficients)
            assert answer is not None
            found[place] = answer.point, answer.upper
    return found[:, 0] / MIB, found[:, 1] / MIB


def _served(ended: Sequence[Outcome]) -> tuple[np.ndarray, np.ndarray]:
    """(points, upper bounds) in MiB from the predictor, trained without the network."""
    found = np.zeros((len(ended), 2))
    for kept, out in held_out([outcome.kind.rpartition("--model=")[2] for outcome in ended]):
        seen = [ended[place] for place in kept]
        predictor = Predictor(History.from_outcomes(seen), train.fit(seen, LEARNING), LEARNING)
        for place in out:
            answer = predictor.forecast_for(ended[place].kind, ended[place].features, ended[place].device_type)
            found[place] = answer.peak_memory_bytes or 0, answer.upper_memory_bytes or 0
    return found[:, 0] / MIB, found[:, 1] / MIB


def _lines(rows: Sequence[TrainedNetwork]) -> np.ndarray:
    """Per type of GPU, a line through activations and parameters, by least squares on the other networks."""
    truth = np.array([row.peak_memory_mib for row in rows])
    table = np.array([[1.0, row.activations_mib, row.parameters_mib] for row in rows])
    types = np.array([row.device_type for row in rows])
    answers = np.zeros(len(rows))
    for kept, out in held_out([row.model for row in rows]):
        for name in sorted(set(types)):
            seen, asked = ([place for place in places if types[place] == name] for places in (kept, out))
            answers[asked] = table[asked] @ np.linalg.lstsq(table[seen], truth[seen], rcond=None)[0]
    return answers


def _error(points: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.abs(points / truth - 1.0)) * 100)


def _median(ratios: np.ndarray) -> float:
    return float(np.median(np.abs(ratios - 1.0)) * 100)


def _under(points: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(points < 0.9 * truth) * 100)


def _covered(uppers: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(truth <= uppers) * 100)
