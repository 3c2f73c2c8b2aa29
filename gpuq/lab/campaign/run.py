"""One run on one device, with real processes: a job alone, or two together.

Arrives: jobs. Leaves: a `MeasuredRun` for the ledger, whatever became of it; what a caller's `check` raises (no time left,
Ctrl-C) passes through, and nothing is left running. Alone, a job runs until its rate is steady and tight. Two are started at
once, each on cores of its own where there are some to spare, until both are steady; then they are brought together, and cycles
follow: the first with the second paused, the second with the first paused, both. So each slowdown comes from rates that lie
seconds apart, and a machine that drifts slows both alike. The order turns round from cycle to cycle, and the first moments of a
phase do not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from gpuq.errors import BadInput
from gpuq.lab.campaign.ledger import DISTURBED, FAILED, MEASURED, MeasuredJob, MeasuredRun
from gpuq.lab.campaign.steady import Steady, later_half, rate_between, steady
from gpuq.lab.campaign.watch import Ended, MonitoredJob, RunMonitor
from gpuq.lab.campaign.work import WorkloadJob


class Bench:
    """Runs jobs on one device, a run at a time; the watch is over their processes."""

    def __init__(self, watch: RunMonitor) -> None:
        self._place = watch.place
        self._timing = watch.timing
        self._watch = watch

    def clear(self) -> int:
        """End what a campaign that was killed left running; how many processes there were."""
        return self._watch.clear()

    def alone(self, job: WorkloadJob, sharing: str | None) -> MeasuredRun:
        """The job alone on the device."""
        return self._run((job,), sharing, self._measure_alone)

    def pair(self, one: WorkloadJob, other: WorkloadJob, sharing: str | None) -> MeasuredRun:
        """Both on the device."""
        return self._run((one, other), sharing, self._measure_pair)

    def _run(
        self, jobs: Sequence[WorkloadJob], sharing: str | None, measure: Callable[[], tuple[bool, int]]
    ) -> MeasuredRun:
        at, began, watch = time.time(), time.monotonic(), self._watch
        watch.begin()
        outcome, reason, good, values = MEASURED, None, False, 0
        try:
            for job in jobs:
                watch.start(job)
            good, values = measure()
            if watch.foreign_pct is not None and watch.foreign_pct > self._timing.most_foreign_pct:
                outcome, reason = DISTURBED, f"others kept {watch.foreign_pct:.0f}% of the device busy"
        except Ended as ended:
            outcome, reason = ended.outcome, ended.reason
        except BadInput as error:
            outcome, reason = FAILED, error.message
        finally:
            watch.end()
        parts = [one.part() for one in watch.watched]
        parts += [MeasuredJob(job=job.name, digest=job.digest) for job in jobs[len(parts) :]]
        return MeasuredRun(
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
            foreign_utilization_pct=None if watch.foreign_pct is None else round(watch.foreign_pct, 1),
        )

    # --- alone ---

    def _measure_alone(self) -> tuple[bool, int]:
        (one,) = self._watch.watched
        found, good = self._steady(one)
        if found is None:
            raise Ended(FAILED, f"{one.child.job.name}: too few steps in {self._timing.most_s:g} s to tell a rate")
        one.alone, one.since, one.windows = [found.rate], found.since, found.interval
        return good, found.interval.values

    def _steady(self, one: MonitoredJob) -> tuple[Steady | None, bool]:
        """The steady state of a job, once it is tight; when the time is over, of what there is, and False."""
        self._watch.wait_for_steps()
        deadline = time.monotonic() + self._timing.most_s
        while True:
            self._watch.let_pass(self._timing.window_s)
            found = steady(one.child.marks, self._timing.window_s)
            if found is not None and found.interval.tight(self._timing.tight):
                return found, True
            if time.monotonic() > deadline:
                return found or later_half(one.child.marks), False

    # --- together ---

    def _measure_pair(self) -> tuple[bool, int]:
        timing, both = self._timing, self._watch.watched
        self._watch.wait_for_steps()
        self._warm_up()
        if self._place.warm_cores is not None and self._place.placement.cores is not None:
            both[1].child.pin(self._place.placement.cores)
        now = time.monotonic()
        for one in both:
            one.since = now
        for cycle in range(1, timing.most_cycles + 1):
            self._cycle(backwards=cycle % 2 == 0)
            if cycle >= timing.fewest_cycles and all(one.slowdown().tight(timing.tight) for one in both):
                return True, cycle
        return False, timing.most_cycles

    def _warm_up(self) -> None:
        deadline = time.monotonic() + self._timing.warm_up_s
        while time.monotonic() < deadline:
            if all(steady(one.child.marks, self._timing.window_s) is not None for one in self._watch.watched):
                return
            self._watch.let_pass(self._timing.window_s)

    def _cycle(self, *, backwards: bool) -> None:
        """A phase for each alone, and one for both."""
        one, other = self._watch.watched
        phases: list[list[MonitoredJob]] = [[one], [other], [one, other]]
        for running in reversed(phases) if backwards else phases:
            rates = self._phase(running)
            for watched, rate in zip(running, rates, strict=True):
                (watched.alone if len(running) == 1 else watched.shared).append(rate)

    def _phase(self, running: Sequence[MonitoredJob]) -> list[float]:
        """The rates of these while all others are paused: at least so long, and until each made enough steps."""
        timing = self._timing
        for one in self._watch.watched:
            if one in running:
                one.child.go_on()
            else:
                one.child.pause()
        self._watch.let_pass(timing.settle_s)
        begin = time.monotonic()
        self._watch.let_pass(timing.phase_s)
        while True:
            rates = {one.attempt: self._rate_since(begin, one) for one in running}
            slow = next((one for one in running if rates[one.attempt] is None), None)
            if slow is None:
                return [rate for rate in rates.values() if rate is not None]
            if time.monotonic() - begin > timing.most_s / 2:
                few = f"fewer than {timing.least_steps} steps in {timing.most_s / 2:g} s"
                raise Ended(FAILED, f"{slow.child.job.name}: {few}")
            self._watch.let_pass(timing.poll_s)

    def _rate_since(self, begin: float, one: MonitoredJob) -> float | None:
        """Its steps per second since then; None until it has made enough of them."""
        found = rate_between(one.child.marks, begin, math.inf)
        return None if found is None or found[1] < self._timing.least_steps else found[0]
