"""A site's own record as a scenario: what ran here, played on the site's devices, or on more or fewer of them.

Arrives: settings, which name the record. Leaves: a `Scenario`. Nothing is written, and no daemon is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuq.adapters.store import open_store
from gpuq.core.state.device import Device
from gpuq.settings import load
from gpuq.sim.scenario_builder import RESTART_S, Scenario, ScenarioOptions, build_scenario, timed_trace
from gpuq.sim.traces.past import Past, past
from gpuq.sim.worlds.machines import machines
from gpuq.sim.worlds.measured import measured_world
from gpuq.sim.worlds.workload_set import WorkloadSet


def read_past(environ: Mapping[str, str] | None = None) -> Past:
    """The record that this environment's settings name.

    Raises BadInput for a record in which nothing ended, BadSettings or Unreachable where it cannot be read.
    """
    store = open_store(load(environ).database_url)
    try:
        return past(store.devices(), store.finished_attempts())
    finally:
        store.close()


def of_past(found: Past, options: ScenarioOptions, workload_set: WorkloadSet | None) -> Scenario:
    """In the world as it was measured here, or with a zoo's workloads behind the kinds. No GPUs named: as many as there are."""
    devices = found.devices if options.gpus is None else _like(found.devices, options.gpus)
    counted = replace(options, gpus=len(devices), per_host=max(Counter(device.host for device in devices).values()))
    if workload_set is not None:
        return build_scenario(found.trace, workload_set, counted)
    trace, jobs = timed_trace(found.trace, counted)
    return Scenario(trace, measured_world([job.kind or "" for job in jobs], found.outcomes, devices, RESTART_S))


def _like(devices: Sequence[Device], count: int) -> tuple[Device, ...]:
    """So many devices of the commonest sort, on hosts as large as the site's largest."""
    (sort, _), *_ = Counter((one.type, one.total_memory, one.sharing) for one in devices).most_common(1)
    return machines(count, *sort, per_host=max(Counter(device.host for device in devices).values()))
