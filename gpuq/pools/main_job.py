"""`python -m gpuq.pools.main_job start|stop`: request the Slurm job of gpuq itself, or end it; for `gpuq up` and `gpuq down`.

It is one Slurm job for as long as it is wanted: at its time limit it queues itself again, and when its node fails Slurm does.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuq.adapters import slurm
from gpuq.adapters.slurm import SlurmJob
from gpuq.adapters.supervise import python_module
from gpuq.cli.client import is_held
from gpuq.errors import BadInput, Conflict, Failure, GpuqError, Unreachable
from gpuq.home import Home
from gpuq.logs import last_words, report
from gpuq.messages import main_job
from gpuq.messages.main_job import MainJob
from gpuq.messages.pilot import NOTICE_S
from gpuq.pools import sbatch_options

_READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.5
_ASK_SLURM_EVERY_S = 5.0


def main() -> int:
    """Carry out `start [OPTION OF SBATCH ...]`, `stop` or `stop --stop-jobs`; returns the exit code."""
    action, *options = sys.argv[1:]
    requests = MainJobRequests(Home.from_environment())
    try:
        if action == "start":
            requests.start(options)
        else:
            requests.stop(stop_jobs="--stop-jobs" in options)
    except GpuqError as error:
        return report(error)
    return 0


def script(home: Home) -> str:
    """The batch script, with the interpreter that runs this."""
    command = shlex.join(python_module("gpuq.pools.in_slurm"))
    return f"#!/bin/sh\nexport GPUQ_HOME={shlex.quote(str(home.root))}\nexec {command}\n"


def options_of(own: Sequence[str], folder: Path) -> list[str]:
    """The options of sbatch; the user's own come last and override these."""
    return [
        "--job-name=gpuq",
        f"--output={folder / 'slurm.log'}",
        "--open-mode=append",
        f"--chdir={folder}",
        f"--signal=B:USR1@{NOTICE_S}",
        "--nodes=1",
        "--ntasks=1",
        "--requeue",
        "--export=ALL",  # as for a pilot
        *own,
    ]


class MainJobRequests:
    """The Slurm job of one home. `slurm` has the functions of `gpuq.adapters.slurm`."""

    def __init__(
        self,
        home: Home,
        slurm: Any = slurm,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._slurm, self._pause, self._clock = home, slurm, pause, clock

    def start(self, own: Sequence[str]) -> None:
        """Request the job unless there is one, wait until gpuq runs in it, and print where. Raises GpuqError."""
        self._slurm.check()
        sbatch_options.check(own, allowed=("--requeue",))
        while (job := self._job()) is not None and job.state == "COMPLETING":  # the one before; it holds the home
            self._pause(_ASK_SLURM_EVERY_S)
        if job is not None:
            self._wait(job.id)
            return
        if is_held(self._home.run / "up.lock"):
            raise Conflict(
                f"A `gpuq up` of {self._home.root} runs already, and in no Slurm job.",
                fix="End it with `gpuq down`; its jobs go on, and the next `gpuq up` takes them up again.",
            )
        # A folder that exists on this host, because Slurm may look; nothing is submitted.
        wanted = options_of(own, Path("/tmp"))  # noqa: S108
        self._slurm.test(script(self._home), wanted)
        if self._slurm.ignores_the_script(wanted):
            raise BadInput(
                "With what is behind `--`, sbatch would run something else than gpuq.", fix="Leave only options there."
            )
        self._home.create()
        number = self._submitted(own)
        main_job.save(self._home, MainJob(slurm_job=number))
        print(f"Slurm job {number} is requested; gpuq runs in it.", flush=True)
        self._wait(number)

    def stop(self, *, stop_jobs: bool) -> None:
        """End gpuq and its Slurm job, with the running jobs or without. Raises GpuqError."""
        job = self._job()
        if job is not None and job.state == "RUNNING":
            self._slurm.signal(job.id, "USR2" if stop_jobs else "TERM")
        elif job is not None:
            self._slurm.cancel([job.id])
        while (left := self._job()) is not None and left.state != "COMPLETING":
            self._pause(_ASK_SLURM_EVERY_S)
        self._home.main_job_file.unlink(missing_ok=True)
        if job is None:
            raise Unreachable(
                f"No gpuq runs in a Slurm job of {self._home.root}.", fix="`gpuq up --in-slurm` starts one."
            )
        print(f"gpuq has ended, and Slurm job {job.id}. Its pilots and their jobs go on, each to its limit.")

    def _job(self) -> SlurmJob | None:
        """The Slurm job of this home that has not ended, by its number, or by its folder where sbatch's answer was lost. The home
        has its number then. Raises Unreachable."""
        found, folder = main_job.read(self._home), str(self._home.logs)
        known = self._slurm.jobs({found.slurm_job}).get(found.slurm_job) if found is not None else None
        job: SlurmJob | None = known or self._slurm.jobs_in({folder}).get(folder)
        if job is not None and (found is None or found.slurm_job != job.id):
            main_job.save(self._home, MainJob(slurm_job=job.id))
        return job

    def _submitted(self, own: Sequence[str]) -> int:
        """Request the job; its number. Where sbatch gives no answer, it is looked for. Raises GpuqError."""
        try:
            number: int = self._slurm.submit(script(self._home), options_of(own, self._home.logs))
        except Unreachable as error:
            until = self._clock() + _READY_WITHIN_S
            while self._clock() < until:
                with suppress(Unreachable):
                    if (job := self._job()) is not None:
                        return job.id
                self._pause(_ASK_SLURM_EVERY_S)
            raise Unreachable(
                f"{error.message} Slurm shows no job of gpuq.",
                fix="`gpuq up --in-slurm`, said again, finds one that Slurm has taken up late, and else requests one.",
            ) from error
        return number

    def _wait(self, number: int) -> None:
        """Until gpuq runs in this job, and print where. Raises Unreachable while Slurm does not start it, Failure if it ended."""
        until, asked_at, waits = self._clock() + _READY_WITHIN_S, self._clock(), ""
        while True:
            found = main_job.read(self._home)
            if found is not None and found.url is not None:
                print(
                    f"gpuq runs in Slurm job {found.slurm_job} on {found.node}. Commands with this home find it there."
                )
                return
            if self._clock() >= asked_at + _ASK_SLURM_EVERY_S:
                asked_at = self._clock()
                job = self._slurm.jobs({number}).get(number)
                if job is None:
                    said, fix = last_words(self._home.logs / "slurm.log")
                    how = self._slurm.ended(number)
                    raise Failure(
                        f"Slurm job {number} has ended ({how}). {said}",
                        fix=fix
                        or "The nodes have to see gpuq's home and this gpuq: keep both in a folder that they share.",
                    )
                waits = f"{job.state}, {job.reason}"
            if self._clock() > until:
                raise Unreachable(
                    f"gpuq does not run yet; Slurm says of its job {number}: {waits}.",
                    fix="`gpuq up --in-slurm` waits for it again; `gpuq down` cancels it.",
                )
            self._pause(_LOOK_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
