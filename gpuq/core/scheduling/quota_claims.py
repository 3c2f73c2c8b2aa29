"""For which waiting jobs is what is left of a quota kept?

A job on several devices would wait for ever while jobs on fewer use its quota up one by one. So what it needs of the quota is
kept for it: from the jobs of a lower priority while the quota refuses it, and from all once it has waited beyond its patience, as
devices are then. A job that ends before the quota has enough for that one, or before its devices are free, may start meanwhile.
Of an account at most one job of each sort has something kept, that of the highest priority, among equals the one that has waited
longest.

A job for which others are stopped has its devices already. They count as taken, so that no further jobs are stopped in vain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.drain import known_remaining_s
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.patience import is_beyond_patience, longest_s
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.quota import Account, QuotaScope, quota_of
from gpuq.core.state.reservation import Reservation, ReservationReason
from gpuq.core.state.state import State


@dataclass(frozen=True, slots=True)
class QuotaClaim:
    """What `job` needs of a quota is kept from the jobs of a lower priority than `above`, unless they end within `free_in_s`."""

    job: Job
    above: float = inf
    free_in_s: float = 0.0


class QuotaClaims:
    """The claims of one pass. `reservations` are those of the pass, which change. `devices_free_in_s` says in how many seconds
    the devices for a job will be free; None where something else keeps it from starting."""

    def __init__(
        self,
        state: State,
        cache: PassCache,
        limits: Limits,
        now: float,
        reservations: Mapping[JobId, Reservation],
        devices_free_in_s: Callable[[Job], float | None],
    ) -> None:
        self._state, self._cache, self._limits, self._now = state, cache, limits, now
        self._reservations, self._devices_free_in_s = reservations, devices_free_in_s
        self._waiting: dict[Account, list[QuotaClaim]] = {}

    def claimants(self, account: Account, job: Job) -> Iterator[Job]:
        """The other jobs that devices of the account are kept for, so that this one may not have them."""
        promised = self._promised
        if job.id in promised:
            return
        waiting = self._of_waiting(account)
        # Most often there is none, and each group of jobs is asked about several times in a pass.
        if not waiting and not promised:
            return
        claims = [claim for claim in waiting if claim.job.id not in promised]
        if any(claim.job.id == job.id and claim.above == inf for claim in claims):
            claims = []  # that has waited longest
        for claim in (*claims, *self._of_preemption(account)):
            if claim.job.id != job.id and job.priority < claim.above and not self._ends_before(job, claim):
                yield claim.job

    def promised_tasks(self, array: JobId, job: Job) -> int:
        """How many other tasks of the array wait for devices on which running jobs are stopped for them."""
        promised = self._promised
        return 0 if job.id in promised else sum(self._state.jobs[task].array == array for task in promised)

    @property
    def _promised(self) -> list[JobId]:
        of_preemption = ReservationReason.PREEMPTION
        return [job for job, reserved in self._reservations.items() if reserved.reason is of_preemption]

    def _of_preemption(self, account: Account) -> Iterator[QuotaClaim]:
        jobs = (self._state.jobs[job] for job in self._promised)
        return (QuotaClaim(job) for job in jobs if account in job.accounts)

    def _of_waiting(self, account: Account) -> list[QuotaClaim]:
        if account not in self._waiting:
            self._waiting[account] = []  # what `_find` asks meanwhile is answered as if nothing were kept
            self._waiting[account] = list(self._find(account))
        return self._waiting[account]

    def _find(self, account: Account) -> Iterator[QuotaClaim]:
        refused: Job | None = None
        for job in self._on_several.get(account, ()):
            is_overdue = is_beyond_patience(job, self._cache, self._limits, self._now)
            if not is_overdue and (refused is not None or self._lacks(account, job) <= 0):
                continue
            if not self._allows(account, job):
                continue
            devices_s = self._devices_free_in_s(job)
            if devices_s is None:
                continue
            free_in_s = max(devices_s, *(self._free_in_s(each, job) for each in job.accounts))
            if is_overdue:
                yield QuotaClaim(job, inf, free_in_s)
                return
            refused = job
            yield QuotaClaim(job, job.priority, free_in_s)

    @cached_property
    def _on_several(self) -> dict[Account, list[Job]]:
        """By account, the first of each group of waiting jobs on several devices, in the order in which they may claim."""
        found: defaultdict[Account, list[Job]] = defaultdict(list)
        heads = (group.head for group in self._state.index.groups.values())
        for job in sorted(
            (job for job in heads if job.device_count > 1), key=lambda job: (-job.priority, job.waits_since, job.id)
        ):
            for account in job.accounts:
                found[account].append(job)
        return found

    def _allows(self, account: Account, job: Job) -> bool:
        """Whether the quotas are large enough for the job at all. What a project has is kept only once the quota of the user has
        enough."""
        for each in job.accounts:
            most = self._most(each)
            if most is not None and job.device_count > most:
                return False
        if account.scope is QuotaScope.PROJECT:
            user = Account(QuotaScope.USER, job.owner)
            taken = sum(other.device_count for other in self.claimants(user, job))
            if self._lacks(user, job) + taken > 0:
                return False
        return self._cache.never_fits(job) is None

    def _lacks(self, account: Account, job: Job) -> int:
        """How many devices of the account have to become free before the job may start; 0 or less: none."""
        most = self._most(account)
        return 0 if most is None else self._used(account) + job.device_count - most

    def _free_in_s(self, account: Account, job: Job) -> float:
        """In how many seconds the account will have enough devices for the job at the earliest, as far as is known."""
        lacks, state = self._lacks(account, job), self._state
        running = [state.attempts[attempt] for attempt in state.index.running_of.get(account, ())] if lacks > 0 else []
        ends = sorted(
            (known_remaining_s(one, state.jobs[one.id.job], self._now) or 0.0, len(one.devices)) for one in running
        )
        free_in_s = 0.0
        for end_s, devices in ends:
            if lacks > 0:
                lacks, free_in_s = lacks - devices, end_s
        return free_in_s

    def _ends_before(self, job: Job, claim: QuotaClaim) -> bool:
        if claim.free_in_s <= 0:
            return False
        lasts_s = longest_s(job, self._cache)
        return lasts_s is not None and lasts_s <= claim.free_in_s

    def _used(self, account: Account) -> int:
        return sum(self._state.index.running_of.get(account, {}).values())

    def _most(self, account: Account) -> int | None:
        quota = quota_of(account, self._state.quotas)
        return None if quota is None else quota.running_devices
