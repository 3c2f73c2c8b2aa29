"""Why do they wait? Everybody who waits has a verdict; one is sent when it is the first, or when its rule is another.

A verdict that names a device stays as long as that device would say the same: that another one refused as well, first this time,
is no news. So what was said last is true, but for its numbers, which are those of the moment when it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.index import SchedulingClass, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Verdict


def holds(context: SchedulingContext) -> Iterator[SetPendingReason]:
    """One Hold per new verdict, for all the jobs it is new for."""
    fresh: dict[Verdict, list[JobId]] = {}
    otherwise = context.nothing_open()
    stands: dict[tuple[SchedulingClass, Verdict], bool] = {}
    for job in _to_tell(context, otherwise):
        if context.placed(job):
            continue
        like = scheduling_class(job)
        memo = context.cache.memos.get(like)
        own = context.cache.never_fits(job) or context.deferred.get(job.id)
        verdict = own or (memo and memo.reason) or _for_all_its_devices(job, otherwise)
        given_before = context.state.verdicts.get(job.id)
        if given_before is not None and given_before.rule is verdict.rule and given_before.device != verdict.device:
            if (like, given_before) not in stands:
                stands[like, given_before] = _stands(context, job, given_before)
            if stands[like, given_before]:
                continue
        if given_before is None or (given_before.rule, given_before.device) != (verdict.rule, verdict.device):
            fresh.setdefault(verdict, []).append(job.id)
    for verdict, jobs in fresh.items():
        yield SetPendingReason(tuple(jobs), verdict)


def _to_tell(context: SchedulingContext, otherwise: Verdict) -> Iterable[Job]:
    """Those who may have to hear something new; and from here on nobody is restless."""
    known, index = context.cache, context.state.index
    context.renew_reasons()
    all_reasons_stale = known.all_reasons_stale or known.otherwise is not otherwise.rule
    stale_reasons = sorted(known.stale_reasons, key=repr)
    known.all_reasons_stale, known.otherwise = False, otherwise.rule
    known.stale_reasons.clear()
    policys = sorted({*known.deferred, *context.deferred} & index.waiting.keys())
    known.deferred = set(context.deferred)
    if all_reasons_stale:
        return list(index.waiting.values())
    groups = (group for like in stale_reasons for group in index.alike.get(like, {}).values())
    by_themselves = (index.waiting[job] for job in (*index.needs_verdict, *policys))
    told = {job.id: job for job in chain((job for group in groups for job in group.jobs), by_themselves)}
    return told.values()


def _stands(context: SchedulingContext, job: Job, given_before: Verdict) -> bool:
    """Whether the device of an earlier verdict would say the same."""
    if given_before.device is None or given_before.device not in context.state.devices:
        return False
    verdict = context.judge(job, given_before.device)
    return not verdict.admitted and verdict.rule is given_before.rule


def _for_all_its_devices(job: Job, otherwise: Verdict) -> Verdict:
    """For a job on several devices: what it wants, beside what there is."""
    if job.device_count == 1:
        return otherwise
    return replace(otherwise, numbers=(("wanted_devices", job.device_count), *otherwise.numbers))
