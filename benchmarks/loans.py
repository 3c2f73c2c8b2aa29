"""How soon lent cores are back: `python -m benchmarks.loans`. Two CPU devices of a core each, on two cores or more.

Job 1 runs on one device and follows its loan as `gpuq split` does: a process of two busy threads is moved with it. Each round
submits a job for the other device. Measured is the time from the dispatcher's `Reclaim` in the journal to the moment at which no
thread of the process may run on the core any more; the journal has the time at which the pass began.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
from pathlib import Path

from benchmarks.site import ROOT, Gpuq, wait_for

BORROWER = """
import os, subprocess, sys, time
from pathlib import Path
from gpuq.split.loan import LoanFollower
work = "import threading\\nwork = lambda: [0 for _ in iter(int, 1)]\\nthreading.Thread(target=work, daemon=True).start()\\nwork()"
busy = subprocess.Popen([sys.executable, "-c", work])
follower, before = LoanFollower(busy.pid), None
while True:
    now = set()
    for thread in Path(f"/proc/{busy.pid}/task").glob("*"):
        now |= os.sched_getaffinity(int(thread.name))
    if now != before:
        print(time.time(), *sorted(now), flush=True)
        before = now
    time.sleep(0.002)
"""


def changes(log):
    """(when, cores) of each move that the borrower has printed."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(float(line[0]), {int(core) for core in line[1:]}) for line in lines]


def entries(home, name):
    """(when, body) of the journal's entries of this name."""
    with sqlite3.connect(f"file:{home / 'gpuq.db'}?mode=ro", uri=True) as record:
        found = record.execute("SELECT at, body FROM journal WHERE name = ? ORDER BY seq", (name,)).fetchall()
    return [(at, json.loads(body)) for at, body in found]


def off_at(log, core, since):
    """When the process was off the core, from `since` on; None while it is on it."""
    moves = changes(log)
    before = [cores for at, cores in moves if at < since]
    # On a busy machine a loan may have run out just before it was reclaimed.
    if before and core not in before[-1]:
        return since
    return next((at for at, cores in moves if at >= since and core not in cores), None)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with Gpuq(devices_cpu_count=2, devices_cpu_cores=1, devices_cpu_memory_fraction=0.3) as gpuq:
        home = Path(gpuq.home.root)
        script = home / "borrower.py"
        script.write_text(BORROWER)
        first = gpuq.submit(
            {"command": [sys.executable, str(script)], "lend_cores": 1, "env": {"PYTHONPATH": str(ROOT)}}
        )[0]
        log = wait_for(lambda: next(home.glob(f"attempts/{first}-*/**/output.log"), None), 120)
        took = []
        for number in range(options.rounds):
            wait_for(lambda number=number: len(entries(home, "Lend")) > number, 120)
            ((core,),) = {tuple(entries(home, "Lend")[-1][1]["cores"])}
            wait_for(lambda core=core: changes(log) and changes(log)[-1][1] == {core}, 120)
            other = gpuq.submit({"command": ["/bin/true"]})[0]
            wait_for(lambda number=number: len(entries(home, "Reclaim")) > number, 120)
            reclaimed = entries(home, "Reclaim")[-1][0]
            back = wait_for(lambda core=core, since=reclaimed: off_at(log, core, since), 120)
            took.append(1000 * (back - reclaimed))
            wait_for(lambda other=other: gpuq.state(other) == "COMPLETED", 120)
    early = took.count(0)
    print(
        f"{len(took)} returns: median {statistics.median(took):.0f} ms, longest {max(took):.0f} ms"
        f"{f', {early} of them before the reclaim' if early else ''}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
