"""Forecasts for people who ask: the shelf's model, and what its card says of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuq.api.models import ShelfModels
from gpuq.core.state.device import Device
from gpuq.learn.serving.shelf import Shelf
from gpuq.learn.training.train import fit
from gpuq.settings import Learning
from tests.api.support import GIB, FaultyStore, record
from tests.learn.world import Work, run


class NothingFinished(FaultyStore):
    def finished_attempts(self, **_: object) -> list[object]:  # type: ignore[override]
        return []


def test_a_forecast_has_its_evidence_and_the_models_evaluation(tmp_path: Path) -> None:
    store, shelf, now = NothingFinished(), Shelf(tmp_path / "models"), 0.0
    store.set_devices(*(Device(f"gpu-{i}", "h", "nvml", name, 16 * GIB) for i, name in enumerate("AAB")))  # type: ignore[arg-type]
    _, a, b = store.devices()
    models = ShelfModels(store, tmp_path / "models", Learning(), lambda: now)
    asked = record(1.0)
    [before] = models.explained_forecasts(asked.kind, asked.features, [(a, ())])
    assert (before.forecast.known, before.runs, before.nearest, before.judged) == (False, 0, (), None)

    chance, works = random.Random(0), [Work(name, 32, 50.0, 2 * GIB) for name in ("resnet18", "resnet34", "resnet50")]
    outcomes = [run(work, number, chance, device_type="A") for number, work in enumerate(works)]
    shelf.publish(fit(outcomes, Learning()), {"figures": {"candidate": {"memory_under_share": 0.04, "scored": 50}}}, {})
    now = 10.0
    asked = replace(asked, features=Work("resnet101", 32, 50.0, 2 * GIB).described()[2])
    on_a, on_b = models.explained_forecasts(asked.kind, asked.features, [(a, ()), (b, ("k",))])
    assert on_a.forecast.evidence.startswith("script template, 3 runs of 3 kinds")
    assert {kind for kind, _ in on_a.nearest} == {work.described()[0] for work in works}
    assert on_a.quantile == 0.95
    assert on_a.judged == {"memory_under_share": 0.04, "scored": 50}
    assert not on_b.forecast.known
    assert [cost.beside for cost in on_b.forecast.pairs] == ["k"]
    assert models.forecasts([asked])[asked.signature]["expected_utilization_pct"] == pytest.approx(50.0, rel=0.1)
    assert set(models.forecasts([asked, asked])) == {asked.signature}


def test_an_unreadable_model_card_gives_no_evaluation(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "models")
    assert shelf.card("v0001") is None
