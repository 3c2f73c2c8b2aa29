"""What a driver answers, written down and replayed: from the stand-in here, and from real machines where someone brought files.

A file of tests/adapters/nvml/nvml_reference was made by `python -m workloads.on_gpu.record_driver` on a machine with a GPU. There
is none yet: whoever has such a machine can make one (docs/devices.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuq.adapters.nvml.vitals import THROTTLING
from tests.adapters.stand_in import NO_PERMISSION, NOT_SUPPORTED, Ran

REFERENCES = sorted((Path(__file__).parent / "nvml_reference").glob("*.json"))
RECORD = (
    "from workloads.on_gpu import record_driver as nvml_record\n"
    "nvml_record.time.sleep = lambda seconds: None\nresult = nvml_record.record()"
)
# What a look makes of it, at the second look: the first has nothing to subtract from.
LOOK = (
    "import json as j; backend.read(NOW, []); later = j.loads({later!r}); state(*later)\n"
    "backend.faults(); seen = backend.read(NOW + 1, []).readings\n"
    "result = [[d.total_memory, asdict(seen[d.id])] for d in backend.devices()]"
)
STATE = """device 0 used 5000
device 0 utilization 40
device 0 bus 12
device 0 power 345000
device 0 energy 99000
device 0 temperature 61
device 0 throttling 4
device 0 recovery 0
device 0 gpm 0 0 0
device 0 compute 4194000 1000
device 1 mig 2
device 1 used 7
device 200 gpm 0 0 0"""


def state_of(reference: dict[str, Any], *, counted: bool) -> list[str]:
    """The stand-in's state that answers as the reference says; its counters at their start, or as they were `counted`."""
    whole = [one for one in reference["devices"] if one["slice"] is None]
    lines = [f"count {len(whole)}"]
    for one in whole:
        gpu, calls = one["gpu"], one["calls"]
        # The stand-in fails a call for a GPU and its slices alike, and knows by itself that only slices have an instance.
        failed = {name: call["error"] for name, call in calls.items() if "error" in call}
        lines += [f"fail {gpu} {name} {code}" for name, code in failed.items() if "GpuInstanceId" not in name]
        memory = calls["nvmlDeviceGetMemoryInfo_v2"].get("answer", {})
        lines += [f"device {gpu} {fact} {memory[fact]}" for fact in ("total", "reserved", "used") if fact in memory]
        for fact, name in (
            ("power", "PowerUsage"), ("energy", "TotalEnergyConsumption"), ("temperature", "Temperature"),
            ("throttling", "CurrentClocksEventReasons"),
        ):  # fmt: skip
            if "answer" in calls[f"nvmlDeviceGet{name}"]:
                lines.append(f"device {gpu} {fact} {calls[f'nvmlDeviceGet{name}']['answer']}")
        rates = calls["nvmlDeviceGetUtilizationRates"].get("answer", {"gpu": 0, "memory": 0})
        lines += [f"device {gpu} utilization {rates['gpu']}", f"device {gpu} bus {rates['memory']}"]
        recovery = calls["nvmlDeviceGetFieldValues"].get("answer", {"result": NOT_SUPPORTED})
        lines += [f"device {gpu} recovery {recovery['value']}"] if recovery["result"] == 0 else []
        computing = calls["nvmlDeviceGetComputeRunningProcesses_v3"].get("answer") or {"processes": 0}
        lines += [f"device {gpu} compute {4194000 + n} 1" for n in range(computing["processes"])]
        slices = [
            other["slice"] for other in reference["devices"] if other["gpu"] == gpu and other["slice"] is not None
        ]
        lines += [f"device {gpu} mig {len(slices)}"] if slices else []
    for one in reference["devices"]:
        if one["gpm"] is not None:
            index = one["gpu"] if one["slice"] is None else 100 * (one["gpu"] + 1) + one["slice"]
            values = [-1 if value is None else value * counted for value in one["gpm"].values()]
            lines.append(f"device {index} gpm {' '.join(map(str, values))}")
    return lines


