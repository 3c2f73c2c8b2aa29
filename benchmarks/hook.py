"""What the progress hook costs a tight training loop of each framework, in percent of the time of a step.

Each loop runs in one process, which counts, in turns, with the hook and without it: the time of a step differs more between
processes than what is looked for. What is compared is the CPU time of the whole process per step on the one core it is
pinned to, since the wall's time on a shared machine says more about the neighbours; that is shown beside it. A pair is some
turns of each kind, and the row is the median of ten pairs. Where neighbours blur even that, what the hook does for a step, alone
and many times over, says how small the difference is that the pairs look for. PyTorch and JAX come from the environments that
`make test-frameworks` makes; where there is none, its row is left out, and says so. The loops are in `hook_loops.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gpuq_workers.measuring.progress import hook_environment, read_progress

from benchmarks.site import ROOT
from benchmarks.table import Row

_REACH_PCT = 1.0
# Run with -P: `site.py` beside it would stand in for the one of the standard library.
_LOOPS = Path(__file__).parent / "hook_loops.py"
_ENVIRONMENTS = ROOT / "build" / "frameworks"


@dataclass(frozen=True)
class _Loop:
    """A loop of `hook_loops.py`: in words, and the environment it needs."""

    name: str
    text: str
    environment: str


_ALL = (
    _Loop("torch", "PyTorch", "torch"),
    _Loop("keras-tensorflow", "Keras on TensorFlow", "tensorflow"),
    _Loop("keras-jax", "Keras on JAX", "jax"),
    _Loop("optax", "JAX with optax", "jax"),
)


def run() -> list[Row]:
    """Percent of a step's time, loop by loop."""
    return [row for loop in _ALL for row in _rows(loop)]


def _rows(loop: _Loop) -> list[Row]:
    name = f"progress hook, {loop.text}"
    python = _ENVIRONMENTS / loop.environment / "bin" / "python"
    if not python.exists() and loop.environment == "tensorflow":
        python = Path(sys.executable)  # which has it, as the trainer needs it
    if not python.exists():
        return [Row(name, None, "% of a step", _REACH_PCT, note="`make test-frameworks` makes its environment")]
    measured = _measured(loop, python)
    cpu = [100 * (on["cpu_s"] / off["cpu_s"] - 1) for on, off in measured["pairs"]]
    wall = [100 * (on["wall_s"] / off["wall_s"] - 1) for on, off in measured["pairs"]]
    cpu_step = median(off["cpu_s"] for _, off in measured["pairs"])
    own = measured["own_s"] * (cpu_step / measured["every_s"] if "every_s" in measured else 1)
    own_text = f"{1e6 * measured['own_s']:.1f} µs of CPU each {'look' if 'every_s' in measured else 'step'}"
    return [
        Row(
            name,
            median(cpu),
            "% of a step",
            _REACH_PCT,
            note=f"{_spread(cpu)}; wall {median(wall):.1f}; a step of {1e6 * cpu_step:.0f} µs of CPU",
        ),
        Row("  what the hook itself does", 100 * own / cpu_step, "% of a step", note=own_text),
    ]


def _spread(percents: list[float]) -> str:
    return f"{min(percents):.1f} to {max(percents):.1f} in {len(percents)} pairs"


def _measured(loop: _Loop, python: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
        env = {**os.environ, **quiet, **hook_environment({}, progress)}
        done = subprocess.run([python, "-P", _LOOPS, loop.name], env=env, check=True, capture_output=True, text=True)
        counted = read_progress(progress)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    steps_with = sum(on["steps"] for on, _ in measured["pairs"])
    if counted is None or counted.steps < steps_with:
        raise RuntimeError(f"{loop.text}: the hook counted {counted} of {steps_with} steps: it was not at work")
    return measured
