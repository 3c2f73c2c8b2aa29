"""The NVML adapter through the real bindings, over a stand-in driver, and on a real GPU where there is one.

What holds over every driver is in test_nvml_contract.py; here is what only the stand-in can be made to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.stand_in import (
    DRIVER_NOT_LOADED,
    GIB,
    LOST,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    UNKNOWN_ERROR,
    Ran,
)

# --- devices -------------------------------------------------------------------------------------------------------


def test_total_memory_excludes_the_drivers_reserve(run: Callable[..., Ran]):
    ran = run("result = [[d.id, d.index, d.host, d.backend, d.type, d.total_memory] for d in backend.devices()]")
    total = 16 * GIB - GIB // 2
    assert ran.result == [[f"GPU-{index}", str(index), "here", "nvml", "NVIDIA Stub 1000", total] for index in range(2)]


def test_a_mig_gpu_is_offered_as_its_slices(run: Callable[..., Ran]):
    ran = run(
        "result = [[d.id, d.index, d.type] for d in backend.devices()], look()[0]['MIG-100']",
        start="device 0 mig 2\ndevice 0 used 7\ndevice 0 utilization 50",
    )
    name = "NVIDIA Stub 1000 MIG 1g.8gb"
    assert ran.result[0] == [["MIG-100", "0:0", name], ["MIG-101", "0:1", name], ["GPU-1", "1", "NVIDIA Stub 1000"]]
    assert ran.result[1] == [7, None, 7, None]


@pytest.mark.parametrize(
    ("only", "offered"),
    [
        (("MIG-101",), ["MIG-101"]),
        (("GPU-0",), ["MIG-100", "MIG-101"]),
        (("0",), ["MIG-100", "MIG-101"]),
        (("1", "MIG-100"), ["MIG-100", "GPU-1"]),
    ],
)
def test_gpus_and_slices_are_chosen_by_index_or_uuid(
    run: Callable[..., Ran], only: tuple[str, ...], offered: list[str]
):
    """Slurm names the slices that it gave a job by their UUIDs."""
    ran = run(
        f"settings = replace(settings, devices=Devices(only={only!r}))\n"
        "result = [d.id for d in nvml.open_backend(settings).devices()]",
        start="device 0 mig 2",
        opened=False,
    )
    assert ran.result == offered


def test_placement_is_by_uuid_and_in_bus_order(run: Callable[..., Ran]):
    ran = run("p = backend.placement(['GPU-1', 'GPU-0']); result = [dict(p.env), p.cores]")
    assert ran.result == [{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}, None]


def test_jobs_on_whole_gpus_are_mps_clients_if_configured(run: Callable[..., Ran]):
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


def test_a_separate_pid_namespace_is_warned_of(run: Callable[..., Ran]):
    ran = run(
        "import gpuq.adapters.nvml.processes as p\n"
        "p._INITIAL_NAMESPACE = os.readlink('/proc/self/ns/pid'); same = p.in_host_pid_namespace()\n"
        "p._INITIAL_NAMESPACE = 'pid:[1]'; nvml.open_backend(settings); result = same, p.in_host_pid_namespace()",
        opened=False,
    )
    assert ran.result == [True, False]
    assert "its own pid namespace" in ran.log


def test_one_lost_gpu_does_not_hide_the_other(run: Callable[..., Ran]):
    ran = run("result = [[d.id, d.index] for d in backend.devices()]", start=f"fail 0 * {LOST}")
    assert ran.result == [["GPU-1", "1"]], "the other keeps its index"
    assert "GPU 0 is left out" in ran.log


# --- readings ------------------------------------------------------------------------------------------------------


def test_two_residents_are_distinguished_by_their_samples(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "state('device 0 used 9000', 'device 0 utilization 99', f'device 0 compute {one[1]} 3000',\n"
        "      f'device 0 mps {two[1]} 6000', f'device 0 sample {one[1]} 999500000 40')\n"
        "result = look(ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',)))"
    )
    assert ran.result[1] == {"1-1": [3000, 40], "2-1": [6000, 0]}
    assert ran.result[0]["GPU-0"] == [9000, 99, 0, 0]


def test_samples_count_again_once_the_wall_clock_was_set_back(run: Callable[..., Ran]):
    """The driver stamps its samples with wall time, and was asked for those after the newest."""
    ran = run(
        "one, two = tree(), tree()\n"
        "base = ('device 0 used 9000', f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} 6000')\n"
        "residents = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))\n"
        "state(*base, f'device 0 sample {one[1]} 999500000 40'); before = look(*residents)[1]['1-1'][1]\n"
        "state(*base, f'device 0 sample {one[1]} 399500000 30')\n"
        "result = before, *(look(*residents, now=NOW - 600 + later)[1]['1-1'][1] for later in (0, 1))"
    )
    assert ran.result == [40, 30, 30]


def test_samples_are_requested_since_the_last_look_and_nonsense_is_dropped(run: Callable[..., Ran]):
    ran = run(
        "one, two = tree(), tree()\n"
        "base = ('device 0 used 9000', f'device 0 compute {one[1]} 3000', f'device 0 compute {two[1]} 6000')\n"
        "residents = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))\n"
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
        "result = look(ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',)))"
    )
    assert ran.result[1] == {"1-1": [3000, None], "2-1": [None, None]}
    assert ran.result[0]["GPU-0"] == [9000, None, 0, 0]
    assert ran.result[0]["GPU-1"] == [0, 0, 0, 0], "it lists no processes: what is used there is not ours"


def test_a_gpu_of_which_nothing_is_found_does_not_end_the_look(run: Callable[..., Ran]):
    memory = [f"fail 0 nvmlDeviceGetMemoryInfo{version} {NOT_FOUND}" for version in ("_v2", "")]
    utilization = f"fail 1 nvmlDeviceGetUtilizationRates {NOT_FOUND}"
    assert run(f"state(*{memory!r}, {utilization!r}); result = look()[0]").result == {"GPU-1": [0, None, 0, 0]}


HIDDEN = """
one, two = tree(), tree()
a, b = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))
state('device 0 used 500', 'device 0 utilization 10', *hide); empty = look()[0]['GPU-0']
state('device 0 used 500', 'device 0 utilization 4', *hide); before = look(a)[1]['1-1']
state('device 0 used 3500', 'device 0 utilization 64', *hide); alone = look(a)
state('device 0 used 5500', 'device 0 utilization 94', *hide); both = look(a, b)
result = empty, before, alone, both
"""


@pytest.mark.parametrize(
    "hide",
    [f"fail 0 nvmlDeviceGetComputeRunningProcesses_v3 {NOT_SUPPORTED}", "device 0 compute 4194000 2000"],
    ids=["knows no list", "another container's numbers"],
)
def test_without_process_list_a_lone_job_has_what_exceeds_the_baseline(run: Callable[..., Ran], hide: str):
    empty, before, alone, both = run(f"hide = [{hide!r}]\n{HIDDEN}").result
    assert empty == [500, 10, 500, 10], "nothing of it is ours"
    assert before == [0, 0], "the level falls with what the GPU shows"
    assert alone == [{"GPU-0": [3500, 64, 500, 4], "GPU-1": [0, 0, 0, 0]}, {"1-1": [3000, 60]}]
    assert both[1] == {"1-1": [None, None], "2-1": [None, None]}, "the driver does not say whose they are"
    assert both[0]["GPU-0"] == [5500, 94, 500, 4]


def test_without_process_list_and_baseline_usage_is_unknown(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        "state('device 0 used 3500', 'device 0 utilization 64')\n"
        "result = look(ResidentProcess(A, root, ('GPU-0',)))"
    )
    assert ran.result == [{"GPU-0": [3500, 64, 3500, None], "GPU-1": [0, 0, 0, 0]}, {"1-1": [None, None]}]


LEFT_BEHIND = """
one, two = tree(), tree()
a, b = ResidentProcess(A, one[0], ('GPU-0',)), ResidentProcess(B, two[0], ('GPU-0',))
def shown(used, *residents, now):
    state(f'device 0 used {used}', *hide)
    return look(*residents, now=NOW + now)[1]
