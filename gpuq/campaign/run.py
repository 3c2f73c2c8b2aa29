"""One run on one device, with real processes: a job alone, or two together.

Arrives: jobs. Leaves: a `Run` for the ledger, whatever became of it; what a caller's `check` raises (no time left, Ctrl-C) passes
through, and nothing is left running. Alone, a job runs until its rate is steady and tight. Two are started at once, each on
cores of its own where there are some to spare, until both are steady; then they are brought together, and cycles follow: the
first with the second paused, the second with the first paused, both. So each slowdown comes from rates that lie seconds apart,
and a machine that drifts slows both alike. The order turns round from cycle to cycle, and the first moments of a phase do not
count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from gpuq.adapters.devices import Backend, Placement, Resident, Usage
from gpuq.campaign.child import Child, end_leftovers, signals_held_back, start
from gpuq.campaign.guard import MOST_FOREIGN_PCT
from gpuq.campaign.ledger import DISTURBED, FAILED, MEASURED, OUT_OF_MEMORY, Part, Run
from gpuq.campaign.steady import Interval, Steady, interval, rate_between, ratio_interval, steady
from gpuq.campaign.work import Job
from gpuq.core.attempt import AttemptId
from gpuq.core.device import Device
from gpuq.core.job import JobId
from gpuq.errors import BadInput
from workers.measure import WINDOW_S, Look, Meter
from workers.prealloc import asked_by
from workers.progress import read_progress
from workers.shim_end import HOST_OUT_OF_MEMORY, OomWatch
from workers.shim_end import OUT_OF_MEMORY as DEVICE_OUT_OF_MEMORY


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds. `tight` is the 95% half-width wanted, as a share of the rate or of the slowdown;
    `most_foreign_pct` the share of the device that others may use before a run counts as disturbed."""

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


@dataclass(frozen=True)
class Place:
    """The device, how a job is put on it, and on which other cores a second one may warm up (None: on the device itself)."""

    device: Device
    placement: Placement
    warm_cores: tuple[int, ...] | None = None


