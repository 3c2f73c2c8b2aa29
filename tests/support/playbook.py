"""A test of the core reads as a script: what was forecast, what happened, what gpuq does.

Drives the very functions that the daemon drives, with a clock that moves only by `after`. `validate` runs after each step.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy
from gpuq.core.state.actions import Action, Launch, SetPendingReason
from gpuq.core.state.apply import apply
from gpuq.core.state.events import Event, Submitted
from gpuq.core.state.forecast import UNKNOWN, Forecast, Question
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.validate import validate
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.policies.lists.packed import packed
from tests.support.nouns import a_device, a_job, a_report, a_start


class Playbook:
    """State, forecasts by signature, and time. If `forgetful`, each pass starts with empty caches."""

    def __init__(self, limits: Limits | None = None, policy: Policy = packed, *, forgetful: bool = False) -> None:
        self.policy = policy
        self.cache = PassCache()
        self.known = ForecastTable(self.answers)
        self.forgetful = forgetful
        self.state = State()
        self.limits = limits or Limits()
        self.now = 100.0
        self.forecasts: dict[str, Forecast] = {}
        self.together: dict[tuple[str, tuple[str, ...]], Forecast] = {}
        self.done: list[Action] = []

    def forecast(self, signature: str, forecast: Forecast, beside: tuple[str, ...] = ()) -> Playbook:
        if beside:
            self.together[signature, beside] = forecast
        else:
            self.forecasts[signature] = forecast
        self.known.forget()
        return self

    def happen(self, *events: Event, after: float = 0.0) -> Playbook:
        self.now += after
        for event in events:
            apply(self.state, event, self.now)
            validate(self.state)
        return self

    def decide(self) -> list[Action]:
        """One pass; its actions are applied."""
        if self.forgetful:
            self.cache = PassCache()
            self.known.forget()
        actions = decide(self.state, self.known, self.cache, self.limits, self.policy, self.now)
        for action in actions:
            assert apply(self.state, action, self.now), f"{action} changed nothing"
            validate(self.state)
        self.done += actions
        return actions

    def context(self) -> SchedulingContext:
        """A pass of its own, as a policy sees it."""
        return SchedulingContext(self.state, self.known, self.cache, self.limits, self.now)

    def settle(self) -> Playbook:
        """Passes until nothing more is done."""
        for _ in range(100):
            if not self.decide() and self.cache.tried is None:
                return self
        raise AssertionError("the core does not come to rest")

    def launched(self) -> dict[int, str]:
        """job -> first device, for all launches so far."""
        return {a.attempt.id.job: a.attempt.devices[0] for a in self.done if isinstance(a, Launch)}

    def reason(self, job: int) -> Rule | None:
        verdict = self.verdict(job)
        return verdict.rule if verdict else None

    def verdict(self, job: int) -> Verdict | None:
        """The last one said of a waiting job."""
        said = [a.verdict for a in self.done if isinstance(a, SetPendingReason) and job in a.jobs]
        return said[-1] if said else None

    def job_state(self, job: int) -> JobState | None:
        found = self.state.jobs.get(JobId(job))
        return found.state if found else None

    def answers(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        found = {}
        for question in questions:
            alone = self.forecasts.get(question.signature, UNKNOWN)
            found[question] = self.together.get((question.signature, question.beside), alone)
        return found


def one_running() -> Playbook:
    """One job that runs on the only device."""
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()
    return play.happen(a_start(1))