def check(reference: dict[str, Any], run: Callable[..., Ran]) -> None:
    """A look at a driver that answers so tells what the answers say, and None where it got none."""
    start, later = (state_of(reference, counted=counted) for counted in (False, True))
    reported = run(LOOK.format(later=json.dumps(later)), start="\n".join(start)).result
    cut = {one["gpu"] for one in reference["devices"] if one["slice"] is not None}
    offered = [one for one in reference["devices"] if one["slice"] is not None or one["gpu"] not in cut]
    assert len(reported) == len(offered)
    for one, (total, reading) in zip(offered, reported, strict=True):
        calls, vitals = one["calls"], reading["vitals"]
        rates = calls["nvmlDeviceGetUtilizationRates"].get("answer")
        busy, active, bandwidth = (one["gpm"] or {"1": None, "2": None, "10": None}).values()
        assert reading["utilization_pct"] == (rates["gpu"] if rates else busy)
        assert vitals["sm_activity_pct"] == active
        if one["slice"] is not None:
            continue
        memory = calls["nvmlDeviceGetMemoryInfo_v2"].get("answer")
        if memory:
            assert (total, reading["used_memory"]) == (memory["total"] - memory["reserved"], memory["used"])
        assert vitals["memory_bandwidth_pct"] == (bandwidth if bandwidth is not None else rates and rates["memory"])
        for name, call, scale in (("power_watts", "PowerUsage", 1000), ("energy_joules", "TotalEnergyConsumption", 1000),
                                  ("temperature_c", "Temperature", 1)):  # fmt: skip
            answer = calls[f"nvmlDeviceGet{call}"].get("answer")
            assert vitals[name] == (None if answer is None else answer / scale)
        reasons = calls["nvmlDeviceGetCurrentClocksEventReasons"].get("answer")
        if reasons is not None:
            assert vitals["throttling"] == [name for bit, name in THROTTLING.items() if reasons & bit]
        reports = "answer" in calls["nvmlDeviceGetSupportedEventTypes"]
        assert vitals["xids"] == ([] if reports else None)


def test_record_of_the_stand_in_replays_its_answers(run: Callable[..., Ran]):
    lost = f"\nfail 0 nvmlDeviceGetTemperature {NO_PERMISSION}\nfail 0 nvmlDeviceGetSupportedEventTypes {NOT_SUPPORTED}"
    reference = run(RECORD, start=STATE + lost, opened=False).result
    whole, other, first, second = reference["devices"]
    assert whole["gpm"] == first["gpm"] == {"1": 0.0, "2": 0.0, "10": 0.0}
    assert second["gpm"] is None
    assert [(one["gpu"], one["slice"]) for one in (whole, other, first, second)] == [
        (0, None),
        (1, None),
        (1, 0),
        (1, 1),
    ]
    calls = whole["calls"]
    assert calls["nvmlDeviceGetPowerUsage"]["answer"] == 345_000
    assert calls["nvmlDeviceGetTemperature"]["error"] == NO_PERMISSION
    assert calls["nvmlDeviceGetComputeRunningProcesses_v3"]["answer"] == {"processes": 1, "memory_known": True}
    assert calls["nvmlDeviceGetGpuInstanceId"]["error"] == NOT_SUPPORTED
    assert first["calls"]["nvmlDeviceGetGpuInstanceId"]["answer"] == 1
    assert all(call["us"] > 0 and math.isfinite(call["first_us"]) for call in calls.values())
    assert "GPU-0" not in json.dumps(reference)
    check(reference, run)


@pytest.mark.parametrize("reference", REFERENCES or [pytest.param(None, id="none")])
def test_the_adapter_matches_a_recorded_driver(run: Callable[..., Ran], reference: Path | None):
    if reference is None:
        pytest.skip(
            "no real driver is recorded yet: `python -m workloads.on_gpu.record_driver` on a machine with a GPU"
        )
    check(json.loads(reference.read_text()), run)
