"""The parser of the Slurm commands: wrong words are a sentence with its fix, and nothing is abbreviated."""

from __future__ import annotations

import argparse

from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class SlurmParser(argparse.ArgumentParser):
    """Without -h for help: that is --noheader."""

    def __init__(self, name: str) -> None:
        super().__init__(prog=name, add_help=False, allow_abbrev=False)
        self.add_argument("--help", action="help")

    def error(self, message: str) -> NoReturn:
        """Raise BadInput, where argparse would print the usage and exit."""
        raise BadInput(f"{message.removeprefix('argument ')}.", fix=f"{self.prog} --help shows what gpuq's takes.")
