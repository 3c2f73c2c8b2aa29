"""The step counter of a job, read from outside: where the hook lies, and what it has counted.

The file is the one that `hook/gpuq_progress.py` describes. A job may write anything into it, so every value is checked.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuq.home import open_regular

HOOK_FOLDER = Path(__file__).parents[1] / "hook"

_MAGIC = b"GPUQPRG1"
_HEADER_SIZE = _SLOT_SIZE = 64
_SLOTS = 255
_MOST_LOOKS = 100
_RECORD = struct.Struct("<Qdd")
# The bits of the header, as the hook names them.
_SAW_TORCH, _SAW_KERAS, _SAW_JAX, _SAW_JAX_OPTIMIZER, _SAW_UNKNOWN_VERSION, _SAW_UPDATE_OUT_OF_SIGHT = (
    1 << bit for bit in range(6)
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps counted so far, and CLOCK_MONOTONIC seconds of the first and of the latest.

    `processes` is the number of processes that counted at the same time; `steps` is then the largest of their counts.
    """

    steps: int
    first_step_at: float
    last_step_at: float
    processes: int = 1


def hook_environment(environ: Mapping[str, str], progress_file: Path) -> dict[str, str]:
    """Variables for a job's environment: the hook first on PYTHONPATH, and the path of the counter's file."""
    rest = environ.get("PYTHONPATH")
    path = f"{HOOK_FOLDER}{os.pathsep}{rest}" if rest else str(HOOK_FOLDER)
    return {"PYTHONPATH": path, "GPUQ_PROGRESS": str(progress_file)}


def read_progress(path: Path) -> Progress | None:
    """The job's progress; None if no step was counted or the file is not the hook's."""
    return read_counter(path)[0]


def read_counter(path: Path) -> tuple[Progress | None, str | None]:
    """(the job's progress, or None; why there is none, for the user, with what to do where something can be done)."""
    try:
        raw = _read_regular_file(path)
    except FileNotFoundError:
        return None, "no Python with the step counter has started in it; `python -I`, -E and -S keep the counter out"
    progress = _progress(raw) if _is_of_hook(raw) else None
    return progress, None if progress is not None else _why_not_counted(raw)


def counting_processes(path: Path) -> frozenset[int]:
    """The pids that have counted a step according to the file, ended processes included."""
    try:
        raw = _read_regular_file(path)
    except FileNotFoundError:
        return frozenset()
    if not _is_of_hook(raw):
        return frozenset()
    return frozenset(struct.unpack_from("<I", raw, offset + 4)[0] for offset, _ in _used(raw))


def _progress(raw: bytes) -> Progress | None:
    # Slots that overlap in time are ranks of one training and count the same steps; slots one after the other are several
    # trainings of one job, whose steps add up.
    slots = sorted((progress for _, progress in _used(raw)), key=lambda slot: slot.first_step_at)
    if not slots:
        return None
    groups = [slots[0]]
    for slot in slots[1:]:
        group = groups[-1]
        if slot.first_step_at <= group.last_step_at:
            last = max(group.last_step_at, slot.last_step_at)
            groups[-1] = Progress(max(group.steps, slot.steps), group.first_step_at, last, group.processes + 1)
        else:
            groups.append(slot)
    steps, most = sum(group.steps for group in groups), max(group.processes for group in groups)
    return Progress(steps, groups[0].first_step_at, groups[-1].last_step_at, most)


def _why_not_counted(raw: bytes) -> str:
    if raw and not _is_of_hook(raw):
        return "the file of its step counter was overwritten"
    saw = struct.unpack_from("<I", raw, len(_MAGIC) + 4)[0] if raw else 0
    if saw & _SAW_UNKNOWN_VERSION:
        return "this version of its framework cannot be counted; let it call gpuq.step()"
    if saw & _SAW_UPDATE_OUT_OF_SIGHT:
        return "its step is compiled ahead of time, out of sight; let it call gpuq.step()"
    if saw & (_SAW_TORCH | _SAW_KERAS | _SAW_JAX_OPTIMIZER):
        return "no optimizer has stepped; a training that updates its weights by hand calls gpuq.step() once per step"
    if saw & _SAW_JAX:
        return "it uses JAX without optax or Keras; let it call gpuq.step()"
    return "it has imported none of PyTorch, Keras and JAX yet; a training without them calls gpuq.step()"


def _is_of_hook(raw: bytes) -> bool:
    return len(raw) >= _HEADER_SIZE and raw.startswith(_MAGIC)


def _used(raw: bytes) -> Iterator[tuple[int, Progress]]:
    """(offset, progress) of each slot whose values are plausible."""
    used = min(struct.unpack_from("<I", raw, 8)[0], _SLOTS, (len(raw) - _HEADER_SIZE) // _SLOT_SIZE)
    for index in range(used):
        slot = _HEADER_SIZE + index * _SLOT_SIZE
        steps, first, last = _RECORD.unpack_from(raw, slot + 16 + (raw[slot] & 1) * _RECORD.size)
        if 0 < steps < 2**53 and math.isfinite(first) and math.isfinite(last) and 0 < first <= last:
            yield slot, Progress(steps, first, last)


def _read_regular_file(path: Path) -> bytes:
    """The header and the slots in use; empty if it is not a regular file, or cannot be read. Raises FileNotFoundError.

    It is read until two reads agree on the slots' sequence numbers. A job that counts too fast for that may be read torn.
    """
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        raise
    except OSError:
        return b""
    try:
        used = min(int.from_bytes(os.pread(descriptor, 4, len(_MAGIC)), "little"), _SLOTS)
        size = _HEADER_SIZE + used * _SLOT_SIZE
        raw = os.pread(descriptor, size, 0)
        for _ in range(_MOST_LOOKS):
            again = os.pread(descriptor, size, 0)
            if again[_HEADER_SIZE::_SLOT_SIZE] == raw[_HEADER_SIZE::_SLOT_SIZE]:
                break  # nothing was written during the first of the two, so that is the one to return
            raw = again
        return raw
    except OSError:
        return b""
    finally:
        os.close(descriptor)
