"""Small tables of measured pairs, from a world where slowdown is a little more than the sum of utilisations."""

from __future__ import annotations

import random
from itertools import combinations_with_replacement

from gpuq.lab.measured import PairMeasurement, SingleMeasurement

MODELS = {"ResNet50": 60.0, "VGG16": 80.0, "LSTM": 30.0, "BERT": 50.0, "DCGAN": 15.0, "GPT2": 70.0}


def singles(device_type: str = "V100", batches: tuple[int, ...] = (16, 64)) -> list[SingleMeasurement]:
    return [
        SingleMeasurement(
            device_type,
            f"{model}:{batch}",
            model,
            batch_size=batch,
            utilization_pct=min(100.0, utilization + 5 * (batch / 16)),
            memory_utilization_pct=utilization / 2,
            peak_memory_mib=500 + 20 * utilization + 10 * batch,
        )
        for model, utilization in MODELS.items()
        for batch in batches
    ]


def pairs(
    alone: list[SingleMeasurement], sharing: str | None = "mps", seed: int = 0, noise: float = 0.03
) -> list[PairMeasurement]:
    draw = random.Random(seed)

    def slowdown(a: SingleMeasurement, b: SingleMeasurement) -> float:
        load = (a.utilization_pct or 0) + (b.utilization_pct or 0)
        return max(1.0, load / 100) * 1.05 * draw.lognormvariate(0, noise)

    return [
        PairMeasurement(a.device_type, sharing, a.job, b.job, slowdown(a, b), slowdown(b, a))
        for a, b in combinations_with_replacement(alone, 2)
    ]
