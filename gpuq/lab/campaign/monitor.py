"""The processes of one run from start to end: polls their step counters, samples the device, and notices when one of them
ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from gpuq_workers.measuring.measure import WINDOW_S, Look, Meter
from gpuq_workers.measuring.prealloc import requested_share
from gpuq_workers.measuring.progress import read_progress
from gpuq_workers.shim.error_patterns import HOST_OUT_OF_MEMORY
from gpuq_workers.shim.error_patterns import OUT_OF_MEMORY as DEVICE_OUT_OF_MEMORY
from gpuq_workers.shim.oom import OomWatch

from gpuq.adapters.devices import Backend, Placement, ResidentProcess, ResidentUsage
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.lab.campaign.child import Child, end_leftovers, signals_held_back, start
from gpuq.lab.campaign.device import MeasuringDevice
from gpuq.lab.campaign.guard import MOST_FOREIGN_PCT
from gpuq.lab.campaign.ledger import FAILED, OUT_OF_MEMORY, MeasuredJob
from gpuq.lab.campaign.steady_state import Interval, interval, ratio_interval
from gpuq.lab.campaign.workload_list import WorkloadJob


@dataclass(frozen=True)
class Timing:
    """How long the phases of a run take, in seconds, and how precise its figures must be.

    `tight`: the 95% half-width wanted, as a share of the rate or slowdown. `most_foreign_pct`: percent of the device that other
    processes may use before a run counts as disturbed.
    """

    tight: float = 0.03
    most_foreign_pct: float = MOST_FOREIGN_PCT
    window_s: float = 0.5
    phase_s: float = 1.5
    settle_s: float = 0.3
    least_steps: int = 20
    fewest_cycles: int = 3
    most_cycles: int = 6
    most_s: float = 40.0
    warm_up_s: float = 30.0
    first_step_s: float = 300.0
    poll_s: float = 0.02
    sample_s: float = 1.0
    grace_s: float = 5.0


class Ended(Exception):
    """A job ended before it was measured, or never counted a step. `outcome` is that of the ledger."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass
class MonitoredJob:
    """A child with what the backend measured of it, and its rates alone and shared, one for each cycle."""

    child: Child
    meter: Meter
    attempt: AttemptId
    alone: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    since: float | None = None
    windows: Interval | None = None
    powers: list[float | None] = field(default_factory=list)
    bandwidths: list[float | None] = field(default_factory=list)

    def slowdown(self) -> Interval:
        """The slowdown over its cycles so far, of which there must be at least one."""
        return ratio_interval(alone / shared for alone, shared in zip(self.alone, self.shared, strict=True))

    def part(self) -> MeasuredJob:
        """The job's part of the run, for the ledger."""
        child, measured = self.child, self.meter.measurement()
        ending = child.ending()
        slowed = self.slowdown() if self.shared and len(self.shared) == len(self.alone) else None
        alone = interval(self.alone) if self.alone else None
        half_width = self.windows.half_width if self.windows else alone.half_width if alone else None
        return MeasuredJob(
            job=child.job.name,
            digest=child.job.digest,
            alone_rate=None if alone is None else _rounded(alone.mean),
            alone_half_width=_rounded(half_width),
            shared_rate=_rounded(fmean(self.shared)) if self.shared else None,
            slowdown=None if slowed is None else _rounded(slowed.mean),
            slowdown_half_width=None if slowed is None else _rounded(slowed.half_width),
            steps=child.marks[-1].steps if child.marks else None,
            warm_up_s=None if self.since is None else round(self.since - child.started_at, 2),
            peak_utilization_pct=None if measured.partners else _rounded(measured.peak_utilization_pct),
            peak_memory_bytes=measured.peak_memory_bytes,
            peak_memory_is_bound=measured.peak_memory_is_bound,
            memory_utilization_pct=None if measured.partners else _mean(self.bandwidths),
            power_w=None if measured.partners else _mean(self.powers),
            exit_code=None if ending is None else ending.exit_code,
            summary=child.summary(),
        )


