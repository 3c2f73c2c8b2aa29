"""`job.py SECONDS`: an emulated GPU job with so much work, slowed as the emulator says. Standard library only."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path


def work(folder: Path, left: float) -> None:
    """Take `left` seconds at full speed."""
    before = time.monotonic()
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


if __name__ == "__main__":
    work(Path(os.environ["EMULATE"]), float(sys.argv[1]))
