"""When an attempt whose job may be started elsewhere has certainly ended, although its host is not heard.

Its shim ends it once no report of its host was answered for `lease_s`, counted from when that report was sent
(`workers/gpuq_workers/shim/lease.py`). Here the same time counts from when the last report was taken, or from when this
dispatcher began, whichever is later; and then `GRACE_S` more for the end itself. Both clocks count while a machine is suspended.
So no two attempts of a job overlap, however the network is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Attempt, Ending
from gpuq.core.state.events import Exited
from gpuq.core.state.state import State

GRACE_S: Final = 30.0
"""A shim looks at its lease at least every second, and kills what is left of the job 15 s after SIGTERM."""

_INSTANCES, _LONGEST_S = 1000, 2 * 3600.0


class JobLeases:
    """When each instance of each host was heard, since this dispatcher began at `began`."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._heard: dict[tuple[str, str | None], float] = {}
        self._host_heard: dict[str, float] = {}

    def heard(self, host: str, instance: str | None, now: float) -> None:
        """A report was taken. To be called before it is acknowledged."""
        self._heard[host, instance] = self._host_heard[host] = now
        if len(self._heard) > _INSTANCES:
            self._heard = {key: at for key, at in self._heard.items() if now - at < _LONGEST_S}

    def may_run(self, attempt: Attempt, instance: str | None, now: float) -> bool:
        """Whether an attempt with a lease may still run on the instance that claimed it."""
        return attempt.lease_s is not None and now - self._heard.get((attempt.host, instance), self._began) <= (
            attempt.lease_s + GRACE_S
        )

    def ends(self, state: State, now: float, at: float) -> Iterator[Exited]:
        """The ends, at `at` by the wall clock, of the attempts whose leases are over because their hosts were not heard."""
        for attempt in state.attempts.values():
            if attempt.lease_s is None:
                continue
            silent_s = now - self._host_heard.get(attempt.host, self._began)
            if silent_s > attempt.lease_s + GRACE_S:
                reason = (
                    f"host {attempt.host} was not heard for {silent_s:.0f} s, and ends its jobs with --requeue by then"
                )
                yield Exited(attempt.id, at, Ending.LOST, None, reason, Measurement())
