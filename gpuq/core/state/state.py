"""The state of the queue and the devices. `apply` (`gpuq.core.state.apply`) changes it; all else only reads.

A job stays in the state until it is archived; the database keeps its past. What passes look up is in `index`, so their time
depends on what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.dependency import Dependency, DependencyType
from gpuq.core.state.device import Device, DeviceId, Host, HostId, Reading
from gpuq.core.state.index import Index, last_heartbeat
from gpuq.core.state.job import WAITING, Job, JobId, KindId
from gpuq.core.state.quota import Account, Hours, Quota
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.transitions import Step
from gpuq.core.state.usage import Usage
from gpuq.core.state.verdict import Verdict


@dataclass
class State:
    """Jobs not yet archived, attempts not yet ended, devices, hosts, latest readings, pending reasons and reservations.

    `residents` and `index` are derived, so a state can be rebuilt from its other fields; attempts are to be in the order of their
    launches then. Afterwards only `apply` changes it.
    """

    jobs: dict[JobId, Job] = field(default_factory=dict)
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict)
    devices: dict[DeviceId, Device] = field(default_factory=dict)
    readings: dict[DeviceId, Reading] = field(default_factory=dict)
    hosts: dict[HostId, Host] = field(default_factory=dict)
    drained: dict[HostId, str] = field(default_factory=dict)
    """Why an operator keeps new jobs off these hosts."""
    verdicts: dict[JobId, Verdict] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    quotas: dict[Account, Quota] = field(default_factory=dict)
    served: dict[Account, Hours] = field(default_factory=dict)
    """Device-seconds that ended attempts had, by account and hour."""
    reservations: dict[JobId, Reservation] = field(default_factory=dict)
    bookings: dict[BookingId, Booking] = field(default_factory=dict)
    """Those that are to begin or last."""
    first_attempt: int = 1
    """The lowest number of a new attempt: see `WentBack`."""
    gang_ends: dict[JobId, Step] = field(default_factory=dict)
    """What the attempts that ended mean for jobs of which others on other hosts have not ended yet: the gravest of it."""
    unpausable: dict[KindId, float] = field(default_factory=dict)
    """Kinds of which a job failed soon after a pause, and when that was."""
    residents: dict[DeviceId, tuple[AttemptId, ...]] = field(init=False, default_factory=dict)
    index: Index = field(init=False, default_factory=Index, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Build `residents` and `index` from the other fields."""
        for device in self.devices.values():
            self.index.device_changed(None, device)
        for host in sorted(self.hosts.values(), key=lambda host: host.last_seen):
            self.index.host_reported(host.id, host.last_seen)
        for job in self.jobs.values():
            self.index.job_changed(None, job)
        for job in self.jobs.values():
            _note_if_never_satisfied(self, job)
        for job_id in self.verdicts:
            self.index.verdict_set(job_id)
        for attempt in sorted(self.attempts.values(), key=last_heartbeat):
            self.index.attempt_changed(None, attempt, self.jobs[attempt.id.job])
        for attempt in list(self.attempts.values()):
            add_to_devices(self, attempt)

    def next_attempt(self, job: Job) -> int:
        """The number of the job's next attempt, of a gang over hosts that of the first one."""
        return max(job.attempt + job.host_count, self.first_attempt) if job.attempt else self.first_attempt

    def attempts_of(self, job: Job) -> list[Attempt]:
        """The live attempts of a job: at most one on each host of its last start."""
        numbers = range(job.attempt, job.attempt + job.host_count)
        return [self.attempts[id_] for number in numbers if (id_ := AttemptId(job.id, number)) in self.attempts]

    def residents_of(self, device: DeviceId) -> tuple[Attempt, ...]:
        """The attempts now on `device`, oldest first."""
        return tuple(self.attempts[attempt] for attempt in self.residents.get(device, ()))

    def promised_on(self, device: DeviceId, *, but: AttemptId | None = None) -> int:
        """Bytes of `device` promised to the attempts on it, without `but`."""
        others = (resident for resident in self.residents_of(device) if resident.id != but)
        return sum(resident.promised[resident.devices.index(device)] for resident in others)


def put_job(state: State, job: Job) -> None:
    """Add or replace a job. For the modules that change a state."""
    state.index.job_changed(state.jobs.get(job.id), job)
    state.jobs[job.id] = job
    _note_if_never_satisfied(state, job)


def _note_if_never_satisfied(state: State, job: Job) -> None:
    """A dependency on jobs that are all archived would have been dropped if it held."""
    if not job.after or job.state not in WAITING:
        return
    are_open = [is_open(state, dependency) for dependency in job.after]  # of each, which notes where the search goes on
    if not all(are_open):
        state.index.never_satisfied[job.id] = None


def is_open(state: State, dependency: Dependency) -> bool:
    """Whether one of the jobs that it is on has not been archived."""
    # What is archived never comes back, so the search goes on where the last one ended. To look at all of a thousand tasks at
    # each end of one would take a million looks. Tasks end in the order of their ids, more or less; a start needs the states of
    # those that are left.
    jobs = dependency.jobs if dependency.type is DependencyType.START else dependency.jobs[::-1]
    left = jobs[abs(state.index.last_open.get(dependency, jobs[0]) - jobs[0]) :]
    found = next((job for job in left if job in state.jobs), jobs[-1] + jobs.step)
    state.index.note_open(dependency, found)
    return found in dependency.jobs


def put_attempt(state: State, attempt: Attempt) -> None:
    """Add or replace an attempt of a job that the state has. For the modules that change a state."""
    state.index.attempt_changed(state.attempts.get(attempt.id), attempt, state.jobs[attempt.id.job])
    state.attempts[attempt.id] = attempt


def add_to_devices(state: State, attempt: Attempt) -> None:
    """Put the attempt on its devices; all attempts there have had a partner from then on."""
    for device in attempt.devices:
        residents = state.residents[device] = (*state.residents.get(device, ()), attempt.id)
        if len(residents) > 1:
            for resident in residents:
                if not state.attempts[resident].had_partner:
                    put_attempt(state, replace(state.attempts[resident], had_partner=True))
