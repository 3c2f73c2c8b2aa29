"""The parser of the Slurm commands: wrong words are a sentence with its fix, and nothing is abbreviated."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from gpuq.cli import job_ids
from gpuq.cli.client import HttpClient
from gpuq.cli.job_ids import Jobs
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


def jobs_named(client: HttpClient, words: Sequence[str]) -> Jobs:
    """The jobs that ids such as 12, 12_3 and 12_[3-7] mean: that of an array all its tasks. Raises BadInput and NotFound."""
    for word in words:
        if not re.fullmatch(r"\d+(_(\d+|\[[\d,:-]+\]))?", word):
            raise BadInput(
                f"`{word}` is no job id.", fix="Write 12, or 12_3 for a task of an array; gpuq has no steps."
            )
    return job_ids.named(client, words)
