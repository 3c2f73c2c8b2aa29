"""One nightly training on 100,000 attempts, on two cores, in a child: how long it takes and how much memory.

The attempts are synthetic, in a real SQLite record; making them is not counted. Needs no measured data.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.learning.truth import Truth, attempt_rows, described
from benchmarks.table import Row
from gpuq.adapters.store import open_store
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.row_types import AttemptRow, Commit, JobRow
from gpuq.core.state.attempt import AttemptId
from gpuq.home import Home
from gpuq.programs import retrain
from gpuq.settings import Settings

ATTEMPTS_AT_ONCE = 100_000
SEED = 7
_MIB = 2**20


def run(_: Path) -> list[Row]:
    """Seconds and peak memory of the child."""
    code = "from benchmarks.learning.training import train_large; train_large()"
    began = time.monotonic()
    done = subprocess.run(
        ["taskset", "-c", "0,1", sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode != 0:
        return [Row("nightly training on 100,000 attempts", None, "s", 600, note=done.stderr.strip().splitlines()[-1])]
    report = json.loads(done.stdout.splitlines()[-1])
    note = f"{report['reason'][:60]}; {time.monotonic() - began:.0f} s with the making of the record"
    return [
        Row("nightly training on 100,000 attempts", report["seconds"], "s", 600, note=note),
        Row("the same: peak memory", report["peak_gib"], "GiB", 4, note="reading the record included"),
    ]


def train_large(count: int = ATTEMPTS_AT_ONCE) -> None:
    """Fill a SQLite record with synthetic attempts and train on it; seconds and memory as JSON on stdout."""
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.create()
        settings = Settings(home=home, redis_url=None, database_url=f"sqlite:///{home.database}")
        upgrade(settings.database_url)
        store = open_store(settings.database_url)
        for first in range(1, count + 1, 2000):
            _fill(store, [_synthetic(n, chance) for n in range(first, min(first + 2000, count + 1))])
        began = time.monotonic()
        result = retrain.train(settings, store, 60.0 * (count + 10))
        seconds = time.monotonic() - began
        store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        json.dumps({"seconds": seconds, "peak_gib": peak, "reason": result["reason"], "attempts": result["attempts"]})
    )


def _synthetic(n: int, chance: random.Random) -> tuple[JobRow, AttemptRow]:
    """3,000 kinds of 60 owners in 12 families on 4 types of device; every third attempt met a partner."""
    k = int(chance.paretovariate(0.7)) % 3000
    family = k % 12
    truth = Truth(
        f"user{k % 60}", f"work{k % 400}", f"{_FAMILIES[family]}{k % 7}", 2 ** (k % 8), f"GPU {k % 4}",
        min(100.0, 8.0 * (family + 1)), (family + 1) * 2**30 + 16 * _MIB * 2 ** (k % 8),
    )  # fmt: skip
    measured: dict[str, Any] = {
        "peak_utilization_pct": min(100.0, truth.utilization_pct * chance.lognormvariate(0, 0.05)),
        "peak_memory_bytes": round(truth.memory_bytes * chance.lognormvariate(0, 0.04)),
        "device_type": truth.device_type,
        "alone_rate": 1.0,
    }
    if n % 3 == 0:
        beside = described(Truth(**{**vars(truth), "script": f"work{chance.randrange(50)}"}))[0]
        measured |= {"slowdown": 1.0 + chance.expovariate(5), "partner_kinds": [beside], "partners": [1]}
    return attempt_rows(truth, n, 60.0 * n, measured)


_FAMILIES = ["resnet", "bert", "vgg", "lstm", "gan", "unet", "yolo", "gpt", "densenet", "mobilenet", "wav", "dlrm"]


def _fill(store: Any, found: Sequence[tuple[JobRow, AttemptRow]]) -> None:
    ids = store.add_jobs([job.record for job, _ in found])
    blank = {"started_at": None, "ended_at": None, "ending": None, "exit_code": None, "actual": None}
    ends = ("ended_at", "ending", "exit_code", "measurement", "actual")
    launched = [msgspec.structs.replace(a, job=job, **blank) for (_, a), job in zip(found, ids, strict=True)]
    names = [AttemptId(job, 1) for job in ids]
    store.commit(Commit(launched=launched))
    store.commit(
        Commit(
            started=[(name, a.started_at or 0.0, "log") for (_, a), name in zip(found, names, strict=True)],
            ended=[
                (name, {**{end: getattr(a, end) for end in ends}, "reason": ""})
                for (_, a), name in zip(found, names, strict=True)
            ],
        )
    )
