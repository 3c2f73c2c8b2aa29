"""Run each named script once at each of its settings through a real `gpuq up` with CPU devices of one core.

A job is submitted as `gpuq submit` would submit the script, runs with its device to itself, and its measurements are read
from gpuq's record afterwards as rows (`table.FIELDS`). Run nothing else on the machine meanwhile: other load does not
change the measured memory, but it does change durations.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.corpus.settings import NEEDS, SCRIPTS, SETTINGS, Setting
from benchmarks.corpus.submissions import submission
from benchmarks.corpus.table import Measured
from benchmarks.site import Gpuq, wait_for
from gpuq.adapters.store import open_store
from gpuq.messages.outcome import UNMEASURED
from gpuq.messages.submission import Submission

_LONGEST_S = 300.0
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY"})


def measure(names: Sequence[str], python: str, devices: int) -> Iterator[Measured]:
    """Measure these scripts. Settings that fail are left out with a line on stderr."""
    asked = [(name, place, setting) for name in names for place, setting in enumerate(SETTINGS[name])]
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder, Gpuq(devices_cpu_count=devices) as gpuq:
        here = Path(folder)
        for part in SCRIPTS.iterdir():
            (here / part.name).symlink_to(part)
        jobs = {gpuq.submit(_body(name, setting, here, python))[0]: (name, place) for name, place, setting in asked}
        wait_for(lambda: all(gpuq.state(job) in _ENDED for job in jobs), _LONGEST_S * len(jobs), 1.0)
        store = open_store(f"sqlite:///{gpuq.home.database}")
        for row, attempt in store.finished_attempts(since=0.0):
            name, place = jobs[row.id]
            actual, measured = attempt.actual or UNMEASURED, attempt.measurement or {}
            if attempt.exit_code != 0 or not actual.peak_memory_bytes or not attempt.started_at:
                print(f"left out: {name} {SETTINGS[name][place].label}: {attempt.reason}", file=sys.stderr)
                continue
            first = measured.get("first_step_at")
            yield Measured(
                script=name,
                setting=place,
                peak_memory_bytes=actual.peak_memory_bytes,
                duration_s=round((attempt.ended_at or 0.0) - attempt.started_at, 3),
                first_step_s=None if first is None else round(max(0.0, first - attempt.started_at), 3),
                peak_utilization_pct=actual.peak_utilization_pct,
            )


def runnable(names: Iterable[str], python: str) -> tuple[list[str], list[str]]:
    """(those that can run with this interpreter, those that cannot)."""
    missing = {module for module in set(NEEDS.values()) if not _has(python, module)}
    able = [name for name in names if NEEDS.get(name) not in missing]
    return able, [name for name in names if NEEDS.get(name) in missing]


def _has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def _body(name: str, setting: Setting, here: Path, python: str) -> dict[str, object]:
    """The body of `POST /api/v1/jobs`, as the command makes it."""
    asked: Submission = submission(name, setting, here, python if name in NEEDS else sys.executable)
    return {
        "command": list(asked.command),
        "cwd": str(here),
        "env": {"PATH": os.environ["PATH"], "PYTHONPATH": "", **asked.env},
        "share": "never",
        "time_limit_s": _LONGEST_S,
    }
