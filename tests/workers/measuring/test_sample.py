"""The sampler over a twin backend on a made-up clock, and over real pinned processes that really share cores."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from gpuq_workers.backend import open_backend
from gpuq_workers.measuring.progress import hook_environment
from gpuq_workers.measuring.sample import AloneSteps, Sampler, WatchedResident, saved_measurement

from gpuq.adapters.devices import DriverFault, Placement, ResidentProcess, ResidentUsage, Snapshot
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import rates
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.job import JobId
from gpuq.settings import Devices, load
from tests.workers.conftest import Attempt

DEVICE, SECOND = DeviceId("here/cpu0"), DeviceId("here/cpu1")


class Twin:
    """A backend whose answers are set by hand."""

    def __init__(self) -> None:
        self.usage: dict[AttemptId, ResidentUsage] = {}
        self.memory_between: dict[AttemptId, ResidentUsage] = {}
        self.missing: set[DeviceId] = set()
        self.asked: list[ResidentProcess] = []
        self.closed = False
        self.shows_processes: bool | None = None
        self.pending_faults: list[DriverFault] = []

    def devices(self) -> tuple[Device, ...]:
        return tuple(Device(device, HostId("here"), "cpu", "cpu-1", 1000) for device in (DEVICE, SECOND))

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        self.asked = list(residents)
        here = {DEVICE, SECOND} - self.missing
        reading = Reading(now, 1, 50.0, 0, processes_visible=self.shows_processes)
        return Snapshot(dict.fromkeys(sorted(here), reading), self.usage)

    def memory(self, resident: ResidentProcess) -> ResidentUsage | None:
        return self.memory_between.get(resident.attempt)

    def faults(self) -> Sequence[DriverFault]:
        faults, self.pending_faults = self.pending_faults, []
        return faults

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        return Placement({}, None)

    def close(self) -> None:
        self.closed = True


class Bench:
    """A sampler, its twin, a clock, and attempts with folders."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, 100.0
        self.twin = Twin()
        self.sampler = Sampler(self.twin, clock=lambda: self.clock)

    def resident(self, job: int, *devices: DeviceId) -> WatchedResident:
        folder = self.root / f"{job}-1"
        folder.mkdir(exist_ok=True)
        self.twin.usage[AttemptId(JobId(job), 1)] = ResidentUsage(job * 100, 40.0)
        return WatchedResident(AttemptId(JobId(job), 1), 1000 + job, devices, folder, 5.0)

    def go(self, seconds: int, *residents: WatchedResident):
        for _ in range(seconds):
            self.clock += 1
            sample = self.sampler.sample(1e6 + self.clock, residents)
        return sample


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_sample_has_every_device_and_every_resident(bench: Bench):
    sample = bench.go(1, bench.resident(1, DEVICE), bench.resident(2, SECOND))
    assert [device for device, _ in sample.readings] == [DEVICE, SECOND]
    first, second = sample.residents
    assert (first.attempt, first.memory_bytes, first.utilization_pct) == (AttemptId(JobId(1), 1), 100, 40.0)
    assert (first.steps, first.rate, first.started_at) == (None, None, 5.0)
    assert second.memory_bytes == 200
    asked = bench.twin.asked[0]
    assert (asked.attempt, asked.root_pid, asked.devices) == (AttemptId(JobId(1), 1), 1001, (DEVICE,))


def test_the_time_without_use_is_counted_and_unknown_use_is_none(bench: Bench):
    resident = bench.resident(1, DEVICE)

    def after(seconds: int, utilization_pct: float | None) -> float | None:
        bench.twin.usage[resident.attempt] = ResidentUsage(100, utilization_pct)
        return bench.go(seconds, resident).residents[0].idle_s

    assert [after(1, 40.0), after(1, 0.9), after(9, 0.0)] == [0.0, 1.0, 10.0]
    assert after(1, 1.0) == 0.0
    assert [after(5, 0.0), after(1, None), after(1, 0.0), after(3, 0.0)] == [5.0, None, 0.0, 3.0]


