"""Attempts that their host does not report, or reports as never started. Only the record can tell, because a claim in it is what
starts an attempt.

A host reports `never started` for an attempt of which it has no folder. That says nothing if another instance of the host's
worker service has claimed the attempt: another machine with the same host name, or the same machine before a reinstallation.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Attempt, Ending
from gpuq.core.state.events import Exited
from gpuq.daemon.job_leases import JobLeases
from gpuq.daemon.leadership import Lease

log = logging.getLogger(__name__)


def revoke(lease: Lease, job_leases: JobLeases, attempt: Attempt, now: float, at: float) -> Exited | None:
    """Take back, now and at `at` by the wall clock, the order to start an attempt that its host does not report. Blocks.

    Returns its end if no instance has claimed it, and none can any more, or if the one that has was replaced by another and the
    attempt's lease, if it has one, is over. Else None: the instance with the claim will report what became of it.
    """
    claim = lease.revoke(attempt.id, at)
    if claim is None:
        reason = f"host {attempt.host} did not start it within {now - attempt.launched_at:.0f} s"
        return Exited(attempt.id, at, Ending.NEVER_STARTED, None, reason, Measurement())
    replaced = claim.instance is not None and claim.holder not in {None, claim.instance}
    if replaced and not job_leases.may_run(attempt, claim.instance, now):
        reason = f"host {attempt.host} was restarted or replaced, and does not have it any more"
        return Exited(attempt.id, at, Ending.LOST, None, reason, Measurement())
    return None


def accepted(
    lease: Lease, job_leases: JobLeases, end: Exited, attempt: Attempt | None, now: float, at: float
) -> Exited | None:
    """This end as it is to be applied, now and at `at` by the wall clock; None if it does not count. Blocks.

    One without a process that ended counts if it comes from the instance that claimed the attempt, or no instance has: `never
    started` always, `lost` while its lease lasts. An attempt that has started is lost where its host says that it never has.
    """
    unstarted = end.ending is Ending.NEVER_STARTED
    leased = attempt if end.ending is Ending.LOST and attempt is not None and attempt.lease_s is not None else None
    if unstarted or leased is not None:
        claim = lease.revoke(end.attempt, at)
        is_over = leased is not None and claim is not None and not job_leases.may_run(leased, claim.instance, now)
        if claim is not None and claim.instance not in {None, end.instance} and not is_over:
            message = "dropped `%s` for attempt %s: another machine or home under the same host name has claimed it"
            log.warning(message, end.ending, end.attempt, extra={"action": "drop_event"})
            return None
    if unstarted and attempt is not None and attempt.started_at is not None:
        reason = f"its folder on host {attempt.host} was removed; how it ended is not known"
        return replace(end, ending=Ending.LOST, reason=reason)
    return end
