"""How good forecasts were: candidate against serving model, on attempts that neither has seen.

Arrives: the attempts before the held-out time and those in it, and two models. Leaves: figures for each, and whether
the candidate is better. The walk is in the order of time: each attempt is foretold from what had ended before it, then
learnt, so nobody looks ahead. Lower loss is better; the share of attempts that needed more memory than the bound is
guarded beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec

from gpuq.core.forecast import Forecast
from gpuq.learn.history import History
from gpuq.learn.model import Model
from gpuq.learn.outcome import Outcome
from gpuq.learn.predictor import UTILIZATION_QUANTILE, Predictor
from gpuq.settings import Learning


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a model reached on held-out attempts.

    Shares from 0 to 1, errors in points of utilisation; None: nothing to tell from.
    """

    loss: float | None
    """Pinball loss of the memory bound (logs) plus that of peak utilisation (share of the device)."""
    scored: int
    """Held-out attempts with whole measurements."""
    answered_share: float | None
    memory_under_share: float | None
    """Of the answered: needed more memory than the bound."""
    memory_overshoot: float | None
    """Of the answered: mean of bound / truth."""
    utilization_error: float | None
    """Of the answered: mean absolute error of peak utilisation."""


@dataclass(frozen=True)
class Judgement:
    """Whether the candidate should serve, and why."""

    better: bool
    reason: str
    candidate: Figures
    serving: Figures


@dataclass(frozen=True)
class _Ceiling:
    """What an unanswered question costs.

    The job runs alone, so it is charged as if it needed as much as the most seen.
    """

    memory_bytes: float
    utilization_pct: float = 100.0


def judge(
    earlier: Sequence[Outcome], held_out: Sequence[Outcome], candidate: Model, serving: Model | None, learning: Learning
) -> Judgement:
    """Better: a lower loss, and memory bounds that fail no more often than promised or than before."""
    new, old = (_evaluate(earlier, held_out, model, learning) for model in (candidate, serving))
    if new.loss is None or old.loss is None:
        return Judgement(False, "no held-out attempt has both peaks measured", new, old)
    allowed = max(1.0 - learning.quantile, old.memory_under_share or 0.0)
    if (new.memory_under_share or 0.0) > allowed + 1e-9:
        shares = f"{new.memory_under_share or 0.0:.2%} of held-out attempts, {allowed:.2%} allowed"
        return Judgement(False, f"the candidate's memory bounds fail too often: {shares}", new, old)
    if new.loss >= old.loss * (1 - 1e-6):
        return Judgement(False, f"no better on held-out attempts: loss {new.loss:.4f} against {old.loss:.4f}", new, old)
    return Judgement(True, f"better on held-out attempts: loss {new.loss:.4f} against {old.loss:.4f}", new, old)


def pinball(truth: float, forecast: float, quantile: float) -> float:
    """The loss that a forecast of this quantile minimises: too low costs q per unit, too high 1 - q."""
    gap = truth - forecast
    return quantile * gap if gap >= 0 else (quantile - 1) * gap


def _evaluate(
    earlier: Sequence[Outcome], held_out: Sequence[Outcome], model: Model | None, learning: Learning
) -> Figures:
    predictor = Predictor(History.from_outcomes(earlier), model, learning)
    ceilings = _ceilings([*earlier, *held_out])
    rows: list[tuple[Outcome, Forecast]] = []
    for outcome in held_out:
        if outcome.whole and outcome.peak_memory_bytes is not None and outcome.peak_utilization_pct is not None:
            rows.append((outcome, predictor.forecast_for(outcome.kind, outcome.features, outcome.device_type)))
        predictor.learn(outcome)
    answered = [row for row in rows if row[1].known]
    return Figures(
        loss=_mean(rows, lambda row: _loss(*row, ceilings[row[0].device_type], learning.quantile)),
        scored=len(rows),
        answered_share=_mean(rows, lambda row: float(row[1].known)),
        memory_under_share=_mean(answered, lambda row: float(_memory(row[0]) > (row[1].upper_memory_bytes or 0))),
        memory_overshoot=_mean(answered, lambda row: (row[1].upper_memory_bytes or 0) / max(_memory(row[0]), 1)),
        utilization_error=_mean(
            answered, lambda row: abs((row[1].peak_utilization_pct or 0.0) - (row[0].peak_utilization_pct or 0.0))
        ),
    )


def _loss(outcome: Outcome, forecast: Forecast, ceiling: _Ceiling, quantile: float) -> float:
    memory = forecast.upper_memory_bytes if forecast.known else ceiling.memory_bytes
    utilization = forecast.peak_utilization_pct if forecast.known else ceiling.utilization_pct
    truth = math.log(max(_memory(outcome), 1))
    return pinball(truth, math.log(max(memory or 0, 1)), quantile) + pinball(
        (outcome.peak_utilization_pct or 0.0) / 100, (utilization or 0.0) / 100, UTILIZATION_QUANTILE
    )


def _ceilings(outcomes: Sequence[Outcome]) -> dict[str, _Ceiling]:
    most: dict[str, int] = {}
    for outcome in outcomes:
        most[outcome.device_type] = max(most.get(outcome.device_type, 0), outcome.peak_memory_bytes or 0)
    return {device_type: _Ceiling(memory_bytes=value) for device_type, value in most.items()}


def _memory(outcome: Outcome) -> int:
    return outcome.peak_memory_bytes or 0


def _mean(
    rows: Sequence[tuple[Outcome, Forecast]], figure: Callable[[tuple[Outcome, Forecast]], float]
) -> float | None:
    return fmean(map(figure, rows)) if rows else None
