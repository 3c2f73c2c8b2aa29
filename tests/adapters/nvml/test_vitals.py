"""What a GPU says of itself beside memory and utilisation, and whose energy it was, over the stand-in driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.adapters.stand_in import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN_ERROR,
    Ran,
)


def test_vitals_are_read_and_energy_is_divided(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "def says(energy, power, *more):\n"
        "    state('device 0 used 9000', 'device 0 utilization 80', 'device 0 bus 30', f'device 0 energy {energy}',\n"
        "          f'device 0 power {power}', 'device 0 temperature 61', 'device 0 throttling 37', *more)\n"
        "busy = (f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} 6000',\n"
        "        f'device 0 sample {one[1]} 1001500000 60', f'device 0 sample {two[1]} 1001500000 20')\n"
        "residents = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))\n"
        "says(1_000_000, 100_000); backend.read(NOW, residents)\n"
        "says(1_500_000, 500_000, *busy); seen = backend.read(NOW + 2, residents)\n"
        "result = asdict(seen.readings['GPU-0'].vitals), asdict(seen.readings['GPU-1'].vitals), {\n"
        "    str(a): [u.energy_joules, u.idle_joules] for a, u in seen.usage.items()}"
    )
    vitals, silent, energy = ran.result
    # Bits 1 and 4 and 32 of nvml.h: idle, power cap, thermal in software. Idle is no throttling.
    assert vitals == {
        "power_watts": 500.0, "energy_joules": 1500.0, "temperature_c": 61.0, "sm_activity_pct": None,
        "memory_bandwidth_pct": 30.0, "throttling": ["power_cap", "thermal_software"], "xids": [],
    }  # fmt: skip
    assert {name for name, value in silent.items() if value is None} == vitals.keys() - {"memory_bandwidth_pct", "xids"}
    # 500 J in 2 s, 200 J of them idle: 300 J in the ratio 60 to 20, 100 J each.
    assert energy == {"1-1": [pytest.approx(325), 100], "2-1": [pytest.approx(175), 100]}


def test_foreign_processes_get_a_part_and_old_drivers_use_old_calls(run: Callable[..., Ran]):
    old = "\n".join(
        f"fail 0 {name} {FUNCTION_NOT_FOUND}"
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetFieldValues", "nvmlGpmQueryDeviceSupport",
        )
    )  # fmt: skip
    ran = run(
        "one, stranger = tree(), tree()[1]\n"
        "lines = [*open(os.environ['NVML_STUB_STATE']).read().splitlines(), 'device 0 used 9000', 'device 0 power 200000',\n"
        "         'device 0 throttling 8', f'device 0 compute {one[1]} 3000', f'device 0 compute {stranger} 6000',\n"
        "         f'device 0 sample {one[1]} 1000500000 30', f'device 0 sample {stranger} 1000500000 10']\n"
        "state(*lines); mine = ResidentProcess(A, one[0], ('GPU-0',)); backend.read(NOW, [mine])\n"
        "seen = backend.read(NOW + 1, [mine])\n"
        "result = seen.usage[A].memory_bytes, seen.usage[A].energy_joules, seen.readings['GPU-0'].vitals.throttling",
        start=old,
    )
    assert ran.result == [3000, 150.0, ["hardware_slowdown"]]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE, UNKNOWN_ERROR])
def test_failing_vitals_do_not_fail_a_gpu(run: Callable[..., Ran], code: int):
    calls = (
        "PowerUsage", "TotalEnergyConsumption", "Temperature", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons",
        "SupportedEventTypes", "FieldValues",
    )  # fmt: skip
    start = "\n".join(
        [f"fail 0 nvmlDeviceGet{name} {code}" for name in calls]
        + [f"fail 0 nvmlGpmQueryDeviceSupport {code}", "device 0 used 5", "device 0 power 9", "device 0 gpm 1 1 1"]
    )
    ran = run("backend.faults(); look(); r = backend.read(NOW, []).readings['GPU-0']\n"
              "result = r.used_memory, r.unwell, asdict(r.vitals)", start=start)  # fmt: skip
    used, unwell, vitals = ran.result
    assert (used, unwell) == (5, None)
    assert {name for name, value in vitals.items() if value is not None} == {"memory_bandwidth_pct"}
