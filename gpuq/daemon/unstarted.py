"""Attempts that their host does not report, or reports as never started. Only the record can tell, because a claim in it is what
starts an attempt.

A host reports `never started` for an attempt of which it has no folder. That says nothing if another instance of the host's
worker service has claimed the attempt: another machine with the same host name, or the same machine before a reinstallation.
"""

from __future__ import annotations

import logging

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Attempt, Ending
from gpuq.core.state.events import Exited
from gpuq.daemon.leadership import Lease

log = logging.getLogger(__name__)


def revoke(lease: Lease, attempt: Attempt, waited_s: float, at: float) -> Exited | None:
    """Take back, at `at` by the wall clock, the order to start an attempt that its host has not reported for `waited_s`. Blocks.

    Returns its end if no instance has claimed it, and none can any more, or if the one that has was replaced by another. Else
    None: the instance with the claim will report what became of it.
    """
    claim = lease.revoke(attempt.id, at)
    if claim is None:
        reason = f"host {attempt.host} did not start it within {waited_s:.0f} s"
        return Exited(attempt.id, at, Ending.NEVER_STARTED, None, reason, Measurement())
    if claim.instance is not None and claim.holder not in {None, claim.instance}:
        reason = f"host {attempt.host} was restarted or replaced, and does not have it any more"
        return Exited(attempt.id, at, Ending.LOST, None, reason, Measurement())
    return None


def claimer_says_so(lease: Lease, end: Exited, at: float) -> bool:
    """Whether an end as never started comes from the instance that claimed the attempt, or no instance has. Blocks."""
    claim = lease.revoke(end.attempt, at)
    if claim is None or claim.instance in {None, end.instance}:
        return True
    message = "dropped `never started` for attempt %s: another machine or home under the same host name has claimed it"
    log.warning(message, end.attempt, extra={"action": "drop_event"})
    return False
