"""Which devices does a job get beside residents as a trial, since too little was measured? See `scheduling.trials`.

Those where the least may go wrong come first. Only the first jobs of a pass that found no device are looked at: trials are few,
and looking at thousands of jobs would take longer than the rest of the pass."""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.admit import DeviceSnapshot, pair_risk
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.scheduling.trials import MOST_RISK
from gpuq.core.state.job import Job

_MOST_JOBS = 32


class TryingPass:
    """The rule during one pass."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._jobs_left = _MOST_JOBS

    def proposals(self, job: Job) -> Iterator[Proposal]:
        """The devices to try the job on, those of the least risk first, until it has some."""
        if not self._jobs_left or not self._context.trials.allows(job):
            return
        self._jobs_left -= 1
        found = [one for place in self._context.candidates.shared_places(job) if (one := self._choice(job, place))]
        for _, choice in sorted(found, key=lambda one: one[0]):
            yield Proposal(job, tuple(snapshot.device for snapshot in choice), trial=True)
            if self._context.placed(job):
                return

    def _choice(self, job: Job, place: list[DeviceSnapshot]) -> tuple[float, list[DeviceSnapshot]] | None:
        """(risk, as many of these devices as the job needs), those of the least risk; None where there are not so many."""
        judged = [(self._risk(job, one), one) for one in place if self._admits(job, one)]
        chosen = sorted(judged, key=lambda one: one[0])[: job.device_count]
        # Each pair of kinds may turn out bad by itself, and one that does ends the trial.
        risk = sum({tuple(r.kind for r in snapshot.residents): of_one for of_one, snapshot in chosen}.values())
        if len(chosen) < job.device_count or risk > MOST_RISK:
            return None
        return risk, [snapshot for _, snapshot in chosen]

    def _admits(self, job: Job, snapshot: DeviceSnapshot) -> bool:
        if not snapshot.residents or self._context.trials.can_be_paid(snapshot):
            return self._context.judge_trial(job, snapshot.device.id).admitted
        # All refuse a job on one device, or it would have one by now. A gang may be tried on some, and be admitted by others.
        return job.device_count > 1 and self._context.judge(job, snapshot.device.id).admitted

    def _risk(self, job: Job, snapshot: DeviceSnapshot) -> float:
        return pair_risk(job, self._context.forecast(job, snapshot), snapshot, self._context.limits) or 0.0