def test_a_job_without_steps_has_a_reason_while_it_runs_and_after(bench: Bench):
    one = bench.resident(1, DEVICE)
    assert "no Python" in (bench.go(1, one).residents[0].not_counted or "")
    (one.folder / "progress").touch()
    assert "gpuq.step()" in (bench.go(1, one).residents[0].not_counted or "")
    assert "gpuq.step()" in (bench.sampler.finish(one.attempt).not_counted or "")


def test_a_device_that_does_not_answer_leaves_the_rest_alone(bench: Bench):
    one = bench.resident(1, DEVICE)
    bench.twin.missing = {DEVICE}
    bench.twin.usage = {}
    sample = bench.go(1, one)
    assert [device for device, _ in sample.readings] == [SECOND]
    assert sample.residents[0].memory_bytes is None


def test_memory_between_two_samples_raises_the_peak_and_nothing_else(bench: Bench):
    """A run of less than a second may need its most when no sample is taken."""
    one, two = bench.resident(1, DEVICE), bench.resident(2, SECOND)
    bench.twin.memory_between[one.attempt] = ResidentUsage(700, None)
    bench.sampler.sample_memory([one, two])
    bench.twin.memory_between[one.attempt] = ResidentUsage(300, None)
    bench.sampler.sample_memory([one, two])
    measured = bench.sampler.finish(one.attempt)
    assert (measured.peak_memory_bytes, measured.peak_utilization_pct) == (700, None)
    assert bench.sampler.finish(two.attempt, two.folder).peak_memory_bytes is None


def test_partners_share_a_device(bench: Bench):
    one, two, three = bench.resident(1, DEVICE), bench.resident(2, SECOND), bench.resident(3, DEVICE, SECOND)
    bench.go(2, one, two, three)
    assert bench.sampler.finish(one.attempt).partners == (three.attempt,)
    assert bench.sampler.finish(three.attempt).partners == (one.attempt, two.attempt)


def test_the_saved_measurement_has_mode_0600(bench: Bench):
    one = bench.resident(1, DEVICE)
    bench.go(22, one)
    kept = saved_measurement(one.folder)
    assert (kept.peak_memory_bytes, kept.peak_utilization_pct) == (100, pytest.approx(40))
    assert stat.S_IMODE((one.folder / "measure.json").stat().st_mode) == 0o600


def test_memory_that_grew_is_saved_at_once_and_all_else_every_15_seconds(bench: Bench):
    one = bench.resident(1, DEVICE)

    def saved(seconds: int) -> int | None:
        (one.folder / "measure.json").unlink(missing_ok=True)
        bench.go(seconds, one)
        return saved_measurement(one.folder).peak_memory_bytes

    assert [saved(1), saved(14), saved(1)] == [100, None, 100]
    bench.twin.usage[one.attempt] = ResidentUsage(900, 80.0)
    assert saved(1) == 900


def test_a_job_whose_device_the_backend_does_not_have_is_not_measured_by_it(bench: Bench, tmp_path: Path):
    """Its worker service was restarted while the driver of its GPU failed, or with another backend."""
    one = bench.resident(1, DEVICE)
    bench.twin.usage[one.attempt] = ResidentUsage(900, 80.0)
    bench.go(1, one)
    again = Bench(tmp_path)
    two = again.resident(2, DEVICE)
    again.twin.devices = tuple  # type: ignore[method-assign]
    again.twin.usage = dict.fromkeys((one.attempt, two.attempt), ResidentUsage(12_000, 1.0))
    again.twin.memory_between = again.twin.usage
    assert again.go(20, one, two).residents == ()
    again.sampler.sample_memory([one, two])
    assert [again.sampler.finish(r.attempt, r.folder).peak_memory_bytes for r in (one, two)] == [900, None]


