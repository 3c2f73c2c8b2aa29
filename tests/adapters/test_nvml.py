"""The NVML adapter through the real bindings, over a stand-in driver compiled from C, and on a real GPU where there is one.

Each test runs a few lines in a process of its own, since a driver library is loaded once per process. The lines see a
`backend`, a `state(...)` that sets what the driver says, and real child processes for residents.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STUB = Path(__file__).parent / "nvml_stub" / "nvml_stub.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GIB = 2**30
LOST, UNKNOWN_ERROR, NOT_SUPPORTED, DRIVER_NOT_LOADED = 15, 999, 3, 9
NO_PERMISSION, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND = 4, 7, 13

PRELUDE = """
import json, logging, os, subprocess, sys
from dataclasses import asdict, replace
from gpuq.adapters import nvml
from gpuq.adapters.devices import Resident
from gpuq.core.attempt import AttemptId
from gpuq.errors import GpuqError
from gpuq.settings import Devices, Worker, load

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
settings = replace(load({"GPUQ_HOME": "/nowhere"}), worker=Worker(host="here"))
A, B = AttemptId(1, 1), AttemptId(2, 1)
NOW = 1000.0

def state(*lines):
    open(os.environ["NVML_STUB_STATE"], "w").write("\\n".join(lines) + "\\n")

def tree():
    "A shim's stand-in and the process under it, until the end of the test."
    code = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); c.wait()"
    root = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    roots.append(root)
    return root.pid, int(root.stdout.readline())

def mps_server(command="nvidia-cuda-mps-server"):
    "A process of that name, which has begun: just after a fork it still has another."
    pipe = subprocess.PIPE
    shell = [command, "-c", "echo begun; read the_end"]
    roots.append(subprocess.Popen(shell, executable="/bin/sh", stdin=pipe, stdout=pipe, start_new_session=True))
    roots[-1].stdout.readline()
    return roots[-1].pid

def look(*residents, now=NOW):
    seen = backend.read(now, residents)
    readings = {device: [r.used_memory, r.utilization_pct, r.foreign_memory, r.foreign_utilization_pct]
                for device, r in seen.readings.items()}
    return readings, {str(a): [u.memory_bytes, u.utilization_pct] for a, u in seen.usage.items()}

roots = []
result = None
"""
POSTLUDE = """
for root in roots:
    os.killpg(root.pid, 9)
print(json.dumps(result))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler (cc, gcc or clang) to build the stand-in driver with")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-Werror", "-Wall", "-o", target, STUB], check=True)
    return folder


class Ran:
    """What a driver process returned, logged, and which driver functions it called."""

    def __init__(self, done: subprocess.CompletedProcess[str], calls: Path) -> None:
        assert done.returncode == 0, done.stderr
        self.result: Any = json.loads(done.stdout.splitlines()[-1])
        self.log = done.stderr
        self.calls = calls.read_text().split() if calls.exists() else []


