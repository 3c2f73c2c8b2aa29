"""The task that a bare RQ worker runs: it starts the same command that gpuq's shim starts."""

from __future__ import annotations

import subprocess


def start(command: list[str]) -> None:
    """Run the command to its end."""
    if command:
        subprocess.run(command, check=True)
