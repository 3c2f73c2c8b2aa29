"""The backend that the settings name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.errors import BadSettings
from gpuq.settings import Devices, load
from workers.backend import open_backend


def test_an_unknown_backend_is_refused_with_the_names_there_are():
    settings = replace(load({"GPUQ_HOME": "/nowhere"}), devices=Devices(backend="tpu"))
    with pytest.raises(BadSettings, match="nvml, cpu or auto"):
        open_backend(settings)
