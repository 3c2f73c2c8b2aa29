"""CPU devices against real processes: what they burn and hold is what is reported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuq.adapters.cpu import backend as cpu
from gpuq.adapters.cpu.backend import CoreTicks, CpuBackend, MachineMemory
from gpuq.adapters.cpu.trees import TreeUsage
from gpuq.adapters.devices import ResidentProcess, ResidentUsage, Snapshot
from gpuq.adapters.process import read_proc
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.errors import BadSettings, NotFound
from gpuq.settings import Devices, Settings, Worker, load

GIB = 2**30
OWN_CGROUP = "/proc/self/cgroup"
CORE = min(os.sched_getaffinity(0))
DEVICE = DeviceId("here/cpu0")

BURN = "print('up', flush=True)\nwhile True: pass"
BURN_IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
HOLD = "data = b'x' * (200 * 2**20); print('up', flush=True); import time; time.sleep(600)"


def attempt(job: int) -> AttemptId:
    return AttemptId(JobId(job), 1)


def settings(devices: Devices) -> Settings:
    return replace(load({"GPUQ_HOME": "/nowhere"}), devices=devices, worker=Worker(host="here"))


def backend(memory: Callable[[], MachineMemory] | None = None, count: int = 1, total: int = 16 * GIB) -> CpuBackend:
    devices = {
        Device(DeviceId(f"here/cpu{index}"), HostId("here"), "cpu", "cpu-1", total): (CORE + index,)
        for index in range(count)
    }
    return CpuBackend(devices, unpromised=2 * GIB, memory=memory)


@pytest.fixture
def spawn() -> Iterator[Callable[[str], int]]:
    """Starts Python code pinned to the device's core, in a group of its own, and waits until it says it is up."""
    running: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> int:
        child = subprocess.Popen(
            [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{CORE}}})\n{code}"],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        running.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child.pid

    yield start
    for child in running:
        os.killpg(child.pid, 9)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def look_until(
    looker: CpuBackend, residents: list[ResidentProcess], good: Callable[[Snapshot], bool], within: float = 60
) -> Snapshot:
    deadline = time.monotonic() + within
    while True:
        snapshot = looker.read(time.time(), residents)
        if good(snapshot):
            return snapshot
        assert time.monotonic() < deadline, snapshot
        time.sleep(0.3)


def first_difference(resident: ResidentProcess, good: Callable[[Snapshot], bool], within: float = 60) -> Snapshot:
    """What a second look sees, the first with a utilisation; later ones smooth what is foreign."""
    deadline = time.monotonic() + within
    while True:
        looker = backend()
        looker.read(time.time(), [resident])
        time.sleep(0.3)
        snapshot = looker.read(time.time(), [resident])
        if good(snapshot):
            return snapshot
        assert time.monotonic() < deadline, snapshot


def wait_for_ticks() -> None:
    """Until the kernel's count of the core's time has moved: a look before that has no utilisation."""
    start = cpu._core_ticks()[CORE].total
    while cpu._core_ticks()[CORE].total <= start:
        time.sleep(0.005)


def used_percent(snapshot: Snapshot, job: int) -> float:
    return snapshot.usage[attempt(job)].utilization_pct or 0.0


# --- devices -------------------------------------------------------------------------------------------------------


def test_devices_are_disjoint_sets_of_the_cores_we_may_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 8, 13, 21, 34})
    opened = cpu.open_backend(settings(Devices(cpu_count=2)))
    first, second = opened.devices()
    assert (first.id, first.type, first.backend) == ("here/cpu0", "cpu-3", "cpu")
    assert opened.placement([first.id]).cores == (2, 3, 5)
    assert opened.placement([second.id]).cores == (8, 13, 21)


