"""GPM: counters of Hopper and newer GPUs, sampled twice and subtracted.

They give the time in which anything was computed, the share of busy multiprocessors (SM activity) and the share of the memory
bandwidth that was used. They are the only utilisation of a MIG slice. NVIDIA asks for at least a tenth of a second between two
samples (NVML API reference, `nvmlGpmMetricsGet`). A GPU is asked only once whether it has GPM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

from gpuq.adapters.nvml.calls import ask_or_none

_LEAST_S = 0.1


@dataclass(frozen=True, slots=True)
class Activity:
    """Percent over the time between two looks; None where the chip does not count it."""

    busy_pct: float | None = None
    sm_activity_pct: float | None = None
    memory_bandwidth_pct: float | None = None


NOTHING = Activity()
METRICS = (pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, pynvml.NVML_GPM_METRIC_SM_UTIL, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL)


class Gpm:
    """The counters of one GPU, or of its MIG slice `instance`. `handle`: the whole GPU's, None for a device without counters."""

    def __init__(self, handle: object | None, instance: int | None = None) -> None:
        self._handle, self._instance = handle, instance
        support = None if handle is None else ask_or_none(pynvml.nvmlGpmQueryDeviceSupport, handle)
        self._samples: list[Any] = []
        if support is not None and support.isSupportedDevice:
            made = [ask_or_none(pynvml.nvmlGpmSampleAlloc) for _ in range(2)]
            self._samples = [sample for sample in made if sample is not None]
        self._question = _question() if len(self._samples) == 2 else None
        self._at: float | None = None
        self._latest = NOTHING

    def read(self, now: float) -> Activity:
        """The activity since the last look; all None at the first look and without GPM."""
        if self._question is None or (self._at is not None and 0 <= now - self._at < _LEAST_S):
            return self._latest
        first, self._latest = self._at is None, NOTHING
        older, newer = self._samples
        if self._instance is None:
            taken = ask_or_none(pynvml.nvmlGpmSampleGet, self._handle, older)
        else:
            taken = ask_or_none(pynvml.nvmlGpmMigSampleGet, self._handle, self._instance, older)
        if taken is None:
            self._at = None
            return NOTHING
        self._samples = [newer, older]  # the older buffer was overwritten and is now the newer one
        self._at = now
        if not first:
            question = self._question
            question.sample1, question.sample2 = self._samples
            if ask_or_none(pynvml.nvmlGpmMetricsGet, question) is not None:
                answers = question.metrics
                self._latest = Activity(*(_percent(answers[index]) for index in range(len(METRICS))))
        return self._latest

    def close(self) -> None:
        """Free the buffers."""
        for sample in self._samples:
            ask_or_none(pynvml.nvmlGpmSampleFree, sample)
        self._samples, self._question = [], None


def _question() -> Any:
    """NVML's struct that asks for `METRICS`, but for the two samples."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version, question.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
    for index, metric in enumerate(METRICS):
        question.metrics[index].metricId = metric
    return question


def _percent(metric: Any) -> float | None:
    """A metric's value; None where the chip does not count it, which is reported as an error or as NaN."""
    value = float(metric.value)
    return min(100.0, value) if metric.nvmlReturn == pynvml.NVML_SUCCESS and 0 <= value <= 101 else None
