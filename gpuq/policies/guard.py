"""Runs a policy so that its mistakes cannot stop the queue.

At the first fault the default policy takes over, for the rest of the pass and until the process ends. A fault is an exception, a
value that is no valid proposal, a pass that takes longer than the limit, or an endless series of proposals that come to nothing.
Jobs that were admitted before the fault keep their devices. The fault is logged, and kept for the view and the metrics.

Only the time in the policy's own code counts, added up over a pass; the core's work between two proposals does not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq.core.state.job import Job, JobState
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.time_limit import SignalTimeLimit, TimeLimit, TimeLimitExceeded
from gpuq.settings import Scheduling

log = logging.getLogger(__name__)
T = TypeVar("T")

# Proposals that may come to nothing in one pass: so many per job and device, and a constant for short queues. The built-in
# policies propose at most 16 placements for a job, so a policy beyond this most likely repeats itself for ever.
_IN_VAIN_EACH, _IN_VAIN_ALWAYS = 32, 1000
_LONGEST_REASON = 300
# Importing a large library from a slow disk takes seconds. What takes longer than this most likely hangs.
_MADE_WITHIN_S = 30.0
_EXHAUSTED = object()


@dataclass(frozen=True, slots=True)
class GuardFault:
    """The reason why a policy was replaced, and the context's time of that; None if it could not even be made."""

    reason: str
    at: float | None


class Guarded:
    """The policy `chosen`, replaced by `default` after its first fault. It may use `limit_s` seconds in one pass."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        default: Policy,
        limit_s: float,
        time_limit: TimeLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chosen = name
        self.fault: GuardFault | None = None
        self._policy = policy
        self._default = default
        self._limit_s = limit_s
        # A policy calls into the core, which may store results in its cache. Interrupting that could leave the cache
        # inconsistent for the passes of the default policy.
        self._time_limit = time_limit or SignalTimeLimit(spared=("gpuq.core",))
        self._clock = clock

    @property
    def serving(self) -> str:
        """The name of the policy that proposes now."""
        return self.chosen if self.fault is None else registry.DEFAULT

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """The proposals of the policy up to its fault, then those of the default."""
        if self.fault is None and self._policy is not self._default:
            yield from self._watched(context)
            if self.fault is None:
                return
        yield from self._default(context)

    def replace(self, reason: str, at: float | None, error: BaseException | None = None) -> None:
        """Let the default propose from now on, and log why."""
        self.fault = GuardFault(reason[:_LONGEST_REASON], at)
        log.error(
            "the policy `%s` is replaced by `%s` until the dispatcher starts again: %s. Correct it, or choose another "
            "under [scheduling], and restart the dispatcher; running jobs are not touched by that.",
            self.chosen,
            registry.DEFAULT,
            self.fault.reason,
            extra={"action": "replace_policy"},
            exc_info=error,
        )

    def pass_failed(self, error: Exception, at: float) -> None:
        """Record that a pass failed outside of the policy's own code, and let the default propose from now on: such an error may
        come of what this policy proposes. Logged once per reason, not at every pass."""
        reason = f"a pass failed, and nothing started in it: {type(error).__name__}: {error}"
        if self.fault is None and self._policy is not self._default:
            self.replace(reason, at, error)
            return
        fault = GuardFault(reason[:_LONGEST_REASON], at)
        if self.fault is None or self.fault.reason != fault.reason:
            self.fault = fault
            log.error("%s. Please report this.", fault.reason, extra={"action": "pass_failed"}, exc_info=error)

    def _watched(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        watched = _Pass(context, self._time_limit, self._clock, self._limit_s)
        proposals: Iterator[Proposal | Eviction] | None = None
        try:
            proposals = watched.run(lambda: iter(self._policy(context)))
            while (item := watched.next(proposals)) is not None:
                yield item
                watched.note_outcome(item)
        except KeyboardInterrupt:
            raise
        except GeneratorExit:  # the core needs no more proposals: not a fault
            _close(proposals, self._time_limit, self._limit_s)
            raise
        except _Misbehaved as fault:
            self.replace(str(fault), context.now)
            _close(proposals, self._time_limit, self._limit_s)
        except BaseException as error:  # noqa: BLE001 - SystemExit from a policy must not end the daemon
            self.replace(f"it failed: {type(error).__name__}: {error}", context.now, error)


class _Misbehaved(Exception):
    """The policy's fault, as a sentence."""


