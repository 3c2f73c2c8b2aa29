"""`gpuq cancel ID…` (also `kill`): end jobs, waiting or running, with all their processes."""

from __future__ import annotations

from gpuq.cli.verbs.control import control


def run(words: list[str]) -> int:
    """Cancel jobs."""
    return control(
        "cancel", "cancelled", "End jobs: waiting ones never start, running ones get SIGTERM, then SIGKILL.", words
    )
