"""Peak memory of networks never seen, and bounds that hold as often as they say: SchedTune's 12 CNNs on 5 types of GPU.

Each network is foretold by coefficients and margins fitted without any of its rows (margins by leaving out, one by one, the
networks that are left). What is judged is `gpuq.learn.peaks.footprint.footprint`, which serves. To beat: per type of GPU, a
line through activations and parameters (least squares), which the issue's 9.7% is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.table import Row
from gpuq.learn.bounds import SAME_KIND_MEMORY
from gpuq.learn.peaks.conformal import held_out
from gpuq.learn.peaks.extend import extend
from gpuq.learn.peaks.footprint import MIB, Footprint, Measured, fit, footprint
from gpuq.learn.public.schedtune import Trained, trained

QUANTILE = 0.95


def run(data: Path) -> list[Row]:
    rows = trained(data)
    truth = np.array([row.peak_memory_mib for row in rows])
    lines, found = _lines(rows), _footprints(rows)
    points, uppers = (np.array([getattr(each, name) / MIB for each in found]) for name in ("point", "upper"))
    return [
        *_doublings(rows),
        Row(
            "memory, one model out: a line per GPU",
            _error(lines, truth),
            "%",
            note="to beat; on activations, parameters",
        ),
        Row("memory, one model out: rows > 10% under, a line", _under(lines, truth), "%"),
        Row("memory, one model out: footprint", _error(points, truth), "%", reach=8.0, note=f"{len(rows)} rows"),
        Row("memory, one model out: rows > 10% under", _under(points, truth), "%", reach=5.0),
        Row("memory, 95% bound: coverage, low end", _covered(uppers, truth), "%", reach=94.0, sense=">="),
        Row("memory, 95% bound: coverage, high end", _covered(uppers, truth), "%", reach=97.0, note="more is too wide"),
        Row("memory, 95% bound: mean overshoot", float(np.mean(uppers / truth)), "x truth", reach=1.35),
    ]


def _doublings(rows: Sequence[Trained]) -> list[Row]:
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


def _measured(row: Trained) -> Measured:
    return Measured(row.model, row.device_type, row.features, row.peak_memory_mib * MIB)


def _footprints(rows: Sequence[Trained]) -> list[Footprint]:
    answers: dict[int, Footprint] = {}
    for kept, out in held_out([row.model for row in rows]):
        coefficients = fit([_measured(rows[place]) for place in kept], QUANTILE)
        for place in out:
            answer = footprint(rows[place].features, rows[place].device_type, coefficients)
            assert answer is not None, f"{rows[place].model} is not in the table of architectures"
            answers[place] = answer
    return [answers[place] for place in range(len(rows))]


def _lines(rows: Sequence[Trained]) -> np.ndarray:
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
