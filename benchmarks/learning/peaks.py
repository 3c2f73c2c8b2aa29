"""Peaks of jobs on measured public data: what is not known of a kind, foretold by the predictor that serves, against baselines.

Utilisation and memory of Alnair's workloads (one row left out, then one model) and of Alibaba's production jobs (the second
half from the first); how often bounds hold and how far above the truth they stand; how long an answer takes.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.table import Row
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.lab.evaluate.baselines import family_mean, same_model
from gpuq.lab.measured import SingleMeasurement
from gpuq.lab.public import alnair, pai
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.training.train import fit
from gpuq.settings import Learning

LEARNING = Learning()
QUESTIONS = 10_000
BETWEEN_TRAININGS = 100


@dataclass(frozen=True)
class _Target:
    """One of the two peaks, in points of the device."""

    name: str
    truth: Callable[[Outcome], float]
    point: Callable[[Forecast], float | None]
    upper: Callable[[Forecast], float | None]
    row_reach: float
    model_reach: float


def _share(memory: int | None) -> float | None:
    return None if memory is None else 100 * memory / alnair.WORKLOADS_MEMORY_BYTES


def _at_most_all(share: float | None) -> float | None:
    """As the baselines' points: nobody can use more than there is."""
    return None if share is None else min(100.0, share)


TARGETS = (
    _Target(
        "MGUP",
        lambda o: o.peak_utilization_pct or 0.0,
        lambda f: f.expected_utilization_pct,
        lambda f: f.peak_utilization_pct,
        6.5,
        14.0,
    ),
    _Target(
        "MGMAP",
        lambda o: _share(o.peak_memory_bytes) or 0.0,
        lambda f: _at_most_all(_share(f.peak_memory_bytes)),
        lambda f: _share(f.upper_memory_bytes),
        10.0,
        15.0,
    ),
)


def run(data: Path) -> list[Row]:
    """The rows of the table."""
    return [*_workloads(data), *_production(data), *_speed()]


def _workloads(data: Path) -> list[Row]:
    path = alnair.workloads(data)
    if path is None:
        return [Row("MGUP, MGMAP", None, "points", note="no alnair_workloads.csv")]
    outcomes = alnair.workload_outcomes(path)
    raw = list(alnair.workload_rows(path))
    singles = [
        SingleMeasurement(o.device_type, o.kind, row["Model"], float(row["BS"]))
        for o, row in zip(outcomes, raw, strict=True)
    ]
    families = {row["Model"]: row["family"] for row in raw}
    by_row, by_model = list(range(len(raw))), [row["Model"] for row in raw]
    ours = {"row": _left_out(outcomes, by_row), "model": _left_out(outcomes, by_model)}
    found = []
    for target in TARGETS:
        truth = np.array([target.truth(outcome) for outcome in outcomes])
        for way, groups, reach in (("row", by_row, target.row_reach), ("model", by_model, target.model_reach)):
            name = f"{target.name}, one {way} left out"
            for called, method in (("family mean", family_mean), ("same model, interpolated in log batch", same_model)):
                if (way, called[:4]) != ("model", "same"):
                    points = _baseline(method, singles, truth, groups, families)
                    found.append(Row(f"{name}: {called}", fmean(abs(points - truth)), "points", note="baseline"))
            found += _figures(name, target, truth, ours[way], reach)
    return found


def _figures(name: str, target: _Target, truth: np.ndarray, forecasts: Sequence[Forecast], reach: float) -> list[Row]:
    points = np.array([_or_nan(target.point(forecast)) for forecast in forecasts])
    uppers = np.array([_or_nan(target.upper(forecast)) for forecast in forecasts])
    there = ~np.isnan(points)
    error = np.abs(points - truth)
    near = np.array([forecast.evidence.startswith("script template") for forecast in forecasts]) & there
    holds, over = uppers >= truth - 1e-6, uppers / np.maximum(truth, 1.0)
    levels = f"{there.sum()} of {len(truth)} answered"
    return [
        Row(name, float(error[there].mean()), "points", reach, note=levels),
        Row(f"{name}, where the script is known", float(error[near].mean()), "points", note=f"{near.sum()} rows"),
        Row(f"{name}: coverage of the 95% bound", 100 * float(holds[there].mean()), "%", 94.0, ">="),
        Row(f"{name}: mean overshoot of the bound", float(over[there].mean()), "x", 1.35, note="median "
            f"{float(np.median(over[there])):.2f}"),
    ]  # fmt: skip