def test_a_new_sampler_continues_from_the_saved_state(bench: Bench, tmp_path: Path):
    one = bench.resident(1, DEVICE)
    bench.twin.usage[one.attempt] = ResidentUsage(900, 80.0)
    bench.go(12, one)
    bench.sampler.close()
    assert bench.twin.closed
    again = Bench(tmp_path)
    again.resident(1, DEVICE)
    again.go(3, one)
    measured = again.sampler.finish(one.attempt)
    assert (measured.peak_memory_bytes, measured.peak_utilization_pct) == (900, pytest.approx(80))


def test_energy_is_summed_over_looks_and_restarts_and_none_if_unknown(bench: Bench, tmp_path: Path):
    one, two = bench.resident(1, DEVICE), bench.resident(2, SECOND)
    bench.twin.usage[one.attempt] = ResidentUsage(900, 80.0, 50.0, 20.0)
    assert [row.energy_joules for row in bench.go(10, one, two).residents] == [500, None]
    bench.sampler.close()
    again = Bench(tmp_path)
    again.twin.usage[one.attempt] = ResidentUsage(900, 80.0, 50.0, None)
    assert [row.energy_joules for row in again.go(2, one).residents] == [600]
    measured = again.sampler.finish(one.attempt)
    assert (measured.energy_joules, measured.idle_joules) == (600, 200)
    assert bench.sampler.finish(two.attempt).energy_joules is None


def test_a_driver_error_is_written_to_the_folders_of_the_devices_attempts(bench: Bench):
    one, two = bench.resident(1, DEVICE), bench.resident(2, SECOND)
    bench.twin.pending_faults = [DriverFault(DEVICE, 31)]
    bench.go(1, one, two)
    bench.twin.pending_faults = [DriverFault(DEVICE, 79), DriverFault(SECOND, 13)]
    bench.sampler.finish(one.attempt)
    lines = [line.split() for line in (one.folder / "xid").read_text().splitlines()]
    assert [number for number, _ in lines] == ["31", "79"]
    assert float(lines[0][1]) == 1e6 + 101
    assert (two.folder / "xid").read_text().split()[0] == "13"
    assert stat.S_IMODE((one.folder / "xid").stat().st_mode) == 0o600
    bench.twin.pending_faults = [DriverFault(DEVICE, 43)]
    bench.go(1, two)
    assert len((one.folder / "xid").read_text().splitlines()) == 2


def test_memory_that_a_framework_took_in_advance_is_a_bound_on_a_gpu_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    for backend, expected in (("nvml", True), ("cpu", False)):
        device = Device(DEVICE, HostId("here"), backend, "x", 1000)
        monkeypatch.setattr(bench.twin, "devices", lambda device=device: (device,))
        one = bench.resident(len(backend), DEVICE)
        for memory in (20, 760, 770):
            bench.twin.usage[one.attempt] = ResidentUsage(memory, 1.0)
            bench.go(1, one)
        measured = bench.sampler.finish(one.attempt)
        assert (measured.peak_memory_bytes, measured.peak_memory_is_bound) == (770, expected)


def test_a_requested_preallocation_is_a_bound_from_the_first_reading(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench.twin, "devices", lambda: (Device(DEVICE, HostId("here"), "nvml", "x", 1000),))
    for job, env, expected in ((1, {"TF_FORCE_GPU_ALLOW_GROWTH": "0"}, True), (2, {}, False), (3, None, False)):
        one = bench.resident(job, DEVICE)
        if env is None:
            (one.folder / "order.json").write_text('{"env": 3}')
        else:
            Attempt(one.folder).order("train", env=env)
        bench.twin.usage[one.attempt] = ResidentUsage(960, 1.0)
        bench.go(2, one)
        assert bench.sampler.finish(one.attempt).peak_memory_is_bound is expected


