"""A real gpuq with two CPU devices: each kind of work alone, each pair together, then a mix that comes as it comes.

All of it is returned as one `Recording`, taken from gpuq's own record. A run takes about six minutes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from benchmarks.replay.recording import take
from benchmarks.site import Gpuq, wait_for
from gpuq.adapters.store import open_store
from gpuq.core.state.job import ENDED, JobState
from gpuq.lab.sim.replay import Recording
from gpuq.settings import load

WORK = Path(__file__).with_name("work.py")
Job = dict[str, Any]
Kinds = Mapping[str, tuple[int, int, float]]
# Steps, the work of each, milliseconds of waiting (see work.py): 15 s alone each, on all, half and a quarter of a device. Who
# wants all of it waits too, for others to get a turn.
KINDS: Mapping[str, Kinds] = {
    "core": {"full": (800, 4000, 0.0), "half": (780, 2000, 10.0), "light": (780, 1000, 15.0)},
    "turns": {"full": (280, 50, 3.0), "half": (150, 50, 50.0), "light": (75, 50, 150.0)},
}
SETTINGS = {
    "devices_cpu_count": 2,
    "devices_cpu_cores": 1,
    # Pairs are judged by what was measured of them, not by their load: all were measured before the mix comes.
    "admission_utilization_pct": 1000,
    "admission_max_slowdown": 1.6,
    "admission_memory_headroom": 0.0,
    # Its choices will stay what they are, and so a recording stays good.
    "scheduling_policy": "fifo",
}
MIX, SEED, MEAN_GAP_S = 16, 4, 4.5
_ANY_SLOWDOWN = 5.0


def record(how: str) -> Recording:
    """The whole run, of jobs that work on their `core` or by `turns`."""
    kinds = {kind: [sys.executable, str(WORK), how, *map(str, work)] for kind, work in KINDS[how].items()}
    with Gpuq(**SETTINGS) as gpuq:
        for kind, command in kinds.items():
            _run(gpuq, [_job(kind, command, share="never")] * 2)
        for pair in combinations_with_replacement(kinds, 2):
            _beside_each_other(gpuq, [_job(kind, kinds[kind], max_slowdown=_ANY_SLOWDOWN) for kind in pair])
        first = _mix(gpuq, kinds)
        settings = load(gpuq.env)
        store = open_store(settings.database_url)
        try:
            return take(store, settings, first)
        finally:
            store.close()


def _beside_each_other(gpuq: Gpuq, pair: Sequence[Job]) -> None:
    """Both on one device, since the other one is taken by a job that does nothing and never shares."""
    (blocker,) = gpuq.submit({"command": ["sleep", "600"], "share": "never", "kind": "blocker"})
    wait_for(lambda: gpuq.state(blocker) == JobState.RUNNING, 30)
    _run(gpuq, pair)
    gpuq.cancel(blocker)
    _wait(gpuq, [blocker])


def _mix(gpuq: Gpuq, kinds: Mapping[str, Sequence[str]]) -> int:
    """Its first job."""
    chance = random.Random(SEED)
    ids: list[int] = []
    for _ in range(MIX):
        kind = chance.choice(list(kinds))
        ids += gpuq.submit(_job(kind, kinds[kind]))
        time.sleep(chance.expovariate(1 / MEAN_GAP_S))
    _wait(gpuq, ids)
    return ids[0]


def _job(kind: str, command: Sequence[str], **fields: Any) -> Job:
    return {"command": command, "kind": kind, **fields}


def _run(gpuq: Gpuq, jobs: Sequence[Job]) -> None:
    _wait(gpuq, gpuq.submit(*jobs))


def _wait(gpuq: Gpuq, ids: Sequence[int]) -> None:
    wait_for(lambda: all(gpuq.state(job) in ENDED for job in ids), 600, every_s=0.5)
