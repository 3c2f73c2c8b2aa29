"""What gpuq records of a job beside foreign load: each script on a quiet device, and beside a process that takes half a core.

A whole gpuq with one device of all cores, one job at a time. Each script runs twice by itself and once, between the two, beside a
process that gpuq did not start and that computes half of the time. Utilisation and rate of the run with foreign load have to be
within 10% of the mean of the quiet runs, or marked, so that nothing is learned from them; quiet runs must not be marked.

Needs a machine that is quiet otherwise. `FOREIGN_SCRIPTS=waits,dqn` limits it; names are those below.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.site import ROOT, Gpuq, wait_for
from benchmarks.table import Row
from gpuq.core.measuring.measurement import HELD_BACK_LIMIT

_CORPUS = Path(__file__).parent / "corpus" / "scripts"
_RUN_S = 12
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


@dataclass(frozen=True)
class Script:
    """What runs, for longer than it is looked at. `counts_steps`: nothing is counted of plain NumPy."""

    name: str
    command: tuple[str, ...]
    counts_steps: bool = True


def _stepper(name: str) -> Script:
    return Script(name, (sys.executable, "-m", "benchmarks.steppers", name))


def _corpus(words: str, *, counts_steps: bool) -> Script:
    """A script of the corpus at a length that it does not reach the end of."""
    name, *rest = words.split()
    return Script(name, (sys.executable, str(_CORPUS / f"{name}.py"), *rest), counts_steps)


SCRIPTS = (
    *map(_stepper, ("waits", "single", "heavy", "loader")),
    _corpus("dqn --total-timesteps 100000000", counts_steps=False),
    _corpus("skipgram --steps 100000000", counts_steps=False),
    # Keras trainings batch by batch: the rate of `fit` differs by a third between runs of its own.
    _corpus("recsys --max-train-steps 100000000", counts_steps=True),
    _corpus("hfstyle --output_dir out --max_steps 100000000", counts_steps=True),
)


def run() -> list[Row]:
    """Per script: the error of what was recorded beside foreign load; and how many of the quiet runs were marked."""
    asked = os.environ.get("FOREIGN_SCRIPTS")
    scripts = [one for one in SCRIPTS if asked is None or one.name in asked.split(",")]
    rows: list[Row] = []
    marks: list[bool] = []
    with Gpuq(devices_cpu_count=1) as gpuq:
        for script in scripts:
            first = _record(gpuq, script)
            with _half_a_core():
                beside = _record(gpuq, script)
            quiet = (first, _record(gpuq, script))
            marks += [one.is_marked for one in quiet]
            rows += (new := list(_rows(script.name, quiet, beside)))
            print(*(f"{row.name}: {row.value} {row.unit}, {row.note}" for row in new), sep="\n", file=sys.stderr)
    note = f"{sum(marks)} of {len(marks)} runs"
    return [*rows, Row("quiet runs that are marked", 100 * fmean(marks), "%", _MOST_MARKED_PCT, note=note)]


@dataclass(frozen=True)
class Recorded:
    """`actual` of one attempt, and whether its figures are marked as not the job's own."""

    actual: dict[str, Any]

    @property
    def rate(self) -> float | None:
        return self.actual["alone_rate"] or self.actual["disturbed_rate"]

    @property
    def rate_is_marked(self) -> bool:
        return self.actual["alone_rate"] is None and self.actual["disturbed_rate"] is not None

    @property
    def utilization_is_marked(self) -> bool:
        return bool(self.actual["utilization_is_bound"])

    @property
    def is_marked(self) -> bool:
        duration_is_marked = (self.actual["held_back"] or 0.0) > HELD_BACK_LIMIT
        return self.utilization_is_marked or self.rate_is_marked or duration_is_marked

    def __str__(self) -> str:
        utilization, rate = self.actual["peak_utilization_pct"], self.rate
        shown = "no utilisation" if utilization is None else f"{utilization:.0f}%"
        steps = "" if rate is None else f" {rate:.4g}/s"
        load, taken = self.actual["foreign_load"] or 0.0, self.actual["held_back"] or 0.0
        return f"{shown}{steps} (load {load:.2f}, took {100 * taken:.0f}%)"


def _rows(name: str, quiet: Sequence[Recorded], beside: Recorded) -> Iterator[Row]:
    story = f"quiet {' and '.join(map(str, quiet))}; beside {beside}"
    known = [one.actual["peak_utilization_pct"] for one in quiet]
    found = beside.actual["peak_utilization_pct"]
    yield _row(f"utilisation of {name}", known, found, marked=beside.utilization_is_marked, story=story)
    if beside.rate is not None:
        rates = [one.rate for one in quiet]
        yield _row(f"rate of {name}", rates, beside.rate, marked=beside.rate_is_marked, story=story)


def _row(name: str, quiet: Sequence[float | None], found: float | None, *, marked: bool, story: str) -> Row:
    known = [value for value in quiet if value]
    off = 100 * abs(found / fmean(known) - 1) if found is not None and known else None
    if marked:
        return Row(f"{name}, marked", off, "% off", note=story)
    return Row(name, off, "% off", _WITHIN_PCT, note=story)


def _record(gpuq: Gpuq, script: Script) -> Recorded:
    """What was recorded of one run, ended a fixed time after its first step, or after its start."""
    (job,) = gpuq.submit({"command": list(script.command), "cwd": str(ROOT), "share": "never"})
    begun = "steps" if script.counts_steps else "memory_bytes"
    wait_for(lambda: (_job(gpuq, job).get("live") or {}).get(begun), 240, 0.2)
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
