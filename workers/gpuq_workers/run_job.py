"""The RQ task: follows one signed order by handing an attempt to a shim, or by ending one, within milliseconds.

Nothing here waits for a job. An order that is forged, meant for another host, late or doubled is dropped with one line in the
log: the fenced start in the record, and after it the attempt's folder, let an attempt start at most once.
"""

from __future__ import annotations

import logging
import os
import pwd
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpuq.adapters.devices import Backend, Placement
from gpuq.adapters.process import Identity, boot_id, is_alive, send_signal
from gpuq.adapters.store.contract import Claims
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq.messages.submission import USUAL_UMASK, JobRecord
from gpuq.settings import Settings
from gpuq_workers.attempts import AttemptFolder, OrderFile, UnreadableFile, ask_for_end, make_folder
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.job_lease import lease_file
from gpuq_workers.measuring.prealloc import AS_NEEDED
from gpuq_workers.measuring.progress import hook_environment
from gpuq_workers.shim.mps import PIPES
from gpuq_workers.shim_pool import ShimPool

log = logging.getLogger("gpuq.run_job")


@dataclass(frozen=True)
class OrderContext:
    """What the task needs besides the order; `serve_orders` makes it once per process."""

    settings: Settings
    key: str
    store: Claims
    backend: Backend
    shims: ShimPool
    instance: str
    clock: Callable[[], float] = time.time


def run(context: OrderContext, signed: Any) -> None:
    """Follow one signed order. Never raises for an order that is merely to be dropped."""
    try:
        order = wire.verify(signed, context.key, context.settings.worker.host)
    except wire.BadOrderError as error:
        log.warning("an order was refused: %s", error)
        return
    if not SeenEpoch(context.settings.home.epoch_file).admits(order.epoch):
        log.warning("%s dropped: it is of a dispatcher that another one has replaced", order.rq_id)
        return
    if order.instance not in {None, context.instance}:
        log.warning("%s dropped: it is for another machine or home under this host name", order.rq_id)
        return
    try:
        match order.verb:
            case wire.Verb.LAUNCH:
                _launch(context, order)
            case wire.Verb.PREEMPT:
                _stop(context, order, save=True)
            case wire.Verb.STOP:
                _stop(context, order)
            case wire.Verb.VOID:
                _void(context, order.attempt_id)
    except (GpuqError, OSError) as error:
        # The dispatcher sends the order again, or gives the attempt up with a Stop.
        log.warning("%s failed: %s", order.rq_id, error)


# --- launch --------------------------------------------------------------------------------------------------------


def _launch(context: OrderContext, order: wire.Order) -> None:
    path = context.settings.home.attempt(*order.attempt_id)
    if path.exists():
        log.info("%s dropped: the attempt was started or stopped before", order.rq_id)
        return
    claimed = context.store.claim(order.attempt_id, order.host, context.instance, boot_id(), context.clock())
    if claimed is None:
        log.info("%s dropped: the record does not let it start", order.rq_id)
        return
    folder = make_folder(path, order.attempt_id)
    if folder is None:
        log.info("%s dropped: it was stopped at the same moment", order.rq_id)
        return
    record, attempt = claimed
    try:
        placement = context.backend.placement(attempt.devices)
        shim = context.shims.take()
        try:
            if record.submission.stdin is not None:
                folder.write_stdin(record.submission.stdin)
            folder.write_order(order_file(context.settings, record, attempt, placement, shim.identity))
            shim.hand(folder.path)
        except BaseException:
            # A shim that is not given a folder would wait for one for ever, and the attempt would look alive.
            shim.dismiss()
            raise
    except (GpuqError, OSError) as error:
        log.warning("%s could not be started: %s", order.rq_id, error)
        folder.close_unstarted(f"it could not be started: {error}", context.clock())
    context.shims.warm_soon()


def order_file(
    settings: Settings, record: JobRecord, attempt: Attempt, placement: Placement, shim: Identity
) -> OrderFile:
    """The `order.json` of this attempt: what `shim` is to run, and how."""
    submission = record.submission
    own = AttemptFolder(settings.home.attempt(*attempt.id), attempt.id)
    return OrderFile(
        job=attempt.id.job,
        attempt=attempt.id.number,
        command=submission.command,
        cwd=submission.cwd,
        env=environment(settings, submission.env, attempt, placement),
        devices=attempt.devices,
        cores=placement.cores,
        time_limit_s=submission.time_limit_s,
        grace_s=settings.worker.grace_s,
        log_limit_bytes=settings.worker.log_limit_bytes,
        shim=shim,
        checkpoint_signal=signal.Signals[submission.signal or settings.worker.checkpoint_signal],
        save_grace_s=settings.worker.preempt_grace_s,
        blink=submission.blink,
        stdin="/dev/null" if submission.stdin is None else str(own.stdin_path),
        umask=USUAL_UMASK if submission.umask is None else submission.umask,
        lease_s=attempt.lease_s,
        lease=str(lease_file(settings.home.run)),
    )


def environment(
    settings: Settings, submitted: Mapping[str, str], attempt: Attempt, placement: Placement
) -> dict[str, str]:
    """The job's whole environment: the submitter's variables, our defaults where they set none, and what only the host knows."""
    user = pwd.getpwuid(os.getuid())
    env = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "USER": user.pw_name,
        **AS_NEEDED,
        **{name: value for name, value in submitted.items() if not name.startswith("GPUQ_")},
    }
    # Set with or without the hook: it also marks the processes of this attempt.
    progress_file = settings.home.attempt(*attempt.id) / "progress"
    env.update(
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        GPUQ_JOB_ID=str(attempt.id.job),
        GPUQ_ATTEMPT=str(attempt.id.number),
        GPUQ_SHARED="1" if attempt.shares else "0",
        GPUQ_GPU_MEM_BUDGET=str(min(attempt.promised)),
        GPUQ_PROGRESS=str(progress_file),
    )
    if settings.worker.hook:
        env.update(hook_environment(env, progress_file))
    env.update(placement.env)
    if settings.devices.mps_limit_memory and PIPES in placement.env:
        # As NVIDIA's MPS documentation has it: per device, in the order in which the job counts them.
        limits = [f"{index}={promised // 2**20}M" for index, promised in enumerate(attempt.promised)]
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return env


# --- preempt, stop, void -----------------------------------------------------------------------------------------------------


def _stop(context: OrderContext, order: wire.Order, *, save: bool = False) -> None:
    if _void(context, order.attempt_id):
        return
    folder = AttemptFolder(context.settings.home.attempt(*order.attempt_id), order.attempt_id)
    shim = folder.shim()
    with suppress(UnreadableFile):
        # A job may write that it has ended, and run on.
        if folder.ended() is not None and (shim is None or not is_alive(shim)):
            return
    reason = "asked to save its work and make room" if save else "stopped by order"
    folder.write_stop(reason, context.clock(), save=save)
    if shim is not None:
        send_signal(shim, signal.SIGTERM)


def _void(context: OrderContext, attempt: AttemptId) -> bool:
    """Close the fence for an attempt that has not begun here; whether that was so. If it was over, its end is sent again."""
    path = context.settings.home.attempt(*attempt)
    folder = make_folder(path, attempt)
    if folder is None:
        ask_for_end(path.parent, attempt)
        return False
    return folder.close_unstarted("stopped before it was started", context.clock())