def _left_out(outcomes: Sequence[Outcome], groups: Sequence[Hashable]) -> list[Forecast]:
    """Each outcome's forecast by a predictor that was trained without its group."""
    found: dict[int, Forecast] = {}
    for group in dict.fromkeys(groups):
        rest = [outcome for outcome, own in zip(outcomes, groups, strict=True) if own != group]
        predictor = Predictor(History.from_outcomes(rest), fit(rest, LEARNING), LEARNING)
        for place, own in enumerate(groups):
            if own == group:
                outcome = outcomes[place]
                found[place] = predictor.forecast_for(outcome.kind, outcome.features, outcome.device_type)
    return [found[place] for place in range(len(outcomes))]


def _baseline(
    method: Callable[..., Callable[..., object]],
    singles: Sequence[SingleMeasurement],
    truth: np.ndarray,
    groups: Sequence[Hashable],
    families: dict[str, str],
) -> np.ndarray:
    points = np.zeros(len(singles))
    for group in dict.fromkeys(groups):
        out = np.array([own == group for own in groups])
        known = [single for single, left in zip(singles, out, strict=True) if not left]
        answer = method(known, truth[~out], lambda single: families[single.model])
        asked = [single for single, left in zip(singles, out, strict=True) if left]
        points[out] = np.clip(answer(asked).point, 0, 100)  # type: ignore[attr-defined]
    return points


