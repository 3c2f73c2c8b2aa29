"""An array of 10,000 tasks: submitted by a process, listed beside `rq info` with as many jobs; memory and passes with it.

The tasks wait behind a job that holds the device. All that is compared runs in turns.
"""

from __future__ import annotations

import os
import subprocess
import time
from statistics import median

from benchmarks.listing import interleaved
from benchmarks.memory import sizes
from benchmarks.passes import pass_with_array
from benchmarks.site import BIN, BareRq, Gpuq, wait_for
from benchmarks.table import Row

TASKS = 10_000
_SUBMISSIONS = 3


def run() -> list[Row]:
    """Seconds, a ratio, MiB, milliseconds."""
    with Gpuq() as gpuq, BareRq(worker=True) as rq:
        busy = gpuq.submit({"command": ["sleep", "3600"]})[0]
        wait_for(lambda: gpuq.state(busy) == "RUNNING", 60)
        empty = _listing(gpuq, rq)
        seconds, first = _submit(gpuq, "--array", f"0-{TASKS - 1}%8", "--", "true", "--seed", "{task}")
        _wait_until_known(gpuq, first)
        for _ in range(TASKS):
            rq.queue.enqueue_call("benchmarks.rq_task.start", args=([],), timeout=60)
        listing = _listing(gpuq, rq)
        one = sizes(gpuq.pid("gpuq.daemon"))
        # A grid in which every task is another forecast: the worst case.
        of_grid, second = _submit(gpuq, "--grid", f"hidden=1..{TASKS}", "--", "true", "--hidden", "{hidden}")
        _wait_until_known(gpuq, second)
        both = sizes(gpuq.pid("gpuq.daemon"))
    return [
        Row(f"`gpuq submit --array` of {TASKS:,} tasks, process", seconds, "s", 2.0),
        Row(f"  `--grid` of {TASKS:,} values that all matter", of_grid, "s"),
        Row(f"`gpuq queue` with it / `rq info` with {TASKS:,} jobs", listing["ratio"], "times", 0.4),
        *(Row(f"  {name}", listing[name], "ms") for name in ("gpuq queue", "rq info")),
        Row("  `gpuq queue` without it", empty["gpuq queue"], "ms"),
        Row("dispatcher, RSS with the array", one["Rss"], "MiB", 120, note=f"PSS {one['Pss']:.0f}"),
        Row("  and with the grid", both["Rss"], "MiB", note=f"PSS {both['Pss']:.0f}"),
        *pass_with_array(TASKS),
    ]


def _submit(gpuq: Gpuq, *words: str) -> tuple[float, int]:
    """(seconds of the process, id of the array)."""
    began = time.perf_counter()
    argv = [str(BIN / "gpuq"), "submit", *words]
    done = subprocess.run(argv, env={**os.environ, **gpuq.env}, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(done.stdout)


def _wait_until_known(gpuq: Gpuq, first: int) -> None:
    wait_for(lambda: gpuq.get(f"/api/v1/jobs/{first + TASKS - 1}").get("verdict"), 180, every_s=0.5)
    time.sleep(3)  # the passes and views that follow


def _listing(gpuq: Gpuq, rq: BareRq) -> dict[str, float]:
    commands = {"gpuq queue": [str(BIN / "gpuq"), "queue"], "rq info": [str(BIN / "rq"), "info", "--url", rq.url]}
    seconds = interleaved(commands, gpuq.env)
    ratios = [ours / theirs for ours, theirs in zip(seconds["gpuq queue"], seconds["rq info"], strict=True)]
    return {"ratio": median(ratios), **{name: 1000 * median(values) for name, values in seconds.items()}}
