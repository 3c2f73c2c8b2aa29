"""`gpuq queue` as a whole process against `rq info`, each against its live server with twenty waiting jobs.

A bare interpreter, and one that imports argparse and http.client, show what no Python command can get below.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.site import BIN, BareRq, Gpuq
from benchmarks.table import Row

ROUNDS = 15
_WAITING = 20


def run() -> list[Row]:
    """Whole processes side by side."""
    with Gpuq() as gpuq, BareRq(worker=True) as rq:
        gpuq.submit(*({"command": ["true"], "hold": True} for _ in range(_WAITING)))
        for _ in range(_WAITING):
            rq.queue.enqueue_call("benchmarks.rq_task.start", args=([],), at_front=False, job_id=None, timeout=60)
        commands = {
            "gpuq queue": [str(BIN / "gpuq"), "queue"],
            "rq info": [str(BIN / "rq"), "info", "--url", rq.url],
            "bare interpreter": [sys.executable, "-c", "pass"],
            "argparse and http.client": [sys.executable, "-c", "import argparse, http.client"],
        }
        seconds = interleaved(commands, gpuq.env)
    milliseconds = {name: 1000 * median(values) for name, values in seconds.items()}
    ratios = [ours / theirs for ours, theirs in zip(seconds["gpuq queue"], seconds["rq info"], strict=True)]
    return [
        Row("`gpuq queue` / `rq info`", median(ratios), "times", 0.4),
        *(Row(f"  {name}", value, "ms") for name, value in milliseconds.items()),
    ]


def interleaved(commands: Mapping[str, Sequence[str]], env: Mapping[str, str]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(ROUNDS + 1):
        for name, argv in commands.items():
            began = time.perf_counter()
            subprocess.run(argv, env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL)
            if round_:  # the first round fills caches
                seconds[name].append(time.perf_counter() - began)
    return seconds