class _Ended(Exception):
    """A job is over before it was measured, or never began to count."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass
class _Watched:
    """A child, what the backend said of it, and its rates: alone and shared, one for each cycle."""

    child: Child
    meter: Meter
    attempt: AttemptId
    alone: list[float] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    since: float | None = None
    windows: Interval | None = None
    powers: list[float | None] = field(default_factory=list)
    bandwidths: list[float | None] = field(default_factory=list)


class Bench:
    """Runs jobs on one device, a run at a time. `folder` is for what they write; `check` is called all the time, may raise."""

    def __init__(
        self,
        backend: Backend,
        place: Place,
        folder: Path,
        environ: Mapping[str, str],
        timing: Timing,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._backend = backend
        self._place = place
        self._folder = folder
        self._environ = environ
        self._timing = timing
        self._check = check
        self._watched: list[_Watched] = []
        self._oom = OomWatch()
        self._sampled_at = 0.0
        self._started = 0
        self._foreign: float | None = None

    def clear(self) -> int:
        """End what a campaign that was killed left running; how many processes there were."""
        return sum(end_leftovers(self._folder / name) for name in ("0", "1"))

    def alone(self, job: Job, sharing: str | None) -> Run:
        """The job alone on the device."""
        return self._run((job,), sharing, self._measure_alone)

    def pair(self, one: Job, other: Job, sharing: str | None) -> Run:
        """Both on the device."""
        return self._run((one, other), sharing, self._measure_pair)

    def _run(self, jobs: Sequence[Job], sharing: str | None, measure: Callable[[], tuple[bool, int]]) -> Run:
        at, began = time.time(), time.monotonic()
        self._foreign, self._oom = None, OomWatch()
        outcome, reason, good, values = MEASURED, None, False, 0
        try:
            for index, job in enumerate(jobs):
                self._start(index, job)
            good, values = measure()
            if self._foreign is not None and self._foreign > self._timing.most_foreign_pct:
                outcome, reason = DISTURBED, f"others kept {self._foreign:.0f}% of the device busy"
        except _Ended as ended:
            outcome, reason = ended.outcome, ended.reason
        except BadInput as error:
            outcome, reason = FAILED, error.message
        finally:
            self._end()
        parts = [_part(one) for one in self._watched]
        parts += [Part(job=job.name, digest=job.digest) for job in jobs[len(parts) :]]
        self._watched = []
        return Run(
            device=self._place.device.id,
            device_type=self._place.device.type,
            sharing=sharing,
            at=round(at, 1),
            seconds=round(time.monotonic() - began, 2),
            outcome=outcome,
            parts=tuple(parts),
            reason=reason,
            steady=good,
            values=values,
            foreign_utilization_pct=None if self._foreign is None else round(self._foreign, 1),
        )

    def _start(self, index: int, job: Job) -> None:
        placement = self._place.placement
        if index and self._place.warm_cores is not None:
            placement = Placement(placement.env, self._place.warm_cores)
        self._started += 1  # a number of its own: the backend takes differences from look to look
        with signals_held_back():
            child = start(job, self._folder / str(index), placement, self._environ, time.monotonic)
            meter = Meter(None, WINDOW_S, asked_by(child.env))
            self._watched.append(_Watched(child, meter, AttemptId(JobId(self._started), 1)))

    def _end(self) -> None:
        """Both are asked first, so that they end side by side."""
        for one in self._watched:
            one.child.ask_to_end()
        for one in self._watched:
            one.child.end(self._timing.grace_s)

    # --- alone ---

    def _measure_alone(self) -> tuple[bool, int]:
        (one,) = self._watched
        found, good = self._steady(one, self._timing.most_s, self._timing.tight)
        if found is None:
            raise _Ended(FAILED, f"{one.child.job.name}: too few steps in {self._timing.most_s:g} s to tell a rate")
        one.alone, one.since, one.windows = [found.rate], found.since, found.interval
        return good, found.interval.values

    def _steady(self, one: _Watched, within_s: float, tight: float) -> tuple[Steady | None, bool]:
        """The steady state of a job, once it is tight; when the time is over, of what there is, and False."""
        self._wait_for_steps([one])
        deadline = time.monotonic() + within_s
        while True:
            self._pass(self._timing.window_s)
            found = steady(one.child.marks, self._timing.window_s)
            if found is not None and found.interval.tight(tight):
                return found, True
            if time.monotonic() > deadline:
                return found or _later_half(one), False

    # --- together ---

    def _measure_pair(self) -> tuple[bool, int]:
        self._wait_for_steps(self._watched)
        self._warm_up()
        if self._place.warm_cores is not None and self._place.placement.cores is not None:
            self._watched[1].child.pin(self._place.placement.cores)
        now = time.monotonic()
        for one in self._watched:
            one.since = now
        for cycle in range(1, self._timing.most_cycles + 1):
            self._cycle(backwards=cycle % 2 == 0)
            if cycle >= self._timing.fewest_cycles and all(
                _slowdown(one).tight(self._timing.tight) for one in self._watched
            ):
                return True, cycle
        return False, self._timing.most_cycles

    def _warm_up(self) -> None:
        deadline = time.monotonic() + self._timing.warm_up_s
        while time.monotonic() < deadline:
            if all(steady(one.child.marks, self._timing.window_s) is not None for one in self._watched):
                return
            self._pass(self._timing.window_s)

    def _cycle(self, *, backwards: bool) -> None:
        """A phase for each alone, and one for both."""
        one, other = self._watched
        phases: list[list[_Watched]] = [[one], [other], [one, other]]
        for running in reversed(phases) if backwards else phases:
            rates = self._phase(running)
            for watched, rate in zip(running, rates, strict=True):
                (watched.alone if len(running) == 1 else watched.shared).append(rate)

    def _phase(self, running: Sequence[_Watched]) -> list[float]:
        """The rates of these while all others are paused: at least so long, and until each made enough steps."""
        timing = self._timing
        for one in self._watched:
            if one in running:
                one.child.go_on()
            else:
                one.child.pause()
        self._pass(timing.settle_s)
        begin = time.monotonic()
        self._pass(timing.phase_s)
        while True:
            found = [rate_between(one.child.marks, begin, math.inf) for one in running]
            rates = [rate for rate, steps in (one for one in found if one) if steps >= timing.least_steps]
            if len(rates) == len(running):
                return rates
            if time.monotonic() - begin > timing.most_s / 2:
                slow = next(
                    one
                    for one, rate in zip(running, found, strict=True)
                    if rate is None or rate[1] < timing.least_steps
                )
                raise _Ended(
                    FAILED, f"{slow.child.job.name}: fewer than {timing.least_steps} steps in {timing.most_s / 2:g} s"
                )
            self._pass(timing.poll_s)

    # --- watching ---

    def _wait_for_steps(self, watched: Sequence[_Watched]) -> None:
        deadline = time.monotonic() + self._timing.first_step_s
        while not all(one.child.marks for one in watched):
            if time.monotonic() > deadline:
                silent = next(one for one in watched if not one.child.marks)
                raise _Ended(FAILED, f"{silent.child.job.name}: no step was counted in {self._timing.first_step_s:g} s")
            self._pass(self._timing.poll_s)

    def _pass(self, seconds: float) -> None:
        """Let time pass, with an eye on everything. Raises _Ended when a job is over."""
        until = time.monotonic() + seconds
        while True:
            self._check()
            for one in self._watched:
                one.child.look()
            self._look_for_ends()
            now = time.monotonic()
            if now - self._sampled_at >= self._timing.sample_s:
                self._sampled_at = now
                self._sample(now)
            if now >= until:
                return
            time.sleep(min(self._timing.poll_s, until - now))

    def _look_for_ends(self) -> None:
        for one in self._watched:
            ending = one.child.ending()
            if ending is None:
                continue
            has_gpu = self._place.placement.cores is None
            ending = one.child.ending(self._oom.seconds_ago(), has_gpu) or ending
            outcome = OUT_OF_MEMORY if ending.ending in (DEVICE_OUT_OF_MEMORY, HOST_OUT_OF_MEMORY) else FAILED
            early = "; a workload has to train on until it is ended" if ending.exit_code == 0 else ""
            raise _Ended(outcome, f"{one.child.job.name}: {ending.reason}{early}")

    def _sample(self, now: float) -> None:
        self._oom.look()
        device = self._place.device.id
        residents = [Resident(one.attempt, one.child.identity.pid, (device,)) for one in self._watched]
        snapshot = self._backend.read(time.time(), residents)
        reading = snapshot.readings.get(device)
        if reading is not None:
            self._foreign = reading.foreign_utilization_pct
        for one in self._watched:
            usage = snapshot.usage.get(one.attempt, Usage(None, None))
            one.meter.look(
                Look(
                    at=time.time(),
                    clock=now,
                    memory_bytes=usage.memory_bytes,
                    utilization_pct=usage.utilization_pct,
                    busy_pct=None if reading is None else reading.utilization_pct,
                    partners=tuple(other.attempt for other in self._watched if other is not one),
                    progress=read_progress(one.child.folder / "progress"),
                    total_memory_bytes=self._place.device.total_memory if self._place.placement.cores is None else None,
                )
            )
            if reading is not None and reading.vitals is not None and one.child.marks:
                one.powers.append(reading.vitals.power_watts)
                one.bandwidths.append(reading.vitals.memory_bandwidth_pct)


def _later_half(one: _Watched) -> Steady | None:
    """What a job that never became steady did in the later half of its time."""
    marks = one.child.marks
    since = (marks[0].at + marks[-1].at) / 2
    found = rate_between(marks, since, math.inf)
    return None if found is None else Steady(found[0], Interval(found[0], None, 1), since)


def _slowdown(one: _Watched) -> Interval:
    return ratio_interval(alone / shared for alone, shared in zip(one.alone, one.shared, strict=True))


def _part(one: _Watched) -> Part:
    child, measured = one.child, one.meter.measurement()
    ending = child.ending()
    slowed = _slowdown(one) if one.shared and len(one.shared) == len(one.alone) else None
    alone = interval(one.alone) if one.alone else None
    half_width = one.windows.half_width if one.windows else alone.half_width if alone else None
    return Part(
        job=child.job.name,
        digest=child.job.digest,
        alone_rate=None if alone is None else _rounded(alone.mean),
        alone_half_width=_rounded(half_width),
        shared_rate=_rounded(fmean(one.shared)) if one.shared else None,
        slowdown=None if slowed is None else _rounded(slowed.mean),
        slowdown_half_width=None if slowed is None else _rounded(slowed.half_width),
        steps=child.marks[-1].steps if child.marks else None,
        warm_up_s=None if one.since is None else round(one.since - child.started_at, 2),
        peak_utilization_pct=None if measured.partners else _rounded(measured.peak_utilization_pct),
        peak_memory_bytes=measured.peak_memory_bytes,
        peak_memory_is_bound=measured.peak_memory_is_bound,
        memory_utilization_pct=None if measured.partners else _mean(one.bandwidths),
        power_w=None if measured.partners else _mean(one.powers),
        exit_code=None if ending is None else ending.exit_code,
        summary=child.summary(),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(fmean(known)) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
