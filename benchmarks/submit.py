"""Durable submissions per second: 32 clients at the API against bare RQ enqueues one by one, in turns.

The device is busy, so what is submitted waits: the dispatcher takes it in meanwhile, on the same cores. An answer of the API
means committed and synced; RQ's means that Redis has it in memory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from benchmarks.site import ROOT, BareRq, Gpuq, wait_for
from benchmarks.table import Row

ROUNDS, COUNT, CLIENTS = 7, 1000, 32


def run() -> list[Row]:
    """Rates, in turns."""
    with Gpuq() as gpuq, BareRq(worker=False) as rq:
        busy = gpuq.submit({"command": ["sleep", "3600"]})[0]
        wait_for(lambda: gpuq.state(busy) == "RUNNING", 30)
        ours, theirs = [], []
        for round_ in range(ROUNDS + 1):
            pair = _submit(gpuq), _enqueue(rq)
            if round_:
                ours.append(pair[0])
                theirs.append(pair[1])
    ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
    return [
        Row(f"durable submissions, {CLIENTS} clients / bare RQ enqueues", ratio, "times", 0.7, ">="),
        Row("  gpuq", median(ours), "per s"),
        Row("  bare RQ, one by one", median(theirs), "per s"),
    ]


def _submit(gpuq: Gpuq) -> float:
    argv = [sys.executable, "-m", "benchmarks.clients", str(gpuq.home.api_socket), str(COUNT), str(CLIENTS)]
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    # The dispatcher must have them all before the other side's turn.
    wait_for(lambda: gpuq.get("/api/v1/gpus"), 30)
    time.sleep(0.5)
    return COUNT / float(done.stdout)


def _enqueue(rq: BareRq) -> float:
    began = time.perf_counter()
    for _ in range(COUNT):
        rq.queue.enqueue_call("benchmarks.rq_task.start", args=(["/bin/true"],), timeout=60)
    return COUNT / (time.perf_counter() - began)
