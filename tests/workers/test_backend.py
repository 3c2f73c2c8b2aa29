"""The backend that the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers.backend import open_backend

from gpuq.adapters.nvml import backend as nvml
from gpuq.errors import Unreachable
from gpuq.settings import Settings, load


@pytest.fixture(autouse=True)
def without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Settings) -> None:
        raise Unreachable("no driver")

    monkeypatch.setattr(nvml, "open_backend", refuse)


def test_auto_takes_cpu_devices_where_no_driver_answers(tmp_path: Path):
    backend = open_backend(load({"GPUQ_HOME": str(tmp_path), "GPUQ_DEVICES_BACKEND": "auto"}))
    assert {device.backend for device in backend.devices()} == {"cpu"}


def test_nvml_is_not_replaced_by_cpu_devices(tmp_path: Path):
    with pytest.raises(Unreachable):
        open_backend(load({"GPUQ_HOME": str(tmp_path), "GPUQ_DEVICES_BACKEND": "nvml"}))
