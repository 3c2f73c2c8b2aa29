"""The RQ task. A signed order arrives; a shim that starts or ends an attempt leaves, within milliseconds.

Nothing here waits for a job. An order that is forged, meant for another host, late or doubled is dropped with one line in
the log: the fenced start in the record, and after it the attempt's folder, let an attempt start at most once.
"""

from __future__ import annotations

import logging
import os
import pwd
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpuq import wire
from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, boot_id, send_signal
from gpuq.adapters.store.contract import LaunchSpec
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId
from gpuq.errors import GpuqError
from gpuq.settings import Settings
from gpuq_workers.attempts import AttemptFolder, OrderFile, make_folder
from gpuq_workers.measuring.prealloc import AS_NEEDED
from gpuq_workers.measuring.progress import hook_environment
from gpuq_workers.shim.mps import PIPES
from gpuq_workers.shim_pool import ShimPool

log = logging.getLogger("gpuq.run_job")


class Claims(Protocol):
    """The part of the record that a start needs."""

    def claim(self, attempt: AttemptId, host: str, boot_id: str, at: float) -> LaunchSpec | None:
        """The fenced start; None if this order is not to be followed."""
        ...


class Places(Protocol):
    """The part of a device backend that a start needs."""

    def placement(self, devices: tuple[DeviceId, ...]) -> Placement:
        """How to put a job on these devices."""
        ...


@dataclass(frozen=True)
class Context:
    """What the task needs beside the order; set once per process by `serve_orders`."""

    settings: Settings
    key: str
    store: Claims
    backend: Places
    shims: ShimPool
    clock: Callable[[], float] = time.time


_contexts: list[Context] = []


def configure(context: Context) -> None:
    """Set what `run` works with in this process."""
    _contexts[:] = [context]


def run(signed: Any) -> None:
    """Follow one signed order. Never raises for an order that is merely to be dropped."""
    context = _contexts[0]
    try:
        order = wire.verify(signed, context.key, context.settings.worker.host)
    except wire.BadOrderError as error:
        log.warning("an order was refused: %s", error)
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
        # Whoever sent the order rings again, or gives the attempt up with a Stop.
        log.warning("%s failed: %s", order.rq_id, error)


# --- launch --------------------------------------------------------------------------------------------------------


def _launch(context: Context, order: wire.Order) -> None:
    attempt = order.attempt_id
    path = context.settings.home.attempt(*attempt)
    if path.exists():
        log.info("%s dropped: the attempt was started or stopped before", order.rq_id)
        return
    spec = context.store.claim(attempt, order.host, boot_id(), context.clock())
    if spec is None:
        log.info("%s dropped: the record says that it is not to start", order.rq_id)
        return
    folder = make_folder(path, attempt)
    if folder is None:
        log.info("%s dropped: it was stopped in this very moment", order.rq_id)
        return
    try:
        placement = context.backend.placement(_device_ids(spec))
        _hand_over(context, folder, spec, placement)
    except (GpuqError, OSError) as error:
        log.warning("%s could not be started: %s", order.rq_id, error)
        folder.close_unstarted(f"it could not be started: {error}", context.clock())
    context.shims.warm_soon()


def _hand_over(context: Context, folder: AttemptFolder, spec: LaunchSpec, placement: Placement) -> None:
    shim = context.shims.take()
    try:
        if spec.record.submission.stdin is not None:
            folder.write_stdin(spec.record.submission.stdin)
        folder.write_order(order_file(context.settings, spec, placement, shim.identity))
        shim.hand(folder.path)
    except BaseException:
        # A shim that got no folder must not wait for ever: then the attempt would look alive.
        shim.dismiss()
        raise


def order_file(settings: Settings, spec: LaunchSpec, placement: Placement, shim: Identity) -> OrderFile:
    """What the shim is told about this attempt."""
    asked = spec.record.submission
    own = AttemptFolder(settings.home.attempt(*spec.attempt), spec.attempt)
    return OrderFile(
        job=spec.attempt.job,
        attempt=spec.attempt.number,
        command=asked.command,
        cwd=asked.cwd,
        env=environment(settings, spec, placement),
        devices=spec.devices,
        cores=placement.cores,
        time_limit_s=asked.time_limit_s,
        grace_s=settings.worker.grace_s,
        log_limit_bytes=settings.worker.log_limit_bytes,
        shim=shim,
        checkpoint_signal=signal.Signals[asked.signal or settings.worker.checkpoint_signal],
        save_grace_s=settings.worker.preempt_grace_s,
        blink=asked.blink,
        stdin="/dev/null" if asked.stdin is None else str(own.stdin_path),
    )


def environment(settings: Settings, spec: LaunchSpec, placement: Placement) -> dict[str, str]:
    """The job's whole environment: the submitter's, our defaults where they set none, and what only we can know."""
    theirs = {name: value for name, value in spec.record.submission.env.items() if not name.startswith("GPUQ_")}
    env = {**_defaults(), **theirs}
    # Set with or without the hook: it also marks the processes of this attempt.
    progress_file = settings.home.attempt(*spec.attempt) / "progress"
    env.update(
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        GPUQ_JOB_ID=str(spec.attempt.job),
        GPUQ_ATTEMPT=str(spec.attempt.number),
        GPUQ_SHARED="1" if spec.shares else "0",
        GPUQ_GPU_MEM_BUDGET=str(min(spec.promised)),
        GPUQ_PROGRESS=str(progress_file),
    )
    if settings.worker.hook:
        env.update(hook_environment(env, progress_file))
    env.update(placement.env)
    if settings.devices.mps_limit_memory and PIPES in placement.env:
        # As NVIDIA's MPS documentation has it: per device, in the order in which the job counts them.
        limits = [f"{index}={promised // 2**20}M" for index, promised in enumerate(spec.promised)]
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return env


def _defaults() -> Mapping[str, str]:
    user = pwd.getpwuid(os.getuid())
    return {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "USER": user.pw_name,
        **AS_NEEDED,
    }


def _device_ids(spec: LaunchSpec) -> tuple[DeviceId, ...]:
    return tuple(DeviceId(device) for device in spec.devices)


# --- preempt, stop, void -----------------------------------------------------------------------------------------------------


def _stop(context: Context, order: wire.Order, *, save: bool = False) -> None:
    if _void(context, order.attempt_id):
        return
    folder = AttemptFolder(context.settings.home.attempt(*order.attempt_id), order.attempt_id)
    if folder.ended() is not None:
        return
    reason = "told to save its work and make room" if save else "stopped by order"
    folder.write_stop(reason, context.clock(), save=save)
    shim = folder.shim()
    if shim is not None:
        send_signal(shim, signal.SIGTERM)


def _void(context: Context, attempt: AttemptId) -> bool:
    """Close the fence for an attempt that has not begun here; whether that was so."""
    folder = make_folder(context.settings.home.attempt(*attempt), attempt)
    return folder is not None and folder.close_unstarted("stopped before it was started", context.clock())
