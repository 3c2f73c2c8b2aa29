"""How good forecasts were: candidate against serving model, on attempts that neither has seen.

The held-out attempts are walked in the order of time: each is predicted from what had ended before it and then learned, so no
forecast looks ahead. All attempts are learned; only a fair share of each kind's and owner's is scored (`fair`).

The candidate is better if its loss is lower by more than chance explains, and no guarded figure got worse. Rows of one kind
in one quarter of the held-out time form one unit, because they are correlated; a gain counts if at least four units changed,
and the sign-flip test gives less than a fifth. Guards apply the same test to a loss, or an exact binomial test to counts, so
that three attempts neither veto nor clear a model by luck.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import msgspec

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import Forecast
from gpuq.learn.history.history import UTILIZATION_QUANTILE, History
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.statistics import binomial_tail, sign_flip_p_value
from gpuq.learn.training.fair import fair
from gpuq.learn.training.sharing import would_share
from gpuq.settings import Learning

# A figure got worse if chance explains the difference with less than this probability. A memory bound that fails ends a job, so
# there the threshold is higher.
_CHANCE = 0.1
_MEMORY_CHANCE = 0.2
# A gain counts below this probability: publishing a model that is only equal does no harm.
_GAIN_CHANCE = 0.2
_LEAST_UNITS = 4
_QUARTERS = 4


class ForecastFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a model reached on held-out attempts. Shares from 0 to 1; None where there was nothing to measure."""

    loss: float | None
    """Pinball loss of the memory bound (logs), of peak utilisation (share of the device) and of the slowdown bound (logs)."""
    scored: int
    """Held-out attempts with whole measurements that count."""
    answered_share: float | None
    memory_answered: int
    memory_under_share: float | None
    """Of the answered: needed more memory than the bound."""
    memory_overshoot: float | None
    """Of the answered: mean of bound / truth."""
    utilization_error: float | None
    """Of the answered: mean absolute error of peak utilisation."""
    slowdowns: int = 0
    """Held-out slowdowns beside one partner for which there was a forecast."""
    slowdown_error: float | None = None
    """Of these: mean absolute error as a share of the truth."""
    slowdown_under_share: float | None = None
    """Of these: slowed down by more than the bound."""
    pairs: int = 0
    """Held-out slowdowns beside one partner."""
    wrongly_admitted: int = 0
    """Of the pairs: would have been put together and exceeded the budget."""
    wrongly_refused: int = 0
    """Of the pairs: would have been kept apart and stayed within it."""


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """One guarded figure: both models' values, the number of attempts, and whether it vetoes the candidate.

    `chance` is the probability of such a difference if there is none.
    """

    name: str
    candidate: float | None
    serving: float | None
    count: int
    chance: float
    vetoes: bool


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """One held-out attempt, the forecast for it, and what that forecast costs.

    `admitted` tells whether the two would have shared; None where no slowdown beside one partner was measured.
    """

    outcome: Outcome
    forecast: Forecast
    loss: float
    unit: tuple[str, int]
    admitted: bool | None

    @property
    def slowdown(self) -> float | None:
        """The measured slowdown beside the one partner; None without one."""
        return self.outcome.slowdowns[0][1] if self.outcome.slowdowns else None


@dataclass(frozen=True)
class Judgement:
    """Whether the candidate should serve, and why; `rows` are the candidate's, for the plots of its card."""

    better: bool
    reason: str
    candidate: ForecastFigures
    serving: ForecastFigures
    guards: tuple[Guard, ...] = ()
    rows: tuple[ScoredForecast, ...] = ()


Ceilings = dict[str, tuple[int, float]]
"""Device type -> what a missing answer is charged as: the most memory and the highest slowdown that were ever seen there."""
Pairs = Sequence[tuple[ScoredForecast, ScoredForecast]]