@pytest.fixture
def run(library: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Runs lines against the stand-in, whose first state is `start`."""

    def runner(lines: str, start: str = "", opened: bool = True) -> Ran:
        (tmp_path / "state").write_text(start)
        environ = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "NVML_STUB_STATE": str(tmp_path / "state"),
            "NVML_STUB_LOG": str(tmp_path / "calls"),
        }
        opening = "backend = nvml.open_backend(settings)\n" if opened else ""
        code = PRELUDE + opening + lines + POSTLUDE
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done, tmp_path / "calls")

    return runner


# --- devices -------------------------------------------------------------------------------------------------------


def test_two_gpus_without_the_drivers_own_memory(run: Callable[..., Ran]):
    ran = run("result = [[d.id, d.host, d.backend, d.type, d.total_memory] for d in backend.devices()]")
    total = 16 * GIB - GIB // 2
    assert ran.result == [[f"GPU-{index}", "here", "nvml", "NVIDIA Stub 1000", total] for index in range(2)]


def test_a_gpu_cut_into_slices_is_offered_as_its_slices(run: Callable[..., Ran]):
    ran = run(
        "result = [[d.id, d.type] for d in backend.devices()], look()[0]['MIG-100']",
        start="device 0 mig 2\ndevice 0 used 7\ndevice 0 utilization 50",
    )
    name = "NVIDIA Stub 1000 MIG 1g.8gb"
    assert ran.result[0] == [["MIG-100", name], ["MIG-101", name], ["GPU-1", "NVIDIA Stub 1000"]]
    assert ran.result[1] == [7, None, 7, 0.0]


def test_placement_is_by_uuid_and_in_bus_order(run: Callable[..., Ran]):
    ran = run("p = backend.placement(['GPU-1', 'GPU-0']); result = [dict(p.env), p.cores]")
    assert ran.result == [{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}, None]


def test_jobs_of_whole_gpus_are_clients_of_our_mps_if_that_is_wanted(run: Callable[..., Ran]):
    ran = run(
        "settings = replace(settings, devices=Devices(mps=True, mps_thread_pct=50))\n"
        "backend = nvml.open_backend(settings); found = [backend.placement([d]).env for d in ('GPU-1', 'MIG-100')]\n"
        "result = [{name: value for name, value in one.items() if 'MPS' in name} for one in found]",
        start="device 0 mig 1",
        opened=False,
    )
    expected = {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere/run/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
    assert ran.result == [expected, {}], "one daemon serves no slices"


def test_placement_on_a_device_that_is_not_here_is_refused(run: Callable[..., Ran]):
    lines = (
        "try: backend.placement(['GPU-7'])\nexcept GpuqError as error: result = [type(error).__name__, error.message]"
    )
    assert run(lines).result == ["NotFound", "There is no device GPU-7 on this host."]


@pytest.mark.parametrize(
    ("start", "word"),
    [(f"fail -1 nvmlInitWithFlags {DRIVER_NOT_LOADED}", "Driver Not Loaded"), ("count 0", "no GPU"),
     (f"fail 0 * {LOST}\nfail 1 * {LOST}", "no GPU")],
)  # fmt: skip
def test_a_driver_without_a_gpu_is_unreachable(run: Callable[..., Ran], start: str, word: str):
    lines = "try: nvml.open_backend(settings)\nexcept GpuqError as e: result = [type(e).__name__, e.message, e.fix]\n"
    ran = run(lines, start=start, opened=False)
    assert ran.result[0] == "Unreachable"
    assert word in ran.result[1]
    assert "nvidia-smi" in ran.result[2]


def test_one_lost_gpu_does_not_hide_the_other(run: Callable[..., Ran]):
    ran = run("result = [d.id for d in backend.devices()]", start=f"fail 0 * {LOST}")
    assert ran.result == ["GPU-1"]
    assert "GPU 0 is left out" in ran.log


# --- the way of sharing ---------------------------------------------------------------------------------------------


SHARING = "lambda: {d.id: d.sharing for d in backend.devices()}"


def test_without_mps_a_gpu_is_shared_by_time_slices(run: Callable[..., Ran]):
    ran = run(
        f"sharing = {SHARING}; first = sharing(); root, child = tree()\n"
        "state(f'device 0 compute {child} 3000'); look(); result = first, sharing()"
    )
    assert ran.result == [{"GPU-0": "time-slicing", "GPU-1": "time-slicing"}] * 2


def test_a_gpu_is_under_mps_while_an_mps_server_or_a_client_is_on_it(run: Callable[..., Ran]):
    ran = run(
        f"sharing = {SHARING}; root, child = tree(); server = mps_server('/usr/bin/nvidia-cuda-mps-server'); seen = []\n"
        "for line in (f'device 0 compute {server} 30', f'device 1 mps {child} 3000', ''):\n"
        "    state(line); look(); seen.append(sharing())\n"
        "result = seen"
    )
    assert ran.result == [
        {"GPU-0": "mps", "GPU-1": "time-slicing"},
        {"GPU-0": "time-slicing", "GPU-1": "mps"},
        {"GPU-0": "time-slicing", "GPU-1": "time-slicing"},
    ]


def test_an_mps_server_is_nobodys_own_and_may_hide_whose_work_it_was(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree(); server = mps_server()\n"
        "base = 'device 0 used 9000', 'device 0 utilization 90', f'device 0 compute {server} 30'\n"
        "first = f'device 0 mps {one[1]} 3000'; both = first, f'device 0 mps {two[1]} 6000'\n"
        "A_, B_ = Resident(A, one[0], ('GPU-0',)), Resident(B, two[0], ('GPU-0',))\n"
        "state(*base, first); alone = look(A_)\n"
        "told = f'device 0 sample {one[1]} 999500000 60', f'device 0 sample {two[1]} 999500000 30'\n"
        "state(*base, *both, *told); apart = look(A_, B_)[1]\n"
        "state(*base, *both, f'device 0 sample {server} 999600000 90'); result = alone, apart, look(A_, B_)[1]"
    )
    (readings, usage), apart, hidden = ran.result
    assert (usage["1-1"], readings["GPU-0"][3]) == ([3000, 90], 0), "alone it has all, and nothing is foreign"
    assert (apart["1-1"][1], apart["2-1"][1]) == (60, 30)
    assert (hidden["1-1"][1], hidden["2-1"][1]) == (None, None)


def test_an_mps_server_that_was_there_first_is_seen_before_the_first_look(run: Callable[..., Ran]):
    ran = run(f"result = ({SHARING})()", start="device 0 mps 4242 3000")
    assert ran.result == {"GPU-0": "mps", "GPU-1": "time-slicing"}


def test_how_a_gpu_is_shared_is_not_known_where_the_driver_lists_no_processes(run: Callable[..., Ran]):
    start = f"fail 0 nvmlDeviceGetComputeRunningProcesses_v3 {NOT_SUPPORTED}"
    ran = run(f"look(); result = ({SHARING})()", start=start)
    assert ran.result == {"GPU-0": None, "GPU-1": "time-slicing"}


def test_an_old_driver_without_the_list_of_mps_clients_still_shows_the_server(run: Callable[..., Ran]):
    ran = run(
        f"server = mps_server(); lost = 'fail 0 nvmlDeviceGetMPSComputeRunningProcesses_v3 {NOT_SUPPORTED}'\n"
        f"state(lost, f'device 0 compute {{server}} 30'); look(); result = ({SHARING})()['GPU-0']"
    )
    assert ran.result == "mps"


# --- readings ------------------------------------------------------------------------------------------------------


def test_an_idle_gpu_has_nothing_on_it_and_that_is_known(run: Callable[..., Ran]):
    assert run("result = look()").result == [{"GPU-0": [0, 0, 0, 0], "GPU-1": [0, 0, 0, 0]}, {}]


def test_a_resident_is_the_process_under_its_root_and_the_rest_is_foreign(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree(); stranger = tree()[1]\n"
        "state(f'device 0 used 5000', 'device 0 utilization 90', f'device 0 compute {child} 3000',\n"
        "      f'device 0 compute {stranger} 1500', f'device 0 sample {child} 999500000 60',\n"
        "      f'device 0 sample {stranger} 999600000 25')\n"
        "result = look(Resident(A, root, ('GPU-0',)))"
    )
    readings, usage = ran.result
    assert usage == {"1-1": [3000, 60]}
    assert readings["GPU-0"] == [5000, 90, 2000, 25]


def test_alone_on_a_gpu_its_utilisation_is_the_residents(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        "state('device 0 used 3000', 'device 0 utilization 97', f'device 0 compute {child} 3000')\n"
        "result = look(Resident(A, root, ('GPU-0',)), Resident(B, 1, ('GPU-1',)))"
    )
    assert ran.result == [{"GPU-0": [3000, 97, 0, 0], "GPU-1": [0, 0, 0, 0]}, {"1-1": [3000, 97], "2-1": [0, 0]}]


def test_two_residents_are_told_apart_by_their_samples(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "state('device 0 used 9000', 'device 0 utilization 99', f'device 0 compute {one[1]} 3000',\n"
        "      f'device 0 mps {two[1]} 6000', f'device 0 sample {one[1]} 999500000 40')\n"
        "result = look(Resident(A, one[0], ('GPU-0',)), Resident(B, two[0], ('GPU-0',)))"
    )
    assert ran.result[1] == {"1-1": [3000, 40], "2-1": [6000, 0]}
    assert ran.result[0]["GPU-0"] == [9000, 99, 0, 0]


def test_a_job_on_two_gpus_is_as_large_as_on_the_one_where_it_is_largest(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        "state('device 0 used 3000', 'device 0 utilization 40', f'device 0 compute {child} 3000',\n"
        "      'device 1 used 7000', 'device 1 utilization 20', f'device 1 compute {child} 7000')\n"
        "result = look(Resident(A, root, ('GPU-0', 'GPU-1')))"
    )
    readings, usage = ran.result
    assert usage == {"1-1": [7000, 40]}
    assert readings["GPU-0"] == [3000, 40, 0, 0], "nothing of it is foreign on either"
    assert readings["GPU-1"] == [7000, 20, 0, 0]


def test_a_job_on_two_gpus_with_a_partner_on_one_of_them(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "state('device 0 used 9000', 'device 0 utilization 99', f'device 0 compute {one[1]} 3000',\n"
        "      f'device 0 compute {two[1]} 6000', f'device 0 sample {one[1]} 999500000 30',\n"
        "      f'device 0 sample {two[1]} 999500000 69', 'device 1 used 4000', 'device 1 utilization 55',\n"
        "      f'device 1 compute {one[1]} 4000')\n"
        "result = look(Resident(A, one[0], ('GPU-0', 'GPU-1')), Resident(B, two[0], ('GPU-0',)))"
    )
    assert ran.result[1] == {"1-1": [4000, 55], "2-1": [6000, 69]}


def test_only_samples_since_the_last_look_are_asked_for_and_rubbish_is_not_used(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "base = ('device 0 used 9000', f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} 6000')\n"
        "residents = Resident(A, one[0], ('GPU-0',)), Resident(B, two[0], ('GPU-0',))\n"
        "state(*base, f'device 0 sample {one[1]} 999500000 40', f'device 0 sample {two[1]} 999500000 2147483632')\n"
        "first = look(*residents)[1]\n"
        "state(*base, f'device 0 sample {one[1]} 999400000 90', f'device 0 sample {two[1]} 1000900000 30')\n"
        "result = first, look(*residents, now=NOW + 1)[1], look(*residents, now=NOW + 3.2)[1]"
    )
    first, second, third = ran.result
    assert (first["1-1"][1], first["2-1"][1]) == (40, 0)
    assert (second["1-1"][1], second["2-1"][1]) == (40, 30)
    assert (third["1-1"][1], third["2-1"][1]) == (0, 30)


def test_what_is_not_supported_is_unknown_and_never_zero(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "state('device 0 used 9000', f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} unknown',\n"
        f"      'fail 0 nvmlDeviceGetUtilizationRates {NOT_SUPPORTED}',\n"
        f"      'fail 0 nvmlDeviceGetProcessUtilization {NOT_SUPPORTED}',\n"
        f"      'fail 1 nvmlDeviceGetComputeRunningProcesses_v3 {NOT_SUPPORTED}')\n"
        "result = look(Resident(A, one[0], ('GPU-0',)), Resident(B, two[0], ('GPU-0',)))"
    )
    assert ran.result[1] == {"1-1": [3000, None], "2-1": [None, None]}
    assert ran.result[0]["GPU-0"] == [9000, None, 0, 0]
    assert ran.result[0]["GPU-1"] == [0, 0, None, None]


def test_an_old_driver_without_the_second_memory_call_still_answers(run: Callable[..., Ran]):
    start = "\n".join(f"fail {index} nvmlDeviceGetMemoryInfo_v2 {NOT_SUPPORTED}" for index in range(2))
    ran = run("result = [d.total_memory for d in backend.devices()], look()[0]['GPU-0'][0]", start=start)
    assert ran.result == [[16 * GIB] * 2, GIB // 2]


@pytest.mark.parametrize("code", [LOST, UNKNOWN_ERROR])
def test_a_gpu_that_falls_off_the_bus_is_left_out_logged_once_and_taken_back(run: Callable[..., Ran], code: int):
    ran = run(
        "root, child = tree()\n"
        f"resident = Resident(A, root, ('GPU-0',))\nstate('fail 0 * {code}')\n"
        "lost = [look(resident) for _ in range(3)]\nstate('device 0 used 5')\nresult = lost, look(resident)"
    )
    lost, back = ran.result
    assert all(list(readings) == ["GPU-1"] and usage == {"1-1": [None, None]} for readings, usage in lost)
    assert ran.log.count("GPU GPU-0 does not answer") == 1
    assert "GPU GPU-0 answers again" in ran.log
    assert back[0]["GPU-0"][0] == 5


def test_the_slow_graphics_call_is_made_once_in_ten_seconds(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        "state('device 0 used 900', f'device 0 graphics {child} 700')\n"
        "result = [look(Resident(A, root, ('GPU-0',)), now=NOW + second)[1]['1-1'][0] for second in range(20)]"
    )
    assert ran.calls.count("nvmlDeviceGetComputeRunningProcesses_v3") >= 40
    # Two GPUs, twice each in twenty looks; the bindings ask once more for the list itself where there is one.
    assert ran.calls.count("nvmlDeviceGetGraphicsRunningProcesses_v3") == 6
    assert ran.result == [700] * 20


# --- what a GPU says of itself, and whose energy it was -------------------------------------------------------------


def test_power_energy_heat_clocks_and_the_bus_are_told_and_energy_is_shared_out(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "def says(energy, power, *more):\n"
        "    state('device 0 used 9000', 'device 0 utilization 80', 'device 0 bus 30', f'device 0 energy {energy}',\n"
        "          f'device 0 power {power}', 'device 0 temperature 61', 'device 0 throttling 37', *more)\n"
        "busy = (f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} 6000',\n"
        "        f'device 0 sample {one[1]} 1001500000 60', f'device 0 sample {two[1]} 1001500000 20')\n"
        "residents = Resident(A, one[0], ('GPU-0',)), Resident(B, two[0], ('GPU-0',))\n"
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


def test_a_foreign_process_has_its_part_and_an_old_driver_is_asked_in_its_own_words(run: Callable[..., Ran]):
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
        "state(*lines); mine = Resident(A, one[0], ('GPU-0',)); backend.read(NOW, [mine])\n"
        "seen = backend.read(NOW + 1, [mine])\n"
        "result = seen.usage[A].memory_bytes, seen.usage[A].energy_joules, seen.readings['GPU-0'].vitals.throttling",
        start=old,
    )
    assert ran.result == [3000, 150.0, ["hardware_slowdown"]]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE, UNKNOWN_ERROR])
def test_what_is_only_good_to_know_never_costs_a_gpu(run: Callable[..., Ran], code: int):
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


# --- counters of Hopper and newer, and slices ------------------------------------------------------------------------


def test_counters_give_activity_and_are_subtracted_the_right_way_round(run: Callable[..., Ran]):
    ran = run(
        "def told(now):\n"
        "    r = backend.read(now, []).readings['GPU-0']\n"
        "    return r.utilization_pct, r.vitals.sm_activity_pct, r.vitals.memory_bandwidth_pct\n"
        "base = 'device 0 utilization 99', 'device 0 bus 44'\n"
        "first = told(NOW); state(*base, 'device 0 gpm 70 55.5 20'); second = told(NOW + 1)\n"
        "state(*base, 'device 0 gpm 100 60 -1'); third = told(NOW + 2)\n"
        f"state(*base, 'device 0 gpm 1 1 1', 'fail 0 nvmlGpmSampleGet {NO_PERMISSION}')\n"
        "result = first, second, third, told(NOW + 3); backend.close()",
        start="device 0 utilization 99\ndevice 0 bus 44\ndevice 0 gpm 0 0 0",
    )
    assert ran.result == [[99, None, 44], [99, 55.5, 20], [99, pytest.approx(4.5), 44], [99, None, 44]]
    assert ran.calls.count("nvmlGpmSampleAlloc") == ran.calls.count("nvmlGpmSampleFree") == 2


def test_a_slice_has_a_utilisation_of_its_own_so_that_its_jobs_peak_is_known(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree(); mine = Resident(A, root, ('MIG-100',)); look(mine)\n"
        "state('device 0 mig 2', 'device 0 used 7', f'device 100 compute {child} 7', 'device 100 gpm 80 60 30',\n"
        "      'device 101 gpm 3 2 1', 'device 0 temperature 50', 'device 0 power 300000')\n"
        "seen = backend.read(NOW + 1, [mine]); vitals = asdict(seen.readings['MIG-100'].vitals)\n"
        "result = seen.usage[A].utilization_pct, seen.readings['MIG-101'].utilization_pct, vitals, seen.usage[A].energy_joules",
        start="device 0 mig 2\ndevice 0 used 7\ndevice 100 gpm 0 0 0\ndevice 101 gpm 0 0 0",
    )
    mine, other, vitals, energy = ran.result
    assert (mine, other) == (80, 3)
    assert (vitals["sm_activity_pct"], vitals["memory_bandwidth_pct"], vitals["temperature_c"]) == (60, 30, 50)
    assert (vitals["power_watts"], energy) == (None, None), "the whole GPU's power is not a slice's"


# --- errors ----------------------------------------------------------------------------------------------------------


def test_a_programs_own_error_is_told_and_counted_and_the_gpu_stays_well(run: Callable[..., Ran]):
    ran = run(
        "state('event 1 1 31 -1', 'event 2 1 13 -1', 'event 3 1 31 -1')\n"
        "told = [[f.device, f.xid] for f in backend.faults()], list(backend.faults())\n"
        "r = backend.read(NOW, []).readings\n"
        "result = told, r['GPU-1'].unwell, r['GPU-1'].vitals.xids, r['GPU-0'].vitals.xids"
    )
    told, unwell, mine, others = ran.result
    assert told == [[["GPU-1", 31], ["GPU-1", 13], ["GPU-1", 31]], []], "each once"
    assert (unwell, mine, others) == (None, [[13, 1], [31, 2]], [])


def test_after_a_fatal_error_a_gpu_is_unwell_until_its_driver_wants_nothing_more(run: Callable[..., Ran]):
    ran = run(
        "import time as clock\n"
        "began = clock.time(); clock.time = lambda: began + later\n"
        "later = 0; said = lambda: backend.read(NOW, []).readings['GPU-0'].unwell\n"
        "state('event 1 0 48 -1', 'device 0 recovery 0'); backend.faults(); at_once = said()\n"
        "later = 61; state('device 0 recovery 1'); still = said()\n"
        "state(); old_driver = said()\n"
        "state('device 0 recovery 0'); result = at_once, still, old_driver, said()"
    )
    at_once, still, old_driver, well = ran.result
    assert at_once == still == old_driver == "XID 48: an ECC error in memory that cannot be corrected"
    assert well is None


def test_a_gpu_that_wants_a_reset_when_we_come_is_unwell_from_the_start(run: Callable[..., Ran]):
    start = "device 0 recovery 1\ndevice 1 recovery 0"
    ran = run("result = [r.unwell for r in backend.read(NOW, []).readings.values()]", start=start)
    assert ran.result == ["its driver wants a reset", None]


def test_an_error_of_one_slice_is_that_slices_and_one_that_names_none_is_every_slices(run: Callable[..., Ran]):
    ran = run(
        "state('device 0 mig 2', 'event 1 0 13 2', 'event 2 0 79 -1')\n"
        "result = [[f.device, f.xid] for f in backend.faults()]",
        start="device 0 mig 2",
    )
    assert ran.result == [["MIG-101", 13], ["MIG-100", 79], ["MIG-101", 79]]


# --- the end --------------------------------------------------------------------------------------------------------


def test_closing_lets_go_of_the_driver(run: Callable[..., Ran]):
    assert "nvmlShutdown" in run("backend.close()").calls


def test_without_the_library_the_backend_is_unreachable_and_auto_takes_the_cpu(tmp_path: Path):
    code = """
import sys
from dataclasses import replace
from gpuq.adapters import nvml
from gpuq.errors import Unreachable
from gpuq.settings import Devices, load
from workers.sample import open_backend
settings = replace(load({"GPUQ_HOME": "/nowhere"}), devices=Devices(backend=sys.argv[1]))
try:
    print(type(open_backend(settings)).__name__)
except Unreachable as error:
    print("Unreachable", error.message)
"""
    # A library of that name that is none, found before any real driver.
    (tmp_path / "libnvidia-ml.so.1").write_text("none")
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code, name], env=environ, capture_output=True, text=True, check=True
        ).stdout
        for name in ("auto", "cpu", "nvml")
    ]
    if "NvmlBackend" in said[0]:
        pytest.skip("this machine's driver is found in spite of LD_LIBRARY_PATH")
    assert said[:2] == ["CpuBackend\n", "CpuBackend\n"]
    assert said[2].startswith("Unreachable The NVIDIA driver does not answer")


@pytest.mark.gpu
def test_a_real_gpu_answers():
    from gpuq.adapters import nvml
    from gpuq.errors import Unreachable
    from gpuq.settings import load

    try:
        backend = nvml.open_backend(load({"GPUQ_HOME": "/nowhere"}))
    except Unreachable as error:
        pytest.skip(f"no NVIDIA GPU here: {error.message}")
    devices = backend.devices()
    readings = backend.read(time.time(), []).readings
    for device in devices:
        assert device.id.startswith(("GPU-", "MIG-"))
        reading = readings[device.id]
        assert reading.used_memory is not None
        assert 0 <= reading.used_memory <= device.total_memory
        assert reading.foreign_memory is not None
    backend.close()
