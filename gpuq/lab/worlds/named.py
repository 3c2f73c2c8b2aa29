"""Workload sets by the name of their world: the entry points `gpuq.worlds` of `gpuq simulate`.

mps         12 PyTorch jobs under MPS, measured by the Alnair project
gavel-p100  26 jobs on a P100 under MPS, measured by Gavel
folder      `singles.csv` and `pairs.csv` of a folder, in the form of `gpuq.lab.measured`

The world `law`, which needs no measured data, is the simulator's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuq.lab.measured import read_pairs, read_singles
from gpuq.lab.public import alnair_mps, gavel, require_folder
from gpuq.lab.worlds.from_tables import measured_workloads
from gpuq.lab.worlds.memory import agreed, from_carma
from gpuq.sim.worlds.workload_set import WorkloadSet

_GIB = 2**30
# The project's own demonstration of sharing ran on a V100 of 32 GB; all pairs stayed under half of their device's memory.
_ALNAIR_MEMORY = 32 * _GIB
_P100_MEMORY = 16 * _GIB


def open_mps(name: str, environ: Mapping[str, str]) -> WorkloadSet:
    """Alnair's pairs under MPS, with memory from CARMA's measurements. Raises BadInput without the data."""
    data = _data(name, environ)
    measured = measured_workloads(name, alnair_mps.singles(data), alnair_mps.pairs(data))
    return from_carma(measured, data, _ALNAIR_MEMORY)


def open_gavel_p100(name: str, environ: Mapping[str, str]) -> WorkloadSet:
    """Gavel's pairs on a P100, with memory that agrees with which pairs fitted. Raises BadInput without the data."""
    data = _data(name, environ)
    measured = measured_workloads(
        name,
        [single for single in gavel.singles(data) if single.device_type == "p100"],
        [pair for pair in gavel.pairs(data) if pair.device_type == "p100"],
        [(a, b) for device_type, a, b in gavel.never_fit(data) if device_type == "p100"],
    )
    return agreed(measured, data, _P100_MEMORY)


def open_folder(name: str, environ: Mapping[str, str]) -> WorkloadSet:  # noqa: ARG001 - worlds are opened like this
    """The tables of the folder `name`, such as `gpuq characterize` writes. Raises BadInput for what cannot be read."""
    path = Path(name)
    return measured_workloads(path.name, read_singles(path / "singles.csv"), read_pairs(path / "pairs.csv"))


def _data(name: str, environ: Mapping[str, str]) -> Path:
    return require_folder(environ, f"The world `{name}` is made of", "take the world `law`")
