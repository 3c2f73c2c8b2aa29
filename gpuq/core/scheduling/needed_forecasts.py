"""Which forecasts does the next `decide` need?

The core does not predict; it asks questions, and the shell answers them from a model, a table or the truth of a simulated world.
First come the needs of each class of waiting jobs alone on each class of device. Where these allow sharing, the costs of the
pairs that the job's best candidates would make are asked for. Answers can rule candidates out, so the shell asks again with the
answers until nothing is missing; `ForecastTable.collect` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from gpuq.core.scheduling.cache import PassCache, question, question_alone
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import Forecast, Forecasts, Question
from gpuq.core.state.job import Job
from gpuq.core.state.state import State

# Forecasts for jobs that are gone are dropped when there are this many, or twice as many as after the last time.
_PRUNE_FROM = 1000
Answer = Callable[[Iterable[Question]], Mapping[Question, Forecast]]


def needed_forecasts(
    state: State, forecasts: Forecasts, cache: PassCache, limits: Limits, now: float
) -> list[Question]:
    """The questions without an answer in `forecasts`, in a stable order, none twice; empty when `decide` has all it needs."""
    context = SchedulingContext(state, forecasts, cache, limits, now)
    hopeful = _hopeful(context)
    alone = _alone(context, hopeful)
    return alone or list(dict.fromkeys(chain.from_iterable(_beside_residents(context, job) for job in hopeful)))


def _hopeful(context: SchedulingContext) -> list[Job]:
    """One job of each class, but of those whose candidates were all refused: they have all their forecasts."""
    heads = [next(iter(groups.values())).head for groups in context.state.index.classes.values()]
    return [job for job in heads if not context.candidates.none_is_new(context.cache.of(job))]


def _alone(context: SchedulingContext, jobs: Iterable[Job]) -> list[Question]:
    cache, classes = context.cache, context.device_classes
    asked = (question_alone(job, device) for job in jobs for device in classes if not cache.is_asked(job, device))
    return list(dict.fromkeys(asked))


def _beside_residents(context: SchedulingContext, job: Job) -> list[Question]:
    if not context.cache.device_index.shareable:
        return []
    return [question(job, snapshot) for snapshot in context.candidates.without_forecast(job)]


class ForecastTable:
    """The forecasts that a shell has collected, to be handed to `decide` as `table`."""

    def __init__(self) -> None:
        self.table: dict[Question, Forecast] = {}
        self._prune_at = _PRUNE_FROM

    def forget(self) -> None:
        """Drop all forecasts, because the predictor has learned something."""
        # A new mapping instead of clearing this one: by that a `PassCache` notices that its conclusions rest on old forecasts.
        self.table = {}

    def collect(self, state: State, cache: PassCache, limits: Limits, now: float, answer: Answer) -> None:
        """Have the questions answered that the next `decide` needs."""
        if len(self.table) > self._prune_at:
            signatures = {job.signature for job in state.index.waiting.values()}
            self.table = {q: forecast for q, forecast in self.table.items() if q.signature in signatures}
            self._prune_at = 2 * len(self.table) + _PRUNE_FROM
        context = SchedulingContext(state, self.table, cache, limits, now)
        jobs = _hopeful(context)
        if questions := _alone(context, jobs):
            self.table.update(answer(questions))
        # Answers can only lead to questions of the classes that asked: to go through all again would cost as much each time.
        while asked := [(job, found) for job in jobs if (found := _beside_residents(context, job))]:
            self.table.update(answer(dict.fromkeys(chain.from_iterable(found for _, found in asked))))
            jobs = [job for job, _ in asked]
