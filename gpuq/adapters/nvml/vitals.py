"""What a GPU says of its power, energy, temperature, clocks and memory bus. A handle arrives, `Vitals` leave.

All of it is good to know and no reason to give a GPU up: what cannot be read is None. A MIG slice has neither power nor energy of
its own; heat and clocks are those of the whole GPU.
"""

from __future__ import annotations

import pynvml

from gpuq.adapters.nvml.calls import wonder
from gpuq.adapters.nvml.gpm import Activity
from gpuq.core.state.device import Vitals

# Reasons of nvml.h for clocks that are lower than they could be. Those that are no loss (an idle GPU, clocks that an
# administrator or a display asked for) are not throttling.
THROTTLING = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware_slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "thermal_software",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "thermal_hardware",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power_brake",
}


def read_vitals(handle: object, parent: object | None, activity: Activity, bus_busy_pct: float | None) -> Vitals:
    """One look. `parent` is the whole GPU of a slice, None for a whole one.

    The memory bandwidth is GPM's share of what the memory could move; where there is no GPM, `bus_busy_pct`: the share of the
    time in which it moved anything, as nvidia-smi has it. No device type ever has both.
    """
    whole = handle if parent is None else parent
    milliwatts = wonder(pynvml.nvmlDeviceGetPowerUsage, handle) if parent is None else None
    millijoules = wonder(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) if parent is None else None
    temperature = wonder(pynvml.nvmlDeviceGetTemperature, whole, pynvml.NVML_TEMPERATURE_GPU)
    bandwidth = activity.memory_bandwidth_pct
    return Vitals(
        power_watts=None if milliwatts is None else milliwatts / 1000,
        energy_joules=None if millijoules is None else millijoules / 1000,
        temperature_c=None if temperature is None else float(temperature),
        sm_activity_pct=activity.sm_activity_pct,
        memory_bandwidth_pct=bandwidth if bandwidth is not None else bus_busy_pct,
        throttling=_throttling(whole),
    )


def _throttling(handle: object) -> tuple[str, ...] | None:
    """Old drivers only know the call by its former name."""
    reasons = wonder(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        reasons = wonder(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return None if reasons is None else tuple(name for bit, name in THROTTLING.items() if reasons & bit)
