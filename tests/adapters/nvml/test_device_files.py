"""Which device files a job gets with its GPU or its MIG slice."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from gpuq.adapters.nvml.device_files import device_files

SLICE, GPU = object(), object()


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def minor(handle: object) -> int:
        if handle is not GPU:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 3

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMinorNumber", minor)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetGpuInstanceId", lambda _: 9)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeInstanceId", lambda _: 0)


def test_a_gpu_has_one_file_by_its_minor_number() -> None:
    assert device_files(GPU, None) == ["/dev/nvidia3"]


def test_a_slice_has_its_gpus_file_and_two_capabilities(tmp_path: Path) -> None:
    slice_ = tmp_path / "gpu3" / "mig" / "gi9"
    (slice_ / "ci0").mkdir(parents=True)
    (slice_ / "access").write_text("DeviceFileMinor: 84\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    (slice_ / "ci0" / "access").write_text("DeviceFileMinor: 85\n")
    assert device_files(SLICE, GPU, tmp_path) == [
        "/dev/nvidia3",
        "/dev/nvidia-caps/nvidia-cap84",
        "/dev/nvidia-caps/nvidia-cap85",
    ]


def test_a_slice_of_a_driver_without_capabilities_has_its_gpus_file(tmp_path: Path) -> None:
    assert device_files(SLICE, GPU, tmp_path) == ["/dev/nvidia3"]


def test_where_the_driver_does_not_say_there_is_none() -> None:
    assert device_files(SLICE, None) == []
