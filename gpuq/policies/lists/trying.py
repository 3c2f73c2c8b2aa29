"""Which devices does a job get beside residents that only want of evidence keeps it from? See `scheduling.trials`.

Those where the least may go wrong come first. Only the first jobs of a pass that found no device are looked at: trials are few,
and looking at thousands of jobs would take longer than the rest of the pass."""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.job import Job

_MOST_JOBS = 32


class TryingPass:
    """The rule during one pass."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._jobs_left = _MOST_JOBS if context.trials.allowed else 0

    def proposals(self, job: Job) -> Iterator[Proposal]:
        """The devices to try the job on, those of the least risk first, until it has some."""
        if not self._jobs_left or job.host_count > 1:
            return
        self._jobs_left -= 1
        found = [one for place in self._context.candidates.shared_places(job) if (one := self._choice(job, place))]
        for _, choice in sorted(found, key=lambda one: one[0]):
            yield Proposal(job, tuple(snapshot.device for snapshot in choice), trial=True)
            if self._context.placed(job):
                return

    def _choice(self, job: Job, place: list[DeviceSnapshot]) -> tuple[float, list[DeviceSnapshot]] | None:
        """(risk, as many of these devices as the job needs), those of the least risk; None where there are not so many."""
        judged = []
        for snapshot in place:
            (verdict,), risk = self._context.judge_trial(job, (snapshot.device.id,))
            if verdict.admitted:
                judged.append((risk or 0.0, snapshot))
        chosen = sorted(judged, key=lambda one: one[0])[: job.device_count]
        if len(chosen) < job.device_count:
            return None
        return sum(risk for risk, _ in chosen), [snapshot for _, snapshot in chosen]
