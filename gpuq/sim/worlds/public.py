"""The worlds that measured public data gives: pairs under MPS by the Alnair project, and on P100 by Gavel.

Arrives: the data folder (`gpuq.learn.public`). Leaves: a `Zoo` and what a device of it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from gpuq.errors import BadInput
from gpuq.learn.public import alnair_mps, gavel
from gpuq.sim.worlds.zoo import Zoo, zoo_of

Name = Literal["mps", "gavel-p100"]
NAMES: tuple[str, ...] = get_args(Name)
_GIB = 2**30
# The project's own demonstration of sharing ran on a V100 of 32 GB, and all pairs stayed under half of the device's memory.
_ALNAIR_MEMORY = 32 * _GIB
_P100_MEMORY = 16 * _GIB


def zoo_named(name: str, data: Path) -> tuple[Zoo, int]:
    """(workloads and pairs, bytes of memory of a device). Raises BadInput for another name."""
    if name == "mps":
        return zoo_of(name, alnair_mps.singles(data), alnair_mps.pairs(data)), _ALNAIR_MEMORY
    if name == "gavel-p100":
        return _gavel(name, data, "p100"), _P100_MEMORY
    raise BadInput(f"there is no world `{name}`.", fix=f"Name one of: {', '.join(NAMES)}.")


def _gavel(name: str, data: Path, gpu: str) -> Zoo:
    return zoo_of(
        name,
        [single for single in gavel.singles(data) if single.device_type == gpu],
        [pair for pair in gavel.pairs(data) if pair.device_type == gpu],
        [(a, b) for device_type, a, b in gavel.never_fit(data) if device_type == gpu],
    )
