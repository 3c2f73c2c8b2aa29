"""One run on one device with real processes: a job alone, or two together.

Alone, a job runs until its rate is steady and its interval narrow. Two jobs are started at once, on separate cores where there
are some to spare, until both are steady. Then they are brought together for cycles of three phases: the first with the second
paused, the second with the first paused, both. Each slowdown thus comes from rates taken seconds apart, and a machine that gets
slower affects both alike. The order of the phases is reversed from cycle to cycle, and the first moments of a phase do not
count.

Whatever becomes of the jobs, the result is a `MeasuredRun`, and no process is left running.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from gpuq.errors import BadInput
from gpuq.lab.campaign.ledger import DISTURBED, FAILED, MEASURED, MeasuredJob, MeasuredRun
from gpuq.lab.campaign.monitor import Ended, MonitoredJob, RunMonitor
from gpuq.lab.campaign.steady_state import Steady, later_half, rate_between, steady
from gpuq.lab.campaign.workload_list import WorkloadJob


class Bench:
    """Runs jobs on one device, one run at a time. What the monitor's `check` raises (no time left, Ctrl-C) passes through."""

    def __init__(self, monitor: RunMonitor) -> None:
        self._target = monitor.target
        self._timing = monitor.timing
        self._monitor = monitor

    def clear(self) -> int:
        """End what a killed campaign left running. Returns the number of processes."""
        return self._monitor.clear()

    def measure(self, jobs: Sequence[WorkloadJob], sharing: str | None) -> MeasuredRun:
        """Measure one job alone on the device, or two together."""
        measure = self._measure_alone if len(jobs) == 1 else self._measure_pair
        at, began, monitor = time.time(), time.monotonic(), self._monitor
        monitor.begin()
        outcome, reason, good, values = MEASURED, None, False, 0
        try:
            for job in jobs:
                monitor.start(job)
            good, values = measure()
            if monitor.foreign_pct is not None and monitor.foreign_pct > self._timing.most_foreign_pct:
                outcome, reason = DISTURBED, f"others kept {monitor.foreign_pct:.0f}% of the device busy"
        except Ended as ended:
            outcome, reason = ended.outcome, ended.reason
        except BadInput as error:
            outcome, reason = FAILED, error.message
        finally:
            monitor.end()
        parts = [one.part() for one in monitor.watched]
        parts += [MeasuredJob(job=job.name, digest=job.digest) for job in jobs[len(parts) :]]
        return MeasuredRun(
            device=self._target.device.id,
            device_type=self._target.device.type,
            sharing=sharing,
            at=round(at, 1),
            seconds=round(time.monotonic() - began, 2),
            outcome=outcome,
            parts=tuple(parts),
            reason=reason,
            steady=good,
            values=values,
            foreign_utilization_pct=None if monitor.foreign_pct is None else round(monitor.foreign_pct, 1),
        )

    # --- alone ---

    def _measure_alone(self) -> tuple[bool, int]:
        (one,) = self._monitor.watched
        found, good = self._steady(one)
        if found is None:
            raise Ended(FAILED, f"{one.child.job.name}: too few steps in {self._timing.most_s:g} s to measure a rate")
        one.alone, one.since, one.windows = [found.rate], found.since, found.interval
        return good, found.interval.values

    def _steady(self, one: MonitoredJob) -> tuple[Steady | None, bool]:
        """(the steady state, True) once its interval is narrow enough; when the time is over, (what there is or None,
        False).
        """
        self._monitor.wait_for_steps()
        deadline = time.monotonic() + self._timing.most_s
        while True:
            self._monitor.let_pass(self._timing.window_s)
            found = steady(one.child.marks, self._timing.window_s)
            if found is not None and found.interval.tight(self._timing.tight):
                return found, True
            if time.monotonic() > deadline:
                return found or later_half(one.child.marks), False

    # --- together ---

    def _measure_pair(self) -> tuple[bool, int]:
        timing, both = self._timing, self._monitor.watched
        monitor = self._monitor
        monitor.wait_for_steps()
        deadline = time.monotonic() + timing.warm_up_s
        while time.monotonic() < deadline:
            if all(steady(one.child.marks, timing.window_s) is not None for one in both):
                break
            monitor.let_pass(timing.window_s)
        if self._target.warm_cores is not None and self._target.placement.cores is not None:
            both[1].child.pin(self._target.placement.cores)
        now = time.monotonic()
        for one in both:
            one.since = now
        phases = [[both[0]], [both[1]], list(both)]
        for cycle in range(1, timing.most_cycles + 1):
            for running in phases if cycle % 2 else reversed(phases):
                for one, rate in zip(running, self._phase(running), strict=True):
                    (one.alone if len(running) == 1 else one.shared).append(rate)
            if cycle >= timing.fewest_cycles and all(one.slowdown().tight(timing.tight) for one in both):
                return True, cycle
        return False, timing.most_cycles

    def _phase(self, running: Sequence[MonitoredJob]) -> list[float]:
        """The rates of these jobs while the others are paused, over `phase_s` or longer, until each made enough steps."""
        timing = self._timing
        for one in self._monitor.watched:
            if one in running:
                one.child.go_on()
            else:
                one.child.pause()
        self._monitor.let_pass(timing.settle_s)
        begin = time.monotonic()
        self._monitor.let_pass(timing.phase_s)
        while True:
            found = [rate_between(one.child.marks, begin, math.inf) for one in running]
            slow = [one for one, rate in zip(running, found, strict=True) if not rate or rate[1] < timing.least_steps]
            if not slow:
                return [rate[0] for rate in found if rate]
            if time.monotonic() - begin > timing.most_s / 2:
                few = f"fewer than {timing.least_steps} steps in {timing.most_s / 2:g} s"
                raise Ended(FAILED, f"{slow[0].child.job.name}: {few}")
            self._monitor.let_pass(timing.poll_s)