shown(500, now=0); shown(3500, a, now=1)
"""
NOT_KNOWN, BOTH = {"2-1": None}, {"1-1": None, "2-1": None}


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # The first has left, and the second takes its place in memory before the next look.
        ("shown(3500, now=2), shown(7500, b, now=3), shown(7500, b, now=8)", [{}, {"2-1": None}, {"2-1": 7000}]),
        ("shown(3500, b, now=2), shown(7500, b, now=3), shown(7500, b, now=8)", [NOT_KNOWN, NOT_KNOWN, {"2-1": 7000}]),
        # What the GPU shows falls to the level from before the first: all of that one is gone.
        ("shown(3500, b, now=2), shown(500, b, now=3), shown(7500, b, now=4)", [NOT_KNOWN, {"2-1": 0}, {"2-1": 7000}]),
        # A partner that stays is not measured with what the other leaves behind.
        ("shown(5500, a, b, now=2), shown(5500, b, now=3), shown(2500, b, now=8)", [BOTH, NOT_KNOWN, {"2-1": 2000}]),
        # Memory that stays is a foreign process's, and was there before the second.
        ("shown(1500, now=2), shown(1500, now=7), shown(7500, b, now=8)", [{}, {}, {"2-1": 6000}]),
        # A clock that was set back does not prolong the wait.
        ("shown(3500, now=2), shown(900, now=-3000), shown(7900, b, now=-2999)", [{}, {}, {"2-1": 7000}]),
    ],
    ids=["a look between", "at once", "seen to leave", "partner", "foreign", "clock"],
)
def test_without_process_list_memory_that_a_job_leaves_behind_counts_for_no_other(
    run: Callable[..., Ran], looks: str, expected: list[dict[str, int | None]]
):
    hide = f"fail 0 nvmlDeviceGetComputeRunningProcesses_v3 {NOT_SUPPORTED}"
    ran = run(f"hide = [{hide!r}]\n{LEFT_BEHIND}result = {looks}")
    assert [{attempt: memory for attempt, (memory, _) in seen.items()} for seen in ran.result] == expected


def test_a_later_foreign_process_makes_a_containers_usage_unknown(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree(); before, after = tree()[1], tree()[1]; mine = ResidentProcess(A, root, ('GPU-0',))\n"
        "old = 'device 0 used 1000', f'device 0 compute {before} 1000'; state(*old); look()\n"
        "not_yet = look(mine)[1]; state(*old, 'device 0 utilization 70', f'device 0 compute {after} 2000')\n"
        "result = not_yet, look(mine)[1]"
    )
    assert ran.result == [{"1-1": [0, 0]}, {"1-1": [None, None]}]


def test_an_old_driver_without_the_second_memory_call_still_answers(run: Callable[..., Ran]):
    start = "\n".join(f"fail {index} nvmlDeviceGetMemoryInfo_v2 {NOT_SUPPORTED}" for index in range(2))
    ran = run("result = [d.total_memory for d in backend.devices()], look()[0]['GPU-0'][0]", start=start)
    assert ran.result == [[16 * GIB] * 2, GIB // 2]


def test_a_gpu_whose_driver_fails_is_left_out_logged_once_and_taken_back(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        f"resident = ResidentProcess(A, root, ('GPU-0',))\nstate('fail 0 * {UNKNOWN_ERROR}')\n"
        "lost = [look(resident) for _ in range(3)]\nstate('device 0 used 5')\nresult = lost, look(resident)"
    )
    lost, back = ran.result
    assert all(list(readings) == ["GPU-1"] and usage == {"1-1": [None, None]} for readings, usage in lost)
    assert ran.log.count("gpu0 (GPU-0) does not answer") == 1
    assert "gpu0 (GPU-0) answers again" in ran.log
    assert back[0]["GPU-0"][0] == 5


def test_the_slow_graphics_call_is_made_once_in_ten_seconds(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree()\n"
        "state('device 0 used 900', f'device 0 graphics {child} 700')\n"
        "result = [look(ResidentProcess(A, root, ('GPU-0',)), now=NOW + second)[1]['1-1'][0] for second in range(20)]"
    )
    assert ran.calls.count("nvmlDeviceGetComputeRunningProcesses_v3") >= 40
    # Two GPUs, twice each in twenty looks; the bindings ask once more for the list itself where there is one.
    assert ran.calls.count("nvmlDeviceGetGraphicsRunningProcesses_v3") == 6
    assert ran.result == [700] * 20


# --- counters of Hopper and newer, and slices ------------------------------------------------------------------------


def test_gpm_samples_are_subtracted_in_order(run: Callable[..., Ran]):
    ran = run(
        "def reported(now):\n"
        "    r = backend.read(now, []).readings['GPU-0']\n"
        "    return r.utilization_pct, r.vitals.sm_activity_pct, r.vitals.memory_bandwidth_pct\n"
        "base = 'device 0 utilization 99', 'device 0 bus 44'\n"
        "first = reported(NOW); state(*base, 'device 0 gpm 70 55.5 20'); second = reported(NOW + 1)\n"
        "state(*base, 'device 0 gpm 100 60 -1'); third = reported(NOW + 2)\n"
        f"state(*base, 'device 0 gpm 1 1 1', 'fail 0 nvmlGpmSampleGet {NO_PERMISSION}')\n"
        "result = first, second, third, reported(NOW + 3); backend.close()",
        start="device 0 utilization 99\ndevice 0 bus 44\ndevice 0 gpm 0 0 0",
    )
    assert ran.result == [[99, None, 44], [99, 55.5, 20], [99, pytest.approx(4.5), 44], [99, None, 44]]
    assert ran.calls.count("nvmlGpmSampleAlloc") == ran.calls.count("nvmlGpmSampleFree") == 2


def test_a_mig_slice_has_its_own_utilisation(run: Callable[..., Ran]):
    ran = run(
        "root, child = tree(); mine = ResidentProcess(A, root, ('MIG-100',)); look(mine)\n"
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


# --- the end --------------------------------------------------------------------------------------------------------


def test_close_releases_the_driver(run: Callable[..., Ran]):
    assert "nvmlShutdown" in run("backend.close()").calls


def test_without_nvml_the_backend_is_unreachable_and_auto_uses_cpu(tmp_path: Path):
    code = """
import sys
from dataclasses import replace
from gpuq.adapters import nvml
from gpuq.errors import Unreachable
from gpuq.settings import Devices, load
from gpuq_workers.backend import open_backend
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
    from gpuq.adapters.nvml import backend as nvml
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