def judge(
    earlier: Sequence[Outcome],
    held_out: Sequence[Outcome],
    candidate: Model,
    serving: Model | None,
    learning: Learning,
    limits: Limits | None = None,
) -> Judgement:
    """Compare the candidate with the serving model (None: no model) on `held_out`, which ended after `earlier`."""
    limits = limits or Limits()
    new, old = (score_forecasts(earlier, held_out, model, learning, limits) for model in (candidate, serving))
    reached = figures(new, limits), figures(old, limits)
    pairs = list(zip(new, old, strict=True))
    kinds = {row.outcome.kind: row.outcome for row in new}.values()
    ceilings = _ceilings([*earlier, *held_out])
    unseen = zip(*(_without_history(kinds, model, learning, ceilings) for model in (candidate, serving)), strict=True)
    new_kinds, promise = list(unseen), 1 - learning.quantile
    guards = (
        _bound_guard("memory bounds that failed", pairs, _memory_failed, promise, _MEMORY_CHANCE),
        _error_guard("loss for work without history", new_kinds, lambda row: row.loss),
        _error_guard("utilisation error", pairs, _utilization_error),
        _bound_guard("slowdown bounds that failed", pairs, _slowdown_failed, promise, _CHANCE),
        _error_guard("slowdown error", pairs, _slowdown_error),
        _error_guard("loss of admission", pairs, lambda row: admission_loss(row, limits)),
    )
    objection = _objection(pairs, guards)
    reason = objection or f"better on held-out attempts: {_losses(pairs)}"
    return Judgement(objection is None, reason, *reached, guards, tuple(new))


