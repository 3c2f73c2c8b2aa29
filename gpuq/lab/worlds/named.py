"""The workloads that a world's name stands for: measured public data, a folder of one's own measurements, or the law alone.

`mps`: pairs under MPS, by the Alnair project. `gavel-p100`: pairs on a P100 under MPS, by Gavel. `law`: see `law.py`. A folder:
`singles.csv` and `pairs.csv` of the learning issue's format. Leaves: a `Zoo`, with the memory of a device.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.errors import BadInput
from gpuq.lab.measured import read_pairs, read_singles
from gpuq.lab.public import alnair_mps, gavel
from gpuq.lab.worlds.contention import law_zoo
from gpuq.lab.worlds.memory import agreed, from_carma
from gpuq.sim.worlds.workload_set import Zoo, zoo_of

NAMES = ("mps", "gavel-p100", "law")
_GIB = 2**30
# The project's own demonstration of sharing ran on a V100 of 32 GB; all pairs stayed under half of their device's memory.
_ALNAIR_MEMORY = 32 * _GIB
_P100_MEMORY = 16 * _GIB


def find_zoo(name: str, data: Path | None) -> Zoo:
    """Raises BadInput for a name or folder that is not there, or without the data that it needs."""
    if name == "law":
        return law_zoo()
    if name in NAMES:
        if data is None:
            raise BadInput(
                f"The world `{name}` is made of measured public data, which is not here.",
                fix="Set GPUQ_DATA to the folder that holds it, or take the world `law`.",
            )
        return from_carma(_mps(data), data, _ALNAIR_MEMORY) if name == "mps" else _gavel_p100(data)
    folder = Path(name)
    if not folder.is_dir():
        raise BadInput(
            f"There is no world `{name}`.",
            fix=f"Name one of {', '.join(NAMES)}, or a folder with singles.csv and pairs.csv.",
        )
    return zoo_of(folder.name, read_singles(folder / "singles.csv"), read_pairs(folder / "pairs.csv"))


def _mps(data: Path) -> Zoo:
    return zoo_of("mps", alnair_mps.singles(data), alnair_mps.pairs(data))


def _gavel_p100(data: Path) -> Zoo:
    zoo = zoo_of(
        "gavel-p100",
        [single for single in gavel.singles(data) if single.device_type == "p100"],
        [pair for pair in gavel.pairs(data) if pair.device_type == "p100"],
        [(a, b) for device_type, a, b in gavel.never_fit(data) if device_type == "p100"],
    )
    return agreed(zoo, data, _P100_MEMORY)
