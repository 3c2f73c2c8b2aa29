"""Runs a launch: each device in a process of its own on shared memory, then one result. Also checks a split by its results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput, Failure
from gpuq.split.chunks import Chunks
from gpuq.split.device import GUARD_BYTES, mapped
from gpuq.split.launch import KernelLaunch, Local, OpenClDevice
from gpuq.split.loan import LoanFollower
from gpuq.split.verdict import Correctness, SplitVerdict

_GUARD = 0xA5
_MERGED_AT_ONCE = 1 << 20
Bytes = NDArray[np.uint8]


class KernelFault(Failure):
    """The launch itself did what a split of it, or it as a whole, must not do: it would again."""


class WritesMeet(KernelFault):
    """Two devices stored to the same element."""


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


class DeviceProcess:
    """One device's process, from its start to its end."""

    def __init__(
        self, device: OpenClDevice, launch: KernelLaunch, dimension: int, files: Mapping[str, int], *, whole: bool
    ) -> None:
        self.device = device
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gpuq.split.device"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if whole else subprocess.DEVNULL,  # a launch that prints runs whole
            pass_fds=tuple(files.values()),
        )
        self.loan = LoanFollower(self._process.pid) if device.lent else None
        self.pid = self._process.pid
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(
            {
                "device": asdict(device),
                "source": launch.source,
                "kernel": launch.kernel,
                "options": launch.options,
                "offset": launch.range.offset,
                "size": launch.range.size,
                "local": launch.range.local,
                "dimension": dimension,
                "whole": whole,
                "buffers": dict(files),
                "arguments": [_as_json(one) for one in launch.arguments],
            }
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            pass  # it has ended, or was ended; its last words, or none, are read next

    def answer(self, limit_s: float) -> dict[str, Any]:
        """The next answer. Raises Failure, or BadInput where the device cannot take the launch."""
        try:
            line = self._lines.get(timeout=max(0.0, limit_s))
        except queue.Empty:
            self.end()
            raise Failure(
                "the kernel did not end within its time limit; its process was stopped.",
                fix="Look for a loop without an end, or give a longer limit with --limit.",
            ) from None
        if not line:
            code = self._process.wait()
            if code >= 0 or code == -signal.SIGKILL:
                what = "was killed" if code < 0 else f"ended with exit code {code}"
                raise Failure(
                    f"the process of a device {what}.",
                    fix="See whether the machine is out of memory, and run it again.",
                )
            raise KernelFault(
                f"the OpenCL driver ended its process (signal {-code}): the kernel may load or store outside of its buffers.",
                fix="Check the kernel's indices against the sizes of its buffers.",
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BadInput(answer["error"], fix=answer["fix"])
        return answer

    def begin(self, first: int, end: int) -> None:
        """Order groups to be run after those that were ordered before."""
        self._send((first, end))

    def ended(self, limit_s: float) -> float:
        """Wait for the first of the ordered groups; gives seconds."""
        return float(self.answer(limit_s)["seconds"])

    def run(self, first: int, end: int, limit_s: float) -> float:
        """Run groups and wait; gives seconds."""
        self.begin(first, end)
        return self.ended(limit_s)

    def collect(self, limit_s: float) -> None:
        """Bring what the device wrote into the shared memory."""
        self._send("collect")
        self.answer(limit_s)

    def load(self, limit_s: float) -> None:
        """Bring what the shared memory holds now into the device's."""
        self._send("load")
        self.answer(limit_s)

    def end(self) -> None:
        """Stop the process at once."""
        if self.loan is not None:
            self.loan.end()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()


def _as_json(one: str | np.generic | Local | int | float) -> dict[str, Any]:
    if isinstance(one, str):
        return {"buffer": one}
    assert not isinstance(one, int | float), "a compiled launch has no number without a type"
    return {"local": one.bytes} if isinstance(one, Local) else {"bytes": one.tobytes().hex(), "type": one.dtype.str}


class Memory:
    """Buffers in shared memory, each between two guards. They have no name: the memory is free after the last process that has
    it, however processes end."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")  # noqa: S108
        self._folder = shared if shared.is_dir() else Path(tempfile.gettempdir())
        self._files: list[IO[bytes]] = []
        self._mapped: dict[int, Bytes] = {}

    def place(self, content: NDArray[Any]) -> int:
        """A new shared buffer with this content, as an open file."""
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  open until `end`
        self._files.append(file)
        try:
            # A write to a page that a full memory file system cannot give would end this process.
            os.posix_fallocate(file.fileno(), 0, content.nbytes + 2 * GUARD_BYTES)
        except OSError as error:
            raise Failure(
                f"{self._folder} has no room for a buffer of {content.nbytes} bytes: {error.strerror}.",
                fix="Free memory there; a container gets more with `docker run --shm-size`.",
            ) from None
        own = mapped(file.fileno())
        own[:GUARD_BYTES] = own[-GUARD_BYTES:] = _GUARD
        own[GUARD_BYTES:-GUARD_BYTES] = content.reshape(-1).view(np.uint8)
        self._mapped[file.fileno()] = own
        return file.fileno()

    def inside(self, file: int) -> Bytes:
        """A buffer's bytes without its guards. Raises KernelFault if a kernel changed a guard."""
        own = self._mapped[file]
        if not ((own[:GUARD_BYTES] == _GUARD).all() and (own[-GUARD_BYTES:] == _GUARD).all()):
            raise KernelFault(
                "the kernel stored outside of a buffer.", fix="Check its indices against the sizes of its buffers."
            )
        return own[GUARD_BYTES:-GUARD_BYTES]

    def end(self) -> None:
        """Give all of it up."""
        self._mapped.clear()
        for file in self._files:
            file.close()


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
            self._files, self._fills = _own_copies(launch, verdict, devices, self._memory, self._common, fill)
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
            merged = _merged(self.verdict, self._memory, self._common, self._files, self._fills)
        else:
            merged = {name: self._memory.inside(path) for name, path in self._common.items()}
        seconds = time.perf_counter() - started
        buffers = {name: merged[name].view(one.dtype).reshape(one.shape) for name, one in launch.buffers.items()}
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


def _own_copies(
    launch: KernelLaunch,
    verdict: SplitVerdict,
    devices: Sequence[OpenClDevice],
    memory: Memory,
    common: dict[str, int],
    fill: int | None,
) -> tuple[list[dict[str, int]], dict[str, Bytes]]:
    """Each device's files, and what its own copies of stored-to buffers held at first.

    All devices work in the same memory where the split is proven. Otherwise each has its own copy of what the kernel stores to.
    """
    if len(devices) == 1 or (
        verdict.answer is Correctness.PROVEN and fill is None and all(one.in_host_memory for one in devices)
    ):
        return [common] * len(devices), {}
    fills = {}
    for name in verdict.written:
        content = launch.buffers[name].reshape(-1).view(np.uint8)
        fills[name] = content if fill is None or name in verdict.loaded else _pattern(fill, content.size)
    return [{**common, **{name: memory.place(one) for name, one in fills.items()}} for _ in devices], fills


def _pattern(fill: int, size: int) -> Bytes:
    """One of two patterns, of which each is the complement of the other."""
    pattern = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    return pattern if fill else ~pattern


def _merged(
    verdict: SplitVerdict,
    memory: Memory,
    common: dict[str, int],
    files: list[dict[str, int]],
    fills: dict[str, Bytes],
) -> dict[str, Bytes]:
    """All that any device changed in its own copy, over the launch's own content. Raises WritesMeet."""
    merged = {name: memory.inside(path) for name, path in common.items()}
    with ThreadPoolExecutor(len(files)) as pool:
        for name, granule in verdict.written.items():
            owns = [memory.inside(paths[name]) for paths in files]
            merge = partial(_merge_block, merged[name], owns, fills[name], granule)
            block = _MERGED_AT_ONCE - _MERGED_AT_ONCE % granule
            if any(pool.map(merge, (slice(at, at + block) for at in range(0, len(fills[name]), block)))):
                raise WritesMeet(
                    f"two devices stored to the same elements of `{name}`.",
                    fix="This launch has to run whole on one device.",
                )
    return merged


def _merge_block(merged: Bytes, owns: list[Bytes], fill: Bytes, granule: int, block: slice) -> bool:
    """Copy what each device changed in this block, by elements of `granule` bytes. Gives whether two changed the same one."""
    length = len(fill[block])
    word = math.gcd(granule, length, 8)
    words = [one[block].view(f"u{word}") for one in (merged, fill, *owns)]
    stored = np.zeros(length // word, bool)
    for own in words[2:]:
        changed = own != words[1]
        if granule > word and length % granule == 0:
            changed = changed.reshape(-1, granule // word).any(axis=1).repeat(granule // word)
        if (changed & stored).any():
            return True
        stored |= changed
        np.copyto(words[0], own, where=changed)
    return False


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
