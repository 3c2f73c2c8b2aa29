"""May a user, or a project, have more devices now, and may another task of an array run? Where a quota or the limit of an array
is used up the job waits, and others pass it.

Nothing that runs is stopped for it: who is over a quota starts nothing until the use has fallen.
"""

from __future__ import annotations

from collections import Counter
from math import inf

from gpuq.core.scheduling.quota_claims import QuotaClaims
from gpuq.core.state.attempt import served_s
from gpuq.core.state.index import GroupKey, PendingGroup
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.quota import HOUR_S, Account, Quota, falls_below, quota_of, served_within
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Numbers, Rule, Verdict


class QuotaPass:
    """The quotas, the limits of arrays, and their use in one pass; the use grows as devices are given. `claims`: for whom what is
    left is kept; None: for no job."""

    def __init__(self, state: State, now: float, claims: QuotaClaims | None = None) -> None:
        self._state, self._now, self._claims = state, now, claims
        self._given: Counter[Account] = Counter()
        self._started: Counter[JobId] = Counter()
        self._devices: dict[Account, int] = {}
        self._hours: dict[Account, Verdict | None] = {}
        # Until devices are given, jobs of the same accounts that want as many get the same answer.
        self._found: dict[tuple[str, str | None, int], Verdict | None] = {}

    def give(self, job: Job, devices: int) -> None:
        """The job got so many devices in this pass."""
        self._given.update(dict.fromkeys(job.accounts, devices))
        self._found.clear()
        if job.array is not None:
            self._started[job.array] += 1

    @property
    def unlimited(self) -> bool:
        """Whether there is no quota, and no array with a limit has a waiting task."""
        return not self._state.quotas and not self._state.index.limited_groups

    def refusal(self, job: Job, devices: int | None = None) -> Verdict | None:
        """Why the quotas, or the limit of its array, do not let the job start on so many devices now; None if they do. By default
        the fewest it runs on."""
        if job.array is not None and (refusal := self._refusal_of_array(job.array, job)) is not None:
            return refusal
        if not self._state.quotas:
            return None
        wanted = job.device_count if devices is None else devices
        key = (job.owner, job.project, wanted)
        if key not in self._found:
            refusals = (self._refusal_of(account, wanted) for account in job.accounts)
            self._found[key] = next((refusal for refusal in refusals if refusal is not None), None)
        return self._found[key] or self._refusal_as_kept(job, wanted)

    def refusal_but_for_devices(self, job: Job) -> Verdict | None:
        """Why the job could not start even if its accounts had no devices."""
        if job.array is not None and (refusal := self._refusal_of_array(job.array, job)) is not None:
            return refusal
        quotas = ((account, quota_of(account, self._state.quotas)) for account in job.accounts)
        refusals = (self._hours_refusal(account, quota) for account, quota in quotas if quota is not None)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def refused_groups(self) -> dict[GroupKey, Verdict]:
        """The groups of waiting jobs of which none may start, and why."""
        index = self._state.index
        groups = index.groups if self._state.quotas else index.limited_groups
        verdicts = ((key, self.refusal(group.head)) for key, group in groups.items())
        return {key: verdict for key, verdict in verdicts if verdict is not None}

    def open_groups(self) -> list[PendingGroup]:
        """The other groups."""
        groups = self._state.index.groups.values()
        return list(groups) if self.unlimited else [group for group in groups if self.refusal(group.head) is None]

    def devices(self, account: Account) -> int:
        """How many devices its attempts have, those of this pass included."""
        if account not in self._devices:
            self._devices[account] = sum(self._state.index.running_of.get(account, {}).values())
        return self._devices[account] + self._given[account]

    def device_s(self, account: Account, window_s: float) -> float:
        """Device-seconds that it had within the window, those of running attempts included."""
        return served_within(self._state.served.get(account, {}), window_s, self._now) + self._running_s(
            account, window_s
        )

    def _refusal_of_array(self, array: JobId, job: Job) -> Verdict | None:
        most = job.most_at_once
        if most is None:
            return None
        active = len(self._state.index.active_tasks.get(array, ())) + self._started[array]
        active += self._claims.promised_tasks(array, job) if self._claims is not None else 0
        if active < most:
            return None
        numbers: Numbers = (("array", array), ("limit_tasks", most), ("running_tasks", active))
        return Verdict(False, Rule.ARRAY_LIMIT, None, numbers)

    def _refusal_as_kept(self, job: Job, wanted: int) -> Verdict | None:
        """The refusal of a job that would take what is kept of a quota for others."""
        if self._claims is None:
            return None
        for account in job.accounts:
            quota = quota_of(account, self._state.quotas)
            if quota is None or quota.running_devices is None:
                continue
            others = list(self._claims.claimants(account, job))
            if not others:
                continue
            kept, used = sum(other.device_count for other in others), self.devices(account)
            if used + kept + wanted > quota.running_devices:
                who: Numbers = ((account.scope.value, account.name), ("limit_devices", quota.running_devices))
                keeping: Numbers = (("kept_devices", kept), ("kept_for", " ".join(str(other.id) for other in others)))
                numbers = (*who, ("used_devices", used), ("wanted_devices", wanted), *keeping)
                return Verdict(False, Rule.DEVICE_QUOTA, None, numbers)
        return None

    def _refusal_of(self, account: Account, wanted: int) -> Verdict | None:
        quota = quota_of(account, self._state.quotas)
        if quota is None:
            return None
        who, most = (account.scope.value, account.name), quota.running_devices
        if most is not None and self.devices(account) + wanted > most:
            numbers: Numbers = (who, ("limit_devices", most), ("used_devices", self.devices(account)))
            return Verdict(False, Rule.DEVICE_QUOTA, None, (*numbers, ("wanted_devices", wanted)))
        return self._hours_refusal(account, quota)

    def _hours_refusal(self, account: Account, quota: Quota) -> Verdict | None:
        if account not in self._hours:
            self._hours[account] = self._find_hours_refusal(account, quota)
        return self._hours[account]

    def _find_hours_refusal(self, account: Account, quota: Quota) -> Verdict | None:
        if quota.device_hours is None:
            return None
        limit_s, window_s = quota.device_hours * HOUR_S, quota.window_s
        used_s = self.device_s(account, window_s)
        if used_s < limit_s:
            return None
        hours, running_s = self._state.served.get(account, {}), self._running_s(account, window_s)
        free_at = falls_below(hours, running_s, limit_s, window_s, self._now)
        numbers: Numbers = (
            (account.scope.value, account.name),
            ("limit_device_hours", quota.device_hours),
            ("used_device_hours", round(used_s / HOUR_S, 2)),
            ("window_s", window_s),
            ("free_at", free_at),
        )
        return Verdict(False, Rule.DEVICE_HOURS_QUOTA, None, numbers)

    def _running_s(self, account: Account, window_s: float) -> float:
        attempts = (self._state.attempts[attempt] for attempt in self._state.index.running_of.get(account, ()))
        return sum(min(served_s(attempt, self._now), window_s * len(attempt.devices)) for attempt in attempts)


def still_holds(given: Verdict, refusal: Verdict, now: float) -> bool:
    """Whether a reason that was given earlier says the same as the present refusal: the same rule, account and limit, the same
    jobs for which the rest is kept, and no moment that has passed."""
    same = given.rule is refusal.rule and given.numbers[:2] == refusal.numbers[:2]
    return same and _kept_for(given) == _kept_for(refusal) and now < changes_at(given)


def changes_at(given: Verdict) -> float:
    """When a reason has to be replaced, because it names a moment that has passed then."""
    free_at = dict(given.numbers).get("free_at")
    return free_at if isinstance(free_at, float) else inf


def _kept_for(reason: Verdict) -> object:
    return dict(reason.numbers).get("kept_for")