def _production(data: Path) -> list[Row]:
    path = data / pai.INSTANCES
    if not path.is_file():
        return [Row("production utilisation", None, "points", note=f"no {pai.INSTANCES}")]
    outcomes = pai.instance_outcomes(path)
    first, second = outcomes[: len(outcomes) // 2], outcomes[len(outcomes) // 2 :]
    truth = np.array([outcome.peak_utilization_pct for outcome in second])
    model = fit(first, LEARNING)
    frozen = _walk(first, second, model, online=False)
    online = _walk(first, second, model, online=True)
    name = "production utilisation, second half from the first"
    points = np.array([_or_nan(forecast.expected_utilization_pct) for forecast in frozen])
    learning = np.array([_or_nan(forecast.expected_utilization_pct) for forecast in online])
    uppers = np.array([_or_nan(forecast.peak_utilization_pct) for forecast in frozen])
    new = np.array([not forecast.evidence.startswith("own history") for forecast in frozen])
    answered = ~np.isnan(points)
    mean = np.mean([outcome.peak_utilization_pct for outcome in first])
    points, learning = (np.where(np.isnan(found), mean, found) for found in (points, learning))
    new &= ~np.isnan(uppers)
    by_group = _error(truth, _first_known(first, second))
    return [
        Row(f"{name}: mean", _error(truth, np.full(len(truth), mean)), "points",
            note="baseline"),
        Row(f"{name}: by group, then user and workload, then workload", by_group, "points", note="baseline"),
        Row(name, _error(truth, points), "points", 6.5, note=f"{int(answered.sum())} of {len(truth)} answered, else the mean"),
        Row(f"{name}, with online learning", _error(truth, learning), "points"),
        *_retrained(first, second, name),
        Row(f"{name}: coverage of the 95% bound, new kinds", 100 * float((uppers >= np.minimum(truth, 100))[new].mean()), "%",
            94.0, ">=", note=f"{int(new.sum())} instances"),
        Row(f"{name}: mean bound less truth, new kinds", float((uppers - truth)[new].mean()), "points"),
    ]  # fmt: skip


def _retrained(first: Sequence[Outcome], second: Sequence[Outcome], name: str) -> list[Row]:
    """As a night's training would have it: a new model after every so many instances, on all before them."""
    forecasts: list[Forecast] = []
    for start in range(0, len(second), BETWEEN_TRAININGS):
        before = [*first, *second[:start]]
        forecasts += _walk(before, second[start : start + BETWEEN_TRAININGS], fit(before, LEARNING), online=True)
    truth = np.array([outcome.peak_utilization_pct for outcome in second])
    points = np.array([_or_nan(forecast.expected_utilization_pct) for forecast in forecasts])
    uppers = np.array([_or_nan(forecast.peak_utilization_pct) for forecast in forecasts])
    new = np.array([not forecast.evidence.startswith("own history") for forecast in forecasts]) & ~np.isnan(uppers)
    points = np.where(np.isnan(points), np.mean([outcome.peak_utilization_pct for outcome in first]), points)
    called = f"{name}, retrained every {BETWEEN_TRAININGS} instances"
    return [
        Row(called, _error(truth, points), "points"),
        Row(f"{called}: coverage of the 95% bound, new kinds", 100 * float((uppers >= np.minimum(truth, 100))[new].mean()), "%",
            note=f"{int(new.sum())} instances"),
    ]  # fmt: skip


def _walk(first: Sequence[Outcome], second: Sequence[Outcome], model: Model, *, online: bool) -> list[Forecast]:
    predictor = Predictor(History.from_outcomes(first), model, LEARNING)
    found = []
    for outcome in second:
        found.append(predictor.forecast_for(outcome.kind, outcome.features, outcome.device_type))
        if online:
            predictor.learn(outcome)
    return found


def _first_known(first: Sequence[Outcome], second: Sequence[Outcome]) -> np.ndarray:
    """The mean of the same group, or of the user's same workload, or of the workload, or of all: the first that is known."""
    levels = [defaultdict(list) for _ in range(4)]
    for outcome in first:
        for level, key in zip(levels, _keys(outcome), strict=True):
            level[key].append(outcome.peak_utilization_pct)
    return np.array(
        [
            next(fmean(level[key]) for level, key in zip(levels, _keys(outcome), strict=True) if key in level)
            for outcome in second
        ]
    )


def _keys(outcome: Outcome) -> tuple[Hashable, ...]:
    owner, script, family = outcome.features["tokens"][:3]
    return (script, (owner, family), family, "all")


def _speed() -> list[Row]:
    """Of the predictor with a trained model that holds as many kinds as it may, asked about kinds it has never seen."""
    outcomes = [_made_up(i) for i in range(1500)]
    model = fit(outcomes, LEARNING)
    predictor = Predictor(History.from_outcomes(outcomes), model, LEARNING)
    asked = [_made_up(10_000 + i) for i in range(QUESTIONS)]
    single = [
        _timed(lambda o=outcome: predictor.forecast_for(o.kind, o.features, o.device_type)) for outcome in asked[:300]
    ]
    predictor = Predictor(History.from_outcomes(outcomes), model, LEARNING)
    for outcome in asked:
        predictor.register(outcome.signature, outcome.features, outcome.kind)
    questions = [Question(o.signature, KindId(o.kind), o.device_type) for o in asked]
    # A daemon never trains: what the training above left behind is not for its collector of garbage to look through.
    gc.collect()
    gc.freeze()
    took = _timed(lambda: predictor.answer(questions))
    known = sum(answer.known for answer in predictor.answer(questions).values())
    heavy = _imported()
    return [
        Row("one forecast for one new kind, median", 1e3 * median(own for own, _ in single), "ms of processor", 1.0,
            note=f"on this machine as busy as it is {1e3 * median(wall for _, wall in single):.2f} ms"),
        Row("10,000 new kinds in one batch", took[0], "s of processor", 1.0,
            note=f"{known} with an answer; on this machine as busy as it is {took[1]:.2f} s"),
        Row("heavy libraries imported for serving", float(len(heavy)), "", 0.0, note=" ".join(heavy)),
    ]  # fmt: skip


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """(processor, wall) seconds."""
    own, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - own, time.perf_counter() - wall


def _made_up(i: int) -> Outcome:
    """A job of one of 40 owners and 120 scripts, of one of 900 models, of one of eight batch sizes."""
    chance = np.random.default_rng(i)
    owner, script, number = f"user{i % 40}", f"job{chr(97 + i % 3)}", int(chance.integers(900))
    batch = int(chance.integers(8))
    tokens = (
        f"owner:{owner}",
        f"script:{script}",
        f"folder:work{owner}",
        f"model:net{number}",
        "family:net",
        "option:lr",
    )
    kind = f"{owner}:{script}.py --batch-size={2**batch} --model=net{number} {i}"
    return Outcome(
        kind=kind, signature=f"{kind}#", script_sha256=None, device_type="made up",
        features={"tokens": list(tokens), "batch_log2": float(batch)},
        peak_utilization_pct=min(100.0, 5 + 10 * batch + number / 60), peak_memory_bytes=2**30 * (1 + batch),
        duration_s=60.0, alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False,
        ended_at=float(i), attempt=(i, 1),
    )  # fmt: skip


def _imported() -> list[str]:
    """Which libraries for training a process has loaded that serves."""
    heavy = ("tensorflow", "sklearn", "scipy", "matplotlib")
    serving = "gpuq.learn.serving.predictor, gpuq.learn.serving.shelf"
    code = f"import sys, {serving}; print(*[n for n in {heavy!r} if n in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def _error(truth: np.ndarray, points: np.ndarray) -> float:
    return float(np.nanmean(np.abs(points - truth)))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
