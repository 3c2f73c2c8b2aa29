"""Memory of a set's workloads where the source of their pairs did not measure it: from other measurements, by stated rules.

Each rule that was applied is added to the set's notes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuq.lab.public import rows, schedtune
from gpuq.sim.worlds.workload_set import WorkloadSet

_MIB, _GIB = 2**20, 2**30
# Part of a job's name in the Alnair report -> the network in CARMA's measurements (PyTorch, on an A100) that stands for it: the
# same network, and data set where it has one. InceptionV3 takes images of one size whatever the data set.
_CARMA = (("-inc", "Inception"), ("-cf10-rn50", "resnet50_cifar100"))
# Gavel's ResNet-50 trains on images of 224 pixels, as SchedTune's. Its ResNet-18 does not; nothing stands for the rest.
_SCHEDTUNE = {"ResNet-50": "resnet50"}
_SCHEDTUNE_GPU = "Tesla V100"
_DEFAULT = 2 * _GIB
_LEAST = _GIB // 2
# A choice, not measured: a pair that ran is assumed to have left this share of the device free, and one that did not run to have
# needed this much more than the device has.
_MARGIN = 0.05
_MOST_PASSES = 10_000

Line = tuple[float, float]


def from_carma(workload_set: WorkloadSet, data: Path, device_memory: int) -> WorkloadSet:
    """Memory linear in batch size, from CARMA's measurements of the similar network; unknown where there is none."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for row in rows(data / "carma_memory.csv"):
        if row["batch_size"]:
            measured.setdefault(row["model"], []).append((float(row["batch_size"]), float(row["max_mem_mb"]) * _MIB))
    lines = {model: _line(found) for model, found in measured.items() if len(found) > 1}
    lines_by_workload = {
        name: next((lines[model] for part, model in _CARMA if part in name and model in lines), None)
        for name in workload_set.workloads
    }
    found = {
        name: at
        for name, line in lines_by_workload.items()
        if line is not None and (at := _at(line, workload_set.workloads[name].batch_size)) is not None
    }
    return _with(
        workload_set, found, device_memory,
        f"memory of {len(found)} of {len(workload_set.workloads)} workloads: the like network in carma_memory, linear in the "
        f"batch size ({_range(found)} GiB); a device has {device_memory / _GIB:g} GiB",
    )  # fmt: skip


def agreed(workload_set: WorkloadSet, data: Path, device_memory: int) -> WorkloadSet:
    """Memory that agrees with which pairs fitted: every pair that ran fits on the device, none of those that did not.

    From SchedTune's measurements where the network is the same and 2 GiB elsewhere, each pair that disagrees is moved, both
    jobs by the same amount, until none does (projections onto the pairs' half spaces). The workload set as it is where none
    agree.
    """
    lines = {}
    for name, model in _SCHEDTUNE.items():
        same = [row for row in schedtune.trained(data) if row.model == model and row.device_type == _SCHEDTUNE_GPU]
        lines[name] = _line([(row.batch_size, row.peak_memory_mib * _MIB) for row in same])
    names = sorted(workload_set.workloads)
    start = []
    for workload in (workload_set.workloads[name] for name in names):
        at = _at(lines[workload.model], workload.batch_size) if workload.model in lines else None
        start.append(_DEFAULT if at is None else at)
    found = _projected(names, start, workload_set.pairs, device_memory)
    if found is None:
        return replace(
            workload_set, notes=(*workload_set.notes, "memory is not known: no figures agree with which pairs fitted")
        )
    return _with(
        workload_set, found, device_memory,
        f"memory ({_range(found)} GiB): figures that agree with which pairs fitted on {device_memory / _GIB:g} GiB, found from "
        f"schedtune_memory for {', '.join(_SCHEDTUNE)} (linear in the batch size) and {_DEFAULT / _GIB:g} GiB elsewhere",
    )  # fmt: skip


def _projected(
    names: Sequence[str], start: Sequence[float], pairs: Mapping[tuple[str, str], float], total: int
) -> dict[str, float] | None:
    found = list(start)
    for _ in range(_MOST_PASSES):
        settled = True
        for i, one in enumerate(names):
            for j, other in enumerate(names[i:], i):
                fits, together = math.isfinite(pairs[one, other]), found[i] + found[j]
                off = together - (1 - _MARGIN if fits else 1 + _MARGIN) * total
                if (off > 1) if fits else (off < -1):
                    settled = False
                    found[i] = min(max(found[i] - off / 2, _LEAST), total)
                    found[j] = min(max(found[j] - off / 2, _LEAST), total) if i != j else found[i]
        if settled:
            return {name: math.floor(value) for name, value in zip(names, found, strict=True)}
    return None


def _line(points: Sequence[tuple[float, float]]) -> Line:
    """(bytes per sample, bytes at batch size 0)."""
    slope, offset = np.polyfit([x for x, _ in points], [y for _, y in points], 1)
    return float(slope), float(offset)


def _at(line: Line, batch_size: float | None) -> float | None:
    return None if batch_size is None else line[0] * batch_size + line[1]


def _with(workload_set: WorkloadSet, memory: Mapping[str, float], device_memory: int, note: str) -> WorkloadSet:
    workloads = {
        name: replace(workload, memory_bytes=round(memory[name])) if name in memory else workload
        for name, workload in workload_set.workloads.items()
    }
    return replace(workload_set, workloads=workloads, device_memory=device_memory, notes=(*workload_set.notes, note))


def _range(memory: Mapping[str, float]) -> str:
    return f"{min(memory.values()) / _GIB:.1f} to {max(memory.values()) / _GIB:.1f}"
