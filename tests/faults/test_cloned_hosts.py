"""Two machines with one host name, as after a disk image was copied, start no job twice, however they are interleaved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cloned_hosts import ClonedHosts


async def doubles(folder: Path, seeds: range) -> list[int]:
    """The seeds of the interleavings in which a job was started twice."""
    found = []
    for seed in seeds:
        world = ClonedHosts(folder / str(seed), seed)
        await world.run(60)
        if max(world.starts.values(), default=0) > 1:
            found.append(seed)
    return found


async def test_no_job_starts_twice_under_one_host_name(tmp_path: Path) -> None:
    assert await doubles(tmp_path, range(300)) == []


@pytest.mark.soak
async def test_no_job_starts_twice_in_ten_thousand_interleavings(tmp_path: Path) -> None:
    assert await doubles(tmp_path, range(10_000)) == []
