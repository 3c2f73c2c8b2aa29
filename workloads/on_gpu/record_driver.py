"""Record what a driver answers to every question of the NVML adapter, and how long each takes, as JSON.

    python -m workloads.on_gpu.record_driver > machine.json

Such a file in tests/adapters/nvml/nvml_reference sets up the tests' stand-in driver, so that it answers as that machine did. GPUs
are numbered and processes only counted, so nothing in it identifies the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import pynvml

from gpuq.adapters.nvml.calls import ask
from gpuq.adapters.nvml.faults import RECOVERY_FIELD
from gpuq.adapters.nvml.gpm import METRICS, Gpm
from gpuq.adapters.nvml.processes import in_host_pid_namespace

_TIMES = 5
_GPM_SPAN_S = 0.5
# Asked once only, because this call takes milliseconds.
_SLOW = ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")


def record() -> dict[str, Any]:
    """Every answer of every GPU and MIG slice. Raises pynvml.NVMLError where there is no driver."""
    pynvml.nvmlInit()
    try:
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "nvml": pynvml.nvmlSystemGetNVMLVersion(),
            "as_root": os.geteuid() == 0,
            "hosts_process_numbers": in_host_pid_namespace(),
            "devices": [_device(*found) for found in _handles()],
        }
    finally:
        pynvml.nvmlShutdown()


def _handles() -> Iterator[tuple[int, int | None, Any, Any]]:
    """(GPU, slice or None, handle, handle of the whole GPU)."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        whole = pynvml.nvmlDeviceGetHandleByIndex(index)
        yield index, None, whole, whole
        for slice_ in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, whole) or 0):
            handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, whole, slice_)
            if handle:
                yield index, slice_, handle, whole


def _device(index: int, slice_: int | None, handle: Any, whole: Any) -> dict[str, Any]:
    calls = {name: _answer(name, question) for name, question in _questions(handle)}
    instance = calls["nvmlDeviceGetGpuInstanceId"].get("answer")
    return {"gpu": index, "slice": slice_, "calls": calls, "gpm": _gpm(whole, slice_, instance)}


def _questions(handle: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name of the driver's function, call) of each question."""
    for name in (
        "Name", "MigMode", "MaxMigDeviceCount", "GpuInstanceId", "UtilizationRates", "PowerUsage", "TotalEnergyConsumption",
        "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "SupportedEventTypes", "ComputeMode",
        *(f"{what}RunningProcesses_v{version}" for what in ("Compute", "MPSCompute", "Graphics") for version in (3, 2)),
    ):  # fmt: skip
        yield f"nvmlDeviceGet{name}", partial(getattr(pynvml, f"nvmlDeviceGet{name}"), handle)
    yield "nvmlDeviceGetMemoryInfo", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle)
    yield "nvmlDeviceGetMemoryInfo_v2", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    yield "nvmlDeviceGetTemperature", lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
    yield "nvmlDeviceGetProcessUtilization", lambda: pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    yield "nvmlDeviceGetFieldValues", lambda: pynvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_FIELD])[0]
    yield "nvmlGpmQueryDeviceSupport", lambda: pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice


def _answer(name: str, question: Callable[[], Any]) -> dict[str, Any]:
    """The answer or the error's number; microseconds of the first call, and the median of the later ones."""
    spans: list[float] = []
    result: dict[str, Any] = {}
    for _ in range(1 if name in _SLOW else _TIMES):
        began = time.perf_counter()
        try:
            answer = question()
            result = {"answer": _plain(answer)}
        except pynvml.NVMLError as error:
            result = {"error": error.value}
        spans.append(round(1e6 * (time.perf_counter() - began), 1))
    return {**result, "first_us": spans[0], "us": round(median(spans[1:]), 1) if spans[1:] else spans[0]}


def _gpm(whole: Any, slice_: int | None, instance: int | None) -> dict[str, float | None] | None:
    """The GPM counters over half a second; None without any."""
    if slice_ is not None and instance is None:
        return None
    counters = Gpm(whole, None if slice_ is None else instance)
    try:
        counters.read(0.0)
        time.sleep(_GPM_SPAN_S)
        seen = counters.read(_GPM_SPAN_S)
    finally:
        counters.close()
    values = dict(zip(METRICS, (seen.busy_pct, seen.sm_activity_pct, seen.memory_bandwidth_pct), strict=True))
    return (
        {str(metric): value for metric, value in values.items()}
        if any(v is not None for v in values.values())
        else None
    )


def _plain(answer: Any) -> Any:
    if isinstance(answer, list) and answer and hasattr(answer[0], "pid"):
        return {
            "processes": len(answer),
            "memory_known": all(getattr(one, "usedGpuMemory", 0) is not None for one in answer),
        }
    if isinstance(answer, pynvml.c_nvmlFieldValue_t):
        return {"result": answer.nvmlReturn, "value": answer.value.uiVal}
    if isinstance(answer, ctypes.Structure):
        return {name: getattr(answer, name) for name, *_ in answer._fields_ if name != "version"}
    return answer


if __name__ == "__main__":
    json.dump(record(), sys.stdout, indent=1)