class _Pass:
    """One pass of one policy: the time it has used, and how many of its proposals came to nothing."""

    def __init__(
        self, context: SchedulingContext, time_limit: TimeLimit, clock: Callable[[], float], limit_s: float
    ) -> None:
        self._context, self._time_limit, self._clock, self._limit_s = context, time_limit, clock, limit_s
        self._spent_s = 0.0
        self._in_vain = 0
        each = len(context.state.jobs) + len(context.state.devices)
        self._most_in_vain = _IN_VAIN_ALWAYS + _IN_VAIN_EACH * each

    def run(self, work: Callable[[], T]) -> T:
        """Run a piece of the policy's code in what is left of its time. Raises _Misbehaved when the time is used up."""
        too_slow = f"one pass took it longer than policy_time_limit_s = {self._limit_s:g}"
        began = self._clock()
        try:
            result = self._time_limit(work, self._limit_s - self._spent_s)
        except TimeLimitExceeded:
            raise _Misbehaved(too_slow) from None
        except GeneratorExit as error:
            # Raised by the policy itself. Unchanged, it would look as if the core had closed this generator.
            raise _Misbehaved("it raised GeneratorExit") from error
        self._spent_s += self._clock() - began
        # Without signals (in a thread) or within C code the limit is only noticed here.
        if self._spent_s > self._limit_s:
            raise _Misbehaved(too_slow)
        return result

    def next(self, proposals: Iterator[object]) -> Proposal | Eviction | None:
        """The next valid proposal, with the state's own job and devices; None after the last. Raises _Misbehaved.

        Proposals for jobs that no longer wait, or that got devices in this pass, are skipped: a planner may follow an older plan.
        """
        while (item := self.run(lambda: next(proposals, _EXHAUSTED))) is not _EXHAUSTED:
            checked = self._checked(item)
            if checked is not None:
                return checked
            self._count_in_vain()
        return None

    def _checked(self, item: object) -> Proposal | Eviction | None:
        """The proposal with the state's own objects; None where its job waits no longer. Raises _Misbehaved.

        The policy may have built a Job or Device itself, with other memory or priority than the real one. Admission must decide
        by what the state says.
        """
        if not isinstance(item, Proposal | Eviction):
            raise _Misbehaved(f"it proposed a {type(item).__name__}, neither a Proposal nor an Eviction")
        if not isinstance(item.job, Job):
            raise _Misbehaved(f"it proposed {_short(item.job)} for a job")
        if isinstance(item, Eviction) and not isinstance(item.attempt, AttemptId):
            raise _Misbehaved(f"it proposed {_short(item.attempt)} for an attempt to stop")
        job, devices = self._context.state.jobs.get(item.job.id), self._context.state.devices
        if job is None or job.state is not JobState.PENDING or self._context.placed(job):
            return None
        if isinstance(item, Eviction):
            return Eviction(item.attempt, job, item.devices)
        if not isinstance(item.devices, tuple) or not item.devices:
            raise _Misbehaved(f"it proposed {_short(item.devices)} for devices, which is no tuple of them")
        for device in item.devices:
            if not isinstance(device, Device) or device.id not in devices:
                raise _Misbehaved(f"it proposed {_short(device)}, which is not a device here")
        given = tuple(devices[device.id] for device in item.devices)
        return Proposal(job, given, item.pausing is True, item.trial is True)

    def note_outcome(self, item: Proposal | Eviction) -> None:
        """Count a proposal that started nothing. Raises _Misbehaved beyond the limit."""
        if isinstance(item, Eviction) or not self._context.placed(item.job):
            self._count_in_vain()

    def _count_in_vain(self) -> None:
        self._in_vain += 1
        if self._in_vain > self._most_in_vain:
            raise _Misbehaved(f"it made {self._in_vain} proposals in one pass that came to nothing")


def guard(scheduling: Scheduling, time_limit: TimeLimit | None = None) -> Guarded:
    """The policy that the settings name, guarded.

    A policy that cannot be made is replaced from the start instead of ending the dispatcher, since jobs must not wait because of
    a policy. In the main thread, making it has a time limit too.
    """
    name, limit_s = scheduling.policy, scheduling.policy_time_limit_s
    default = registry.spec(registry.DEFAULT).make(scheduling)
    guarded = Guarded(name, default, default, limit_s, time_limit)
    if name == registry.DEFAULT:
        return guarded
    try:
        made = (time_limit or SignalTimeLimit())(lambda: registry.make(scheduling), _MADE_WITHIN_S)
    except KeyboardInterrupt:
        raise
    except TimeLimitExceeded:
        guarded.replace(f"making it took longer than {_MADE_WITHIN_S:g} s", None)
    except BadInput as error:
        guarded.replace(f"{error.message.removesuffix('.')} ({error.fix.removesuffix('.')})", None)
    except BaseException as error:  # noqa: BLE001 - `make` is third-party code too
        guarded.replace(f"it cannot be made: {type(error).__name__}: {error}", None, error)
    else:
        return Guarded(name, made, default, limit_s, time_limit)
    return guarded


def _close(proposals: object, time_limit: TimeLimit, limit_s: float) -> None:
    """Close the policy's generator, within a time limit of its own. Errors are logged: the policy is not called again."""
    close = getattr(proposals, "close", None)
    if close is None:
        return
    try:
        time_limit(close, limit_s)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        log.warning("the policy did not end cleanly: %s", type(error).__name__)


def _short(thing: object) -> str:
    try:
        return f"{thing!r}"[:80]
    except Exception:  # noqa: BLE001 - the `__repr__` of a policy's own class may fail
        return f"a {type(thing).__name__}"
