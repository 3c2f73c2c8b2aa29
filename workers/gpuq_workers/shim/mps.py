"""Jobs under NVIDIA's MPS: who is a client of its server, and how one is parted from the server before it is ended.

MPS runs the work of all its clients in one server per GPU. NVIDIA's documentation says that a client which is ended by a
signal with work under way may leave the server and its other clients in an undefined state, and that a fatal fault of one
ends all those on its GPU. So a process that would not outlive a signal is first given up by the server
(`terminate_client`), and signalled then. Standard library only: this is part of the shim. A control daemon that is not
there or does not answer is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_ANSWERS_WITHIN_S = 5.0


def tell(environment: Mapping[str, str], command: str) -> list[str] | None:
    """The control daemon's answer to one command, word by word; None without one. `environment` names its folder of pipes."""
    import subprocess  # slow to load, and most jobs never need it

    env = {name: environment[name] for name in ("PATH", PIPES) if name in environment}
    try:
        done = subprocess.run(
            [PROGRAM], input=command + "\n", env={"PATH": os.defpath, **env}, capture_output=True, text=True,
            timeout=_ANSWERS_WITHIN_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.split() if done.returncode == 0 else None


def clients(environment: Mapping[str, str]) -> list[tuple[int, int]] | None:
    """(server, client) of every process that works under MPS there; None if the daemon does not answer."""
    servers = tell(environment, "get_server_list")
    if servers is None:
        return None
    found = []
    for server in filter(str.isdigit, servers):
        there = tell(environment, f"get_client_list {server}") or []
        found += [(int(server), int(client)) for client in there if client.isdigit()]
    return found


def part(environment: Mapping[str, str], pids: Iterable[int]) -> None:
    """Have the servers give up the work of those of these processes that are clients. Nothing for jobs without MPS."""
    wanted = set(pids)
    if PIPES not in environment or not wanted:
        return
    for server, client in clients(environment) or ():
        if client in wanted:
            tell(environment, f"terminate_client {server} {client}")
