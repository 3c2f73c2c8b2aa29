"""The process of one device, as whoever runs a launch sees it: orders, answers and its end."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from gpuq.errors import BadInput, Failure
from gpuq.split.launch import KernelFault, KernelLaunch, Local, OpenClDevice
from gpuq.split.loan import LoanFollower


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
