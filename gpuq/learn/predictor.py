"""Answers the core's questions: what would this job need here, and what would it cost beside these kinds?

Arrives: questions (plain data); outcomes and models as they come. Leaves: forecasts, each with the evidence it rests
on. A kind's own history goes first, then the cluster it is nearest to, then nothing: a job without evidence runs alone
and is thereby measured. The same history and model give the same forecasts. Ignores what it has no measurement for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuq.core.forecast import UNKNOWN, Forecast, PairCost, Question
from gpuq.core.job import KindId
from gpuq.learn.bounds import SAME_KIND_MEMORY, Prior, order_statistic, upper_bound
from gpuq.learn.clusters import Placed, Places
from gpuq.learn.history import History, Known, Run
from gpuq.learn.interference import combined, pair_cost
from gpuq.learn.model import Calibration, Model
from gpuq.learn.outcome import Outcome
from gpuq.learn.transfer.transfer import Transfer, Transfers
from gpuq.settings import Learning

# The rule adds up peak utilisations of two jobs, so each must rarely be too low; the highest of up to nine runs.
UTILIZATION_QUANTILE = 0.9
# "The highest typical" memory: three of four runs stay at or under it.
MEMORY_QUANTILE = 0.75
_SIGNATURES_KEPT = 50_000
_NO_FEATURES = Known()


class Predictor:
    """See the module's own words. Not for more than one thread."""

    def __init__(self, history: History, model: Model | None, learning: Learning) -> None:
        self.history = history
        self._learning = learning
        self._known: dict[str, Known] = {}
        # Forecasts are kept per kind, so that a finished attempt only costs those of its own kind.
        self._answers: dict[str, dict[tuple[str, str], Forecast]] = {}
        self._pairs: dict[tuple[str, str, str], PairCost] = {}
        self._kept = 0
        self.use(model)

    @property
    def version(self) -> str | None:
        """The version of the model in use."""
        return self._version

    def use(self, model: Model | None) -> None:
        """From now on, answer with this model (None: with history alone)."""
        self._version = None if model is None else model.version
        self._calibration = Calibration() if model is None else model.calibration
        self._prior = Prior(self._calibration.scale)
        self._places = {} if model is None else {name: Places(found) for name, found in model.clusters.items()}
        self._transfers = Transfers(Transfer() if model is None else model.transfer)
        self._answers.clear()

    def register(self, signature: str, features: Mapping[str, Any], kind: str) -> None:
        """Make a signature's features known, as they are stored with the job."""
        if signature in self._known:
            return
        if len(self._known) >= _SIGNATURES_KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[signature] = Known.of(features)
        self._answers.pop(kind, None)

    def learn(self, outcome: Outcome) -> None:
        """A finished attempt counts at once."""
        if self.history.learn(outcome):
            self._answers.pop(outcome.kind, None)
            if outcome.partner_kinds or outcome.slowdowns:
                self._pairs.clear()

    def answer(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        """A forecast for each question; what there is no evidence for stays None."""
        return {question: self._forecast(question) for question in questions}

    def forecast_for(
        self, kind: str, features: Mapping[str, Any], device_type: str, beside: tuple[str, ...] = ()
    ) -> Forecast:
        """The forecast for a job that is not submitted, as `gpuq predict` shows it."""
        return self._beside(self._alone(kind, Known.of(features), device_type), kind, device_type, beside)

    def _forecast(self, question: Question) -> Forecast:
        key = (question.signature, question.device_type)
        alone = self._answers.get(question.kind, {}).get(key)
        if alone is None:
            self._make_room()
            known = self._known.get(question.signature, _NO_FEATURES)
            alone = self._alone(question.kind, known, question.device_type)
            self._answers.setdefault(question.kind, {})[key] = alone
        return self._beside(alone, question.kind, question.device_type, question.beside)

    def _make_room(self) -> None:
        """Jobs come and go; what is kept of their signatures must not grow with them."""
        self._kept += 1
        if self._kept > _SIGNATURES_KEPT:
            self._answers.clear()
            self._pairs.clear()
            self._kept = 0

    def _beside(self, alone: Forecast, kind: str, device_type: str, beside: tuple[str, ...]) -> Forecast:
        if not beside:
            return alone
        costs = tuple(self._pair(kind, other, device_type) for other in beside)
        expected, upper = combined(costs)
        return replace(alone, expected_slowdown=expected, upper_slowdown=upper, pairs=costs)

    def _pair(self, kind: str, other: str, device_type: str) -> PairCost:
        key = (kind, other, device_type)
        cost = self._pairs.get(key)
        if cost is None:
            cost = pair_cost(self.history, kind, KindId(other), device_type, self._learning.quantile)
            self._pairs[key] = cost
        return cost

    def _alone(self, kind: str, known: Known, device_type: str) -> Forecast:
        runs = self.history.runs(kind, device_type)
        own = self._from_own(*self.history.comparable(kind, device_type, known), runs, known)
        if not own.known:
            places = self._places.get(device_type)
            placed = None if places is None else places.place(known)
            own = own if placed is None else self._from_cluster(placed, runs, known)
        if own.duration_p50_s is None:
            own = self._with_duration(own, kind, known, device_type)
        return replace(own, model_version=self._version)

    def _with_duration(self, found: Forecast, kind: str, known: Known, device_type: str) -> Forecast:
        """The forecast with the duration carried over from another type of device, where one can be."""
        carried = self._transfers.duration(self.history, kind, known, device_type)
        if carried is None:
            return found
        words = f"transferred from {carried.anchor}"
        return replace(
            found,
            duration_p50_s=carried.duration_p50_s,
            duration_p90_s=carried.duration_p90_s,
            evidence=words if found.evidence == "none" else f"{found.evidence}; duration {words}",
        )

    def _from_own(self, used: list[Run], same: bool, runs: list[Run], known: Known) -> Forecast:
        if not used:
            return UNKNOWN
        point, upper = self._own_memory(used, runs, known, changed=not same)
        durations = _preferring_alone(used, [run.duration_s for run in used])
        return Forecast(
            peak_utilization_pct=_own_utilization(used, runs),
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            duration_p50_s=order_statistic(durations, 0.5) if durations else None,
            duration_p90_s=order_statistic(durations, 0.9) if durations else None,
            evidence=_own_evidence(used, known, changed=not same),
        )

    def _own_memory(
        self, used: list[Run], runs: list[Run], known: Known, *, changed: bool
    ) -> tuple[int | None, int | None]:
        """(point, upper). A changed script or batch size makes any number of earlier runs count as one: the highest."""
        values = [run.peak_memory_bytes for run in used if run.peak_memory_bytes is not None]
        if not values:
            return None, None
        quantile = self._learning.quantile
        if changed:
            highest = max(values) * _growth(known, max(used, key=lambda run: run.known.batch_log2 or -1).known)
            upper = (
                upper_bound([highest], quantile, Prior(max(self._prior.scale, SAME_KIND_MEMORY.scale)))
                * self._calibration.changed
            )
            return _ordered(highest, upper, runs, quantile)
        upper = upper_bound(values, quantile, self._prior) * self._calibration.own(len(values))
        return _ordered(order_statistic(values, MEMORY_QUANTILE), upper, runs, quantile)

    def _from_cluster(self, placed: Placed, runs: list[Run], known: Known) -> Forecast:
        cluster, nearest = placed.cluster, placed.nearest
        growth = _growth(known, Known(batch_log2=nearest.batch_log2))
        point, upper = _ordered(
            cluster.memory_typical_bytes * growth,
            cluster.memory_upper_bytes * growth * self._calibration.cluster,
            runs,
            self._learning.quantile,
        )
        seen = [run.peak_utilization_pct for run in runs if run.peak_utilization_pct is not None]
        count = len(cluster.members)
        return Forecast(
            peak_utilization_pct=max([cluster.utilization_upper_pct, *seen]),
            peak_memory_bytes=point,
            upper_memory_bytes=upper,
            evidence=f"cluster of {count} {'kind' if count == 1 else 'kinds'}, nearest {nearest.kind}",
        )


def _own_utilization(used: list[Run], runs: list[Run]) -> float | None:
    """An upper quantile of the runs alone; what a partner held down counts only where it was higher still."""
    values = _preferring_alone(used, [run.peak_utilization_pct for run in used])
    if not values:
        return None
    partly = [run.peak_utilization_pct for run in runs if not run.whole and run.peak_utilization_pct is not None]
    together = [run.peak_utilization_pct for run in used if run.shared and run.peak_utilization_pct is not None]
    floor = order_statistic([*together, *partly], UTILIZATION_QUANTILE) if together or partly else 0.0
    return max(order_statistic(values, UTILIZATION_QUANTILE), floor)


def _preferring_alone(used: list[Run], values: list[float | None]) -> list[float]:
    """The known values of the runs without a partner; of all runs where there is none."""
    pairs = [(run.shared, value) for run, value in zip(used, values, strict=True) if value is not None]
    return [value for shared, value in pairs if not shared] or [value for _, value in pairs]


def _ordered(point: float, upper: float, runs: list[Run], quantile: float) -> tuple[int, int]:
    """(point, upper) in whole bytes: none below what an unfinished run needed, the bound never below the point."""
    partly = [run.peak_memory_bytes for run in runs if not run.whole and run.peak_memory_bytes is not None]
    if partly:
        point = max(point, *partly)
        upper = max(upper, upper_bound([max(partly)], quantile, SAME_KIND_MEMORY))
    return round(point), max(round(point), round(upper))


def _growth(known: Known, measured: Known) -> float:
    """How much more memory a larger batch may need than was measured: at most in proportion to it."""
    if known.batch_log2 is None or measured.batch_log2 is None:
        return 1.0
    return float(2.0 ** max(0.0, known.batch_log2 - measured.batch_log2))


def _own_evidence(used: list[Run], known: Known, *, changed: bool) -> str:
    text = f"own history, {len(used)} {'run' if len(used) == 1 else 'runs'}"
    if not changed:
        return text
    latest = used[-1].known
    other_script = latest.script_sha256 != known.script_sha256
    return f"{text} of {'an earlier script' if other_script else 'another batch size'}"