def test_the_devices_offer_the_configured_share_of_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(cpu, "machine_memory", lambda: MachineMemory(10 * GIB, 9 * GIB))
    opened = cpu.open_backend(settings(Devices(cpu_count=2, cpu_memory_fraction=0.8)))
    assert [device.total_memory for device in opened.devices()] == [4 * GIB, 4 * GIB]


@pytest.mark.parametrize("wrong", [Devices(cpu_count=3), Devices(cpu_cores=3)])
def test_impossible_device_settings_are_refused_with_a_fix(monkeypatch: pytest.MonkeyPatch, wrong: Devices):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(BadSettings) as caught:
        cpu.open_backend(settings(wrong))
    assert caught.value.fix


def test_a_placement_hides_gpus_and_sets_no_thread_counts():
    placed = backend().placement([DEVICE])
    assert placed.env == {"CUDA_VISIBLE_DEVICES": ""}
    assert placed.cores == (CORE,)


def test_a_job_on_two_devices_has_the_cores_of_both_and_an_even_part_of_its_memory_on_each(spawn: Callable[[str], int]):
    looker = backend(count=2)
    both = (DEVICE, DeviceId("here/cpu1"))
    assert looker.placement(both).cores == (CORE, CORE + 1)
    pid = spawn(HOLD)
    alone = backend().read(1, [ResidentProcess(attempt(1), pid, (DEVICE,))]).usage[attempt(1)].memory_bytes
    seen = looker.read(1, [ResidentProcess(attempt(1), pid, both)])
    shared = seen.usage[attempt(1)].memory_bytes
    assert alone is not None
    assert shared is not None
    assert shared == pytest.approx(alone / 2, rel=0.05)
    first, second = (seen.readings[device] for device in both)
    assert first.used_memory == second.used_memory


def test_a_device_that_is_not_here_cannot_be_placed_on():
    with pytest.raises(NotFound):
        backend().placement([DeviceId("there/cpu9")])


# --- utilisation ---------------------------------------------------------------------------------------------------


def test_the_first_look_has_memory_but_no_utilisation(spawn: Callable[[str], int]):
    resident = ResidentProcess(attempt(1), spawn(HOLD), (DEVICE,))
    snapshot = backend().read(12.5, [resident])
    reading = snapshot.readings[DEVICE]
    assert reading.at == 12.5
    assert reading.utilization_pct is None
    assert snapshot.usage[attempt(1)].utilization_pct is None
    assert snapshot.usage[attempt(1)].memory_bytes is not None


@pytest.mark.parametrize("code", [BURN, BURN_IN_A_CHILD], ids=["itself", "its child"])
def test_a_busy_tree_uses_its_device(spawn: Callable[[str], int], code: str):
    resident = ResidentProcess(attempt(1), spawn(code), (DEVICE,))
    # Other work may share the core with us; what the device shows busy is what ours and the foreign add up to.
    snapshot = first_difference(resident, lambda seen: used_percent(seen, 1) > 5)
    reading = snapshot.readings[DEVICE]
    assert reading.utilization_pct is not None
    assert reading.utilization_pct > 80
    assert reading.foreign_utilization_pct is not None
    assert reading.foreign_utilization_pct == pytest.approx(
        max(0.0, reading.utilization_pct - used_percent(snapshot, 1))
    )


def test_a_job_has_its_part_of_the_processors_energy_or_none(spawn: Callable[[str], int]):
    resident = ResidentProcess(attempt(1), spawn(BURN), (DEVICE,))
    cores = {Device(DEVICE, HostId("here"), "cpu", "cpu-1", GIB): (CORE,)}
    with_energy = CpuBackend(cores, unpromised=2 * GIB, energy=lambda: 10.0)
    assert with_energy.read(0.0, [resident]).usage[attempt(1)].energy_joules is None, (
        "nothing to take a difference from"
    )
    seen = look_until(with_energy, [resident], lambda snapshot: bool(snapshot.usage[attempt(1)].energy_joules))
    part = seen.usage[attempt(1)].energy_joules
    assert part is not None
    assert 0 < part <= 10
    without_energy = CpuBackend(cores, unpromised=2 * GIB, energy=lambda: None)
    without_energy.read(0.0, [resident])
    wait_for_ticks()
    assert without_energy.read(1.0, [resident]).usage[attempt(1)].energy_joules is None


