"""A bad model cannot be published: each poison against the real trainer, a record in memory and a real shelf.

After each, what serves must be no worse on clean attempts that neither model has seen than what served before.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.scheduling.limits import Limits
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.model import Model
from gpuq.learn.serving.shelf import Shelf
from gpuq.learn.training.score import ForecastFigures, figures, score_forecasts
from gpuq.learn.training.train import fit
from gpuq.programs import retrain
from gpuq.settings import Learning
from tests.daemon.record import record_of, settings_in
from tests.learn.world import GIB, Work, recorded, rows, run

Row = tuple[JobRow, AttemptRow]
LEARNING = Learning()
FAMILIES = (("mobilenet", 20.0, GIB), ("resnet", 55.0, 5 * GIB), ("bert", 90.0, 12 * GIB))
WORKS = [Work(f"{name}{i}", 32, level, memory) for i in range(16) for name, level, memory in FAMILIES]
NOW = 10_000.0


def at(number: int) -> float:
    return 60.0 * number


def honest(first: int, count: int) -> list[Row]:
    """Each kind in turn, in an order of this night's own."""
    chance = random.Random(first)
    order = [work for _ in range(count // len(WORKS) + 1) for work in chance.sample(WORKS, len(WORKS))]
    return [
        rows(work, n, chance, at=at(n), owner=f"user{n % 6}") for n, work in enumerate(order[:count], start=first)
    ]  # fmt: skip


def clean(count: int = 60) -> list[Outcome]:
    """Attempts that no model was trained on: new kinds of the known families, and new runs of known kinds."""
    chance = random.Random(99)
    new = [Work(f"{name}{i}", 32, level, memory) for i in range(16, 22) for name, level, memory in FAMILIES]
    found = [run(chance.choice([*new, *WORKS]), n, chance, device_type="GPU") for n in range(count)]
    return [replace(one, ended_at=1e6 + n, attempt=(100_000 + n, 1)) for n, one in enumerate(found)]


def figures_of(model: Model | None) -> ForecastFigures:
    """How this model does on clean attempts, from no history but theirs."""
    return figures(score_forecasts([], clean(), model, LEARNING, Limits()), Limits())


def nothing_right(first: int) -> list[Row]:
    values = (1, 2**50, math.nan, -5, 10**30)
    found = honest(first, 30)
    return [(job, changed(attempt, peak_memory_bytes=values[n % 5])) for n, (job, attempt) in enumerate(found)]


def impossible_slowdowns(first: int) -> list[Row]:
    return [
        (job, changed(attempt, slowdown=(0.01, 1e6, math.nan)[n % 3], partner_kinds=["k"]))
        for n, (job, attempt) in enumerate(honest(first, 30))
    ]


def plausible_lies(first: int) -> list[Row]:
    """Large jobs that claim a fifth of what they need: nothing in one row gives them away."""
    chance = random.Random(5)
    liars = [replace(work, memory_bytes=work.memory_bytes // 5) for work in WORKS if "bert" in work.model]
    return [rows(liars[n % len(liars)], first + n, chance, at=at(first + n), owner="mallory") for n in range(24)]


def flood(first: int) -> list[Row]:
    chance = random.Random(6)
    tiny = Work("mobilenet0", 32, 1.0, GIB // 50)
    return [rows(tiny, first + n, chance, at=at(first) + n / 10, owner="mallory") for n in range(600)]


def jumped_clock(first: int) -> list[Row]:
    """The clock stands a year ahead for a while, then at 1970, then right again."""
    shift = {0: 3e7, 1: 3e7, 2: -1e9}
    return [
        (
            msgspec.structs.replace(job, record=msgspec.structs.replace(job.record, submitted_at=at(n) + moved)),
            msgspec.structs.replace(attempt, started_at=at(n) + moved, ended_at=at(n) + 30 + moved),
        )
        for n, (job, attempt) in enumerate(honest(first, 30), start=first)
        for moved in (shift.get((n - first) // 5, 0.0),)
    ]


def copies(first: int) -> list[Row]:
    """One bad hour, restored from a backup again and again under new numbers."""
    return plausible_lies(first)[:6] * 40


def changed(attempt: AttemptRow, **actual: object) -> AttemptRow:
    return msgspec.structs.replace(attempt, actual=recorded({**msgspec.to_builtins(attempt.actual), **actual}))


POISONS: Sequence[Callable[[int], list[Row]]] = (
    nothing_right, impossible_slowdowns, plausible_lies, flood, jumped_clock, copies,
)  # fmt: skip


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ForecastFigures]:
    """The shelf after a night of honest attempts, and how well its model does. The first night is the same in each test."""
    settings = settings_in(tmp_path_factory.mktemp("first"))
    first = retrain.train(settings, record_of(honest(1, 60)), at(62), draw=False)
    assert first["published"], first["reason"]
    return settings.home.models, figures_of(Shelf(settings.home.models).load_current())


@pytest.mark.parametrize("latest", [True, False], ids=["at the end", "in the middle"])
@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__)
def test_after_a_poisoned_night_what_serves_is_no_worse_on_clean_attempts(
    poison: Callable[[int], list[Row]], latest: bool, first_night: tuple[Path, ForecastFigures], tmp_path: Path
):
    settings = settings_in(tmp_path)
    models, served = first_night
    shutil.copytree(models, settings.home.models, symlinks=True, dirs_exist_ok=True)
    night = [*honest(61, 30), *poison(91)] if latest else [*poison(61), *honest(140, 40)]
    result = retrain.train(settings, record_of([*honest(1, 60), *night]), at(200), draw=False)
    serves = figures_of(Shelf(settings.home.models).load_current())
    assert serves.scored == served.scored == 60
    assert (serves.loss or 9) <= (served.loss or 0) * 1.10, result["reason"]
    assert (serves.memory_under_share or 0) <= max(served.memory_under_share or 0, 1 - LEARNING.quantile)


def test_the_poison_would_have_worked():
    """Without a judge: a model of plausible lies promises too little to the honest."""
    others = [row for row in honest(1, 40) if "bert" not in row[0].record.kind]
    outcomes = retrain.read_attempts(record_of([*others, *plausible_lies(50)]), at(200)).outcomes
    assert (figures_of(fit(outcomes, LEARNING)).memory_under_share or 0) > 0.1


def test_result_counts_the_attempts_left_out_by_reason(tmp_path: Path):
    settings = settings_in(tmp_path)
    store = record_of([*honest(1, 60), *nothing_right(61), *copies(91)])
    result = retrain.train(settings, store, at(200), draw=False)
    assert result["left_out"] == {"a copy of another attempt": 234, "a value that cannot be right": 24}
