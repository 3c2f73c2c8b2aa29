"""Why is each waiting job waiting?

Every waiting job has a verdict in the state that says so, as Slurm's pending reason does. A reason is replaced only when it has
stopped being true, and is not rewritten as its numbers change: a queue of thousands would otherwise fill the journal. A reason
that names a device is true as long as that device would refuse the job by the same rule, even if another device has become the
more obvious one to name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property

from gpuq.core.scheduling.bookings import TIME_RULES
from gpuq.core.scheduling.cache import ReasonKey
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.quotas import changes_at, still_holds
from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.device import DeviceId
from gpuq.core.state.index import GroupKey, SchedulingClass, group_key, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.reservation import ReservationReason
from gpuq.core.state.verdict import Numbers, Rule, Verdict


def new_pending_reasons(context: SchedulingContext) -> Iterator[SetPendingReason]:
    """One action for each new reason, with all the jobs that wait for it. To be called at the end of a pass."""
    cache, state = context.cache, context.state
    fresh: dict[Verdict, set[JobId]] = {}
    # Jobs whose reason is not that of their class: the policy deferred them, or devices are reserved for them alone. Jobs without
    # a reason, and those deferred in the last pass, are here so that their classes need not be gone through for them.
    preempting = {r.job for r in context.reservations.values() if r.reason is ReservationReason.PREEMPTION}
    individual = {*state.index.needs_verdict, *cache.deferred, *context.deferred, *preempting}
    over_quota = context.quotas.refused_groups()
    _end_quota_reasons(context, over_quota)
    for key, refusal in over_quota.items():
        _check_over_quota(context, key, refusal, individual, fresh)
    # Taken before the first look: a class that is looked at may be found unsettled again.
    to_check = list(_classes_to_check(context))
    unchecked = set(to_check) if cache.reasons_checked_at is None else cache.unchecked
    cache.unchecked = set(filter(cache.was_put_off, to_check))
    cache.unsettled.clear()
    reasons: dict[SchedulingClass, _ClassReason] = {}
    deferred = set(context.deferred)
    for of_class in to_check:
        if of_class in cache.unchecked:
            continue  # its jobs keep their reasons until a pass comes to them
        reason = reasons[of_class] = _ClassReason(context, of_class)
        # Most often all reasons of the class hold still, and its jobs need not be gone through.
        if of_class in unchecked or not all(reason.holds(key) for key in cache.of_class(of_class).reasons):
            _check_class(context, of_class, reason, individual, fresh)
    for job in (state.index.waiting[job_id] for job_id in sorted(individual & state.index.waiting.keys())):
        if context.placed(job):
            continue
        of_class = scheduling_class(job)
        key = group_key(job)
        if key in over_quota:
            _check_quota_reason(context, job, over_quota[key], fresh)
        elif cache.was_put_off(of_class) and job.id not in context.deferred:
            deferred |= {job.id} & cache.deferred  # what the policy said of it holds until a pass comes to it
        elif job.id in preempting:
            _check_job(context, job, _ClassReason(context, of_class, job), fresh)
        else:
            reasons[of_class] = reasons.get(of_class) or _ClassReason(context, of_class)
            _check_job(context, job, reasons[of_class], fresh)
    cache.reasons_checked_at = cache.device_index.revision
    cache.deferred = deferred
    # In order of the job ids, so that the actions do not depend on which classes the cache had looked at.
    for verdict, jobs in sorted(fresh.items(), key=lambda item: min(item[1])):
        yield SetPendingReason(tuple(sorted(jobs)), verdict)


def _check_class(
    context: SchedulingContext,
    of_class: SchedulingClass,
    reason: _ClassReason,
    individual: AbstractSet[JobId],
    fresh: dict[Verdict, set[JobId]],
) -> None:
    """Find the jobs of a class whose reason does not hold any more."""
    state, conclusions = context.state, context.cache.of_class(of_class)
    conclusions.reasons.clear()
    groups = state.index.classes[of_class]
    for job in (job for key in groups if key not in context.cache.over_quota for job in groups[key].jobs):
        if job.id in individual or context.placed(job):
            continue
        verdict = state.verdicts[job.id]
        if not reason.holds(_key(verdict)):
            verdict = reason.current
            fresh.setdefault(verdict, set()).add(job.id)
        conclusions.reasons.add(_key(verdict))


def _check_job(context: SchedulingContext, job: Job, reason: _ClassReason, fresh: dict[Verdict, set[JobId]]) -> None:
    """Find out whether one job needs another reason."""
    before, deferred = context.state.verdicts.get(job.id), context.deferred.get(job.id)
    if deferred is not None and reason.never_fits is None:
        if before is None or (before.rule, before.device) != (deferred.rule, deferred.device):
            fresh.setdefault(deferred, set()).add(job.id)
        return
    verdict = before
    if verdict is None or not reason.holds(_key(verdict)):
        verdict = reason.current
        fresh.setdefault(verdict, set()).add(job.id)
    context.cache.of(job).reasons.add(_key(verdict))


def _check_over_quota(
    context: SchedulingContext,
    key: GroupKey,
    refusal: Verdict,
    individual: AbstractSet[JobId],
    fresh: dict[Verdict, set[JobId]],
) -> None:
    """Find the jobs of a group over its quota whose reason does not hold any more."""
    known = context.cache.over_quota.get(key)
    if known is not None and still_holds(known, refusal, context.now):
        return  # so do those of the other jobs
    context.cache.over_quota[key] = refusal
    for job in context.state.index.groups[key].jobs:
        if job.id not in individual and not context.placed(job):
            _check_quota_reason(context, job, refusal, fresh)


def _check_quota_reason(
    context: SchedulingContext, job: Job, refusal: Verdict, fresh: dict[Verdict, set[JobId]]
) -> None:
    """Find out whether a job of a group over its quota needs another reason."""
    given = context.state.verdicts.get(job.id)
    if given is None or not still_holds(given, refusal, context.now):
        given = refusal
        fresh.setdefault(given, set()).add(job.id)
    over_quota, key = context.cache.over_quota, group_key(job)
    over_quota[key] = min(over_quota[key], given, key=changes_at)


def _end_quota_reasons(context: SchedulingContext, over_quota: Mapping[GroupKey, Verdict]) -> None:
    """Have the classes checked of which a group is not over its quota any more."""
    cache = context.cache
    for key in cache.over_quota.keys() - over_quota.keys():
        reason = cache.over_quota.pop(key)
        cache.of_class(key[0]).reasons.add((reason.rule, None, None))
        cache.unsettled.add(key[0])


def _classes_to_check(context: SchedulingContext) -> Iterator[SchedulingClass]:
    """The classes of which a job may have a reason that is not true any more."""
    cache, waiting = context.cache, context.state.index.classes
    checked_at, index = cache.reasons_checked_at, context.cache.device_index
    if checked_at is None:
        yield from waiting
        return
    changed = set(index.changed_since(checked_at))
    # A device that is reserved for another job becomes the reason of all that it would admit but for that. Jobs on several
    # devices also need others of its host. A device that was just reserved has changed.
    of_reserved = not changed.isdisjoint(index.reserved)
    hosts = {index.snapshots[device].device.host for device in index.reserved}
    beside_reserved = any(index.snapshots[device].device.host in hosts for device in changed)
    # A reason without a device says that nothing is open, which any change of any device may end.
    anything = context.gave_devices or index.revision != checked_at
    due = cache.unsettled | cache.unchecked
    for of_class in waiting:
        conclusions = cache.classes.get(of_class)
        if of_class in due or (
            anything
            and conclusions is not None
            and (
                of_reserved
                or (beside_reserved and next(iter(waiting[of_class].values())).head.device_count > 1)
                or any(device is None or device in changed for _, device, _ in conclusions.reasons)
            )
        ):
            yield of_class


# What a reason of these rules names besides its device: without it the reason is another one.
_NAMED = {Rule.RESERVED: "reserved_for", Rule.BOOKED: "booking"}


def _key(verdict: Verdict) -> ReasonKey:
    named = _NAMED.get(verdict.rule)
    return verdict.rule, verdict.device, None if named is None else dict(verdict.numbers).get(named)


class _ClassReason:
    """Why jobs of one class wait at the end of this pass. `job` is any of them; all get the same verdicts."""

    def __init__(self, context: SchedulingContext, of_class: SchedulingClass, job: Job | None = None) -> None:
        self._context, self._class = context, of_class
        self._job = job or next(iter(context.state.index.classes[of_class].values())).head
        self.never_fits = context.cache.never_fits(self._job)
        self._still_true: dict[ReasonKey, bool] = {}

    @cached_property
    def current(self) -> Verdict:
        """The reason for a job that has none yet."""
        verdict = self.never_fits or self._refusal_of_the_best()
        if verdict is None:
            verdict = self._context.no_device_open(self._job)
            if self._job.device_count > 1:
                wanted: Numbers = (("wanted_devices", self._job.device_count),)
                if self._job.host_count > 1:
                    wanted = (("wanted_hosts", self._job.host_count), *wanted)
                verdict = replace(verdict, numbers=(*wanted, *verdict.numbers))
        return verdict

    def holds(self, key: ReasonKey) -> bool:
        """Whether a reason given earlier is still true. Where a device is only kept for another job, no other reason is."""
        found = self._still_true.get(key)
        if found is None:
            rule, device, _ = key
            only_the_current = self.never_fits is not None or (rule is not Rule.RESERVED and self._kept is not None)
            if only_the_current or device is None or device not in self._context.state.devices:
                found = key == _key(self.current)
            else:
                verdict = self._judge(device)
                found = not verdict.admitted and _key(verdict) == key
            self._still_true[key] = found
        return found

    @cached_property
    def _kept(self) -> Verdict | None:
        """The refusal of a device that would admit the job if it were not reserved for another."""
        reserved = self._context.cache.device_index.reserved
        if any(self._context.candidates.bookings_may_change(self._job, device) for device in reserved):
            self._context.cache.unsettled.add(self._class)
        return self._context.refusal_as_reserved(self._job)

    def _refusal_of_the_best(self) -> Verdict | None:
        """Why the devices that would be tried first refuse; where one is only kept for another job, that; where there are none,
        why an occupied one does. Where they admit the job, the policy has others start first.
        """
        best = self._context.candidates.best(self._job)
        if best is None:
            one = self._context.candidates.booked(self._job)
            if one is None and self._job.device_count == 1:
                one = self._context.candidates.occupied(self._job, self._context.state.residents)
            if one is None and self._context.candidates.bookings_may_change(self._job):
                self._context.cache.unsettled.add(self._class)
            best = None if one is None else (one,)
        verdicts = [self._judge(snapshot.device.id) for snapshot in best or ()]
        refusal = next((verdict for verdict in verdicts if not verdict.admitted), None)
        return Verdict(False, Rule.BEHIND) if verdicts and refusal is None else self._kept or refusal

    def _judge(self, device: DeviceId) -> Verdict:
        verdict = self._context.judge(self._job, device)
        # Bookings are judged last. What they say changes with the time alone: another rule of theirs may be the first to refuse.
        by_time = verdict.admitted or verdict.rule in TIME_RULES
        if by_time and self._context.candidates.bookings_may_change(self._job, device):
            self._context.cache.unsettled.add(self._class)
        return verdict
