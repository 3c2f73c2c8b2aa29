"""The process that runs a launch's chunks on one device: `python -m gpuq.split.device`, JSON lines on its standard streams.

It is a process of its own so that a driver that crashes or never returns takes nothing with it. The first line describes
the launch; each further line is a range of groups along the split dimension, answered with the seconds that it took, or
"collect" or "load", for what the device wrote and for what it is to read.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.split.loan import MOST_LENT

GUARD_BYTES = 4096
"""Bytes before and after each buffer that no kernel may change."""

_SET_SIGNAL_AT_PARENTS_DEATH = 1

_PRELUDE = """\
static size_t gpuq_part_offset(uint d) {{ return get_global_offset(d); }}
#define gpuq_start(d) ((size_t)((d) == 0 ? {offset[0]}UL : (d) == 1 ? {offset[1]}UL : (d) == 2 ? {offset[2]}UL : 0UL))
#define get_global_offset(d) gpuq_start(d)
#define get_global_size(d) ((size_t)((d) == 0 ? {size[0]}UL : (d) == 1 ? {size[1]}UL : (d) == 2 ? {size[2]}UL : 1UL))
#define get_num_groups(d) ((size_t)(get_global_size(d) / get_local_size(d)))
#define get_group_id(d) ((size_t)(get_group_id(d) + (gpuq_part_offset(d) - gpuq_start(d)) / get_local_size(d)))
#line 1
"""


def mapped(file: int) -> NDArray[np.uint8]:
    """The memory of an open file."""
    return np.frombuffer(mmap.mmap(file, 0), np.uint8)


def prelude(offset: list[int], size: list[int]) -> str:
    """Macros by which a part of a launch answers as the whole: with an offset alone, group ids and sizes are the part's."""
    return _PRELUDE.format(size=[*size, 1, 1][:3], offset=[*offset, 0, 0][:3])


