"""`python -m benchmarks.replay [--work core|turns] [--recorded FILE] [--keep FILE]`: a real run and its replay, side by side.

Without `--recorded` it starts a gpuq of its own on two cores and takes about six minutes. With `--work core`, the default,
run it on a machine with nothing else to do: what others take from the cores is in no replay. With `--work turns` the jobs
contend for their device, not for its core, and other processes disturb little. A figure that misses its reach is reported,
not punished.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median

from benchmarks.table import Row, lines, write
from gpuq.lab.sim.replay import Replay, keep, read, replay

# ANDREAS' own deviation between real and simulated cost (arXiv 2105.05080).
REACH = 0.13
CORES = 2


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument(
        "--work", choices=("core", "turns"), default="core", help="what the jobs contend for (default: core)"
    )
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="replay this recording instead of a run of now")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the recording as JSON")
    asked = parser.parse_args()
    if asked.recorded is not None:
        recording = read(asked.recorded)
    elif len(os.sched_getaffinity(0)) < CORES:
        print(f"skipped: needs {CORES} cores")
        return 0
    else:
        from benchmarks.replay.live import record

        recording = record(asked.work)
    if asked.keep is not None:
        keep(recording, asked.keep)
    found = replay(recording)
    print("\n".join(side_by_side(found)), end="\n\n")
    rows = figures(found)
    print("\n".join(lines(rows)))
    print(f"\nwritten to {write(rows, 'bench-replay')}")
    return 0


def side_by_side(found: Replay) -> list[str]:
    """A line per job: when it ended and how much it was slowed, really and in the simulation."""
    said = ["job  kind    ended (s)  replayed  slowdown  replayed    off"]
    for both in found.jobs:
        real, simulated = both.real, both.simulated
        said.append(
            f"{both.job:3}  {both.kind:6}  {real.ended_s:9.1f}  {simulated.ended_s:8.1f}  {real.slowdown:8.2f}  "
            f"{simulated.slowdown:8.2f}  {both.deviation:5.1%}"
        )
    return said


def figures(found: Replay) -> list[Row]:
    """The deviations, each as a share of the real value."""
    off = [both.deviation for both in found.jobs]
    real, simulated = found.makespans
    return [
        Row("makespan, real", real, "s"),
        Row("makespan, replayed", simulated, "s"),
        Row("makespan: deviation", found.makespan_deviation, "", REACH),
        Row("slowdown of a job: worst deviation", max(off), "", REACH, note=f"{len(off)} jobs"),
        Row("slowdown of a job: median deviation", median(off), ""),
        Row("jobs within 13%", sum(one <= REACH for one in off) / len(off), "", 1.0, ">="),
    ]


if __name__ == "__main__":
    sys.exit(main())
