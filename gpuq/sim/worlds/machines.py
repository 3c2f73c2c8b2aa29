"""Hosts full of equal devices."""

from __future__ import annotations

from gpuq.core.state.device import Device, DeviceId, HostId


def machines(
    count: int, device_type: str, total_memory: int, sharing: str | None, *, per_host: int = 8
) -> tuple[Device, ...]:
    """`count` devices on hosts of `per_host`; the last host has what is left. Memory in bytes."""
    return tuple(
        Device(
            DeviceId(f"host{number // per_host + 1}/{number % per_host}"), HostId(f"host{number // per_host + 1}"),
            "sim", device_type, total_memory, sharing,
        )
        for number in range(count)
    )  # fmt: skip
