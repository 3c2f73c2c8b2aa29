"""The backend that the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers import backend as worker_backend
from gpuq_workers.backend import open_backend

from gpuq.adapters.devices import ResidentProcess, ResidentUsage
from gpuq.adapters.nvml import backend as nvml
from gpuq.core.state.device import DeviceId
from gpuq.errors import Unreachable
from gpuq.settings import Settings, load
from tests.workers.twins import Places, StillSampler, attempt_id


class Driver:
    """What `open_backend` of the adapter for GPUs meets."""

    def __init__(self) -> None:
        self.answers = False

    def open(self, _: Settings) -> Places:
        if not self.answers:
            raise Unreachable("The NVIDIA driver does not answer: Driver/library version mismatch.")
        return Gpus()


class Gpus(Places):
    def devices(self) -> tuple[object, ...]:
        return tuple(StillSampler().devices())


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Driver:
    driver = Driver()
    monkeypatch.setattr(nvml, "open_backend", driver.open)
    monkeypatch.setattr(worker_backend, "_DRIVER_FILE", tmp_path / "nvidiactl")
    return driver


def settings_of(home: Path, backend: str = "auto") -> Settings:
    return load({"GPUQ_HOME": str(home), "GPUQ_DEVICES_BACKEND": backend})


def test_auto_takes_cpu_devices_where_no_driver_answers(tmp_path: Path):
    backend = open_backend(settings_of(tmp_path))
    assert {device.backend for device in backend.devices()} == {"cpu"}


def test_nvml_is_not_replaced_by_cpu_devices(tmp_path: Path):
    with pytest.raises(Unreachable):
        open_backend(settings_of(tmp_path, "nvml"))


def test_auto_waits_for_the_driver_of_a_machine_that_has_it(tmp_path: Path):
    (tmp_path / "nvidiactl").touch()
    assert open_backend(settings_of(tmp_path)).devices() == ()


def test_a_host_that_has_had_gpus_offers_nothing_until_they_are_back(
    tmp_path: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch
):
    driver.answers = True
    open_backend(settings_of(tmp_path))
    driver.answers = False
    backend = open_backend(settings_of(tmp_path))
    resident = ResidentProcess(attempt_id(), 42, (DeviceId("cpu-0"),))
    assert backend.devices() == ()
    assert backend.read(1.0, [resident]).usage == {attempt_id(): ResidentUsage(None, None)}
    assert backend.memory(resident) is None
    with pytest.raises(Unreachable, match="version mismatch"):
        backend.placement([DeviceId("cpu-0")])
    driver.answers = True
    assert backend.placement([DeviceId("cpu-0")]).env
    assert backend.devices() == Gpus().devices()
    monkeypatch.setattr(worker_backend, "_TRY_EVERY_S", 0.0)
    driver.answers = False
    waiting = open_backend(settings_of(tmp_path))
    assert waiting.devices() == ()
    driver.answers = True
    assert waiting.devices() == Gpus().devices()
