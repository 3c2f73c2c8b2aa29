"""Runs a launch: each device in a process of its own on shared memory, then one result. Also checks a split by its results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.split.chunks import Chunks
from gpuq.split.launch import KernelLaunch, OpenClDevice
from gpuq.split.memory import Memory, WritesMeet, merged, own_copies
from gpuq.split.process import DeviceProcess
from gpuq.split.verdict import SplitVerdict


@dataclass(frozen=True, slots=True)
class Result:
    """A run's outcome. `seconds` from the first chunk to the merged result; `share` of the groups and `speeds` by device.

    `buffers` lie in the memory of the PreparedLaunch, until its next run or its end; those of `run_parts` are copies.
    `busy`: seconds of each device in its chunks. `places`: of each device its chunks, as the middle (a part of the launch)
    and the groups per second.
    """

    buffers: Mapping[str, NDArray[Any]]
    seconds: float
    share: tuple[float, ...]
    speeds: tuple[float | None, ...]
    chunks: tuple[int, ...]
    busy: tuple[float, ...]
    places: tuple[tuple[tuple[float, float], ...], ...]


class PreparedLaunch:
    """A launch that its devices have compiled, each in its process with its buffers; it can be run any number of times.

    `fill`: which of two patterns the buffers hold at first that the kernel only stores to, so that every store shows in a check:
    no value equals both patterns. Without it they hold the launch's own content, and a store of the same value changes nothing.
    """

    def __init__(
        self,
        launch: KernelLaunch,
        verdict: SplitVerdict,
        devices: Sequence[OpenClDevice],
        *,
        limit_s: float,
        fill: int | None = None,
    ) -> None:
        self.launch, self.verdict, self.limit_s = launch, verdict, limit_s
        self._memory = Memory()
        self.processes: list[DeviceProcess] = []
        self._was_run = False
        try:
            dimension = verdict.dimension or 0
            self._groups = launch.range.groups(dimension)
            self._common = {name: self._memory.place(one) for name, one in launch.buffers.items()}
            self._files, self._fills = own_copies(launch, verdict, devices, self._memory, self._common, fill)
            deadline = time.monotonic() + limit_s
            for device, paths in zip(devices, self._files, strict=True):
                self.processes.append(DeviceProcess(device, launch, dimension, paths, whole=len(devices) == 1))
            for process in self.processes:
                process.answer(deadline - time.monotonic())
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> PreparedLaunch:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def run(
        self,
        *,
        speeds: Sequence[float | None] | None = None,
        static: Sequence[float] | None = None,
        only_probe: bool = False,
    ) -> Result:
        """Run it from its own content; `static`: each device's share in one piece, instead of guided chunks. Raises Failure."""
        processes, launch = self.processes, self.launch
        deadline = time.monotonic() + self.limit_s
        if self._was_run:
            self._restore(deadline)
        self._was_run = True
        chunks = Chunks(self._groups, list(speeds or [None] * len(processes)), only_probe)
        _serve(processes, lambda number: _first_group(processes[number], number, chunks, deadline))
        started = time.perf_counter()
        _serve(processes, lambda number: _rest(processes[number], number, chunks, deadline, static))
        if any(paths is not self._common for paths in self._files):
            result = merged(self.verdict, self._memory, self._common, self._files, self._fills)
        else:
            result = {name: self._memory.inside(path) for name, path in self._common.items()}
        seconds = time.perf_counter() - started
        buffers = {name: result[name].view(one.dtype).reshape(one.shape) for name, one in launch.buffers.items()}
        return Result(
            buffers,
            seconds,
            tuple(chunks.share(number) for number in range(len(processes))),
            chunks.rates(),
            tuple(len(one) for one in chunks.done),
            tuple(sum(took for *_, took in one) for one in chunks.done),
            tuple(
                tuple(((first + end) / 2 / self._groups, (end - first) / max(1e-9, took)) for first, end, took in one)
                for one in chunks.done
            ),
        )

    def differs_from(self, whole: Mapping[str, NDArray[Any]]) -> str | None:
        """Run it, and name a buffer that differs from that of a whole run.

        An element whose right value is the one that its buffer was filled with cannot be seen to have been stored to. It is not
        a difference here, and is one under the other pattern if it is wrong.
        """
        for name, one in self.run().buffers.items():
            right = whole[name].reshape(-1).view(np.uint8)
            wrong = one.reshape(-1).view(np.uint8) != right
            if name in self._fills and name not in self.verdict.loaded:
                wrong &= self._fills[name] != right
            if wrong.any():
                return name
        return None

    def _restore(self, deadline: float) -> None:
        for name in self.verdict.written or self._common:
            content = self.launch.buffers[name].reshape(-1).view(np.uint8)
            self._memory.inside(self._common[name])[...] = content
        for paths in self._files:
            for name, fill in self._fills.items():
                self._memory.inside(paths[name])[...] = fill
        for process in self.processes:
            process.load(deadline - time.monotonic())

    def end(self) -> None:
        """Stop its processes and remove its memory."""
        for process in self.processes:
            process.end()
        self._memory.end()


