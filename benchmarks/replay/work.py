"""A job that needs a fixed amount of its device: `python work.py core|turns STEPS BUSY WAIT_MS`.

A step is BUSY of work and a wait, and takes longer beside a partner that wants the device at the same time. `core`: the
work is so many rounds of hashing on the device's CPU core. `turns`: it is so many milliseconds of having the device to itself,
as jobs on a GPU without MPS have it by turns; that takes no CPU time, so that other processes of the machine disturb it little.
"""

import fcntl
import hashlib
import os
import sys
import time
from pathlib import Path

import gpuq

BLOCK = bytes(4096)


def on_the_core(busy: int) -> None:
    """So many rounds, about 5 microseconds each."""
    for _ in range(busy):
        hashlib.blake2b(BLOCK).digest()


class Turns:
    """The device as a lock: one file for each, named by the core that this job is pinned to, in gpuq's home."""

    def __init__(self, folder: Path) -> None:
        self._lock = (folder / f"device-{min(os.sched_getaffinity(0))}").open("w")

    def __call__(self, busy: int) -> None:
        """So many milliseconds."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        time.sleep(busy / 1000)
        fcntl.flock(self._lock, fcntl.LOCK_UN)


def main() -> None:
    """All steps."""
    how, steps, busy, wait_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    work = Turns(Path.cwd()) if how == "turns" else on_the_core
    for _ in range(steps):
        work(busy)
        time.sleep(wait_ms / 1000)
        gpuq.step()


if __name__ == "__main__":
    main()
