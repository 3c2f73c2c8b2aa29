"""`gpuq slurm-commands DIR`: write `sbatch`, `srun`, `squeue`, `scancel`, `scontrol` and `sinfo` into a folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.slurm import NAMES
from gpuq.errors import BadInput
from gpuq.messages.slurm_commands import MARK

_PROGRAM = """\
#!{python} -P
{mark}
import sys
from gpuq.cli.slurm import main
sys.exit(main("{name}"))
"""


def run(words: list[str]) -> int:
    """Write them. Raises BadInput where other programs of these names would be replaced."""
    parser = Parser(
        "slurm-commands",
        "Write sbatch, srun, squeue, scancel, scontrol and sinfo into a folder: scripts\n"
        "that call Slurm then use this gpuq, once the folder is first on their PATH.",
    )
    parser.add_argument("folder", metavar="DIR", help="the folder; made if it is not there")
    options = parser.parse_args(words)
    folder = Path(options.folder).expanduser().absolute()
    for name in NAMES:
        if (folder / name).exists() and MARK not in (folder / name).read_text(encoding="utf-8", errors="replace"):
            raise BadInput(
                f"{folder / name} is there, and not gpuq's.", fix="Name another folder, as ~/.local/share/gpuq/slurm"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        program = folder / name
        program.write_text(_PROGRAM.format(python=sys.executable, mark=MARK, name=name), encoding="utf-8")
        program.chmod(0o755)
    console.note(f"{', '.join(NAMES)} are in {folder}. To use them: export PATH={folder}:$PATH")
    if any(shutil.which(name, path=_path_without(folder)) for name in NAMES):
        console.note("gpuq: this machine has a Slurm of its own; leave the folder off PATH where you mean that one.")
    return 0


def _path_without(folder: Path) -> str:
    return ":".join(entry for entry in os.environ.get("PATH", "").split(":") if entry != str(folder))
