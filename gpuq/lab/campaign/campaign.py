"""One start of a campaign: measures what is left of the list, run by run, until all is done or the time is over.

Each run is written to the ledger, and the tables are rewritten, before the next run begins. A run that would end after the
deadline, judged by the duration of earlier ones, is not begun.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from gpuq.lab.campaign.files import write_tables
from gpuq.lab.campaign.ledger import MEASURED, Ledger, MeasuredRun
from gpuq.lab.campaign.plan import CampaignPlan, Left, Wanted
from gpuq.lab.campaign.progress import progress_display
from gpuq.lab.campaign.run import Bench
from gpuq.lab.campaign.workload_list import WorkloadJob

# Assumed seconds of a run of one job, or of two, before one was made: a framework's import, warm-up, and the measurement.
_USUAL_S = {1: 20.0, 2: 40.0}


class OutOfTime(Exception):
    """The campaign's deadline has passed."""


def check_time(deadline: float | None) -> None:
    """Raises OutOfTime after `deadline` (`time.monotonic`), never if it is None. Polled while a run is measured."""
    if deadline is not None and time.monotonic() > deadline:
        raise OutOfTime


@dataclass(frozen=True)
class Aim:
    """What is measured, on which type of device, and where the results go."""

    jobs: tuple[WorkloadJob, ...]
    wanted: Wanted
    device_type: str
    sharing: str
    out: Path


class Campaign:
    """One start of a campaign. `deadline` is of `time.monotonic`, None for no limit."""

    def __init__(self, aim: Aim, bench: Bench, ledger: Ledger, deadline: float | None) -> None:
        self._aim = aim
        self._bench = bench
        self._ledger = ledger
        self._deadline = deadline
        self._before = len(self.runs())

    def runs(self) -> list[MeasuredRun]:
        """The runs so far on this type of device under this way of sharing."""
        mine = (self._aim.device_type, self._aim.sharing)
        return [run for run in self._ledger.runs if (run.device_type, run.sharing) == mine]

    def left(self) -> Left:
        """The runs that are still to be made."""
        return self._plan().left()

    def seconds_left(self) -> float:
        """Seconds that they will take, estimated from the runs so far."""
        left = self.left()
        return left.alone * self._usual_s(1) + left.pairs * self._usual_s(2) + left.again * self._usual_s(2)

    def go(self) -> int:
        """Measure until all is done or the time is over. Returns the number of runs made."""
        made = 0
        self._write()
        with progress_display() as show:
            show(None, self.left().all, self.seconds_left())
            while (jobs := self._plan().next()) is not None and self._time_for(len(jobs)):
                try:
                    run = self._bench.measure(jobs, self._aim.sharing)
                except OutOfTime:
                    break
                self._ledger.add(run)
                self._write()
                made += 1
                show(run, self.left().all, self.seconds_left())
        return made

    def _write(self) -> None:
        write_tables(self._aim.out, self._aim.jobs, self._ledger.runs, self._ledger.sessions)

    def _plan(self) -> CampaignPlan:
        return CampaignPlan(self._aim.jobs, self.runs(), self._aim.wanted, self._before)

    def _time_for(self, jobs: int) -> bool:
        return self._deadline is None or time.monotonic() + self._usual_s(jobs) < self._deadline

    def _usual_s(self, jobs: int) -> float:
        seconds = [run.seconds for run in self.runs() if len(run.parts) == jobs and run.outcome == MEASURED]
        return fmean(seconds) if seconds else _USUAL_S[jobs]
