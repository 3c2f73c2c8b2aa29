"""Refuses at submission what could never run, with the number that is missing. While no device is known, all is accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuq.core.scheduling.admit import fits_ever
from gpuq.core.state.device import Device
from gpuq.core.state.device_names import DeviceNames
from gpuq.errors import NeverFits
from gpuq.format import gib
from gpuq.messages.submission import Submission

_REUSE_S = 2.0


def check(submission: Submission, devices: Sequence[Device]) -> None:
    """Raises NeverFits if no set of known devices could ever run this."""
    verdict = fits_ever(submission.gpu_memory, submission.gpus, devices)
    if verdict is None:
        return
    numbers = dict(verdict.numbers)
    if "devices_per_host" in numbers:
        most = int(numbers["devices_per_host"] or 0)
        lacking = submission.gpus - most
        raise NeverFits(
            f"The job asks for {submission.gpus} devices of one host; the host with the most has "
            f"{most}, so {lacking} {'is' if lacking == 1 else 'are'} missing.",
            fix=f"Ask for at most {most} with `--gpus`; `gpuq gpus` shows what there is.",
        )
    needed, largest, missing = (
        gib(int(numbers[name] or 0)) for name in ("needed_bytes", "largest_device_bytes", "missing_bytes")
    )
    asked, which = f"{needed} of device memory", "the largest device"
    if submission.gpus > 1:
        asked, which = f"{asked} on each of {submission.gpus} devices of one host", "the last that it would get"
    device = DeviceNames(devices).of(verdict.device or "")
    raise NeverFits(f"The job asks for {asked}; {which}, {device}, has {largest}, which is {missing} too little.")


class KnownDevices:
    """The record's devices, read again when older than two seconds: they change rarely, submissions come often."""

    def __init__(self, read: Callable[[], list[Device]], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._devices: list[Device] = []
        self._read_at = float("-inf")

    def get(self) -> list[Device]:
        """The devices. Blocks when it must read."""
        now = self._clock()
        if not 0 <= now - self._read_at < _REUSE_S:
            self._devices = self._read()
            self._read_at = now
        return self._devices
