"""A GPU's power, energy, temperature, clock throttling and memory bandwidth.

A GPU can be used without these values, so what cannot be read is None. A MIG slice has neither power nor energy of its own;
temperature and clocks are those of the whole GPU.
"""

from __future__ import annotations

import pynvml

from gpuq.adapters.nvml.calls import ask_or_none, within
from gpuq.adapters.nvml.gpm import Activity
from gpuq.core.state.device import Vitals

# Reasons of nvml.h for lowered clocks. An idle GPU, or clocks that an administrator or a display asked for, is not throttling.
THROTTLING = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware_slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "thermal_software",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "thermal_hardware",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power_brake",
}
# Far more than any device has: ten years at the most power.
_MOST_WATTS, _MOST_CELSIUS = 10_000.0, 200.0
_MOST_JOULES = _MOST_WATTS * 3.2e8


def read_vitals(
    handle: object,
    parent: object | None,
    activity: Activity,
    bus_busy_pct: float | None,
    xids: tuple[tuple[int, int], ...] | None,
) -> Vitals:
    """One look. `parent`: the whole GPU of a MIG slice, None for a whole GPU. `xids`: as in `Vitals`.

    The memory bandwidth is GPM's share of the possible transfers. Without GPM it is `bus_busy_pct`, the share of the time in
    which anything was transferred, as nvidia-smi shows it. A device type always has the same one of the two.
    """
    whole = handle if parent is None else parent
    milliwatts = ask_or_none(pynvml.nvmlDeviceGetPowerUsage, handle) if parent is None else None
    millijoules = ask_or_none(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) if parent is None else None
    temperature = ask_or_none(pynvml.nvmlDeviceGetTemperature, whole, pynvml.NVML_TEMPERATURE_GPU)
    reasons = ask_or_none(pynvml.nvmlDeviceGetCurrentClocksEventReasons, whole)
    if reasons is None:  # an old driver, which has the call under its former name
        reasons = ask_or_none(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, whole)
    bandwidth = activity.memory_bandwidth_pct
    return Vitals(
        power_watts=None if milliwatts is None else within(milliwatts / 1000, _MOST_WATTS),
        energy_joules=None if millijoules is None else within(millijoules / 1000, _MOST_JOULES),
        temperature_c=within(temperature, _MOST_CELSIUS),
        sm_activity_pct=activity.sm_activity_pct,
        memory_bandwidth_pct=bandwidth if bandwidth is not None else bus_busy_pct,
        throttling=None if reasons is None else tuple(name for bit, name in THROTTLING.items() if reasons & bit),
        xids=xids,
    )
