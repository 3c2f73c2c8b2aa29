"""Trials: a job may start beside residents for which only evidence is missing, because that can be undone in time.

A pair that was never measured has a risk. Where that is too high for every pair, or the load rule refuses it, no two kinds ever
meet and nothing is ever learned. But a slowdown is measured within a minute or two, and a pair that turns out bad need not go on:
either the newcomer is preemptible and is stopped, or the accounts of the residents allow them to stand still until it has ended
(`pauses`). So no slowdown budget rests on the guess. A job is tried once, and two kinds are tried once at a time.

The residents' accounts pay for a trial. Each must have `TRIAL_S` left, and half of what it has earned: what one newcomer has used
up is not at once used up by the next. A newcomer that is stopped loses the trial and a start, so only one that is expected to
run for long is tried so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, budget_of, pair_risk, sharing_numbers
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import RESERVE_S, TRIAL_S, account_of, is_unmeasured, pausable_s, pause_needed_s
from gpuq.core.state.actions import Stop
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.forecast import MEASURED, RULE, Forecast
from gpuq.core.state.index import DeviceClass, device_class
from gpuq.core.state.job import Job, KindId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

MOST_RISK = 0.5
"""A pair that is more likely to exceed a budget than to keep both is not tried."""
_LEAST_S = 1800.0
"""A newcomer that may be stopped is expected to run so long: a trial and another start cost some three minutes, 10% of it."""
MAY_BE_TRIED = (Rule.SLOWDOWN_RISK, Rule.PREDICTED_LOAD)
"""The rules that may refuse only because too little was measured."""

_Pair = tuple[DeviceClass, frozenset[KindId]]


class Trials:
    """The trials of one pass."""

    def __init__(self, state: State, limits: Limits, now: float) -> None:
        self._state, self._limits, self._now = state, limits, now

    def judge(self, job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> Verdict:
        """The verdict on a job and a device whose residents it may be tried beside."""
        verdict = admit(job, forecast, snapshot, self._limits)
        if verdict.rule not in MAY_BE_TRIED or not (self.allows(job) and self.can_be_paid(snapshot)):
            return verdict
        risk = pair_risk(job, forecast, snapshot, self._limits)
        if risk is None or risk > MOST_RISK or not self._lacks_evidence_only(job, forecast, snapshot):
            return verdict
        is_open = any(pair in self._open for pair in _pairs(job, snapshot))
        if is_open or not self._can_be_undone(job, forecast, snapshot):
            return verdict
        numbers = sharing_numbers(job, forecast, snapshot, self._limits)
        return Verdict(True, Rule.TRIAL, snapshot.device.id, (*numbers, ("trial_s", TRIAL_S)))

    def allows(self, job: Job) -> bool:
        """Whether this job may be tried beside any residents."""
        limits = self._limits
        return limits.trials and limits.risk < 1 and not job.tried and job.host_count == 1

    def can_be_paid(self, snapshot: DeviceSnapshot) -> bool:
        """Whether the accounts of the residents of this device allow a trial."""
        return all(resident.id in self._solvent for resident in snapshot.residents)

    def start(self, job: Job, snapshots: Iterable[DeviceSnapshot]) -> None:
        """A trial was started in this pass, beside the residents of these devices."""
        self._open.update(pair for snapshot in snapshots for pair in _pairs(job, snapshot))

    def _lacks_evidence_only(self, job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> bool:
        budgets = {resident.kind: budget_of(resident.max_slowdown, self._limits) for resident in snapshot.residents}
        own = budget_of(job.max_slowdown, self._limits)
        return bool(forecast.pairs) and all(
            not cost.unsafe
            and (
                cost.evidence == RULE  # a guess from the utilisations, which the risk bounds
                or (
                    cost.evidence != MEASURED
                    and _within(cost.newcomer, own)
                    and _within(cost.resident, budgets.get(cost.beside))
                )
            )
            for cost in forecast.pairs
        )

    @cached_property
    def _solvent(self) -> set[AttemptId]:
        """The attempts whose accounts allow a trial beside them."""
        found = set()
        for attempt in self._state.attempts.values():
            account = account_of(attempt, self._limits, self._now)
            if account is None or account.left_s is None or account.earned_s is None or attempt.stopping is not None:
                continue
            if account.left_s >= max(TRIAL_S, account.earned_s / 2):
                found.add(attempt.id)
        return found

    def _can_be_undone(self, job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> bool:
        lasts_s = forecast.duration_p50_s
        may_be_stopped = job.preemptible and lasts_s is not None and lasts_s >= _LEAST_S
        return may_be_stopped or _can_be_waited_for(
            self._state, job, forecast, snapshot.residents, self._limits, self._now
        )

    @cached_property
    def _open(self) -> set[_Pair]:
        """The pairs of kinds whose trials have not lasted for `TRIAL_S` yet."""
        state = self._state
        return {
            (device_class(state.devices[device]), frozenset((attempt.kind, other.kind)))
            for attempt in state.attempts.values()
            if attempt.trial and (attempt.started_at is None or self._now - attempt.started_at < TRIAL_S)
            for device in attempt.devices
            for other in state.residents_of(device)
            if other is not attempt
        }


def ended_trials(state: State, limits: Limits, now: float) -> Iterator[Stop]:
    """The preemptible newcomers that were tried and are to leave their residents: an account is empty and no pause can help, or
    it is not known what the trial costs. Others stay: what admits them is the same after a stop, and would admit them again."""
    for attempt in state.attempts.values():
        job = state.jobs[attempt.id.job]
        if not (attempt.trial and job.preemptible) or attempt.stopping is not None:
            continue
        residents = _residents_before(state, attempt)
        stands_still = attempt.paused_for is not None or any(one.paused_for is not None for one in residents)
        if job.cancel_requested or not residents or stands_still or attempt.started_at is None:
            continue
        if _can_be_waited_for(state, job, attempt.forecast, residents, limits, now):
            continue
        if _is_over(attempt, residents, limits, now):
            yield Stop(attempt.id, StopReason.PREEMPTED)


def _can_be_waited_for(
    state: State, job: Job, forecast: Forecast, residents: Iterable[Attempt], limits: Limits, now: float
) -> bool:
    """Whether the residents could stand still for the whole run of the job."""
    needed_s = pause_needed_s(job, forecast, limits)
    return needed_s is not None and all(pausable_s(state, one, limits, now) >= needed_s for one in residents)


def _is_over(attempt: Attempt, residents: Sequence[Attempt], limits: Limits, now: float) -> bool:
    own = account_of(attempt, limits, now)
    if own is None or own.left_s is None:
        return is_unmeasured(attempt, limits, now)
    # It begins with nothing earned, and what was measured in its first seconds is not exact.
    accounts = [account_of(resident, limits, now) for resident in residents]
    empty = any(one is not None and one.left_s is not None and one.left_s < RESERVE_S for one in accounts)
    return own.left_s < -RESERVE_S or empty


def _residents_before(state: State, attempt: Attempt) -> list[Attempt]:
    """Those that it joined and that still run; not those that joined it."""
    there = (one for device in attempt.devices for one in state.residents_of(device) if one.id != attempt.id)
    return [one for one in dict.fromkeys(there) if one.launched_at <= attempt.launched_at]


def _pairs(job: Job, snapshot: DeviceSnapshot) -> list[_Pair]:
    here = device_class(snapshot.device)
    return [(here, frozenset((job.kind, resident.kind))) for resident in snapshot.residents]


def _within(slowdown: float | None, budget: float | None) -> bool:
    return slowdown is not None and (budget is None or slowdown <= budget)
