"""The device files that a program needs for its GPU: the GPU's own, and of a MIG slice the capabilities for it.

The driver gives each GPU a minor number, and lists the files of capabilities under /proc/driver/nvidia/capabilities (NVIDIA's
MIG user guide, "Device Nodes and Capabilities").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pynvml

from gpuq.adapters.nvml.calls import ask_or_none

CONTROL_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""What every program that uses a GPU opens besides."""

_CAPABILITIES = Path("/proc/driver/nvidia/capabilities")


def device_files(handle: object, parent: object | None, capabilities: Path = _CAPABILITIES) -> list[str]:
    """The files of a GPU, or of the MIG slice `handle` of the GPU `parent`; none if the driver does not say which they are."""
    minor = ask_or_none(pynvml.nvmlDeviceGetMinorNumber, handle if parent is None else parent)
    if minor is None:
        return []
    if parent is None:
        return [f"/dev/nvidia{minor}"]
    return [f"/dev/nvidia{minor}", *_slice_files(handle, capabilities / f"gpu{minor}" / "mig")]


def _slice_files(handle: object, mig: Path) -> Iterator[str]:
    instance = ask_or_none(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    compute = ask_or_none(pynvml.nvmlDeviceGetComputeInstanceId, handle)
    for access in (mig / f"gi{instance}" / "access", mig / f"gi{instance}" / f"ci{compute}" / "access"):
        try:
            minor = re.search(r"^DeviceFileMinor: *([0-9]+)$", access.read_text(), re.MULTILINE)
        except OSError:
            continue
        if minor is not None:
            yield f"/dev/nvidia-caps/nvidia-cap{minor[1]}"
