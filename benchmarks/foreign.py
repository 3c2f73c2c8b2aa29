"""What gpuq records of a job beside foreign load: each script on a quiet device, and beside a process that takes half a core.

A whole gpuq with one device of all cores, one job at a time. Each script runs twice by itself and once, between the two, beside a
process that gpuq did not start and that computes half of the time. Utilisation and rate of the run with foreign load have to be
within 10% of the mean of the quiet runs, or marked, so that nothing is learned from them; quiet runs must not be marked.

Needs a machine that is quiet otherwise. `FOREIGN_SCRIPTS=light,heavy` limits it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.site import ROOT, Gpuq, wait_for
from benchmarks.table import Row
from gpuq.core.measurement import HELD_BACK_LIMIT

SCRIPTS = ("single", "waits", "light", "heavy", "memory", "bursty", "loader", "keras")
_RUN_S = 13
_WITHIN_PCT = 10.0
_MOST_MARKED_PCT = 5.0
_HALF_A_CORE = """
import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)
"""


def run() -> list[Row]:
    """Per script: the error of what was recorded beside foreign load; and how many of the quiet runs were marked."""
    names = os.environ.get("FOREIGN_SCRIPTS", ",".join(SCRIPTS)).split(",")
    rows: list[Row] = []
    marks: list[bool] = []
    with Gpuq(devices_cpu_count=1) as gpuq:
        for name in names:
            first = _run(gpuq, name)
            with _half_a_core():
                beside = _run(gpuq, name)
            quiet = [first, _run(gpuq, name)]
            marks += [one.is_marked for one in quiet]
            rows += _rows(name, quiet, beside)
            print(*(f"{row.name}: {row.value} {row.unit}, {row.note}" for row in rows[-2:]), sep="\n", file=sys.stderr)
    note = f"{sum(marks)} of {len(marks)} runs"
    return [*rows, Row("quiet runs that are marked", 100 * fmean(marks), "%", _MOST_MARKED_PCT, note=note)]


@dataclass(frozen=True)
class Recorded:
    """The figures of one attempt, and whether each is marked as not its own."""

    actual: dict[str, Any]

    @property
    def utilization_is_marked(self) -> bool:
        return bool(self.actual["utilization_is_bound"])

    @property
    def rate_is_marked(self) -> bool:
        return self.actual["alone_rate"] is None and self.actual["disturbed_rate"] is not None

    @property
    def is_marked(self) -> bool:
        duration = (self.actual["held_back"] or 0.0) > HELD_BACK_LIMIT
        return self.utilization_is_marked or self.rate_is_marked or duration

    @property
    def rate(self) -> float | None:
        return self.actual["alone_rate"] or self.actual["disturbed_rate"]

    def __str__(self) -> str:
        utilization, rate = self.actual["peak_utilization_pct"], self.rate
        load, taken = self.actual["foreign_load"] or 0.0, self.actual["held_back"] or 0.0
        shown = "no utilisation" if utilization is None else f"{utilization:.0f}%"
        steps = "no rate" if rate is None else f"{rate:.4g}/s"
        return f"{shown} {steps} (foreign {load:.2f}, took {100 * taken:.0f}%)"


def _rows(name: str, quiet: list[Recorded], beside: Recorded) -> Iterator[Row]:
    story = f"quiet {quiet[0]}, {quiet[1]}; beside {beside}"
    for what, key, marked in (
        ("utilisation", "peak_utilization_pct", beside.utilization_is_marked),
        ("rate", "alone_rate", beside.rate_is_marked),
    ):
        own = [one.rate if key == "alone_rate" else one.actual[key] for one in quiet]
        found = beside.rate if key == "alone_rate" else beside.actual[key]
        known = [value for value in own if value]
        if marked or found is None or not known:
            yield Row(f"{what} of {name}", 0.0, "% off", _WITHIN_PCT, note=f"marked; {story}" if marked else story)
        else:
            yield Row(f"{what} of {name}", 100 * abs(found / fmean(known) - 1), "% off", _WITHIN_PCT, note=story)


def _run(gpuq: Gpuq, name: str) -> Recorded:
    """One job, ended a fixed time after its first step."""
    command = [sys.executable, "-m", "benchmarks.steppers", name]
    (job,) = gpuq.submit({"command": command, "cwd": str(ROOT), "share": "never"})
    wait_for(lambda: (_job(gpuq, job).get("live") or {}).get("steps"), 90, 0.2)
    time.sleep(_RUN_S)
    gpuq.cancel(job)
    wait_for(lambda: gpuq.state(job) == "CANCELLED", 30, 0.2)
    return Recorded(_job(gpuq, job)["actual"])


def _job(gpuq: Gpuq, job: int) -> dict[str, Any]:
    return dict(gpuq.get(f"/api/v1/jobs/{job}"))


@contextmanager
def _half_a_core() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-S", "-c", _HALF_A_CORE])
    try:
        yield
    finally:
        process.kill()
        process.wait()
