"""A site's own record as a scenario: the jobs that ran here, on the site's devices, or on more or fewer of them.

The record is only read, and no daemon is needed.
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
    """The record that the settings of this environment name.

    Raises BadInput for a record in which nothing ended, BadSettings or Unreachable where it cannot be read.
    """
    store = open_store(load(environ).database_url)
    try:
        return past(store.devices(), store.finished_attempts())
    finally:
        store.close()


def of_past(found: Past, options: ScenarioOptions, workload_set: WorkloadSet | None) -> Scenario:
    """The record in the world as it was measured here, or with the set's workloads. `options.gpus` None: the site's own
    devices.
    """
    devices = found.devices if options.gpus is None else _devices_like(found.devices, options.gpus)
    counted = replace(options, gpus=len(devices), per_host=max(Counter(device.host for device in devices).values()))
    if workload_set is not None:
        return build_scenario(found.trace, workload_set, counted)
    trace, jobs = timed_trace(found.trace, counted)
    return Scenario(trace, measured_world([job.kind or "" for job in jobs], found.outcomes, devices, RESTART_S))


def _devices_like(devices: Sequence[Device], count: int) -> tuple[Device, ...]:
    """`count` devices of the site's most frequent class, on hosts as large as the site's largest."""
    (device_class, _), *_ = Counter((one.type, one.total_memory, one.sharing) for one in devices).most_common(1)
    return machines(count, *device_class, per_host=max(Counter(device.host for device in devices).values()))
