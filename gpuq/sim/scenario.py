"""Opens a scenario by the name of its source: gpuq's own `history`, a CSV file, or a trace that another package adds.

A scenario is a trace and the world that it is played in. The same arguments give the same scenario, and its notes name
everything that was drawn or left out. History and CSV files are the product's own; public traces and measured worlds come in
through `gpuq.sim.extensions`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuq.errors import BadInput
from gpuq.sim import extensions
from gpuq.sim.scenario_builder import Scenario, ScenarioOptions, build_scenario
from gpuq.sim.traces import sacct
from gpuq.sim.traces.history import history_scenario, read_site_history
from gpuq.sim.traces.table import read
from gpuq.sim.worlds.workload_set import WorkloadSet, law_workloads

HISTORY = "history"
SLURM = "slurm:"
LAW = "law"
# The world of a trace that brings none, where its data is there.
_MEASURED = "mps"
# How a public trace is played unless the command says otherwise: traces of clusters are too long, and too idle, to play whole.
PUBLIC_GPUS, PUBLIC_LOAD, PUBLIC_JOBS = 64, 0.9, 1500


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
    """The scenario of `source`: `history`, a file, `slurm:FILE`, or the name of an added trace.

    None means as it was in the record or the file; for added traces 64 devices, 90% load and 1,500 jobs. `world` None is what
    was measured here for `history`, and else `mps`, or `law` without measured data. Raises BadInput with a fix.
    """
    for name, value in (("gpus", gpus), ("load", load), ("jobs", jobs)):
        if value is not None and value <= 0:
            raise BadInput(
                f"{name} is {value:g}.", fix="Give a number above 0; a load of 0.9 is 90% of the devices' time."
            )
    variables = os.environ if environ is None else environ
    options = ScenarioOptions(gpus, load, jobs, seed)
    if source == HISTORY:
        return history_scenario(
            read_site_history(environ), options, None if world is None else find_workloads(world, variables)
        )
    workload_set = _usual_workloads(variables) if world is None else find_workloads(world, variables)
    if source.startswith(SLURM):
        trace, gpus_used = sacct.read(Path(source.removeprefix(SLURM)), options.per_host)
        return build_scenario(trace, workload_set, replace(options, gpus=options.gpus or gpus_used))
    if source.endswith(".csv") or Path(source).is_file():
        return build_scenario(read(Path(source)), workload_set, options)
    open_trace = extensions.open_trace(source.partition(":")[0])
    if open_trace is None:
        names = ", ".join([HISTORY, *extensions.traces(), "FILE.csv"])
        raise BadInput(f"There is no trace `{source}`.", fix=f"Name one of: {names}.{_how_to_add(extensions.traces())}")
    usual = ScenarioOptions(gpus or PUBLIC_GPUS, load or PUBLIC_LOAD, jobs or PUBLIC_JOBS, seed)
    return build_scenario(open_trace(source, usual, variables), workload_set, usual)


def find_workloads(name: str, environ: Mapping[str, str]) -> WorkloadSet:
    """The workloads of the world `law`, of an added world, or of a folder with measured tables. Raises BadInput."""
    if name == LAW:
        return law_workloads()
    added = extensions.worlds()
    entry = name if name in added else "folder" if Path(name).is_dir() else None
    open_world = None if entry is None else extensions.open_world(entry)
    if open_world is None:
        names = ", ".join([*added, LAW])
        raise BadInput(
            f"There is no world `{name}`.",
            fix=f"Name one of {names}, or a folder with singles.csv and pairs.csv.{_how_to_add(added)}",
        )
    return open_world(name, environ)


def _usual_workloads(environ: Mapping[str, str]) -> WorkloadSet:
    """Measured workloads where they are installed and their data is there, else those of the contention model."""
    if _MEASURED in extensions.worlds():
        try:
            return find_workloads(_MEASURED, environ)
        except BadInput:
            pass  # only a world that was named is worth an error
    return law_workloads()


def _how_to_add(installed: list[str]) -> str:
    return "" if installed else f" Public traces and worlds come with the laboratory: {extensions.INSTALL}"
