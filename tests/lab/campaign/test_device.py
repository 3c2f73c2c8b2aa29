"""Which device a campaign takes, and whether its jobs share it by MPS or by slices of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuq.adapters.devices import Placement
from gpuq.core.state.device import Device
from gpuq.errors import BadInput, NotFound
from gpuq.lab.campaign import device as campaign_device
from gpuq.lab.campaign.device import Choice, opened
from gpuq.settings import Settings, load
from tests.support.nouns import a_device


class Backend:
    """Two devices; GPUs, unless they are given cores. `mps`: the setting."""

    def __init__(self, mps: bool, cores: dict[str, tuple[int, ...]] | None = None, sharing: str | None = None) -> None:
        self._mps, self._cores = mps, cores
        names = tuple(cores or ("GPU-1", "GPU-2"))
        self._devices = tuple(a_device(name, sharing=sharing, index=str(n)) for n, name in enumerate(names))
        self.closed = False

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def placement(self, devices) -> Placement:
        env = {"CUDA_MPS_PIPE_DIRECTORY": "/pipes"} if self._mps and not self._cores else {}
        return Placement(env, None if self._cores is None else self._cores[devices[0]])

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def recorder(monkeypatch):
    """The calls to MPS, and the settings that the backend was opened with."""

    class Recorder:
        def __init__(self) -> None:
            self.events: list[str] = []
            self.make = lambda settings: Backend(settings.devices.mps)
            self.settings: Settings | None = None
            self.backend: Backend | None = None

        def open(self, settings: Settings) -> Backend:
            self.settings, self.backend = settings, self.make(settings)
            return self.backend

    found = Recorder()
    monkeypatch.setattr(campaign_device, "open_backend", found.open)
    monkeypatch.setattr(
        campaign_device.mps, "start", lambda settings: found.events.append(f"start {settings.home.mps_pipes}")
    )
    monkeypatch.setattr(campaign_device.mps, "stop", lambda settings: found.events.append("stop"))
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"GPUQ_HOME": str(tmp_path / "home")})


def test_the_first_device_is_taken_or_the_one_that_is_named(recorder, settings: Settings, tmp_path: Path):
    for named, device in ((None, "GPU-1"), ("1", "GPU-2"), ("gpu1", "GPU-2"), ("GPU-2", "GPU-2")):
        with opened(settings, Choice(device=named), tmp_path) as (_, found, sharing):
            assert (found.device.id, found.warm_cores, sharing) == (device, None, "time-slicing")
        assert recorder.backend.closed
    with (
        pytest.raises(NotFound, match=r"gpu0 \(GPU-1\), gpu1 \(GPU-2\)"),
        opened(settings, Choice(device="GPU-3"), tmp_path),
    ):
        pass
    assert recorder.backend.closed
    assert recorder.events == []


def test_the_second_job_of_a_pair_may_warm_up_on_other_cores(recorder, settings: Settings, tmp_path: Path):
    recorder.make = lambda settings: Backend(settings.devices.mps, {"box/cpu0": (0,), "box/cpu1": (1,)})
    with opened(settings, Choice(device="1"), tmp_path) as (_, found, sharing):
        assert (found.placement.cores, found.warm_cores, sharing) == ((1,), (0,), "time-slicing")


def test_for_mps_a_server_of_its_own_is_started_and_ended(recorder, settings: Settings, tmp_path: Path):
    with opened(settings, Choice(sharing="mps"), tmp_path / "work") as (_, _, sharing):
        assert sharing == "mps"
        assert recorder.events == [f"start {tmp_path / 'work' / 'run' / 'mps'}"]
    assert recorder.events[1:] == ["stop"]


def test_mps_is_not_to_be_had_on_cores(recorder, settings: Settings, tmp_path: Path):
    recorder.make = lambda settings: Backend(settings.devices.mps, {"box/cpu0": (0,)})
    with pytest.raises(BadInput, match="by time-slicing"), opened(settings, Choice(sharing="mps"), tmp_path):
        pass
    assert recorder.events == []


def test_a_gpu_under_an_mps_server_of_others_is_not_measured_as_sliced(recorder, settings: Settings, tmp_path: Path):
    recorder.make = lambda settings: Backend(settings.devices.mps, sharing="mps")
    with pytest.raises(BadInput, match="not ours"), opened(settings, Choice(sharing="time-slicing"), tmp_path):
        pass


def test_more_cores_than_there_are_cannot_be_had(recorder, settings: Settings, tmp_path: Path):
    with pytest.raises(BadInput, match="--cores 4096"), opened(settings, Choice(cores=4096), tmp_path):
        pass
