"""A campaign refuses to measure beside other load, and names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_workers.attempts import AttemptFolder, OrderFile, make_folder

from gpuq.adapters.devices import Placement, Snapshot
from gpuq.adapters.process import identify
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Reading
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict
from gpuq.home import Home
from gpuq.lab.campaign.guard import busy_processes, check_free, residents
from tests.support.nouns import a_device

GPU = a_device("GPU-1")


class Gpu:
    """A GPU of which others hold and use so much; None does not answer."""

    def __init__(self, held: int | None, busy: float | None = 0.0) -> None:
        self._reading = None if held is None else Reading(0.0, held, busy, held, busy)

    def devices(self):
        return (GPU,)

    def read(self, now, residents):
        return Snapshot({} if self._reading is None else {GPU.id: self._reading}, {})

    def memory(self, resident):
        return None

    def placement(self, devices):
        return Placement({}, None)

    def faults(self):
        return ()

    def close(self) -> None:
        pass


def look(gpu: Gpu, home: Path) -> None:
    check_free(gpu, GPU, Home(home), 0.0, lambda _: None)


def test_an_idle_gpu_is_free(tmp_path: Path):
    look(Gpu(held=2**20), tmp_path)


@pytest.mark.parametrize(
    ("gpu", "said"), [(Gpu(2**30), "1024 MiB"), (Gpu(0, 35.0), "35%"), (Gpu(None), "does not answer")]
)
def test_a_gpu_that_others_use_is_not(tmp_path: Path, gpu: Gpu, said: str):
    with pytest.raises(Conflict, match=said):
        look(gpu, tmp_path)


def order(folder: AttemptFolder, devices: tuple[str, ...], cores: tuple[int, ...] | None) -> None:
    shim = identify(os.getpid())
    job, number = folder.attempt
    folder.write_order(
        OrderFile(
            job=job,
            attempt=number,
            command=("python",),
            cwd="/",
            env={},
            devices=devices,
            cores=cores,
            time_limit_s=None,
            grace_s=1.0,
            log_limit_bytes=1,
            shim=shim,
        )
    )
    start = f'{{"pid": 1, "shim_pid": {shim.pid}, "start_ticks": 1, "shim_start_ticks": {shim.start_ticks}'
    (folder.path / "started.json").write_text(f'{start}, "boot_id": "{shim.boot_id}", "at": 1.0}}')


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A gpuq with job 7 on GPU-1, job 8 on two cores, and job 9 that is over."""
    found = Home(tmp_path)
    found.create()
    for job, devices, cores in ((7, ("GPU-1",), None), (8, ("box/cpu0",), (0, 1)), (9, ("GPU-1",), None)):
        folder = make_folder(found.attempt(job, 1), AttemptId(JobId(job), 1))
        assert folder is not None
        order(folder, devices, cores)
    (found.attempt(9, 1) / "exit.json").write_text('{"ending": "exited", "exit_code": 0, "reason": "", "at": 2.0}')
    return found


def test_a_running_gpuq_with_jobs_there_is_named(home: Home):
    with pytest.raises(Conflict, match="gpuq runs job 7 on GPU-1"):
        look(Gpu(0), home.root)


def test_only_jobs_on_the_same_device_or_the_same_cores_are_in_the_way(home: Home):
    assert residents(home, GPU, None) == [7]
    assert residents(home, a_device("GPU-2"), None) == []
    assert residents(home, a_device("box/cpu1"), (1,)) == [8]
    assert residents(home, a_device("box/cpu1"), (2,)) == []
    assert residents(Home(home.root / "none"), GPU, None) == []


def test_a_process_that_keeps_a_core_busy_is_named():
    spinning = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        spinning.stdout.readline()

        def spent(_: float) -> None:
            """Until it had a tenth of a second of the processor, however busy this machine is."""
            before = cpu_seconds(spinning.pid)
            while cpu_seconds(spinning.pid) < before + 0.1:
                pass

        named = busy_processes(0.1, spent, more_than_pct=0.5)
        assert any(f"process {spinning.pid} (python" in one for one in named)
        assert not any(f"process {os.getpid()} " in one for one in named)
    finally:
        spinning.kill()
        spinning.wait()
        spinning.stdout.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
