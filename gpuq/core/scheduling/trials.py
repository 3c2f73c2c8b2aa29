"""Trials: a pair that only want of evidence keeps apart may be tried, so that evidence comes.

A pair that was never measured has a risk, assumed or learned of others. Where that is above the limit for every pair, no two
kinds ever meet and nothing is ever learned. So a few are admitted in spite of their risk: those that all other rules admit, that
were not measured, are expected to keep both budgets, and have a risk of at most `MOST_RISK`. A pair that is known to be bad is
none of them.

They are rationed by an account for each class of devices, in slowdown budgets exceeded. It begins with `trials`; each pair that
shared and kept its budgets adds the risk that admission may take, each budget exceeded takes one (`Forecast.trials_earned`, from
the record). What still runs is charged in advance: with its risk, and with a whole budget once the slowdown account of one of the
two is empty. A trial starts where the account has its risk left. So at most a share of `risk` of all pairs is expected to exceed
a budget, and `trials` pairs more. This is alpha-investing (Foster and Stine 2008): a level is spent on each test, and tests that
turn out well earn more.

Two kinds are tried once at a time: a second trial would cost as much and tell nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, budget_of, pair_risk
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import account_of
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.forecast import MEASURED, RULE, Forecast
from gpuq.core.state.index import DeviceClass, device_class
from gpuq.core.state.job import Job, KindId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

MOST_RISK = 0.25
"""A pair that exceeds its budget more often than once in four times is not tried."""

_Pair = tuple[DeviceClass, frozenset[KindId]]


class Trials:
    """The trials of one pass: those that run, and what more may cost."""

    def __init__(self, state: State, limits: Limits, now: float) -> None:
        self._state, self._limits, self._now = state, limits, now

    @property
    def allowed(self) -> bool:
        """Whether the limits allow any."""
        return self._limits.trials > 0 and self._limits.risk < 1

    def judge(self, job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> Verdict:
        """The verdict on a job and a device whose residents it may be tried beside."""
        verdict = admit(job, forecast, snapshot, self._limits)
        if verdict.rule is not Rule.SLOWDOWN_RISK or not self._lacks_evidence_only(job, forecast, snapshot):
            return verdict
        risk, left = pair_risk(job, forecast, snapshot, self._limits), self._left(forecast, snapshot)
        if risk is None or risk > min(left, MOST_RISK) or self._is_open(_pairs(job, snapshot)):
            return verdict
        return Verdict(True, Rule.TRIAL, snapshot.device.id, (*verdict.numbers, ("trials_left", left)))

    def risk(self, job: Job, tried: Sequence[tuple[Forecast, DeviceSnapshot]]) -> float | None:
        """What trying the job on all these devices at once may cost, each pair of kinds counted once; None if that is too
        much."""
        risks: dict[_Pair, float] = {}
        for forecast, snapshot in tried:
            found = pair_risk(job, forecast, snapshot, self._limits) or 0.0
            for pair in _pairs(job, snapshot):
                risks[pair] = max(found, risks.get(pair, 0.0))
        risk = sum(risks.values())
        return risk if all(risk <= self._left(*one) for one in tried) else None

    def start(self, job: Job, snapshots: Iterable[DeviceSnapshot], risk: float) -> None:
        """A trial with this risk was started in this pass, beside the residents of these devices."""
        pairs = frozenset(pair for snapshot in snapshots for pair in _pairs(job, snapshot))
        self._running.extend((of_class, pairs, risk) for of_class in {of_class for of_class, _ in pairs})

    def _lacks_evidence_only(self, job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> bool:
        budgets = {resident.kind: budget_of(resident.max_slowdown, self._limits) for resident in snapshot.residents}
        own = budget_of(job.max_slowdown, self._limits)
        return bool(forecast.pairs) and all(
            cost.evidence == RULE  # the load rule has admitted the pair
            or (
                cost.evidence != MEASURED
                and _within(cost.newcomer, own)
                and _within(cost.resident, budgets.get(cost.beside))
            )
            for cost in forecast.pairs
        )

    def _left(self, forecast: Forecast, snapshot: DeviceSnapshot) -> float:
        if forecast.trials_earned is None or not self.allowed:
            return 0.0
        here = device_class(snapshot.device)
        running = sum(cost for of_class, _, cost in self._running if of_class == here)
        return self._limits.trials + forecast.trials_earned - running

    @cached_property
    def _running(self) -> list[tuple[DeviceClass, frozenset[_Pair], float]]:
        """(class of devices, pairs, charge) of each trial whose jobs are still together."""
        found = []
        for attempt in self._state.attempts.values():
            if attempt.trial_risk is None:
                continue
            others = [one for device in attempt.devices for one in self._state.residents_of(device) if one != attempt]
            if others:
                here = device_class(self._state.devices[attempt.devices[0]])
                empty = any(self._is_empty(one) for one in (attempt, *others))
                pairs = frozenset((here, frozenset((attempt.kind, other.kind))) for other in others)
                found.append((here, pairs, 1.0 if empty else attempt.trial_risk))
        return found

    def _is_open(self, pairs: Iterable[_Pair]) -> bool:
        return any(pair in running for _, running, _ in self._running for pair in pairs)

    def _is_empty(self, attempt: Attempt) -> bool:
        account = account_of(attempt, self._limits, self._now)
        return account is not None and account.left_s is not None and account.left_s < 0


def _pairs(job: Job, snapshot: DeviceSnapshot) -> list[_Pair]:
    here = device_class(snapshot.device)
    return [(here, frozenset((job.kind, resident.kind))) for resident in snapshot.residents]


def _within(slowdown: float | None, budget: float | None) -> bool:
    return slowdown is not None and (budget is None or slowdown <= budget)
