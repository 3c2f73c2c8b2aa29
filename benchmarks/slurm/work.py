"""The jobs of the comparison: kinds with demands of real jobs, in an order of a fixed seed."""

from __future__ import annotations

import csv
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).with_name("job.py")


@dataclass(frozen=True)
class Work:
    """One job: percent and MiB of one GPU, and seconds of work alone."""

    kind: str
    percent: float
    mib: int
    seconds: float

    def script(self, folder: Path) -> Path:
        """The script of its kind, made if it is not there yet."""
        path = folder / f"{self.kind}.py"
        if not path.exists():
            shutil.copyfile(JOB, path)
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What makes the emulator count the job's process as one on its GPU."""
        return {"EMULATED_GPU": f"{self.percent:g},{self.mib}", "EMULATED_ANY": "1"}


def drawn(instances: Path, short: int, long: int, short_s: float, long_s: float, seed: int) -> list[Work]:
    """So many short and long jobs, ten of each kind, which is one script. Percent and memory of a kind are those of an instance
    of the file that used a GPU; the seconds are ours, a quarter more or less, because real ones last for hours."""
    rng = random.Random(seed)
    with instances.open() as file:
        used = [row for row in csv.DictReader(file) if float(row["gpu_wrk_util"] or 0) > 0]
    found = []
    for name, count, seconds in (("short", short, short_s), ("long", long, long_s)):
        for number in range(count):
            if number % 10 == 0:
                row = rng.choice(used)
                percent = max(1.0, round(float(row["gpu_wrk_util"])))
                mib = max(300, round(1024 * float(row["max_gpu_wrk_mem_gb"] or 0)))
                lasts_s = round(seconds * rng.uniform(0.75, 1.25), 1)
            found.append(Work(f"{name}{number // 10}", percent, mib, lasts_s))
    rng.shuffle(found)
    return found