def test_a_busy_foreign_process_is_foreign_load(spawn: Callable[[str], int]):
    spawn(BURN)
    looker = backend()
    snapshot = look_until(looker, [], lambda seen: (seen.readings[DEVICE].foreign_utilization_pct or 0) > 80)
    assert snapshot.readings[DEVICE].foreign_utilization_pct == snapshot.readings[DEVICE].utilization_pct


def test_foreign_load_is_kept_while_residents_start_or_end(spawn: Callable[[str], int]):
    looker = backend()
    look_until(looker, [], lambda seen: seen.readings[DEVICE].foreign_utilization_pct is not None)
    wait_for_ticks()
    before = looker.read(1, []).readings[DEVICE].foreign_utilization_pct
    resident = ResidentProcess(attempt(1), spawn(BURN), (DEVICE,))
    wait_for_ticks()
    assert looker.read(2, [resident]).readings[DEVICE].foreign_utilization_pct == before
    known = look_until(looker, [resident], lambda seen: used_percent(seen, 1) > 5).readings[DEVICE]
    wait_for_ticks()
    assert looker.read(9, []).readings[DEVICE].foreign_utilization_pct == known.foreign_utilization_pct


def test_cpu_time_of_reaped_children_counts(spawn: Callable[[str], int]):
    code = "\n".join(
        [
            "import subprocess, sys; print('up', flush=True)",
            "while True: subprocess.run([sys.executable, '-c', 'sum(range(10**6))'])",
        ]
    )
    resident = ResidentProcess(attempt(1), spawn(code), (DEVICE,))
    look_until(backend(), [resident], lambda seen: used_percent(seen, 1) > 5)


# --- foreign load, on a made-up clock -------------------------------------------------------------------------------


