"""The end of a shim is noticed at once, and once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuq_workers.shim_ends import ShimEnds

from gpuq.adapters.process import Identity, identify

LONG_S, SHORT_S = 30.0, 0.01


@pytest.fixture
def shims() -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield running
    for one in running:
        one.kill()
        one.wait()


def identity(process: subprocess.Popen[bytes]) -> Identity:
    found = identify(process.pid)
    assert found is not None
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def waited_s(ends: ShimEnds, at_most_s: float) -> float:
    began = time.monotonic()
    await ends.wait(at_most_s)
    return time.monotonic() - began


async def test_an_end_wakes_the_waiter_at_once(shims: list[subprocess.Popen[bytes]]) -> None:
    ends = ShimEnds()
    ends.watch({identity(one) for one in shims})
    assert await waited_s(ends, SHORT_S) >= SHORT_S
    shims[0].kill()
    assert await waited_s(ends, LONG_S) < LONG_S
    ends.close()


async def test_a_zombie_wakes_it_once(shims: list[subprocess.Popen[bytes]]) -> None:
    """Its exit status is not read here, and its pidfd stays readable."""
    ends, both = ShimEnds(), {identity(one) for one in shims}
    ends.watch(both)
    shims[0].kill()
    await ends.wait(LONG_S)
    ends.watch(both)
    assert await waited_s(ends, SHORT_S) >= SHORT_S
    shims[1].kill()
    assert await waited_s(ends, LONG_S) < LONG_S
    ends.close()


async def test_one_that_is_gone_or_not_watched_any_more_holds_no_descriptor(
    shims: list[subprocess.Popen[bytes]],
) -> None:
    before, ends = descriptors(), ShimEnds()
    gone = identity(shims[1])
    shims[1].kill()
    shims[1].wait()
    ends.watch({identity(shims[0]), gone})
    assert descriptors() == before + 1
    ends.watch(set())
    assert descriptors() == before
