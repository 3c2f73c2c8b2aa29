"""The RQ task: follows one signed order by handing an attempt to a shim, or by ending one, within milliseconds.

Nothing here waits for a job. An order that is forged, meant for another host, late or doubled is dropped with one line in the
log: the fenced start in the record, and after it the attempt's folder, let an attempt start at most once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gpuq.adapters.devices import Backend
from gpuq.adapters.process import boot_id, is_alive
from gpuq.adapters.store.contract import Claims
from gpuq.core.state.attempt import Attempt, AttemptId, Ending
from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq.messages.job_record import JobRecord
from gpuq.settings import Settings
from gpuq_workers.attempts import AttemptFolder, UnreadableFile, ask_for_end, make_folder
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.launcher import Claimed, Launcher, LaunchRefused

log = logging.getLogger("gpuq.run_job")


@dataclass(frozen=True)
class OrderContext:
    """What the task needs besides the order; `serve_orders` makes it once per process."""

    settings: Settings
    key: str
    store: Claims
    backend: Backend
    launcher: Launcher
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
    # Made before the claim: so a claimed attempt that has no folder had one, and may have run.
    with _new_folder(context, order.attempt_id) as folder:
        if folder is None:
            log.info("%s dropped: the attempt was started or stopped before", order.rq_id)
            return
        try:
            claimed = context.store.claim(order.attempt_id, order.host, context.instance, boot_id(), context.clock())
        except (GpuqError, OSError) as error:
            # The claim may have been made all the same, so the folder has to stay.
            folder.close_unstarted(f"the record did not let it start: {error}", context.clock())
            raise
        if claimed is None:
            log.info("%s dropped: the record does not let it start", order.rq_id)
            with suppress(OSError):  # an order to stop it has just been written there
                folder.path.rmdir()
            return
        _start(context, order, folder, *claimed)


def _start(
    context: OrderContext, order: wire.Order, folder: AttemptFolder, record: JobRecord, attempt: Attempt
) -> None:
    try:
        placement = context.backend.placement(attempt.devices)
        context.launcher.start(folder, Claimed(record, attempt, placement, order.credential))
    except LaunchRefused as error:
        log.warning("%s was refused: %s", order.rq_id, error)
        folder.close_refused(f"it could not be started: {error}", context.clock())
    except (GpuqError, OSError) as error:
        log.warning("%s could not be started: %s", order.rq_id, error)
        folder.close_unstarted(f"it could not be started: {error}", context.clock())


@contextmanager
def _new_folder(context: OrderContext, attempt: AttemptId) -> Iterator[AttemptFolder | None]:
    """The folder of an attempt that had none here, locked while the block writes what comes of it; None for one that had."""
    folder = make_folder(context.settings.home.attempt(*attempt), attempt)
    if folder is None:
        yield None
        return
    with folder.locked() as is_ours:
        yield folder if is_ours else None


# --- preempt, stop, void -----------------------------------------------------------------------------------------------------


def _stop(context: OrderContext, order: wire.Order, *, save: bool = False) -> None:
    reason = "asked to save its work and make room" if save else "stopped by order"
    with _close_fence(context, order.attempt_id) as made:
        if made is not None:
            made.write_stop(reason, context.clock(), save=save)
            made.close_unstarted("stopped before it was started", context.clock())
            return
    folder = AttemptFolder(context.settings.home.attempt(*order.attempt_id), order.attempt_id)
    shim = folder.shim()
    with suppress(UnreadableFile):
        # A job may write that it has ended, and run on.
        if folder.ended() is not None and (shim is None or not is_alive(shim)):
            return
    try:
        folder.write_stop(reason, context.clock(), save=save)
    except OSError as error:  # not even an empty file can be made; without it, a signal ends the job at once
        if save:
            raise
        log.warning("%s is followed without stop.json: %s", order.rq_id, error)
    context.launcher.stop(folder, save=save)


def _void(context: OrderContext, attempt: AttemptId) -> None:
    """Only a claimed attempt is voided, and that had a folder. The worker service ends what runs of it before it reports this."""
    with _close_fence(context, attempt) as made:
        if made is not None:
            made.close(Ending.LOST, "its folder was removed; how it ended is not known", context.clock())


@contextmanager
def _close_fence(context: OrderContext, attempt: AttemptId) -> Iterator[AttemptFolder | None]:
    """The new folder of an attempt that has none here. None for one that has, whose end is sent again if it is over."""
    with _new_folder(context, attempt) as made:
        if made is None:
            ask_for_end(context.settings.home.attempts, attempt)
        else:
            context.launcher.stop(made, save=False)  # its unit may run, although its folder was removed
        yield made