class Core:
    """One device of two cores whose every second is made up. Numbers are cores: 0.5 is half of one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.job_s, self.asked = 100.0, 0.0, 0
        self.ticks = {core: CoreTicks(0, 0, 0) for core in (0, 1)}
        self.waits: tuple[float, float] | None = None
        device = Device(DEVICE, HostId("here"), "cpu", "cpu-2", 16 * GIB)
        self.looker = CpuBackend({device: (0, 1)}, 2 * GIB, clock=lambda: self.clock, energy=lambda: None)
        monkeypatch.setattr(cpu, "_core_ticks", lambda: dict(self.ticks))
        monkeypatch.setattr(self.looker, "_trees", self)
        self.second()

    def second(self, job: float = 0.0, foreign: float = 0.0, stolen: float = 0.0) -> ResidentUsage:
        self.clock += 1
        self.job_s += job
        for core, (busy, gone, total) in self.ticks.items():
            self.ticks[core] = CoreTicks(busy + round(50 * (job + foreign)), gone + round(50 * stolen), total + 100)
        return self.looker.read(0.0, [ResidentProcess(attempt(1), 7, (DEVICE,))]).usage[attempt(1)]

    def read(self, root: int, at: float) -> TreeUsage:
        return TreeUsage(GIB, self.job_s, memory_is_estimate=False)

    def waited(self, root: int) -> tuple[float, float] | None:
        self.asked += 1
        return self.waits

    def stop_waiting(self, root: int) -> None:
        self.waits = None

    def end_look(self) -> None:
        pass


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    return Core(monkeypatch)


def test_on_a_quiet_device_waiting_times_are_not_read(core: Core):
    core.second(job=1.9)
    usage = core.second(job=1.9, foreign=0.02)
    assert usage.foreign_load == pytest.approx(0.02, abs=0.01)
    assert usage.held_back is None
    assert core.asked == 0


def test_foreign_load_that_comes_and_goes_is_looked_at_all_the_while(core: Core):
    core.second(job=0.5, foreign=1.0)
    core.second(job=0.5, foreign=1.0)
    asked = core.asked
    core.waits = (0.2, 0.2)
    assert core.second(job=0.5).held_back == pytest.approx(0.2)
    assert core.asked == asked + 1


@pytest.mark.parametrize(
    ("job", "foreign", "waits", "held_back"),
    [
        (0.5, 1.0, (0.02, 0.02), 0.02),
        (1.5, 0.5, (0.5, 0.25), 0.25),
        (1.5, 0.5, (0.5, 0.45), 0.45),
        (0.3, 1.7, (0.6, 0.6), 0.6),
        (0.5, 1.5, (0.4, 0.2), 0.4),
    ],
    ids=["room enough", "two threads alike", "one of two threads", "one thread", "threads that take turns"],
)
def test_a_job_is_held_back_for_as_long_as_its_threads_waited_side_by_side(
    core: Core, job: float, foreign: float, waits: tuple[float, float], held_back: float
):
    core.second(job=job, foreign=foreign)
    core.waits = waits
    usage = core.second(job=job, foreign=foreign)
    assert usage.foreign_load == pytest.approx(foreign, abs=0.02)
    assert usage.held_back == pytest.approx(held_back, abs=0.02)


def test_held_back_is_unknown_at_the_first_look_with_foreign_load(core: Core):
    core.second(job=0.5)
    usage = core.second(job=0.5, foreign=1.0)
    assert (usage.foreign_load, usage.held_back) == (pytest.approx(1.0, abs=0.02), None)


def test_held_back_is_unknown_without_schedstat(core: Core, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "KERNEL_COUNTS_WAITING", False)
    core.waits = (0.1, 0.1)
    core.second(job=0.5, foreign=0.7)
    assert core.second(job=0.5, foreign=0.7).held_back is None
    assert core.asked == 0


def test_time_that_a_hypervisor_took_away_is_taken_from_the_job_in_proportion(core: Core):
    core.second(job=1.5, stolen=0.5)
    core.waits = (0.0, 0.0)
    usage = core.second(job=1.5, stolen=0.5)
    assert (usage.foreign_load, usage.held_back) == (pytest.approx(0.25, abs=0.01), pytest.approx(0.25, abs=0.01))


# --- memory --------------------------------------------------------------------------------------------------------


def test_the_memory_of_a_tree_is_what_it_holds(spawn: Callable[[str], int]):
    resident = ResidentProcess(attempt(1), spawn(HOLD), (DEVICE,))
    snapshot = backend().read(0, [resident])
    held = snapshot.usage[attempt(1)].memory_bytes
    assert held is not None
    assert 200 * 2**20 <= held < 240 * 2**20


def test_memory_alone_is_read_without_a_look(spawn: Callable[[str], int]):
    one, gone = (ResidentProcess(attempt(1), pid, (DEVICE,)) for pid in (spawn(HOLD), 2**22 + 1))
    looker = backend()
    alone, looked_at = looker.memory(one), looker.read(0.0, [one]).usage[one.attempt]
    assert alone is not None
    assert alone.memory_bytes == looked_at.memory_bytes
    assert alone.utilization_pct is None
    assert looker.memory(gone) is None


def test_a_resident_that_has_ended_leaves_its_device_known():
    """Otherwise no job could start on the device until the next look."""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    resident, looker = ResidentProcess(attempt(1), child.pid, (DEVICE,)), backend()
    as_zombie = looker.read(0, [resident])
    child.wait()
    as_gone = looker.read(1, [resident])
    for snapshot in (as_zombie, as_gone):
        assert snapshot.usage[attempt(1)].memory_bytes is None
        assert snapshot.readings[DEVICE].used_memory == snapshot.readings[DEVICE].foreign_memory is not None


def test_a_root_that_cannot_be_read_leaves_its_device_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu.psutil, "pid_exists", lambda pid: True)
    snapshot = backend().read(0, [ResidentProcess(attempt(1), 2**22 + 1, (DEVICE,))])
    assert snapshot.usage[attempt(1)].memory_bytes is None
    assert snapshot.readings[DEVICE].used_memory is None


def test_foreign_memory_counts_only_beyond_the_unpromised_rest():
    seen = backend(lambda: MachineMemory(18 * GIB, 17 * GIB)).read(0, []).readings[DEVICE]
    assert (seen.used_memory, seen.foreign_memory) == (0, 0)
    seen = backend(lambda: MachineMemory(18 * GIB, 12 * GIB)).read(0, []).readings[DEVICE]
    assert (seen.used_memory, seen.foreign_memory) == (4 * GIB, 4 * GIB)


def test_a_machine_without_free_memory_has_full_devices():
    full = backend(lambda: MachineMemory(34 * GIB, 0), count=2, total=16 * GIB)
    readings = full.read(0, []).readings.values()
    assert [reading.foreign_memory for reading in readings] == [16 * GIB, 16 * GIB]


def test_a_resident_within_its_share_is_not_foreign_but_what_it_takes_beyond_is(spawn: Callable[[str], int]):
    resident = ResidentProcess(attempt(1), spawn(HOLD), (DEVICE,))
    total, used = 16 * GIB, 3 * GIB
    within = backend(lambda: MachineMemory(total + 2 * GIB, total + 2 * GIB - used)).read(0, [resident])
    held = within.usage[attempt(1)].memory_bytes or 0
    assert within.readings[DEVICE].foreign_memory == pytest.approx(GIB - held, abs=2**20)


def test_when_one_device_outgrows_its_share_and_fills_the_machine_the_other_is_full_too(spawn: Callable[[str], int]):
    resident = ResidentProcess(attempt(1), spawn(HOLD), (DEVICE,))
    seen = backend(lambda: MachineMemory(2 * GIB + 2**21, 0), count=2, total=2**20).read(0, [resident]).readings
    assert (seen[DEVICE].used_memory or 0) > 2**20
    assert seen[DeviceId("here/cpu1")].foreign_memory == 2**20


def test_the_tightest_cgroup_is_the_machine(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "_cgroup_memory", lambda: iter([(4 * GIB, 3 * GIB), (10**18, GIB)]))
    assert cpu.machine_memory() == MachineMemory(4 * GIB, GIB)


def test_every_limited_cgroup_above_us_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "_CGROUPS", tmp_path)
    monkeypatch.setattr(cpu, "read_proc", lambda path: b"0::/user/inner\n" if path == OWN_CGROUP else read_proc(path))
    inner = tmp_path / "user" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("100\n")
    (inner.parent / "memory.max").write_text("4096\n")
    (inner.parent / "memory.current").write_text("3000\n")
    (inner.parent / "memory.stat").write_text("anon 1\ninactive_file 1000\nactive_file 5\n")
    assert list(cpu._cgroup_memory()) == [(4096, 2000)]


def test_a_cgroup_of_version_1_without_a_limit_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "_CGROUPS", tmp_path)
    lines = b"3:cpu:/\n4:memory:/user\n0::/\n"
    monkeypatch.setattr(cpu, "read_proc", lambda path: lines if path == OWN_CGROUP else read_proc(path))
    for level, limit in (("memory", 2**63 - 4096), ("memory/user", 5000)):
        (tmp_path / level).mkdir()
        (tmp_path / level / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (tmp_path / level / "memory.usage_in_bytes").write_text("3000\n")
        (tmp_path / level / "memory.stat").write_text("cache 7\ntotal_inactive_file 1000\n")
    assert list(cpu._cgroup_memory()) == [(5000, 2000)]
