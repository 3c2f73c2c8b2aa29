"""`job.py SECONDS`: an emulated training with so much work, slowed as the emulator says. Standard library only.

A step is STEP_S of work. In a job of gpuq its steps are counted, as those of a training with a framework that gpuq knows.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

try:
    from gpuq import step
except ImportError:  # no job of gpuq

    def step(count: int = 1) -> None:
        """Count nothing."""


STEP_S = 0.1


def work(folder: Path, seconds: float) -> None:
    """Take so many seconds at full speed."""
    before, left, steps = time.monotonic(), seconds, 0
    while left > 0:
        time.sleep(0.25)
        slowed = 1.0
        with suppress(OSError, ValueError):
            slowed = json.loads((folder / "slow.json").read_text()).get(str(os.getpid()), 1.0)
        if (folder / "oom" / str(os.getpid())).exists():
            sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        now = time.monotonic()
        left -= (now - before) / slowed
        before = now
        if (done := int((seconds - max(0.0, left)) / STEP_S)) > steps:
            step(done - steps)
            steps = done


if __name__ == "__main__":
    work(Path(os.environ["EMULATE"]), float(sys.argv[1]))
