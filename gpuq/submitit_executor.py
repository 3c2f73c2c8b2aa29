"""submitit on gpuq: `submitit.AutoExecutor(folder, cluster="gpuq")`, and what a job of it runs.

submitit finds the two classes by its entry points and keeps functions, results and logs in the folder that it was given, which
the hosts have to share. A job is `python -m gpuq.submitit_executor FOLDER`: it starts submitit's own program once for each
task. At the time limit a task may save its work and is started again in the same job, as often as `max_num_timeout` allows.

submitit pickles functions and results. Only the user's own processes read them; gpuq's services never do.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, cast

from submitit.core import core, job_environment, logger, utils

from gpuq.client import Client, JobOptions, submission
from gpuq.errors import Conflict, GpuqError, NotFound

# A task that saved its work and wants to be started again ends with this code; that of submitit's local executor.
_START_AGAIN = 144
_LONGEST_LIMIT_MARGIN_S = 60
_LOOK_EVERY_S = 0.05
# A task that has saved its work may take a while to end on a busy host. The job's own limit comes later.
_KILL_AFTER_S = 10.0
# submitit's words for the states that it takes for an end or not; it has none for these.
_STATES = {"HELD": "PENDING", "STARTING": "PENDING"}
# Generic parameters of submitit that gpuq measures instead of reserving.
_WITHOUT_EFFECT = ("cpus_per_task", "mem_gb")


class GpuqInfoWatcher(core.InfoWatcher):
    """Asks gpuq for the states of all jobs at once."""

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """The state in submitit's words; UNKNOWN for a job that gpuq does not have."""
        return self.get_info(job_id, mode).get("State", "UNKNOWN")

    def update(self) -> None:
        """Read the states of the jobs that had not ended."""
        self._num_calls += 1
        self._last_status_check = time.time()
        with Client() as client:
            for job_id in self._registered - self._finished:
                with suppress(NotFound):
                    job = client.job(int(job_id))
                    state = _STATES.get(job.state, str(job.state))
                    self._info_dict[job_id] = {"JobID": job_id, "State": state}
                    if job.ended and job.state != "PREEMPTED":
                        self._finished.add(job_id)


class GpuqJob(core.Job[core.R]):
    """A job of gpuq whose result submitit reads."""

    watcher = GpuqInfoWatcher(delay_s=2)

    def cancel(self, check: bool = True) -> None:
        """End it. Nothing happens if it has ended; with `check` any other error is raised."""
        try:
            with Client() as client:
                client.cancel(int(self.job_id))
        except Conflict:
            return
        except GpuqError:
            if check:
                raise


class GpuqJobEnvironment(job_environment.JobEnvironment):
    """What a task may ask of its place in the job."""

    _env = {  # noqa: RUF012  as submitit declares it
        "job_id": "GPUQ_JOB_ID",
        "num_tasks": "SUBMITIT_GPUQ_NTASKS",
        "num_nodes": "SUBMITIT_GPUQ_NNODES",
        "node": "SUBMITIT_GPUQ_NODEID",
        "global_rank": "SUBMITIT_GPUQ_PROCID",
        "local_rank": "SUBMITIT_GPUQ_LOCALID",
    }

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Save on the signal; SIGTERM ends the task, because gpuq sends it to cancel, and never before a preemption."""
        handler = job_environment.SignalHandler(self, paths, submission)
        signal.signal(self._usr_sig(), handler.checkpoint_and_try_requeue)

    def _requeue(self, countdown: int) -> None:
        logger.get_logger().info(f"Requeued job {self.job_id} ({countdown} remaining timeouts)")
        sys.exit(_START_AGAIN)


class GpuqExecutor(core.PicklingExecutor):
    """Submits functions to the gpuq of the environment (`GPUQ_HOST`, `GPUQ_HOME`).

    With `AutoExecutor` any option of `gpuq.client.JobOptions` can be given as `gpuq_OPTION`.
    """

    job_class = GpuqJob

    @classmethod
    def affinity(cls) -> int:
        """As Slurm's where a gpuq answers; else it is not available."""
        try:
            with Client() as client:
                client.devices()
        except GpuqError:
            return -1
        return 2

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*JobOptions.__annotations__, "signal_delay_s"}

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        without = [name for name in _WITHOUT_EFFECT if name in kwargs]
        if without:
            logger.get_logger().info(f"Without effect in gpuq: {', '.join(without)}")
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(self, delayed_submissions: list[utils.DelayedSubmission]) -> list[core.Job[Any]]:
        """Submit as `Client.map` does. Raises GpuqError; RuntimeError if the pickles are too large together."""
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles: list[Path] = []
        try:
            for delayed in delayed_submissions:
                pickles.append(folder / f"{uuid.uuid4().hex}.pkl")
                delayed.set_timeout(self.parameters.get("timeout_min", 5), self.max_num_timeout)
                delayed.dump(pickles[-1])
                size = pickles[0].stat().st_size * len(delayed_submissions)
                if size > self.max_pickle_size_gb * 2**30:
                    sentence = f"The functions and their arguments are some {size / 2**30:.2f} GB."
                    raise RuntimeError(f"{sentence} Pass data in files, or raise executor.max_pickle_size_gb.")
            with Client() as client:
                ids = client.submit_all([self._submission(delayed) for delayed in delayed_submissions])
        except BaseException:
            for path in pickles:
                path.unlink(missing_ok=True)
            raise
        jobs: list[core.Job[Any]] = []
        for job_id, path in zip(ids, pickles, strict=True):
            jobs.append(GpuqJob(folder=self.folder, job_id=str(job_id), tasks=range(self._num_tasks())))
            jobs[-1].paths.move_temporary_file(path, "submitted_pickle")
        return jobs

    def _submission(self, delayed: utils.DelayedSubmission) -> dict[str, Any]:
        """The body of the submission. Jobs of one function are one kind."""
        parameters = self.parameters
        hosts, per_host = parameters.get("nodes", 1), max(1, parameters.get("tasks_per_node", 1))
        limit_s = parameters.get("timeout_min", 5) * 60.0
        words = [sys.executable, "-u", "-m", "gpuq.submitit_executor", str(self.folder), "--tasks", str(per_host)]
        words += ["--limit", str(limit_s), "--delay", str(parameters.get("signal_delay_s", 30))]
        words += ["--stderr-to-stdout"] if parameters.get("stderr_to_stdout") else []
        function = getattr(delayed.function, "__qualname__", type(delayed.function).__qualname__)
        longest_s = limit_s * (1 + self.max_num_timeout) + _LONGEST_LIMIT_MARGIN_S
        options: dict[str, Any] = {
            "name": parameters.get("name", "submitit"),
            "kind": f"submitit {function}",
            "time": f"{int(longest_s)}s",
            "hosts": hosts,
            "gpus": hosts * max(1, parameters.get("gpus_per_node", 1)),
            **{name: value for name, value in parameters.items() if name in JobOptions.__annotations__},
        }
        if options.get("preemptible"):
            options["signal"] = GpuqJobEnvironment.USR_SIG
        options["env"] = {**options.get("env", {}), "SUBMITIT_EXECUTOR": GpuqJobEnvironment.name()}
        return submission(words, cast(JobOptions, options))

    def _num_tasks(self) -> int:
        return int(self.parameters.get("nodes", 1) * max(1, self.parameters.get("tasks_per_node", 1)))

    # The base class wants these for executors that submit by a command.

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        raise NotImplementedError

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        raise NotImplementedError