def test_an_attempt_that_ended_while_the_service_was_away_has_what_was_kept(bench: Bench, tmp_path: Path):
    one = bench.resident(1, DEVICE)
    bench.go(12, one)
    bench.sampler.close()
    assert Bench(tmp_path).sampler.finish(one.attempt, one.folder).peak_memory_bytes == 100
    assert Bench(tmp_path).sampler.finish(one.attempt) == Measurement()


@pytest.mark.parametrize("rubbish", [b"", b"{}", b'{"measurement": {}, "state": {"alone": 7}}', b"\xff\xfe"])
def test_an_unreadable_measurement_file_restarts_the_measurement(bench: Bench, rubbish: bytes):
    one = bench.resident(1, DEVICE)
    (one.folder / "measure.json").write_bytes(rubbish)
    bench.go(2, one)
    assert bench.sampler.finish(one.attempt).peak_memory_bytes == 100


def test_a_deleted_folder_only_loses_the_file(bench: Bench):
    one = bench.resident(1, DEVICE)
    one.folder.rmdir()
    bench.go(12, one)
    assert bench.sampler.finish(one.attempt).peak_memory_bytes == 100


TRAIN = """
import os, time, gpuq
while True:
    deadline = time.process_time() + 0.005
    while time.process_time() < deadline:
        pass
    gpuq.step()
"""


def start(
    folder: Path, job: int, cores: tuple[int, ...], device: DeviceId
) -> tuple[subprocess.Popen[bytes], WatchedResident]:
    """A job of 200 steps a second of CPU time, pinned as a placement says, under its attempt's folder."""
    folder = folder / f"{job}-1"
    folder.mkdir()
    code = f"import os; os.sched_setaffinity(0, {set(cores)})\n{TRAIN}"
    environ = {**os.environ, **hook_environment({}, folder / "progress")}
    child = subprocess.Popen([sys.executable, "-c", code], env=environ)
    return child, WatchedResident(AttemptId(JobId(job), 1), child.pid, (device,), folder, time.time())


