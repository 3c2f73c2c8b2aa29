"""`scontrol`: the names of a list of hosts, which scripts read to find the first one; hold and release jobs."""

from __future__ import annotations

import os

from gpuq.cli.verbs import hold, release
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Do it. Raises BadInput for all else that Slurm's can."""
    match words:
        case ["show", "hostnames", *names] | ["show", "hostname", *names] if len(names) <= 1:
            listed = names[0] if names else os.environ.get("SLURM_JOB_NODELIST", "")
            print("\n".join(listed.split(",")))
            return 0
        case ["hold", *ids] if ids:
            return hold.run(ids)
        case ["release", *ids] if ids:
            return release.run(ids)
    raise BadInput(
        f"gpuq has no `scontrol {' '.join(words)}`.",
        fix="It has `show hostnames`, `hold` and `release`; `gpuq show ID`.",
    )
