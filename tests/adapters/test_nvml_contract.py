"""What the NVML adapter makes of a driver, over two readings of nvml.h: our stand-in, and NVIDIA's mock of its own library.

Where the two differ, nvml.h was asked. It has our stand-in right that an error which is no slice's names the instance 0xFFFFFFFF
(the mock: 0), that the first version of the memory counts the driver's share as used (the mock leaves it out) and that only
samples after the given time come (the mock gives all), and a lost GPU answers no question (the mock's still lists processes).
Both of these are right: no sample is NOT_FOUND, or a list of none; a GPU that could have slices says that it has none, one that
could not does not support the question. The adapter goes by nvml.h, and makes the same of both drivers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.adapters.stand_in import Ran


def test_an_idle_gpu_has_no_foreign_load(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "readings, usage = look(); total = [d.total_memory for d in backend.devices()]\n"
        "memory = [nvml.pynvml.nvmlDeviceGetMemoryInfo(g.handle, nvml.pynvml.nvmlMemory_v2) for g in backend._gpus.values()]\n"
        "result = [readings == dict.fromkeys(GPUS, [0, 0, 0, 0]), usage, [d.id for d in backend.devices()] == GPUS,\n"
        "          {d.sharing for d in backend.devices()} == {'time-slicing'}, total == [m.total - m.reserved for m in memory]]"
    )
    assert ran.result == [True, {}, True, True, True]


def test_jobs_partners_and_foreign_processes_are_separated(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "one, two, stranger = tree(), tree(), tree()[1]\n"
        "a, b = ResidentProcess(A, one[0], tuple(GPUS[:2])), ResidentProcess(B, two[0], (GPUS[0],))\n"
        "def reported(*residents):\n"
        "    readings, usage = look(*residents); return [readings[gpu] for gpu in GPUS[:2]], usage\n"
        "show({0: dict(used=3000, busy=97, compute={one[1]: (3000, 97)}),\n"
        "      1: dict(used=900, busy=20, graphics={one[1]: (900, 20)})})\n"
        "alone = reported(a)\n"
        "show({0: dict(used=9000, busy=99, compute={one[1]: (3000, 30), two[1]: (6000, 69)}),\n"
        "      1: dict(used=5000, busy=90, compute={one[1]: (4000, 55), stranger: (700, 25)})})\n"
        "result = alone, reported(a, b)"
    )
    mib = 2**20
    alone, both = ran.result
    assert alone == [[[3000 * mib, 97, 0, 0], [900 * mib, 20, 0, 0]], {"1-1": [3000 * mib, 97]}]
    assert both == [
        [[9000 * mib, 99, 0, 0], [5000 * mib, 90, 1000 * mib, 25]],
        {"1-1": [4000 * mib, 55], "2-1": [6000 * mib, 69]},
    ]


def test_usage_of_jobs_whose_processes_are_not_shown(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "one, two = tree(), tree(); a, b = ResidentProcess(A, one[0], (GPUS[0],)), ResidentProcess(B, two[0], (GPUS[0],))\n"
        "visible = lambda: backend.read(NOW, [a]).readings[GPUS[0]].processes_visible\n"
        "def reported(*residents):\n"
        "    readings, usage = look(*residents); return readings[GPUS[0]], usage\n"
        "show({0: dict(used=500, busy=10)}); empty = reported()\n"
        "show({0: dict(used=500, busy=4)}); idle = reported(a)\n"
        "show({0: dict(used=3500, busy=64)}); alone = reported(a)\n"
        "show({0: dict(used=5500, busy=94)}); both = reported(a, b); none = visible()\n"
        "show({0: dict(used=3500, busy=64, compute={one[1]: (3000, 60)})}); result = empty, idle, alone, both, none, visible()"
    )
    mib = 2**20
    empty, idle, alone, both, none, shown = ran.result
    assert empty == [[500 * mib, 10, 500 * mib, 10], {}]
    assert idle[1] == {"1-1": [0, 0]}, "the level falls with what the GPU shows"
    assert alone == [[3500 * mib, 64, 500 * mib, 4], {"1-1": [3000 * mib, 60]}]
    assert both[1] == {"1-1": [None, None], "2-1": [None, None]}
    assert (none, shown) == (False, True)


def test_a_lost_gpu_is_left_out_logged_once_and_taken_back(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "root, child = tree(); resident = ResidentProcess(A, root, (GPUS[0],))\n"
        "show({0: dict(lost=True)}); lost = [look(resident) for _ in range(3)]\n"
        "show({0: dict(used=5)}); result = [(list(r) == GPUS[1:], u) for r, u in lost], look(resident)[0][GPUS[0]][0]"
    )
    lost, back = ran.result
    assert lost == [[True, {"1-1": [None, None]}]] * 3
    assert back == 5 * 2**20
    assert ran.log.count("does not answer") == ran.log.count("answers again") == 1


def test_a_gpu_with_numbers_that_cannot_be_is_left_out_alone(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "show({0: dict(used=2**42)}); broken = look()[0]\n"
        "show({0: dict(busy=400, power=10**6, temperature=999)}); odd = backend.read(NOW, []).readings[GPUS[0]]\n"
        "show({}); result = list(broken) == GPUS[1:], [odd.used_memory, odd.utilization_pct, odd.vitals.power_watts,\n"
        "    odd.vitals.temperature_c], list(look()[0]) == GPUS"
    )
    assert ran.result == [True, [0, None, None, None], True]
    assert "bytes are used" in ran.log


def test_a_driver_error_is_reported_once_for_its_gpu(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "show({1: dict(xid=79)}); look(); reported = [[f.device == GPUS[1], f.xid] for f in backend.faults()]\n"
        "again = list(backend.faults()); r = backend.read(NOW, []).readings\n"
        "result = reported, again, r[GPUS[1]].unwell, r[GPUS[1]].vitals.xids, r[GPUS[0]].unwell, r[GPUS[0]].vitals.xids"
    )
    assert ran.result == [[[True, 79]], [], "XID 79: it has fallen off the bus", [[79, 1]], None, []]


def test_power_heat_and_lowered_clocks(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "show({0: dict(power=500, temperature=61, clocks=['power_cap', 'thermal_software'])})\n"
        "seen = backend.read(NOW, []).readings[GPUS[0]].vitals; result = seen.power_watts, seen.temperature_c, seen.throttling"
    )
    assert ran.result == [500, 61, ["power_cap", "thermal_software"]]


def test_what_a_job_leaves_for_a_moment_is_not_foreign(run_on_both: Callable[..., Ran]):
    ran = run_on_both(
        "one, two, stranger = tree(), tree(), tree()[1]\n"
        "a, b = ResidentProcess(A, one[0], (GPUS[0],)), ResidentProcess(B, two[0], (GPUS[0],))\n"
        "foreign = lambda second, *residents: look(*residents, now=NOW + second)[0][GPUS[0]][2:]\n"
        "show({0: dict(used=500)}); look()\n"
        "show({0: dict(used=9500, busy=99, compute={one[1]: (3000, 30), two[1]: (6000, 69)})}); look(a, b)\n"
        "def end(tree):\n"
        "    os.killpg(tree[0], 9)\n"
        "    while os.path.exists(f'/proc/{tree[1]}'): pass\n"
        "end(two); beside = foreign(1, a); end(one); left = foreign(2)\n"
        "show({0: dict(used=4200, busy=70, compute={one[1]: (3000, 64), stranger: (700, 6)})})\n"
        "result = beside, left, foreign(2.5), foreign(8)[0]"
    )
    mib = 2**20
    assert ran.result == [[500 * mib, 0], [500 * mib, 0], [700 * mib, 6], 4200 * mib]


def test_a_gpu_that_one_process_at_a_time_may_use_is_exclusive_unless_that_is_an_mps_server(
    run_on_both: Callable[..., Ran],
):
    ran = run_on_both(
        "def sharing(**shown):\n"
        "    show({0: shown}); look(); return backend.devices()[0].sharing\n"
        "server = mps_server(); modes = 'default', 'exclusive_process', 'exclusive_thread', 'default'\n"
        "result = [sharing(mode=mode) for mode in modes], sharing(mode='exclusive_process', compute={server: (30, 0)})"
    )
    assert ran.result == [["time-slicing", "exclusive", "exclusive", "time-slicing"], "mps"]


def test_a_gpu_that_no_program_may_use_is_left_out(run_on_both: Callable[..., Ran]):
    ran = run_on_both("show({0: dict(mode='prohibited')}); result = list(look()[0]) == GPUS[1:]")
    assert ran.result
    assert "lets no program use it" in ran.log