@pytest.mark.quiet
def test_two_real_jobs_on_one_core_are_measured_slowing_each_other_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Alone, then together: the shared rate of the first is well below its alone rate, whatever else runs here."""
    core = max(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core})
    settings = replace(load({"GPUQ_HOME": str(tmp_path)}), devices=Devices(backend="cpu"))
    backend = open_backend(settings)
    device = backend.devices()[0].id
    sampler = Sampler(backend, window_s=0.4)
    children = []
    try:
        child, first = start(tmp_path, 1, (core,), device)
        children.append(child)
        running = [first]

        def windows(partners: tuple[AttemptId, ...]) -> int:
            meter = sampler._watched[first.attempt].meter
            return sum(s.windows for s in meter.measurement().segments if s.partners == partners)

        def sample_until(partners: tuple[AttemptId, ...], wanted: int) -> None:
            deadline = time.monotonic() + 20
            while True:
                reports.append(sampler.sample(time.time(), running))
                if windows(partners) >= wanted:
                    return
                assert time.monotonic() < deadline
                time.sleep(0.1)

        reports: list = []
        sample_until((), 4)
        child, second = start(tmp_path, 2, (core,), device)
        children.append(child)
        running.append(second)
        sample_until((second.attempt,), 5)
    finally:
        for child in children:
            child.kill()
            child.wait()
    live = reports[-1].residents[0]
    assert live.steps is not None
    assert live.steps > 100
    assert live.rate is not None
    assert live.utilization_pct is not None
    measured = sampler.finish(first.attempt)
    rates = {segment.partners: segment.rate_sum / segment.windows for segment in measured.segments}
    # The second needs a moment to start, in the first shared window; other work on this machine blurs the rest.
    assert rates[()] / rates[(second.attempt,)] > 1.2
    assert measured.peak_memory_bytes is not None
    assert measured.peak_memory_bytes > 2**20


@pytest.mark.quiet
def test_foreign_load_of_a_real_process_is_kept_out_of_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A job alone on a core, then beside a process that gpuq did not start and that takes half of that core."""
    core = max(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core})
    settings = replace(load({"GPUQ_HOME": str(tmp_path)}), devices=Devices(backend="cpu"))
    backend = open_backend(settings)
    sampler = Sampler(backend, window_s=0.4)
    children = []

    def windows(*, foreign: bool) -> tuple[int, float]:
        """How many there are so far, and the sum of their rates."""
        known = sampler._watched.get(watched.attempt)
        segments = known.meter.measurement().segments if known else ()
        chosen = [segment for segment in segments if segment.foreign is foreign]
        return sum(segment.windows for segment in chosen), sum(segment.rate_sum for segment in chosen)

    def sample_until(wanted: int, *, foreign: bool) -> None:
        deadline = time.monotonic() + 20
        while windows(foreign=foreign)[0] < wanted:
            assert time.monotonic() < deadline
            sampler.sample(time.time(), [watched])
            time.sleep(0.1)

    try:
        child, watched = start(tmp_path, 1, (core,), backend.devices()[0].id)
        children.append(child)
        sample_until(4, foreign=False)
        count, total = windows(foreign=False)
        alone = total / count
        # Another program of this machine may have run on the core for a moment.
        count_before, total_before = windows(foreign=True)
        burn = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
        children.append(subprocess.Popen([sys.executable, "-S", "-c", burn]))
        sample_until(count_before + 5, foreign=True)
    finally:
        for child in children:
            child.kill()
            child.wait()
    measured = sampler.finish(watched.attempt)
    assert rates(measured).alone_rate == pytest.approx(alone, rel=0.1), "what came later does not count"
    spoiled = next(segment for segment in measured.segments if segment.foreign)
    assert (spoiled.rate_sum - total_before) / (spoiled.windows - count_before) < 0.8 * alone
    assert not spoiled.is_own_rate


def test_a_pause_stops_both_meters_and_adds_the_segment_to_one(bench: Bench):
    one, two = bench.resident(1, DEVICE), bench.resident(2, DEVICE)
    bench.go(3, one, two)
    bench.sampler.note(one.attempt, "its partner has peers")
    assert bench.go(1, one, two).residents[0].blink == "never so far, since its partner has peers"
    bench.sampler.pause([one.attempt, two.attempt])
    bench.sampler.resume([one.attempt, two.attempt], AloneSteps(one.attempt, (two.attempt,), 30, 0.75))
    bench.sampler.note(one.attempt, "no longer of interest")
    assert bench.go(1, one, two).residents[0].blink == "once"
    measured, other = bench.sampler.finish(one.attempt), bench.sampler.finish(two.attempt)
    assert [segment.steps for segment in measured.segments if segment.blink] == [30]
    assert not other.segments
    assert (measured.blink, other.blink) == ("once", None)


def test_an_attempt_that_has_ended_is_not_watched_again(bench: Bench):
    """A sample may have waited behind its end with the list of residents of before."""
    one, two = bench.resident(1, DEVICE), bench.resident(2, SECOND)
    bench.go(3, one, two)
    bench.sampler.finish(one.attempt)
    assert [report.attempt for report in bench.go(1, one, two).residents] == [two.attempt]
    bench.sampler.sample_memory([one])
    assert bench.sampler._watched.keys() == {two.attempt}


def test_zero_bytes_mean_that_a_job_needs_no_device_where_the_driver_shows_processes(bench: Bench):
    for job, shows, memory in ((1, None, 0), (2, True, 0), (3, False, None)):
        one = bench.resident(job, DEVICE)
        bench.twin.shows_processes, bench.twin.usage[one.attempt] = shows, ResidentUsage(0, 0.0)
        bench.go(25, one)
        assert bench.sampler.finish(one.attempt).peak_memory_bytes == memory
