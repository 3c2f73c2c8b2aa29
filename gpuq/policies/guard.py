"""A policy under guard: what it does wrong costs it its place, and nothing else.

Arrives: a policy and the default that stands in for it. Leaves: a policy. From the first fault on (an error, a proposal that
is none, a pass that takes longer than the limit or never ends) the default proposes, for the rest of this pass and of the
process's life. What was admitted before the fault stands. The fault is logged, and kept for whoever shows it.

Time is that of the policy's own code, added up over a pass; the core's between two proposals does not count.
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
from gpuq.policies.alarm import Alarm, Interrupting, TookTooLong
from gpuq.settings import Scheduling

log = logging.getLogger(__name__)
T = TypeVar("T")

# So many proposals for each job and each device may come to nothing in one pass, and some more for short queues. The
# built-in policies try 16 places for a job at most; who proposes more is taken to go round in circles.
_IN_VAIN_EACH, _IN_VAIN_ALWAYS = 32, 1000
_LONGEST_REASON = 300
# Importing a large library from a slow disk takes seconds; what takes longer than this does not come back.
_MADE_WITHIN_S = 30.0
_NO_MORE = object()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a policy was replaced, and when (the board's clock; None: before the first pass)."""

    reason: str
    at: float | None


class Guarded:
    """See the module's own words. `name` is the policy's, for people; `limit_s` the time that it may take in one pass."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        default: Policy,
        limit_s: float,
        alarm: Alarm | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chosen = name
        self.fault: Fault | None = None
        self._policy = policy
        self._default = default
        self._limit_s = limit_s
        # The board may keep what it works out for later passes: its code is left whole.
        self._alarm = alarm or Interrupting(spared=("gpuq.core",))
        self._clock = clock

    @property
    def serving(self) -> str:
        """The name of the policy that proposes now."""
        return self.chosen if self.fault is None else registry.DEFAULT

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """What the policy proposes; after a fault, what the default does."""
        if self.fault is None and self._policy is not self._default:
            yield from self._watched(context)
            if self.fault is None:
                return
        yield from self._default(context)

    def replace(self, reason: str, at: float | None, error: BaseException | None = None) -> None:
        """Put the default in the policy's place."""
        self.fault = Fault(reason[:_LONGEST_REASON], at)
        log.error(
            "the policy `%s` is replaced by `%s` until the dispatcher starts again: %s. Correct it, or choose another "
            "under [scheduling], and restart the dispatcher; running jobs are not touched by that.",
            self.chosen,
            registry.DEFAULT,
            self.fault.reason,
            extra={"action": "replace_policy"},
            exc_info=error,
        )

    def default_failed(self, error: Exception, at: float) -> None:
        """Note that a pass failed though the default proposed in it; said once for each reason."""
        fault = Fault(
            f"a pass failed, and nothing started in it: {type(error).__name__}: {error}"[:_LONGEST_REASON], at
        )
        if self.fault is None or self.fault.reason != fault.reason:
            self.fault = fault
            log.error("%s. Please report this.", fault.reason, extra={"action": "pass_failed"}, exc_info=error)

    def _watched(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        watched = _Pass(context, self._alarm, self._clock, self._limit_s)
        proposals: Iterator[Proposal | Eviction] | None = None
        try:
            proposals = watched.run(lambda: iter(self._policy(context)))
            while (item := watched.next(proposals)) is not None:
                yield item
                watched.note_outcome(item)
        except KeyboardInterrupt:
            raise
        except GeneratorExit:  # the core wants no more
            _close(proposals, self._alarm, self._limit_s)
            raise
        except _Misbehaved as fault:
            self.replace(str(fault), context.now)
            _close(proposals, self._alarm, self._limit_s)
        except BaseException as error:  # noqa: BLE001 - whatever a policy raises, SystemExit too, must end here
            self.replace(f"it failed: {type(error).__name__}: {error}", context.now, error)


class _Misbehaved(Exception):
    """What a policy did wrong, in words."""


class _Pass:
    """One pass of one policy: how long it has taken, and how much it has proposed in vain."""

    def __init__(self, context: SchedulingContext, alarm: Alarm, clock: Callable[[], float], limit_s: float) -> None:
        self._context, self._alarm, self._clock, self._limit_s = context, alarm, clock, limit_s
        self._spent_s = 0.0
        self._in_vain = 0
        each = len(context.state.jobs) + len(context.state.devices)
        self._most_in_vain = _IN_VAIN_ALWAYS + _IN_VAIN_EACH * each

    def run(self, work: Callable[[], T]) -> T:
        """Run some of the policy's code in what is left of its time. Raises _Misbehaved when that is over."""
        began = self._clock()
        try:
            result = self._alarm(work, self._limit_s - self._spent_s)
        except TookTooLong:
            raise _Misbehaved(self._too_slow()) from None
        except GeneratorExit as error:  # of its own: it must not look as if the core had enough
            raise _Misbehaved("it raised GeneratorExit") from error
        self._spent_s += self._clock() - began
        if self._spent_s > self._limit_s:
            raise _Misbehaved(self._too_slow())
        return result

    def next(self, proposals: Iterator[object]) -> Proposal | Eviction | None:
        """The next proposal, about jobs and devices as they are now; None after the last.

        Raises _Misbehaved for what is no proposal. One for a job that does not wait any more is passed over: a plan may be
        older than this pass.
        """
        while (item := self.run(lambda: next(proposals, _NO_MORE))) is not _NO_MORE:
            if not isinstance(item, Proposal | Eviction):
                raise _Misbehaved(f"it proposed a {type(item).__name__}, neither a Proposal nor an Eviction")
            about = self._about(item)
            if about is not None:
                return about
            self._count_in_vain()
        return None

    def _about(self, item: Proposal | Eviction) -> Proposal | Eviction | None:
        """The same, with the state's own job and devices: what others say of those must not decide."""
        if not isinstance(item.job, Job):
            raise _Misbehaved(f"it proposed {_short(item.job)} for a job")
        job = self._context.state.jobs.get(item.job.id)
        if isinstance(item, Eviction) and not isinstance(item.attempt, AttemptId):
            raise _Misbehaved(f"it proposed {_short(item.attempt)} for an attempt to stop")
        if job is None or job.state is not JobState.PENDING:
            return None
        if isinstance(item, Eviction):
            return item if item.job is job else Eviction(item.attempt, job, item.devices)
        devices = self._devices(item.devices)
        return item if item.job is job and devices is item.devices else Proposal(job, devices)

    def _devices(self, devices: object) -> tuple[Device, ...]:
        if not isinstance(devices, tuple) or not devices:
            raise _Misbehaved(f"it proposed {_short(devices)} for devices, which is no tuple of them")
        all_known = self._context.state.devices
        same = True
        for device in devices:
            known = all_known.get(device.id) if isinstance(device, Device) else None
            if known is None:
                raise _Misbehaved(f"it proposed {_short(device)}, which is not a device here")
            same = same and known is device
        return devices if same else tuple(all_known[device.id] for device in devices)

    def note_outcome(self, item: Proposal | Eviction) -> None:
        """Count what came to nothing. Raises _Misbehaved where that has no end."""
        if isinstance(item, Eviction) or not self._context.placed(item.job):
            self._count_in_vain()

    def _count_in_vain(self) -> None:
        self._in_vain += 1
        if self._in_vain > self._most_in_vain:
            raise _Misbehaved(f"it made {self._in_vain} proposals in one pass that came to nothing")

    def _too_slow(self) -> str:
        return f"one pass took it longer than policy_time_limit_s = {self._limit_s:g}"


def guard(scheduling: Scheduling, alarm: Alarm | None = None) -> Guarded:
    """The policy that the settings name, under guard. One that cannot be had is replaced from the start: a queue with jobs in it
    must not stand still over a policy. In the main thread, making it has a time limit too."""
    name, limit_s = scheduling.policy, scheduling.policy_time_limit_s
    default = registry.recipe(registry.DEFAULT).make(scheduling)
    guarded = Guarded(name, default, default, limit_s, alarm)
    if name == registry.DEFAULT:
        return guarded
    try:
        made = (alarm or Interrupting())(lambda: registry.make(scheduling), _MADE_WITHIN_S)
    except KeyboardInterrupt:
        raise
    except TookTooLong:
        guarded.replace(f"making it took longer than {_MADE_WITHIN_S:g} s", None)
    except BadInput as error:
        guarded.replace(f"{error.message.removesuffix('.')} ({error.fix.removesuffix('.')})", None)
    except BaseException as error:  # noqa: BLE001 - `make` is the policy's code too
        guarded.replace(f"it cannot be made: {type(error).__name__}: {error}", None, error)
    else:
        return Guarded(name, made, default, limit_s, alarm)
    return guarded


def _close(proposals: object, alarm: Alarm, limit_s: float) -> None:
    """Let a policy that will not be asked again clean up, in time of its own; what goes wrong there is past caring."""
    close = getattr(proposals, "close", None)
    if close is None:
        return
    try:
        alarm(close, limit_s)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        log.warning("the policy did not end cleanly: %s", type(error).__name__)


def _short(thing: object) -> str:
    try:
        return f"{thing!r}"[:80]
    except Exception:  # noqa: BLE001 - a policy's own class may not even have a name
        return f"a {type(thing).__name__}"