# --- in the job ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    """Run the tasks of this host to their end; the highest of their exit codes."""
    parser = argparse.ArgumentParser(prog="python -m gpuq.submitit_executor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=1, help="on each host")
    parser.add_argument("--limit", type=float, required=True, help="seconds after which a task is ended")
    parser.add_argument("--delay", type=float, required=True, help="seconds before that to save its work")
    parser.add_argument("--stderr-to-stdout", action="store_true")
    options = parser.parse_args(words)
    sys.stdout.write(f"submitit keeps the output of the tasks in {options.folder}\n")
    sys.stdout.flush()
    while True:
        codes, at_limit = _run_tasks(options)
        if not (at_limit and _START_AGAIN in codes):
            return max(128 - code if code < 0 else code for code in codes)


def _run_tasks(options: argparse.Namespace) -> tuple[list[int], bool]:
    """(exit code of each task, whether the limit was near). A task that goes on beyond the limit is killed.

    The time counts from when all tasks handle the signal to save their work: before that it would end them.
    """
    save = GpuqJobEnvironment._usr_sig()
    with ExitStack() as files:
        tasks = [_start(options, local, files) for local in range(options.tasks)]
        began, signalled = None, False
        while any(task.poll() is None for task in tasks):
            if began is None and all(task.poll() is not None or _handles(task.pid, save) for task in tasks):
                began = time.monotonic()
            lasted_s = 0.0 if began is None else time.monotonic() - began
            if 0 < options.limit - options.delay <= lasted_s and not signalled:
                signalled = True
                _signal(tasks, save)
            if lasted_s >= options.limit + _KILL_AFTER_S:
                _signal(tasks, signal.SIGKILL)
            time.sleep(_LOOK_EVERY_S)
        return [task.wait() for task in tasks], signalled


def _start(options: argparse.Namespace, local: int, files: ExitStack) -> subprocess.Popen[bytes]:
    hosts, host = int(os.environ.get("NNODES", "1")), int(os.environ.get("NODE_RANK", "0"))
    rank = host * options.tasks + local
    paths = utils.JobPaths(options.folder, os.environ["GPUQ_JOB_ID"], rank)
    paths.folder.mkdir(parents=True, exist_ok=True)
    out: IO[bytes] = files.enter_context(paths.stdout.open("ab"))
    err = out if options.stderr_to_stdout else files.enter_context(paths.stderr.open("ab"))
    own = {"NTASKS": hosts * options.tasks, "NNODES": hosts, "NODEID": host, "PROCID": rank, "LOCALID": local}
    env = {**os.environ, **{f"SUBMITIT_GPUQ_{name}": str(value) for name, value in own.items()}}
    words = [sys.executable, "-u", "-m", "submitit.core._submit", str(options.folder)]
    return subprocess.Popen(words, env=env, stdout=out, stderr=err)


def _handles(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def _signal(tasks: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for task in tasks:
        task.send_signal(number)


if __name__ == "__main__":
    sys.exit(main())
