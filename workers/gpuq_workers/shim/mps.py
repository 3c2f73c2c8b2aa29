"""Clients of NVIDIA's MPS: list them, and disconnect a process from its server before it is killed.

MPS runs the work of all its clients in one server per GPU. NVIDIA's documentation says that a client which is killed with work
under way may leave the server and its other clients in an undefined state, and that a fatal fault of one client ends all those
on its GPU. So a process is removed from the server (`terminate_client`) before a signal that it does not handle. A control
daemon that is absent or does not answer is ignored. Standard library only, as all of the shim.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_ANSWERS_WITHIN_S = 5.0


def command(environment: Mapping[str, str], line: str) -> list[str] | None:
    """Send one command to the control daemon; its answer in words, None if it does not answer.

    `environment` names the daemon by its folder of pipes.
    """
    import subprocess  # slow to load, and most jobs never need it

    env = {name: environment[name] for name in ("PATH", PIPES) if name in environment}
    try:
        done = subprocess.run(
            [PROGRAM], input=line + "\n", env={"PATH": os.defpath, **env}, capture_output=True, text=True,
            timeout=_ANSWERS_WITHIN_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.split() if done.returncode == 0 else None


def clients(environment: Mapping[str, str]) -> list[tuple[int, int]] | None:
    """(server pid, client pid) of every client of this daemon; None if the daemon does not answer."""
    servers = command(environment, "get_server_list")
    if servers is None:
        return None
    found = []
    for server in filter(str.isdigit, servers):
        there = command(environment, f"get_client_list {server}") or []
        found += [(int(server), int(client)) for client in there if client.isdigit()]
    return found


def disconnect(environment: Mapping[str, str], pids: Iterable[int]) -> None:
    """Remove those of these processes that are clients from their servers. Does nothing for jobs without MPS."""
    wanted = set(pids)
    if PIPES not in environment or not wanted:
        return
    for server, client in clients(environment) or ():
        if client in wanted:
            command(environment, f"terminate_client {server} {client}")
