"""`python -m gpuq_workers.pilot FOLDER`: run by a Slurm job that gpuq requested, to make its allocation a host of gpuq.

It joins the main host, runs the worker service, and ends when no job has run for a while or when Slurm says that the time is up.
Slurm ends every process of its job after it, so jobs that still run are asked to save their work and stopped first.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gpuq import __version__
from gpuq.adapters import slurm
from gpuq.adapters.supervise import python_module
from gpuq.errors import BadSettings, GpuqError, Unreachable
from gpuq.home import Home, write_private
from gpuq.logs import report, start_log
from gpuq.messages.pilot import NOTICE_S, PilotOrder
from gpuq.settings import Settings, load
from gpuq_workers.attempts import AttemptFolder, UnreadableFile, folders_in
from gpuq_workers.join import Invitation, clock_ahead_s, join
from gpuq_workers.launcher import launcher_of
from gpuq_workers.spool import has_pending

log = logging.getLogger("gpuq.pilot")

_LOOK_EVERY_S = 1.0
_DELIVER_WITHIN_S = 10.0
_CLOCKS_DIFFER_S = 60.0


def main() -> int:
    """Join, serve, and return the exit code."""
    start_log()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        return run(Path(sys.argv[1]), stop)
    except GpuqError as error:
        return report(error)
    except OSError as error:
        return report(
            Unreachable(
                f"The pilot cannot use its folder: {error}.", fix="Is gpuq's home full, or your quota there used up?"
            )
        )


def run(folder: Path, stop: threading.Event) -> int:
    """Serve until `stop` is set, the worker service ends, or nothing has run for the time in the order. Raises GpuqError."""
    order = read_order(folder)
    home = Home(folder / "gpuq")
    # Slurm passes on the environment of the main host. What of its settings holds here is in the order.
    for name in [name for name in os.environ if name.startswith("GPUQ_")]:
        del os.environ[name]
    os.environ["GPUQ_HOME"] = str(home.root)
    home.create()
    write_private(home.settings_file, settings_of(order, _until_at(order)).encode())
    invitation = Invitation(order.main, order.fingerprint, order.host, order.secret)
    check_clock(clock_ahead_s(invitation, time.time))
    join(home, invitation)
    settings = load()
    where, worker = home.joined_file.read_bytes(), _worker_service()
    try:
        idle_since = time.monotonic()
        while not stop.wait(_LOOK_EVERY_S):
            with suppress(OSError):  # a shared file system that is away for a moment
                if (now := home.joined_file.read_bytes()) != where:
                    log.info("gpuq is at another address: the worker service starts again for it")
                    where = now
                    worker.terminate()
                    worker.wait()
                    worker = _worker_service()
            if worker.poll() is not None:
                return worker.returncode or 0
            if _running(settings):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > order.idle_s:
                log.info("no job for %.0f s: the pilot ends", order.idle_s)
                return 0
        _stop_jobs(settings)
        return 0
    finally:
        worker.terminate()
        with suppress(subprocess.TimeoutExpired):
            worker.wait(_DELIVER_WITHIN_S)
        worker.kill()


def _worker_service() -> subprocess.Popen[bytes]:
    return subprocess.Popen(python_module("gpuq_workers"), stdin=subprocess.DEVNULL)


class _Version(msgspec.Struct, frozen=True):
    """Of an order of any release of gpuq, that release."""

    version: str


def read_order(folder: Path) -> PilotOrder:
    """The order in a pilot's folder. Raises BadSettings where this node cannot carry it out."""
    try:
        written = (folder / "order.json").read_bytes()
        version = msgspec.json.decode(written, type=_Version).version
        if version != __version__:
            raise BadSettings(
                f"This node has gpuq {__version__}, and the login node {version}.",
                fix="Install gpuq in one folder that both see, and add the pool from there.",
            )
        return msgspec.json.decode(written, type=PilotOrder)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadSettings(
            f"{folder} cannot be read on this node: {error}.",
            fix="gpuq's home must be in a folder that the nodes of Slurm share: set GPUQ_HOME to one.",
        ) from error


def check_clock(ahead_s: float | None) -> None:
    """Raises BadSettings where this node's clock differs so much from the main host's that the times of jobs would be wrong."""
    if ahead_s is None or abs(ahead_s) <= _CLOCKS_DIFFER_S:
        return
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    raise BadSettings(
        f"The clock of node {node} is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the login node's.",
        fix=f"Tell your site; until then keep pilots off it: `gpuq pool add slurm ... -- --exclude={node}`.",
    )


def _until_at(order: PilotOrder) -> float | None:
    """When this allocation is asked to end (Unix seconds); None where it has no limit, or Slurm does not say."""
    if order.lasts_s is not None:
        return time.time() + order.lasts_s - NOTICE_S
    try:
        ends_at = slurm.ends_at(int(os.environ["SLURM_JOB_ID"]))
    except GpuqError as error:
        log.warning("when this allocation ends is not known: %s", error.message)
        return None
    return None if ends_at is None else ends_at - NOTICE_S


def settings_of(order: PilotOrder, until_at: float | None) -> str:
    """The settings of the pilot's home: those of the order, and that it offers the GPUs that Slurm gave it, and no others of its
    node. Raises BadSettings where Slurm gave it none."""
    # Jobs over several pilots meet at the node: the host's name is the pilot's, which no name server knows.
    worker = {"host": order.host, "address": socket.gethostname(), "run_as": "service"}
    devices: dict[str, Any] = {}
    visible = [index for index in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if index]
    if order.gpus and visible:
        devices["only"] = visible
    elif order.gpus and order.lasts_s is None and not order.whole_node:
        raise BadSettings(
            "Slurm gave this allocation no GPU: CUDA_VISIBLE_DEVICES is empty, and the GPUs of the node may be another's.",
            fix="Leave out what asks for none behind `--`, or add `--exclusive` there where your site gives whole nodes only.",
        )
    if until_at is not None:
        devices["until_at"] = until_at
    # Never `auto`: a job for a GPU would run on the cores of a node whose driver does not answer.
    devices["backend"] = "nvml" if order.gpus else "cpu"
    groups = {**order.settings}
    groups["worker"] = {**groups.get("worker", {}), **worker}
    groups["devices"] = {**groups.get("devices", {}), **devices}
    # Settings are texts, numbers, true, false and lists of texts, which TOML writes as JSON does.
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        for group, values in groups.items()
    )


def _running(settings: Settings) -> list[AttemptFolder]:
    """The attempts that have not ended. One whose end cannot be read counts as running."""
    found = []
    for folder in folders_in(settings.home.attempts):
        try:
            ended = folder.ended() is not None
        except UnreadableFile:
            ended = False
        if not ended:
            found.append(folder)
    return found


def _stop_jobs(settings: Settings) -> None:
    """Ask the jobs to save their work, and wait for their ends to be reported, as long as Slurm leaves time for it."""
    launcher = launcher_of(settings)
    for folder in _running(settings):
        folder.write_stop("the time of its allocation is up", time.time(), save=True)
        launcher.stop(folder, save=True)
    deadline = time.monotonic() + settings.worker.preempt_grace_s
    while time.monotonic() < deadline and (_running(settings) or has_pending(settings.home.spool)):
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
