"""What is played, and the truth it is played in, by the name of a source: `philly`, `history`, a CSV file.

Arrives: a source, a world, how many devices, what load, how many jobs, a seed. Leaves: a `Scenario`. The same arguments give
the same scenario; all that was drawn or left out stands in its notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuq.errors import BadInput
from gpuq.lab.public import folder
from gpuq.lab.traces import alibaba, muri
from gpuq.lab.traces import philly as philly_trace
from gpuq.lab.worlds.named import find_zoo
from gpuq.sim.scenario_builder import HOST_DEVICES, Scenario, Stage, staged
from gpuq.sim.traces.history import of_past, read_past
from gpuq.sim.traces.requests import Imported
from gpuq.sim.traces.table import read

__all__ = ["SOURCES", "Scenario", "open_scenario", "philly"]

SOURCES = ("history", "philly", "alibaba", "muri:trace1 to 4", "FILE.csv")
PUBLIC_GPUS, PUBLIC_LOAD, PUBLIC_JOBS = 64, 0.9, 1500


def philly(  # noqa: PLR0913 - what people choose
    data: Path, *, pairs: str, gpus: int = PUBLIC_GPUS, load: float = PUBLIC_LOAD, jobs: int = PUBLIC_JOBS,
    seed: int = 1, preemptible: bool = True,
) -> Scenario:  # fmt: skip
    """Philly arrivals in a world of measured pairs (`gpuq.lab.worlds.named`), at `load` of exclusive capacity.

    The same seed gives the same jobs at every load and in every world. Raises BadInput, and OSError without the data.
    """
    found = philly_trace.stretch(data, jobs, min(HOST_DEVICES, gpus), seed)
    return staged(found, find_zoo(pairs, data), Stage(gpus, load, None, seed, preemptible))


def open_scenario(  # noqa: PLR0913 - what people choose
    source: str,
    *,
    world: str | None = None,
    gpus: int | None = None,
    load: float | None = None,
    jobs: int | None = None,
    seed: int = 1,
    environ: Mapping[str, str] | None = None,
) -> Scenario:
    """`source` is one of `SOURCES`. What is None is as it was in the record or the file, and for public traces 64 devices, 90%
    load and 1,500 jobs. `world` None is what was measured here for `history`, else `mps`, or `law` without public data.

    Raises BadInput with a fix.
    """
    _check(gpus, load, jobs)
    data = folder(None if environ is None else dict(environ))
    stage = Stage(gpus, load, jobs, seed)
    if source == "history":
        return of_past(read_past(environ), stage, None if world is None else find_zoo(world, data))
    zoo = find_zoo(world or ("law" if data is None else "mps"), data)
    if source.endswith(".csv"):
        return staged(read(Path(source)), zoo, stage)
    usual = Stage(gpus or PUBLIC_GPUS, load or PUBLIC_LOAD, jobs or PUBLIC_JOBS, seed)
    return staged(_public(source, data, usual), zoo, usual)


def _public(source: str, data: Path | None, stage: Stage) -> Imported:
    name, _, which = source.partition(":")
    if name not in ("philly", "alibaba", "muri"):
        raise BadInput(f"There is no trace `{source}`.", fix=f"Name one of: {', '.join(SOURCES)}.")
    if data is None:
        raise BadInput(
            f"The trace `{name}` is measured public data, which is not here.",
            fix="Set GPUQ_DATA to the folder that holds it, or play your own: `history`, or a CSV file.",
        )
    if name == "philly":
        return philly_trace.stretch(data, stage.jobs or PUBLIC_JOBS, min(HOST_DEVICES, stage.devices), stage.seed)
    return alibaba.pods(data) if name == "alibaba" else muri.trace(data, which or "trace1")


def _check(gpus: int | None, load: float | None, jobs: int | None) -> None:
    for name, value in (("gpus", gpus), ("load", load), ("jobs", jobs)):
        if value is not None and value <= 0:
            raise BadInput(
                f"{name} is {value:g}.", fix="Give a number above 0; a load of 0.9 is 90% of the devices' time."
            )