def run_parts(  # noqa: PLR0913  the ways in which a launch is run
    launch: KernelLaunch,
    verdict: SplitVerdict,
    devices: Sequence[OpenClDevice],
    *,
    limit_s: float,
    speeds: Sequence[float | None] | None = None,
    static: Sequence[float] | None = None,
    only_probe: bool = False,
) -> Result:
    """Run a launch once on the devices, or whole on one, as PreparedLaunch does. Raises Failure and BadInput."""
    with PreparedLaunch(launch, verdict, devices, limit_s=limit_s) as prepared:
        result = prepared.run(speeds=speeds, static=static, only_probe=only_probe)
        return replace(result, buffers={name: one.copy() for name, one in result.buffers.items()})


def _first_group(process: DeviceProcess, number: int, chunks: Chunks, deadline: float) -> None:
    if number < chunks.first_groups:
        process.run(number, number + 1, deadline - time.monotonic())


def _rest(process: DeviceProcess, number: int, chunks: Chunks, deadline: float, static: Sequence[float] | None) -> None:
    """All that one device does after its first group: its static share, or chunks until none is left."""
    if static is not None:
        rest = chunks.groups - chunks.first_groups
        first, end = (chunks.first_groups + round(rest * sum(static[:until])) for until in (number, number + 1))
        if first < end:
            chunks.finished(number, first, end, process.run(first, end, deadline - time.monotonic()))
    else:
        _run_chunks(process, number, chunks, deadline)
    if not process.device.in_host_memory:
        process.collect(deadline - time.monotonic())


def _run_chunks(process: DeviceProcess, number: int, chunks: Chunks, deadline: float) -> None:
    """Chunks until none is left, each ordered while the one before runs; on lent cores, which may go at any time, after it."""
    following: tuple[int, int] | None = None
    while True:
        if following is None:
            if not _may_take(process, number, chunks) or (following := chunks.take(number)) is None:
                return
            process.begin(*following)
        begun, following = following, chunks.take_ahead(number) if process.loan is None else None
        if following is not None:
            process.begin(*following)
        chunks.finished(number, *begun, process.ended(deadline - time.monotonic()))


def _may_take(process: DeviceProcess, number: int, chunks: Chunks) -> bool:
    """Whether a device has cores for a chunk. One on lent cores waits for them while others work; a probe does not wait. After
    the others have ended it works on the job's own cores."""
    loan = process.loan
    while loan is not None and not loan.cores:
        if loan.has_ended or chunks.only_probe or not chunks.left:
            return False
        if not chunks.leave(number):
            return True
        loan.wait()
    return True


def _serve(processes: list[DeviceProcess], work: Callable[[int], None]) -> None:
    """Do the work of each device in a thread of its own; after a failure the others are stopped and it is raised."""
    failures: list[BaseException] = []

    def serve(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001  raised again below, in the thread that asked
            failures.append(error)
            for process in processes:
                process.end()

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(len(processes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check(
    launch: KernelLaunch, verdict: SplitVerdict, devices: Sequence[OpenClDevice], *, limit_s: float
) -> str | None:
    """Run whole and split on copies, under two fills; None if all results are equal, else what differs. Raises Failure."""
    whole = run_parts(launch, verdict, devices[:1], limit_s=limit_s)
    for fill in (0, 1):
        try:
            with PreparedLaunch(launch, verdict, devices, limit_s=limit_s, fill=fill) as prepared:
                different = prepared.differs_from(whole.buffers)
        except WritesMeet as error:
            return error.message
        if different is not None:
            return f"`{different}` differs between the whole run and the split one."
    return None
