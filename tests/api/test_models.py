"""Forecasts for people who ask: the shelf's model, and what its card says of it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gpuq.api.models import ShelfModels
from gpuq.core.device import Device
from gpuq.learn.clusters import Cluster, Member
from gpuq.learn.model import Model
from gpuq.learn.shelf import Shelf
from gpuq.settings import Learning
from tests.api.support import GIB, MemoryStore, record


class NothingFinished(MemoryStore):
    def finished_attempts(self, **_: object) -> list[object]:  # type: ignore[override]
        return []


def test_a_belief_says_what_it_rests_on_and_how_the_model_was_judged(tmp_path: Path) -> None:
    store, shelf, now = NothingFinished(), Shelf(tmp_path / "models"), 0.0
    store.known = [Device(f"gpu-{i}", "h", "nvml", name, 16 * GIB) for i, name in enumerate("AAB")]  # type: ignore[arg-type]
    _, a, b = store.known
    models = ShelfModels(store, shelf, Learning(), lambda: now)
    asked = record(1.0)
    [before] = models.beliefs(asked, [(a, ())])
    assert (before.forecast.known, before.runs, before.nearest, before.judged) == (False, 0, (), None)

    member = Member("ada:other.py", ("script:train",), None, 50.0, GIB)
    clusters = {"A": (Cluster((member,), 50.0, GIB, 2 * GIB),)}
    model = Model(trained_until=1.0, attempts=8, quantile=0.95, clusters=clusters)
    shelf.publish(model, {"figures": {"candidate": {"memory_under_share": 0.04, "scored": 50}}}, {})
    now = 10.0
    asked = replace(asked, features={"tokens": ["script:train"]})
    on_a, on_b = models.beliefs(asked, [(a, ()), (b, ("k",))])
    assert on_a.forecast.evidence == "cluster of 1 kind, nearest ada:other.py"
    assert (on_a.nearest, on_a.quantile) == ((("ada:other.py", 1.0),), 0.95)
    assert on_a.judged == {"memory_under_share": 0.04, "scored": 50}
    assert not on_b.forecast.known
    assert [cost.beside for cost in on_b.forecast.pairs] == ["k"]
    assert models.forecast(asked)["peak_utilization_pct"] == 50.0
    assert set(models.forecasts([asked, asked])) == {asked.signature}


def test_a_card_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "models")
    assert shelf.card("v0001") is None
