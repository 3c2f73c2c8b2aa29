"""Traces, worlds and candidates that other packages add to `gpuq simulate`, found by their entry points.

The laboratory (`gpuq.lab`) declares the public traces, the worlds made from public measurements, and the rivals in this way, so
that the simulator never imports it. A site can add its own in the same way. The groups, and what an entry of each must be:

`gpuq.traces`      a function of (source, options, environ) that returns the trace's jobs: `OpenTrace`
`gpuq.worlds`      a function of (name, environ) that returns the world's workloads: `OpenWorld`; the entry `folder` gets a path
`gpuq.candidates`  a mapping of names to functions of (world, limits) that return a candidate: one family of candidates

What cannot be loaded raises BadInput, which says how the laboratory is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gpuq.core.scheduling.limits import Limits
from gpuq.errors import BadInput
from gpuq.sim.candidate import Candidate
from gpuq.sim.scenario_builder import ScenarioOptions
from gpuq.sim.traces.requests import ImportedTrace
from gpuq.sim.world import World
from gpuq.sim.worlds.workload_set import WorkloadSet

OpenTrace = Callable[[str, ScenarioOptions, Mapping[str, str]], ImportedTrace]
OpenWorld = Callable[[str, Mapping[str, str]], WorkloadSet]
MakeCandidate = Callable[[World, Limits], Candidate]
INSTALL = "pip install 'gpuq-daemon[lab]'"


def traces() -> list[str]:
    """The names of the added traces, sorted."""
    return sorted(_entries("gpuq.traces"))


def worlds() -> list[str]:
    """The names of the added worlds, sorted."""
    return sorted(name for name in _entries("gpuq.worlds") if name != "folder")


def open_trace(name: str) -> OpenTrace | None:
    """What opens the trace of this name; None if no package adds one. Raises BadInput where it cannot be loaded."""
    found: OpenTrace | None = _load("gpuq.traces", name)
    return found


def open_world(name: str) -> OpenWorld | None:
    """What opens the world of this name; None if no package adds one. Raises BadInput where it cannot be loaded."""
    found: OpenWorld | None = _load("gpuq.worlds", name)
    return found


def candidates() -> dict[str, Mapping[str, MakeCandidate]]:
    """Each family of candidates by its entry's name, such as `rivals`. Raises BadInput where one cannot be loaded."""
    return {family: _load("gpuq.candidates", family) for family in _entries("gpuq.candidates")}


def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _load(group: str, name: str) -> Any:
    entry = _entries(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except Exception as error:
        raise BadInput(
            f"`{name}` ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
            fix=f"If it is one of gpuq's laboratory: {INSTALL}",
        ) from error
