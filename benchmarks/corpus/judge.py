"""Score the predictor on the measured table: predict each setting of a script from one run of another of its settings.

The result is one `Judged` per ordered pair of settings, with summary figures over all scripts and per script. Nothing is
fitted here; the models were fitted elsewhere with the script held out (see `benchmarks.corpus`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.corpus.settings import SCRIPTS, SETTINGS
from benchmarks.corpus.submissions import submission
from benchmarks.corpus.table import Measured
from gpuq.learn.features.kind import describe
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.predictor import Predictor
from gpuq.settings import Learning

DEVICE = "cpu-1"


@dataclass(frozen=True)
class Judged:
    """A setting predicted from another; None where no bound was given."""

    script: str
    seen: int
    asked: int
    memory: float
    """Truth, bytes."""
    upper: float | None
    duration: float
    p50: float | None
    p90: float | None
    evidence: str = ""


@dataclass(frozen=True)
class Figures:
    """Shares, 0 to 1, of ordered pairs."""

    pairs: int
    covered: float
    """Of the memory bounds that were given."""
    loose: float
    """Of all: a bound above twice the truth."""
    unbounded: float
    duration_covered: float
    duration_unknown: float


def judge(rows: Sequence[Measured]) -> list[Judged]:
    """All ordered pairs of settings of each script."""
    described = {(row.script, row.setting): _described(row) for row in rows}
    found = []
    for seen in rows:
        others = [row for row in rows if row.script == seen.script and row.setting != seen.setting]
        predictor = Predictor(
            History.from_outcomes([_outcome(seen, *described[seen.script, seen.setting])]), None, Learning()
        )
        for asked in others:
            kind, _, features = described[asked.script, asked.setting]
            answer = predictor.forecast_for(kind, features, DEVICE)
            found.append(
                Judged(
                    asked.script, seen.setting, asked.setting, float(asked.peak_memory_bytes), answer.upper_memory_bytes,
                    asked.duration_s, answer.duration_p50_s, answer.duration_p90_s, answer.evidence,
                )
            )  # fmt: skip
    return found


def figures(judged: Iterable[Judged]) -> Figures:
    """The shares that the promise is held to."""
    rows = list(judged)
    bounded = [row for row in rows if row.upper is not None]
    timed = [row for row in rows if row.p90 is not None]
    return Figures(
        pairs=len(rows),
        covered=_share(row.memory <= (row.upper or 0) for row in bounded),
        loose=_share((row.upper or 0) > 2 * row.memory for row in rows),
        unbounded=1 - len(bounded) / len(rows),
        duration_covered=_share(row.duration <= (row.p90 or 0) for row in timed),
        duration_unknown=1 - len(timed) / len(rows),
    )


def report(judged: Sequence[Judged]) -> list[str]:
    """A line per script and one over all."""
    head = f"{'script':<18}{'pairs':>6}{'covered':>9}{'> 2x':>7}{'none':>7}{'p90 covers':>12}{'no p90':>8}"
    names = list(dict.fromkeys(row.script for row in judged))
    lines = [_line(name, figures(row for row in judged if row.script == name)) for name in names]
    return [head, *lines, _line("all", figures(judged))]


def _line(name: str, found: Figures) -> str:
    shares = (found.covered, found.loose, found.unbounded)
    cells = "".join(f"{share:>{width}.0%}" for share, width in zip(shares, (9, 7, 7), strict=True))
    return f"{name:<18}{found.pairs:>6}{cells}{found.duration_covered:>12.0%}{found.duration_unknown:>8.0%}"


def _described(row: Measured) -> tuple[str, str, dict[str, Any]]:
    return describe(submission(row.script, SETTINGS[row.script][row.setting], SCRIPTS, sys.executable), "corpus")


def _outcome(row: Measured, kind: str, signature: str, features: dict[str, Any]) -> Outcome:
    return Outcome(
        kind=kind, signature=signature, script_sha256=features["script_sha256"], device_type=DEVICE, features=features,
        peak_utilization_pct=row.peak_utilization_pct, peak_memory_bytes=row.peak_memory_bytes, duration_s=row.duration_s,
        alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False, ended_at=0.0, attempt=(1, 1),
        first_step_s=row.first_step_s,
    )  # fmt: skip


def _share(truths: Iterable[bool]) -> float:
    found = list(truths)
    return sum(found) / len(found) if found else 1.0
