"""The foreign load of an attempt on GPUs."""

from __future__ import annotations

import pytest

from gpuq.adapters.devices import ResidentProcess
from gpuq.adapters.nvml.sharing import usage_of
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId, Reading
from gpuq.core.state.job import JobId


def gpu(used_pct: float | None, *, visible: bool | None = True) -> Reading:
    return Reading(0.0, 1000, 50.0, 10, used_pct, processes_visible=visible)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([gpu(0.0)], 0.0),
        ([gpu(30.0)], 0.3),
        ([gpu(30.0), gpu(40.0)], 0.4),
        ([gpu(None)], 1.0),
        ([gpu(None, visible=False)], None),
        ([gpu(20.0, visible=False)], 0.2),
        ([], None),
    ],
    ids=["none", "one", "the worse of two", "there, but not read", "all hidden", "hidden, there before", "not read"],
)
def test_on_a_gpu_a_job_is_held_back_for_as_long_as_others_use_it(readings: list[Reading], expected: float | None):
    devices = (DeviceId("GPU-0"), DeviceId("GPU-1"))
    resident = ResidentProcess(AttemptId(JobId(1), 1), 100, devices)
    usage = usage_of(resident, {}, dict(zip(devices, readings, strict=False)))
    assert (usage.foreign_load, usage.held_back) == (expected, expected)
