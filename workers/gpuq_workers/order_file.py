"""What a shim is to run, and how: the environment of a job, and the `order.json` of its attempt."""

from __future__ import annotations

import pwd
import re
import signal
from collections.abc import Mapping
from pathlib import Path

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity
from gpuq.core.state.attempt import Attempt
from gpuq.home import Home
from gpuq.messages.job_record import JobRecord
from gpuq.messages.launch import reaches_job
from gpuq.messages.submission import command_in_unit, command_of, in_folder
from gpuq.settings import Settings
from gpuq_workers import sync
from gpuq_workers.attempts import AttemptFolder, OrderFile, Unit
from gpuq_workers.job_lease import lease_file
from gpuq_workers.measuring.prealloc import AS_NEEDED
from gpuq_workers.measuring.progress import hook_environment
from gpuq_workers.rendezvous import rendezvous_environment
from gpuq_workers.shim.mps import PIPES


def order_file(
    settings: Settings,
    record: JobRecord,
    attempt: Attempt,
    placement: Placement,
    env: dict[str, str],
    by: Identity | Unit,
) -> OrderFile:
    """The `order.json` of this attempt: what the shim or the unit `by` is to run, and how."""
    own = AttemptFolder(settings.home.attempt(*attempt.id), attempt.id)
    submission = record.submission
    if isinstance(by, Unit):
        command = command_in_unit(submission)
    else:
        command = command_of(in_folder(submission, str(own.path / sync.FOLDER)))
    words, cwd = command.command, command.cwd
    # The folder of a unit is its user's, so the worker service writes nothing there.
    borrows = submission.lend_cores > 0 and not isinstance(by, Unit)
    if borrows:
        env = {**env, "GPUQ_LOAN": str(own.loan_path)}
    tree = None if submission.sync is None else submission.sync.tree
    if tree is not None and not isinstance(by, Unit):  # the broker does it for a unit
        words = sync.command(settings.home, attempt.id, record.owner, tree, cwd, words)
        cwd = str(own.path)
    return OrderFile(
        job=attempt.id.job,
        attempt=attempt.id.number,
        command=words,
        cwd=cwd,
        env=env,
        shim=None if isinstance(by, Unit) else by,
        unit=by if isinstance(by, Unit) else None,
        devices=attempt.devices,
        cores=placement.cores,
        time_limit_s=command.time_limit_s,
        grace_s=settings.worker.grace_s,
        log_limit_bytes=settings.worker.log_limit_bytes,
        checkpoint_signal=signal.Signals[submission.signal or settings.worker.checkpoint_signal],
        save_grace_s=settings.worker.preempt_grace_s,
        blink=submission.blink,
        borrows=borrows,
        stdin="/dev/null" if command.stdin is None else str(own.stdin_path),
        umask=command.umask,
        signal_before_s=submission.signal_before_s,
        resumes=any(text.startswith("timeout:") for text in submission.retry),
        lease_s=attempt.lease_s,
        lease=str(lease_file(settings)),
        interactive=submission.interactive,
        tree=tree,
        owner=record.owner,
    )


def checkpoint_variable(home: Home, record: JobRecord, attempt: Attempt) -> dict[str, str]:
    """The variable that names the folder which stays from one attempt of a job to the next. The time in its name tells it from
    that of a job of the same number in another record."""
    return {"GPUQ_CHECKPOINT_DIR": str(home.checkpoints / f"{attempt.id.job}-{int(record.submitted_at)}")}


def environment(
    settings: Settings,
    submitted: Mapping[str, str],
    attempt: Attempt,
    placement: Placement,
    user: pwd.struct_passwd,
    folder: Path,
) -> dict[str, str]:
    """The job's whole environment: the submitter's variables, our defaults where they set none, and what only the host knows.

    `user` is whom it runs as, `folder` where its step counter is, under the name that the job sees.
    """
    env = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "USER": user.pw_name,
        **AS_NEEDED,
        **{name: text for name, text in submitted.items() if reaches_job(name)},
    }
    # Set with or without the hook: it also marks the processes of this attempt.
    progress_file = folder / "progress"
    env.update(
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        GPUQ_JOB_ID=str(attempt.id.job),
        GPUQ_ATTEMPT=str(attempt.id.number),
        GPUQ_SHARED="1" if attempt.shares else "0",
        GPUQ_GPU_MEM_BUDGET=str(min(attempt.promised)),
        GPUQ_PROGRESS=str(progress_file),
    )
    if attempt.gang is not None:
        env.update(rendezvous_environment(attempt.gang, attempt))
    if submitted.get("SLURM_JOB_ID") == "":  # as `--slurm-env` leaves it, to be filled in here
        env.update(_slurm_variables(attempt, submitted.get("SLURM_NTASKS_PER_NODE", "1")))
    if settings.worker.hook:
        env.update(hook_environment(env, progress_file))
    env.update(placement.env)
    if settings.devices.mps_limit_memory and PIPES in placement.env:
        # As NVIDIA's MPS documentation has it: per device, in the order in which the job counts them.
        limits = [f"{index}={promised // 2**20}M" for index, promised in enumerate(attempt.promised)]
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return env


def _slurm_variables(attempt: Attempt, tasks: str) -> dict[str, str]:
    """What scripts written for Slurm read of a job; it is the first of its `tasks` on each host."""
    tasks_per_host = int(tasks) if re.fullmatch("[0-9]{1,4}", tasks) else 1
    gang, number = attempt.gang, attempt.id.number
    hosts = [attempt.host] if gang is None else list(gang.hosts)
    rank, restarts = (0, number - 1) if gang is None else (number - gang.first, (gang.first - 1) // len(hosts))
    return {
        "SLURM_JOB_ID": str(attempt.id.job),
        "SLURM_JOBID": str(attempt.id.job),
        "SLURM_JOB_NODELIST": ",".join(hosts),
        "SLURM_NODELIST": ",".join(hosts),
        "SLURMD_NODENAME": attempt.host,
        "SLURM_GPUS_ON_NODE": str(len(attempt.devices)),
        "SLURM_RESTART_COUNT": str(restarts),
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(rank),
        "SLURM_PROCID": str(rank * tasks_per_host),
        **{f"SLURM_{name}": str(len(hosts)) for name in ("NNODES", "JOB_NUM_NODES")},
        **{f"SLURM_{name}": str(len(hosts) * tasks_per_host) for name in ("NTASKS", "NPROCS")},
    }