def _answer(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Serve one launch until standard input ends."""
    # A kernel that never ends would outlive whoever asked for it.
    ctypes.CDLL(None).prctl(_SET_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL)
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # drivers print what they like, and kernels that run whole too
    sys.stdout = output
    request = json.loads(sys.stdin.readline())
    try:
        _use_cores(request["device"]["cores"])
    except _Unusable as error:
        _answer(error=str(error), fix=error.fix)
        return 0
    cores = MOST_LENT if request["device"]["lent"] else len(os.sched_getaffinity(0))
    os.environ["POCL_MAX_PTHREAD_COUNT"] = str(cores)
    # One machine code for all chunks: PoCL would compile another for those that start at 0.
    os.environ["POCL_WORK_GROUP_SPECIALIZATION"] = "0"
    try:
        _serve(request)
    except _Unusable as error:
        _answer(error=str(error), fix=error.fix)
    return 0


def _use_cores(cores: list[int]) -> None:
    """Run on these cores only. Raises _Unusable; the kernel would leave out cores that do not exist, without a word."""
    if not cores:
        return
    with contextlib.suppress(OSError, ValueError):
        os.sched_setaffinity(0, cores)
    if os.sched_getaffinity(0) != set(cores):
        raise _Unusable(
            f"this process may not use the cores {cores}.", f"This machine has cores 0 to {(os.cpu_count() or 1) - 1}."
        )


def _serve(request: dict[str, Any]) -> None:
    part = _Part(request)
    _answer(ready=True, name=part.device.name.strip(), unified=part.unified)
    for line in sys.stdin:
        order = json.loads(line)
        if order in ("collect", "load"):
            part.collect() if order == "collect" else part.load()
            _answer(done=order)
            continue
        first, end = order
        started = time.perf_counter()
        part.run(first, end)
        took = time.perf_counter() - started
        if (duty := request["device"]["duty"]) < 1:
            time.sleep(took / duty - took)
        _answer(seconds=time.perf_counter() - started)


class _Unusable(Exception):
    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class _Part:
    """The kernel on one device with its buffers, which stay alive as long as it does: pyopencl does not keep arguments."""

    def __init__(self, request: dict[str, Any]) -> None:
        from gpuq.split.pocl import INSTALL, device_of, name_cpu_for_pocl

        name_cpu_for_pocl()
        import pyopencl as cl

        self.cl = cl
        wanted = request["device"]
        self.device = device_of(cl, wanted["platform"], wanted["index"])
        if self.device is None:
            what = f" of a platform named `{wanted['platform']}`" if wanted["platform"] else ""
            raise _Unusable(
                f"there is no OpenCL device {wanted['index']}{what} on this machine.", f"Install a runtime: {INSTALL}"
            )
        self.unified = bool(wanted["in_host_memory"])
        context = cl.Context([self.device])
        self.queue = cl.CommandQueue(context)
        self.offset, self.size, self.local = request["offset"], request["size"], request["local"]
        self.dimension: int = request["dimension"]
        # A launch that runs whole on one device is one launch, as its program would make it.
        source = ("" if request["whole"] else prelude(self.offset, self.size)) + request["source"]
        try:
            program = cl.Program(context, source).build(
                options=[*request["options"].split(), *wanted["options"].split()]
            )
            self.kernel = cl.Kernel(program, request["kernel"])
        except cl.Error as error:
            lines = [line for line in str(error).splitlines() if "error" in line] or [str(error)]
            raise _Unusable(
                f"the kernel does not compile on {self.device.name}: {lines[0].strip()[:200]}.", "Correct its source."
            ) from None
        self.memory = {name: mapped(file) for name, file in request["buffers"].items()}
        try:
            self._give_arguments(context, request["arguments"])
        except cl.Error as error:
            raise _Unusable(
                f"{self.device.name} refuses the arguments: {error}.", "Check their types and sizes against the kernel."
            ) from None

    def _give_arguments(self, context: Any, arguments: list[dict[str, Any]]) -> None:
        cl = self.cl
        flags = cl.mem_flags.READ_WRITE | (cl.mem_flags.USE_HOST_PTR if self.unified else cl.mem_flags.COPY_HOST_PTR)
        self.buffers = {name: cl.Buffer(context, flags, hostbuf=self.inside(name)) for name in self.memory}
        for number, one in enumerate(arguments):
            if "buffer" in one:
                self.kernel.set_arg(number, self.buffers[one["buffer"]])
            elif "local" in one:
                self.kernel.set_arg(number, cl.LocalMemory(one["local"]))
            else:
                self.kernel.set_arg(number, np.frombuffer(bytes.fromhex(one["bytes"]), np.dtype(one["type"]))[0])

    def inside(self, name: str) -> Any:
        """A buffer's memory without its guards."""
        return self.memory[name][GUARD_BYTES:-GUARD_BYTES]

    def run(self, first: int, end: int) -> None:
        """Run the groups from `first` to before `end` along the split dimension, and wait for them."""
        offset, size = list(self.offset), list(self.size)
        offset[self.dimension] += first * self.local[self.dimension]
        size[self.dimension] = (end - first) * self.local[self.dimension]
        try:
            self.cl.enqueue_nd_range_kernel(self.queue, self.kernel, size, self.local, global_work_offset=offset).wait()
        except self.cl.Error as error:
            raise _Unusable(
                f"{self.device.name} refuses the launch: {error}.",
                f"Its groups have at most {self.device.max_work_group_size} work-items.",
            ) from None
        ctypes.CDLL(None).fflush(None)  # what the kernel printed; this process is killed in the end

    def load(self) -> None:
        """Let the device see what the shared memory holds now."""
        for name, buffer in self.buffers.items():
            if self.unified:
                self._mapped(buffer, self.cl.map_flags.WRITE)
            else:
                self.cl.enqueue_copy(self.queue, buffer, self.inside(name))

    def collect(self) -> None:
        """Bring what the device wrote into the shared memory, where it did not write there itself."""
        for name, buffer in self.buffers.items():
            if self.unified:
                self._mapped(buffer, self.cl.map_flags.READ)
            else:
                self.cl.enqueue_copy(self.queue, self.inside(name), buffer)

    def _mapped(self, buffer: Any, flags: Any) -> None:
        """Map a buffer and release it: what either side wrote is the other's to see then."""
        array, event = self.cl.enqueue_map_buffer(self.queue, buffer, flags, 0, (buffer.size,), np.uint8)
        event.wait()
        array.base.release(self.queue)


if __name__ == "__main__":
    sys.exit(main())
