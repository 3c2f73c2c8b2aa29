"""Kinds whose needs follow a law that is written here, so that a regression can be held to it."""

from __future__ import annotations

import math
import random

from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome

DEVICE = "Test GPU"
GIB = 2**30


def outcome(
    number: int, *, owner: str = "alice", script: str = "vision", model: str = "net", batch: int | None = 32,
    utilization: float | None = 50.0, memory: int | None = GIB, duration: float | None = 60.0, kind: str | None = None,
    work: float | None = None,
) -> Outcome:  # fmt: skip
    """One finished attempt; `number` tells attempts apart."""
    tokens = [
        f"owner:{owner}",
        f"script:{script}",
        f"folder:{script}",
        f"model:{model}",
        f"family:{model.rstrip('0123456789')}",
    ]
    name = kind or f"{owner}:{script}.py --batch-size={batch} --model={model}"
    return Outcome(
        kind=name, signature=f"{name}#", script_sha256=None, device_type=DEVICE,
        features={"tokens": tokens, "batch_log2": None if batch is None else math.log2(batch), "multiply_adds": work},
        peak_utilization_pct=utilization, peak_memory_bytes=memory, duration_s=duration,
        alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False, ended_at=float(number),
        attempt=(number, 1),
    )  # fmt: skip


def law(model: int, batch: int) -> tuple[float, int]:
    """(percent, bytes): ten points more per doubling of the batch, memory half in proportion to it; models differ."""
    utilization = 10.0 + 5.0 * model + 8.0 * math.log2(batch)
    return min(100.0, utilization), round((1 + model) * GIB * (0.5 + batch / 64))


def lawful(seed: int = 1, models: int = 4, owner: str = "alice") -> list[Outcome]:
    """Models at five batch sizes each, as the law has it, within 2%."""
    chance = random.Random(seed)
    found = []
    for model in range(models):
        for batch in (4, 16, 32, 64, 128):
            utilization, memory = law(model, batch)
            noise = chance.lognormvariate(0, 0.02)
            letter = "abcdefgh"[model]
            found.append(
                outcome(len(found), owner=owner, model=f"net{letter}", batch=batch, utilization=min(100.0, utilization * noise),
                        memory=round(memory * noise), duration=100.0 * (1 + model) * noise)
            )  # fmt: skip
    return found


def history(*outcomes: Outcome) -> History:
    """What these add up to."""
    return History.from_outcomes(outcomes)