class RunMonitor:
    """Over the processes of a run, one run after the other. `folder` is for what they write; `check` is called all the time,
    may raise.
    """

    def __init__(
        self,
        backend: Backend,
        target: MeasuringDevice,
        folder: Path,
        environ: Mapping[str, str],
        timing: Timing,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._backend = backend
        self.target = target
        self._folder = folder
        self._environ = environ
        self.timing = timing
        self._check = check
        self._oom = OomWatch()
        self._sampled_at = 0.0
        self._started = 0
        self.watched: list[MonitoredJob] = []
        self.foreign_pct: float | None = None
        """Percent of the device that other processes used at the last sample; None where it is not known."""

    def clear(self) -> int:
        """End what a campaign that was killed left running; how many processes there were."""
        return sum(end_leftovers(self._folder / name) for name in ("0", "1"))

    def begin(self) -> None:
        """Begin a new run."""
        self.watched, self.foreign_pct, self._oom = [], None, OomWatch()

    def start(self, job: WorkloadJob) -> None:
        """Start one more job: the first on the target's cores, the second on those where it may warm up."""
        index, placement = len(self.watched), self.target.placement
        if index and self.target.warm_cores is not None:
            placement = Placement(placement.env, self.target.warm_cores)
        self._started += 1  # a new id for each: the backend computes differences between samples of one id
        with signals_held_back():
            child = start(job, self._folder / str(index), placement, self._environ, time.monotonic)
            meter = Meter(None, WINDOW_S, requested_share(child.env))
            self.watched.append(MonitoredJob(child, meter, AttemptId(JobId(self._started), 1)))

    def end(self) -> None:
        """End all jobs. All get SIGTERM first, so that they end at the same time."""
        for one in self.watched:
            one.child.ask_to_end()
        for one in self.watched:
            one.child.end(self.timing.grace_s)

    def wait_for_steps(self) -> None:
        """Wait until each job has counted a step. Raises Ended after `first_step_s`."""
        deadline = time.monotonic() + self.timing.first_step_s
        while silent := [one for one in self.watched if not one.child.marks]:
            if time.monotonic() > deadline:
                name = silent[0].child.job.name
                raise Ended(FAILED, f"{name}: no step was counted in {self.timing.first_step_s:g} s")
            self.let_pass(self.timing.poll_s)

    def let_pass(self, seconds: float) -> None:
        """Wait while polling and sampling. Raises Ended when a job ends, and whatever `check` raises."""
        until = time.monotonic() + seconds
        while True:
            self._check()
            for one in self.watched:
                one.child.look()
            for one in self.watched:
                self._raise_ended(one)
            now = time.monotonic()
            if now - self._sampled_at >= self.timing.sample_s:
                self._sampled_at = now
                self._sample(now)
            if now >= until:
                return
            time.sleep(min(self.timing.poll_s, until - now))

    def _raise_ended(self, one: MonitoredJob) -> None:
        ending = one.child.ending()
        if ending is None:
            return
        has_gpu = self.target.placement.cores is None
        ending = one.child.ending(self._oom.seconds_ago(), has_gpu) or ending
        outcome = OUT_OF_MEMORY if ending.ending in (DEVICE_OUT_OF_MEMORY, HOST_OUT_OF_MEMORY) else FAILED
        early = "; a workload has to train on until it is ended" if ending.exit_code == 0 else ""
        raise Ended(outcome, f"{one.child.job.name}: {ending.reason}{early}")

    def _sample(self, now: float) -> None:
        self._oom.look()
        device = self.target.device.id
        residents = [ResidentProcess(one.attempt, one.child.identity.pid, (device,)) for one in self.watched]
        snapshot = self._backend.read(time.time(), residents)
        reading = snapshot.readings.get(device)
        if reading is not None:
            self.foreign_pct = reading.foreign_utilization_pct
        for one in self.watched:
            usage = snapshot.usage.get(one.attempt, ResidentUsage(None, None))
            one.meter.look(
                Look(
                    at=time.time(),
                    clock=now,
                    usage=ResidentUsage(usage.memory_bytes, usage.utilization_pct),
                    busy_pct=None if reading is None else reading.utilization_pct,
                    partners=tuple(other.attempt for other in self.watched if other is not one),
                    progress=read_progress(one.child.folder / "progress"),
                    total_memory_bytes=self.target.device.total_memory if self.target.placement.cores is None else None,
                )
            )
            if reading is not None and reading.vitals is not None and one.child.marks:
                one.powers.append(reading.vitals.power_watts)
                one.bandwidths.append(reading.vitals.memory_bandwidth_pct)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(fmean(known)) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
