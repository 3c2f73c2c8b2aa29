"""Histories for the trainer to learn from, and ways to start it: in this process, or as people do."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.state.job import JobId
from gpuq.programs import retrain
from gpuq.settings import Settings
from tests.learn.world import GIB, Work, rows

NOW = 10_000_000.0


class FewRows:
    """A store with nothing but finished attempts; remembers requests."""

    def __init__(self, rows: Sequence[tuple[JobRow, AttemptRow]]) -> None:
        self.rows = list(rows)
        self.requests: list[tuple[str, object, Mapping[str, Any]]] = []

    def devices(self) -> list[Any]:
        return []

    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        return self.rows

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        self.requests.append((verb, job, body))
        return 1

    def close(self) -> None: ...


def row(work: Work, number: int, chance: random.Random, **actual: Any) -> tuple[JobRow, AttemptRow]:
    return rows(work, number, chance, at=940.0 + 60 * number, lasts=60.0, **actual)


def world(kinds: int = 16, rounds: int = 1, seed: int = 1) -> list[tuple[JobRow, AttemptRow]]:
    chance = random.Random(seed)
    works = [
        Work(f"{name}{i}", 32, level, memory)
        for name, level, memory in (("mobilenet", 20.0, GIB), ("bert", 90.0, 12 * GIB))
        for i in range(kinds)
    ]
    order = chance.sample(works * rounds, len(works) * rounds)
    return [row(work, number, chance) for number, work in enumerate(order, start=1)]


def train(settings: Settings, rows: Sequence[tuple[JobRow, AttemptRow]], now: float = NOW) -> dict[str, Any]:
    store = FewRows(rows)
    result = retrain.train(settings, store, now, draw=False)  # type: ignore[arg-type]
    assert bool(store.requests) == result["published"]
    return result


def command(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return python(settings, "-m", "gpuq.programs.retrain", *arguments, **more)


def python(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUQ_HOME": str(settings.home.root), **more}
    environment.pop("GPUQ_DATABASE_URL", None)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
