"""`sbatch`, `srun`, `squeue`, `scancel`, `scontrol` and `sinfo` for scripts that call them, on top of gpuq's own verbs.

`gpuq slurm-commands DIR` writes them to a folder of the user's choice, so that they are on PATH only where they are wanted,
and never take the place of a real Slurm by accident. They take the options that scripts use most; an option that a job could not
do without is refused, and one without effect is named. See docs/migrate/slurm.md.
"""

from __future__ import annotations

import sys
from importlib import import_module

from gpuq.cli import main as command

NAMES = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")


def main(name: str, words: list[str] | None = None) -> int:
    """Run one of them as a process; its exit code. Never raises."""
    given = sys.argv[1:] if words is None else words
    code: int = command.guarded(lambda: import_module(f"gpuq.cli.slurm.{name}").run(given), name)
    return code
