"""Start NVIDIA's MPS control daemon with the worker service, and end it once it has no clients.

Only with `mps` under [devices]. The daemon has folders of its own under gpuq's home, so that it does not interfere with another
one. Jobs outlive the worker service, and so does a daemon with clients: the next worker service takes it over.
"""

from __future__ import annotations

import logging
import os
import subprocess

from gpuq.errors import Unreachable
from gpuq.settings import Settings
from gpuq_workers.shim.mps import PIPES, PROGRAM, clients, command

_STARTS_WITHIN_S = 20.0
_log = logging.getLogger(__name__)


def start(settings: Settings) -> None:
    """Start the control daemon unless it runs. Raises Unreachable if it cannot be started."""
    environment = _environment(settings)
    if command(environment, "get_server_list") is not None:
        _log.info("MPS runs already")
        return
    for folder in (settings.home.mps_pipes, settings.home.mps_logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [PROGRAM, "-d"], env=environment, capture_output=True, text=True, timeout=_STARTS_WITHIN_S, check=False
        )
    except FileNotFoundError as error:
        raise _unreachable(f"{PROGRAM} was not found") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise _unreachable(str(error)) from error
    if done.returncode or command(environment, "get_server_list") is None:
        raise _unreachable((done.stderr or done.stdout).strip() or "it does not answer")
    # Started before the first client, so that the backend sees from the start that these GPUs are shared through MPS.
    if command(environment, f"start_server -uid {os.getuid()}") is None:
        _log.info("the MPS server will start with its first client")
    _log.info("MPS is started; its logs are in %s", settings.home.mps_logs)


def stop(settings: Settings) -> bool:
    """End the control daemon if it has no client; returns whether it is gone."""
    environment = _environment(settings)
    working = clients(environment)
    if working is None:
        return True
    if working:
        _log.info("MPS keeps running for its clients: %s", ", ".join(str(client) for _, client in working))
        return False
    return command(environment, "quit") is not None


def _environment(settings: Settings) -> dict[str, str]:
    """Without CUDA_VISIBLE_DEVICES, because the daemon serves every GPU."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        PIPES: str(settings.home.mps_pipes),
        "CUDA_MPS_LOG_DIRECTORY": str(settings.home.mps_logs),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def _unreachable(why: str) -> Unreachable:
    return Unreachable(
        f"NVIDIA's MPS cannot be started: {why}.",
        fix="It comes with the driver, and serves no MIG slices; else set `mps = false` under [devices].",
    )