def score_forecasts(
    earlier: Sequence[Outcome], held_out: Sequence[Outcome], model: Model | None, learning: Learning, limits: Limits
) -> list[ScoredForecast]:
    """This model's forecasts for the held-out attempts that count, each from what had ended before it."""
    predictor = Predictor(History.from_outcomes(earlier), model, learning)
    ceilings = _ceilings([*earlier, *held_out])
    measured = [
        outcome
        for outcome in held_out
        if outcome.whole and outcome.peak_memory_bytes is not None and outcome.peak_utilization_pct is not None
    ]
    counted = {id(outcome) for outcome in fair(measured)}
    latest = {outcome.kind: outcome for outcome in earlier}
    rows: list[ScoredForecast] = []
    for place, outcome in enumerate(held_out):
        beside = (outcome.slowdowns[0][0],) if outcome.slowdowns else ()
        asked = outcome.device_type, beside, outcome.sharing
        forecast = predictor.forecast_known(outcome.kind, outcome.known, *asked)
        if id(outcome) in counted:
            admitted = None
            if beside:
                partner = latest.get(beside[0])
                known = JobFeatures() if partner is None else partner.known
                resident = predictor.forecast_known(beside[0], known, outcome.device_type)
                admitted = would_share(outcome.kind, forecast, beside[0], resident, limits)
            rows.append(
                ScoredForecast(
                    outcome,
                    forecast,
                    _loss(outcome, forecast, ceilings[outcome.device_type], learning.quantile),
                    (outcome.kind, place * _QUARTERS // len(held_out)),
                    admitted,
                )
            )
        latest[outcome.kind] = outcome
        predictor.learn(replace(outcome, forecast=forecast))
    return rows


def _without_history(
    outcomes: Iterable[Outcome], model: Model | None, learning: Learning, ceilings: Ceilings
) -> list[ScoredForecast]:
    """The forecasts of this model alone, as if every kind were new.

    New kinds rest on the model alone, and few come in one night, so they are judged on all kinds this way.
    """
    predictor = Predictor(History(), model, learning)
    rows = []
    for outcome in outcomes:
        alone = replace(outcome, slowdowns=())
        forecast = predictor.forecast_known(outcome.kind, outcome.known, outcome.device_type)
        loss = _loss(alone, forecast, ceilings[outcome.device_type], learning.quantile)
        rows.append(ScoredForecast(alone, forecast, loss, (outcome.kind, 0), None))
    return rows


def pinball(truth: float, forecast: float, quantile: float) -> float:
    """The loss that a forecast of this quantile minimises: too low costs `quantile` per unit, too high 1 - `quantile`."""
    gap = truth - forecast
    return quantile * gap if gap >= 0 else (quantile - 1) * gap


def _objection(pairs: Pairs, guards: Sequence[Guard]) -> str | None:
    """Why the candidate may not serve; None if nothing speaks against it."""
    if not pairs:
        return "no held-out attempt has both peaks measured"
    for guard in guards:
        if guard.vetoes:
            return (
                f"the candidate is worse in {guard.name}: {_shown(guard.candidate)} against {_shown(guard.serving)} "
                f"on {guard.count} held-out attempts"
            )
    # A gain below a millionth of the loss is rounding, not learning.
    gains = _by_unit(pairs, lambda new, old: old.loss - new.loss)
    if math.fsum(gains) <= 1e-6 * math.fsum(_by_unit(pairs, lambda _, old: old.loss)):
        return f"no better on held-out attempts: {_losses(pairs)}"
    changed, chance = sum(map(bool, gains)), sign_flip_p_value(gains)
    if changed < _LEAST_UNITS or chance >= _GAIN_CHANCE:
        rests = f"it rests on {changed} groups of attempts, and chance gives the like in {chance:.0%} of cases"
        return f"no better on held-out attempts than chance may be: {_losses(pairs)}, but {rests}"
    return None


def _bound_guard(
    name: str, pairs: Pairs, failed: Callable[[ScoredForecast], bool | None], promise: float, least_chance: float
) -> Guard:
    """Vetoes if a bound fails more often than promised and than before, by more than chance explains (exact binomial test)."""
    new = [value for value in (failed(row) for row, _ in pairs) if value is not None]
    old = [value for value in (failed(row) for _, row in pairs) if value is not None]
    share, before = _mean(new), _mean(old)
    allowed = max(promise, before or 0.0)
    chance = binomial_tail(sum(new), len(new), allowed)
    return Guard(
        name=name, candidate=share, serving=before, count=len(new), chance=chance,
        vetoes=(share or 0.0) > allowed and chance < least_chance,
    )  # fmt: skip


def _error_guard(name: str, pairs: Pairs, error: Callable[[ScoredForecast], float | None]) -> Guard:
    """Vetoes if the error is larger where both models answered, by more than chance explains (sign-flip test, by unit)."""
    both = [(new, old) for new, old in pairs if error(new) is not None and error(old) is not None]
    new_mean, old_mean = (_mean([error(side[k]) or 0.0 for side in both]) for k in (0, 1))
    chance = sign_flip_p_value(_by_unit(both, lambda new, old: (error(new) or 0.0) - (error(old) or 0.0)))
    return Guard(
        name=name, candidate=new_mean, serving=old_mean, count=len(both), chance=chance, vetoes=chance < _CHANCE
    )


def _by_unit(pairs: Pairs, value: Callable[[ScoredForecast, ScoredForecast], float]) -> list[float]:
    units: dict[tuple[str, int], list[float]] = defaultdict(list)
    for new, old in pairs:
        units[new.unit].append(value(new, old))
    return [fmean(values) for values in units.values()]


def _memory_failed(row: ScoredForecast) -> bool | None:
    upper = row.forecast.upper_memory_bytes
    return None if upper is None else (row.outcome.peak_memory_bytes or 0) > upper


def _utilization_error(row: ScoredForecast) -> float | None:
    likeliest = row.forecast.likeliest_utilization_pct
    return None if likeliest is None else abs(likeliest - (row.outcome.peak_utilization_pct or 0.0))


def _slowdown_error(row: ScoredForecast) -> float | None:
    expected = row.forecast.expected_slowdown
    return None if expected is None or row.slowdown is None else abs(expected - row.slowdown) / row.slowdown


def _slowdown_failed(row: ScoredForecast) -> bool | None:
    upper = row.forecast.upper_slowdown
    return None if upper is None or row.slowdown is None else row.slowdown > upper


def _mistake(row: ScoredForecast, limits: Limits, *, admitted: bool) -> bool | None:
    if row.admitted is None or row.slowdown is None:
        return None
    return row.admitted is admitted and (row.slowdown > limits.max_slowdown) is admitted


def admission_loss(row: ScoredForecast, limits: Limits) -> float | None:
    """What a decision cost, from 0 to 1: a pair wrongly admitted 1 - risk, one wrongly refused risk.

    These are the costs under which it is right to admit exactly what exceeds a budget with a probability of at most `risk`.
    One sum of both, because the held-out pairs are those that were admitted: a more careful model can only refuse more of them.
    """
    if row.admitted is None:
        return None
    # With a risk of 1 pairs are admitted by what is expected alone, which is right for equal costs.
    risk = limits.risk if limits.risk < 1 else 0.5
    return (1 - risk) * bool(_mistake(row, limits, admitted=True)) + risk * bool(_mistake(row, limits, admitted=False))


def figures(rows: Sequence[ScoredForecast], limits: Limits) -> ForecastFigures:
    """The figures that these forecasts amount to."""
    answered = [row for row in rows if row.forecast.known]
    slowdowns = [row for row in rows if _slowdown_error(row) is not None]
    pairs = [row for row in rows if row.admitted is not None]
    return ForecastFigures(
        loss=_mean(_by_unit([(row, row) for row in rows], lambda row, _: row.loss)),
        scored=len(rows),
        answered_share=_mean([float(row.forecast.known) for row in rows]),
        memory_answered=len(answered),
        memory_under_share=_mean([bool(_memory_failed(row)) for row in answered]),
        memory_overshoot=_mean(
            [(row.forecast.upper_memory_bytes or 0) / max(row.outcome.peak_memory_bytes or 0, 1) for row in answered]
        ),
        utilization_error=_mean([_utilization_error(row) or 0.0 for row in answered]),
        slowdowns=len(slowdowns),
        slowdown_error=_mean([_slowdown_error(row) or 0.0 for row in slowdowns]),
        slowdown_under_share=_mean([bool(_slowdown_failed(row)) for row in slowdowns]),
        pairs=len(pairs),
        wrongly_admitted=sum(bool(_mistake(row, limits, admitted=True)) for row in pairs),
        wrongly_refused=sum(bool(_mistake(row, limits, admitted=False)) for row in pairs),
    )


def _loss(outcome: Outcome, forecast: Forecast, ceiling: tuple[int, float], quantile: float) -> float:
    """Pinball losses of memory bound, utilisation and slowdown bound; a missing bound is charged as its ceiling."""
    memory = forecast.upper_memory_bytes if forecast.known else ceiling[0]
    utilization = forecast.peak_utilization_pct if forecast.known else 100.0
    loss = pinball(math.log(max(outcome.peak_memory_bytes or 0, 1)), math.log(max(memory or 0, 1)), quantile)
    loss += pinball((outcome.peak_utilization_pct or 0.0) / 100, (utilization or 0.0) / 100, UTILIZATION_QUANTILE)
    if outcome.slowdowns:
        upper = forecast.upper_slowdown or ceiling[1]
        loss += pinball(math.log(outcome.slowdowns[0][1]), math.log(upper), quantile)
    return loss


def _ceilings(outcomes: Sequence[Outcome]) -> Ceilings:
    memory: dict[str, int] = defaultdict(int)
    slowdown: dict[str, float] = defaultdict(lambda: 1.0)
    for outcome in outcomes:
        name = outcome.device_type
        memory[name] = max(memory[name], outcome.peak_memory_bytes or 0)
        slowdown[name] = max([slowdown[name], *(value for _, value, _, _ in outcome.slowdowns)])
    return {name: (most, slowdown[name]) for name, most in memory.items()}


def _losses(pairs: Pairs) -> str:
    new, old = fmean(_by_unit(pairs, lambda new, _: new.loss)), fmean(_by_unit(pairs, lambda _, old: old.loss))
    return f"loss {new:.4f} against {old:.4f}"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"
