"""From submitting a job to the first line that its process writes, by the job's own clock: gpuq against a bare RQ worker.

Both start the same command on an idle machine, in turns. gpuq's way: POST over the Unix socket, commit, ring, dispatcher,
commit, signed order over RQ, fenced claim, shim. RQ's: enqueue, forking worker, subprocess.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from benchmarks.site import BareRq, Gpuq, wait_for
from benchmarks.table import Row

ROUNDS = 60
_WARM_UP = 5


def run() -> list[Row]:
    """Latencies, in turns."""
    with Gpuq(devices_cpu_count=1) as gpuq, BareRq(worker=True) as rq:
        ways = {
            "gpuq": lambda command: _through_gpuq(gpuq, command),
            "bare RQ": lambda command: _through_rq(rq, command),
        }
        milliseconds: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(ROUNDS + _WARM_UP):
            for name, submit in ways.items():
                took = _first_line_after(submit, gpuq.home.root / f"line-{round_}-{name.split()[-1]}")
                if round_ >= _WARM_UP:
                    milliseconds[name].append(1000 * took)
    middle = {name: median(values) for name, values in milliseconds.items()}
    return [
        Row("submit to first line, p50: gpuq / bare RQ", middle["gpuq"] / middle["bare RQ"], "times", 1.2),
        *(Row(f"  {name}, p50", value, "ms") for name, value in middle.items()),
        *(Row(f"  {name}, p95", quantiles(values, n=20)[-1], "ms") for name, values in milliseconds.items()),
    ]


def _first_line_after(submit: Callable[[list[str]], Callable[[], object]], line: Path) -> float:
    """Seconds from before the submission to the job's own time stamp; returns when the way is idle again."""
    began = time.time()
    is_over = submit(["/bin/sh", "-c", f"date +%s.%N > {line}"])
    text = wait_for(lambda: line.read_text() if line.exists() else "", 30)
    wait_for(is_over, 30)
    # Work after the end of the last job (learning, archiving) must not count as part of the next start.
    time.sleep(0.1)
    return float(text) - began


def _through_gpuq(gpuq: Gpuq, command: list[str]) -> Callable[[], object]:
    job = gpuq.submit({"command": command, "kind": "first line"})[0]
    return lambda: gpuq.state(job) == "COMPLETED"


def _through_rq(rq: BareRq, command: list[str]) -> Callable[[], object]:
    job = rq.queue.enqueue_call("benchmarks.rq_task.start", args=(command,), timeout=60)
    return lambda: job.get_status() == "finished"
