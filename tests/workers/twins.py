"""Small stand-ins for the record, the device backend, the sampler and the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuq_workers import run_job
from gpuq_workers.launcher import ServiceLauncher
from gpuq_workers.measuring.sample import Sample
from gpuq_workers.shim_pool import ShimPool

from gpuq.adapters.devices import Placement
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.events import ResidentReport
from gpuq.core.state.job import JobId, KindId
from gpuq.errors import NotFound, Unreachable
from gpuq.messages import wire
from gpuq.messages.job_record import JobRecord
from gpuq.messages.submission import Submission
from gpuq.settings import Settings

KEY = "secret-order-key"
INSTANCE = "home"
GIB = 2**30


def attempt_id(job: int = 1, number: int = 1) -> AttemptId:
    return AttemptId(JobId(job), number)


Claimed = tuple[JobRecord, Attempt]


def spec(command: Sequence[str], attempt: AttemptId | None = None, **changes: Any) -> Claimed:
    env: dict[str, str] = changes.pop("env", {})
    submission = Submission(command=tuple(command), cwd="/", env=env, **changes)
    record = JobRecord(
        submission=submission, owner="ann", uid=None, kind="k", signature="s", features={}, submitted_at=1.0
    )
    return record, Attempt(
        id=attempt or attempt_id(),
        kind=KindId("k"),
        host=HostId("alpha"),
        devices=(DeviceId("cpu-0"),),
        promised=(GIB,),
        shares=False,
        launched_at=1.0,
    )


class OneClaim:
    """A record that lets every attempt start once, as SQL does."""

    def __init__(self, *specs: Claimed) -> None:
        self.specs = {attempt.id: (record, attempt) for record, attempt in specs}
        self.claims: list[tuple[AttemptId, str, str, str]] = []
        self.down = False

    def claim(self, attempt: AttemptId, host: str, instance: str, boot_id: str, at: float) -> Claimed | None:
        if self.down:
            raise Unreachable("The database does not answer.")
        self.claims.append((attempt, host, instance, boot_id))
        return self.specs.pop(attempt, None)


class Places:
    """One device, no pinning, one variable."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.env = env or {"CUDA_VISIBLE_DEVICES": "GPU-1"}

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        if list(devices) != ["cpu-0"]:
            raise NotFound("No such device.")
        return Placement(self.env, None)


class StillSampler:
    """Readings that never change."""

    def sample(self, now: float, residents: Sequence[Any]) -> Sample:
        reading = Reading(now, GIB, 12.5, 0)
        rows = tuple(
            ResidentReport(
                attempt=r.attempt, memory_bytes=GIB, utilization_pct=50.0, steps=7, rate=1.5, started_at=r.started_at
            )
            for r in residents
        )
        return Sample(devices=self.devices(), readings=((DeviceId("cpu-0"), reading),), residents=rows)

    def sample_memory(self, residents: Sequence[Any]) -> None:
        """They have it already."""

    def finish(self, attempt: AttemptId, folder: Path | None = None) -> Measurement:
        return Measurement(peak_memory_bytes=GIB, steps=7)

    def pause(self, attempts: Sequence[AttemptId]) -> None:
        raise AssertionError("no blink was requested")

    resume = note = pause  # type: ignore[assignment]

    def devices(self) -> tuple[Device, ...]:
        return (Device(DeviceId("cpu-0"), HostId("alpha"), "cpu", "cpu-2", 4 * GIB),)


class Inbox:
    """The dispatcher's side: keeps what comes, acknowledges in order on request."""

    def __init__(self, *, acknowledges: bool = True) -> None:
        self.acknowledges, self.down = acknowledges, False
        self.messages: list[wire.Message] = []
        self.committed: list[wire.Spooled] = []
        self.acknowledged_upto = 0
        self.answered: wire.ReportNumber | None = None
        self.dispatcher = "the dispatcher"

    async def add(self, *messages: wire.Message) -> None:
        if self.down:
            raise Unreachable("Redis is not usable.")
        for message in messages:
            self.messages.append(wire.decode(wire.encode(message)))
            if isinstance(message, wire.HostReport):
                assert isinstance(message.number, wire.ReportNumber)
                self.answered = message.number
            if isinstance(message, wire.Spooled) and message.seq == self.acknowledged_upto + 1 and self.acknowledges:
                self.committed.append(message)
                self.acknowledged_upto = message.seq

    async def acknowledged(self, host: str) -> bytes | None:
        if self.down:
            raise Unreachable("Redis is not usable.")
        if self.answered is None:
            return None
        worker, number = self.answered.worker, self.answered.number
        answer = wire.Acknowledgement(host, self.acknowledged_upto, worker, number, self.dispatcher)
        return wire.encode(wire.seal(answer, KEY))

    def reports(self) -> list[wire.HostReport]:
        return [message for message in self.messages if isinstance(message, wire.HostReport)]


contexts: list[run_job.OrderContext] = []
"""The one that `context` made last: a fixture ends its shims."""


def context(settings: Settings, store: OneClaim, places: Places | None = None) -> run_job.OrderContext:
    launcher = ServiceLauncher(settings, ShimPool(settings.home.logs / "shims.log"))
    made = run_job.OrderContext(settings, KEY, store, places or Places(), launcher, INSTANCE)
    contexts[:] = [made]
    return made


def order(
    verb: wire.Verb, job: int = 1, number: int = 1, ring: int = 1, host: str = "alpha", instance: str | None = None
) -> dict[str, Any]:
    return wire.sign(wire.Order(host, job, number, ring, verb, instance), KEY)
