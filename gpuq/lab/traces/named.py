"""The public traces as `gpuq simulate` opens them, by name: the entry points `gpuq.traces`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuq.lab.public import require_folder
from gpuq.lab.traces import alibaba, muri, philly
from gpuq.sim.scenario import PUBLIC_GPUS, PUBLIC_JOBS, PUBLIC_LOAD, find_workloads
from gpuq.sim.scenario_builder import Scenario, ScenarioOptions, build_scenario
from gpuq.sim.traces.requests import ImportedTrace


def open_philly(source: str, options: ScenarioOptions, environ: Mapping[str, str]) -> ImportedTrace:
    """Consecutive jobs of Microsoft's Philly cluster, a stretch for each seed. Raises BadInput without the data."""
    most = min(options.per_host, options.devices)
    return philly.stretch(_data(source, environ), options.jobs or PUBLIC_JOBS, most, options.seed)


def open_alibaba(source: str, options: ScenarioOptions, environ: Mapping[str, str]) -> ImportedTrace:  # noqa: ARG001
    """The pods of Alibaba's GPU cluster of 2023. Raises BadInput without the data."""
    return alibaba.pods(_data(source, environ))


def open_muri(source: str, options: ScenarioOptions, environ: Mapping[str, str]) -> ImportedTrace:  # noqa: ARG001
    """One of Muri's traces: `muri:trace2` is the second; without a number the first. Raises BadInput without the data."""
    return muri.trace(_data(source, environ), source.partition(":")[2] or "trace1")


def philly_scenario(  # noqa: PLR0913 - what people choose
    data: Path, *, pairs: str, gpus: int = PUBLIC_GPUS, load: float = PUBLIC_LOAD, jobs: int = PUBLIC_JOBS,
    seed: int = 1, preemptible: bool = True,
) -> Scenario:  # fmt: skip
    """Philly's jobs in the world `pairs` (`gpuq.lab.worlds.named`), at `load` of what the GPUs do with each job alone.

    The same seed gives the same jobs at every load and in every world. Raises BadInput, and OSError without the data.
    """
    options, environ = ScenarioOptions(gpus, load, jobs, seed, preemptible), {"GPUQ_DATA": str(data)}
    return build_scenario(open_philly("philly", options, environ), find_workloads(pairs, environ), options)


def _data(source: str, environ: Mapping[str, str]) -> Path:
    what = f"The trace `{source.partition(':')[0]}` is"
    return require_folder(environ, what, "play your own: `history`, or a CSV file")
