"""The actions: what gpuq has decided to do. Each is a frozen value named in the imperative.

`decide` returns actions, `apply` changes the state by them, the journal records them, and the daemon performs those that concern
a host. An action is applied before it is performed, so the memory of a launch is promised at once and nothing launches twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.booking import BookingId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.retry import RetryRule
from gpuq.core.state.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Launch:
    """Start an attempt on all its devices. `verdict` is what admitted it; `others` are the further attempts of its gang. Those in
    `pauses` stand still while it runs."""

    attempt: Attempt
    verdict: Verdict
    others: tuple[Attempt, ...] = ()
    pauses: tuple[AttemptId, ...] = ()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts of this start."""
        return (self.attempt, *self.others)


@dataclass(frozen=True, slots=True)
class SetPendingReason:
    """Record why these jobs are waiting. Only sent when the reason has changed."""

    jobs: tuple[JobId, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Stop:
    """End an attempt with its whole process tree: SIGTERM first, SIGKILL after the grace period."""

    attempt: AttemptId
    reason: StopReason


@dataclass(frozen=True, slots=True)
class WarnIdle:
    """Note that an attempt has used none of its devices for `idle_s` seconds; its owner sees it, and is sent a message."""

    attempt: AttemptId
    idle_s: float


@dataclass(frozen=True, slots=True)
class OpenToPartners:
    """Let others join an attempt that is idle and had its devices to itself; from now on so many bytes are promised on each."""

    attempt: AttemptId
    promised: int


@dataclass(frozen=True, slots=True)
class Revise:
    """Replace the forecast of an attempt that runs, and with it whether others may join it and the bytes promised on each of its
    devices: more is known of it than at its launch, or less than was thought."""

    attempt: AttemptId
    forecast: Forecast
    shares: bool
    promised: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let an attempt stand still, its memory kept, so that another runs at full speed."""

    attempt: AttemptId
    paused_for: AttemptId


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused attempt go on."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class LeaveUnpaused:
    """Pause no job of this kind any more: one failed soon after a pause."""

    kind: KindId


@dataclass(frozen=True, slots=True)
class Lend:
    """Let an attempt use idle cores of its host besides its devices; replaces what was lent to it before."""

    attempt: AttemptId
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Take these cores back from an attempt."""

    attempt: AttemptId
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Take back the order to start an attempt that its host does not report. One that no worker service has claimed then ends as
    never started; one that did start keeps running."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class Requeue:
    """Put an ended job back into the queue. With `alone` it never shares a device again.

    `rule` is the rule for retries that is followed, None for a requeue that is not counted. It starts no earlier than
    `not_before`, and from now on needs `memory` bytes on each device; None changes nothing.
    """

    job: JobId
    alone: bool
    reason: str
    rule: RetryRule | None = None
    not_before: float | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class EndWait:
    """Let passes look at these jobs from now on: what they waited for besides a device has come."""

    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Abandon:
    """End a waiting job because what it waits for can never come."""

    job: JobId
    reason: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Remove a job that has ended for good from the state. It stays in the database."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Reserve:
    """Set devices aside for a waiting job; replaces the reservation that the job had."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class EndReservation:
    """Open the devices that were reserved for a job to all jobs again."""

    job: JobId


@dataclass(frozen=True, slots=True)
class EndBooking:
    """The time of a booking is over: its devices are open to all jobs again."""

    booking: BookingId


Action = (
    Launch
    | SetPendingReason
    | Stop
    | WarnIdle
    | OpenToPartners
    | Revise
    | Pause
    | Resume
    | LeaveUnpaused
    | Lend
    | Reclaim
    | Revoke
    | Requeue
    | EndWait
    | Abandon
    | Archive
    | Reserve
    | EndReservation
    | EndBooking
)
