"""The lines of `gpuq top`."""

from __future__ import annotations

from gpuq.cli.top import lines

GIB = 2**30


def test_the_memory_of_a_device_has_one_unit() -> None:
    device = {"id": "gpu0", "name": "gpu0", "total_memory_bytes": int(10.6 * GIB), "utilization_pct": 5.0}
    device |= {"used_memory_bytes": int(0.8 * GIB), "promised_memory_bytes": 11 * 2**20, "residents": []}
    device |= {"unwell": None, "drained": None, "throttling": [], "read_at": "2026-11-28T04:40:49.486Z"}
    assert "0.8/0.01/10.6G" in lines.device([device], 0, 80).text
