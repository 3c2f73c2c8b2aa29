"""The model shelf: complete versions, checksums, rollback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest

from gpuq.errors import Conflict
from gpuq.home import write_private
from gpuq.learn.memory.clusters import Cluster, ClusterMember
from gpuq.learn.serving.model import Model, from_json, to_json
from gpuq.learn.serving.shelf import CorruptModel, Shelf


def model(attempts: int = 8) -> Model:
    member = ClusterMember("k", ("script:t",), 6.0, 50.0, 2**30)
    return Model(
        trained_until=1.0,
        attempts=attempts,
        quantile=0.95,
        clusters={"GPU": (Cluster((member,), 50.0, 2**30, 2**31),)},
    )


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "models")


def publish(shelf: Shelf, attempts: int = 8) -> str:
    return shelf.publish(model(attempts), {"attempts": attempts}, {"card.md": b"# Model {version}\n"})


def test_an_empty_shelf_serves_nothing(shelf: Shelf):
    assert shelf.load_current() is None
    assert shelf.status() == {"current": None, "serving": None, "problem": None, "versions": []}
    with pytest.raises(Conflict):
        shelf.rollback()


def test_published_model_loads_unchanged(shelf: Shelf, tmp_path: Path):
    assert publish(shelf) == "v0001"
    assert shelf.load_current() == msgspec.structs.replace(model(), version="v0001")
    assert (tmp_path / "models/v0001/card.md").read_text() == "# Model v0001\n"
    assert shelf.status()["versions"][0]["card"] == {"version": "v0001", "attempts": 8}


def test_shelf_files_are_private(shelf: Shelf, tmp_path: Path):
    publish(shelf)
    for path in (tmp_path / "models").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["flipped", "truncated", "gone", "manifest", "forged"])
def test_a_damaged_version_is_refused_and_the_one_before_serves(
    shelf: Shelf, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
):
    publish(shelf, 1)
    publish(shelf, 2)
    file = tmp_path / "models/v0002/model.json"
    if damage == "flipped":
        file.write_bytes(file.read_bytes().replace(b"50", b"40"))
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-10])
    elif damage == "gone":
        file.unlink()
    elif damage == "manifest":
        file.with_name("manifest.json").write_text("not JSON")
    else:
        file.with_name("manifest.json").write_text("{}")
    with pytest.raises(CorruptModel, match="v0002"):
        shelf.load("v0002")
    loaded = shelf.load_current()
    assert loaded is not None
    assert (loaded.version, loaded.attempts) == ("v0001", 1)
    assert "v0002" in caplog.text
    assert shelf.status()["serving"] == "v0001"
    assert "v0002" in shelf.status()["problem"]


def test_all_versions_damaged_means_no_model(shelf: Shelf, tmp_path: Path):
    publish(shelf)
    (tmp_path / "models/v0001/model.json").write_text("{}")
    assert shelf.load_current() is None


def test_rollback_goes_one_back_each_time_and_past_damaged_ones(shelf: Shelf, tmp_path: Path):
    for attempts in (1, 2, 3):
        publish(shelf, attempts)
    (tmp_path / "models/v0002/model.json").write_text("{}")
    assert shelf.rollback() == "v0001"
    assert shelf.current() == "v0001"
    assert shelf.rollback() is None
    assert shelf.load_current() is None
    with pytest.raises(Conflict):
        shelf.rollback()


def test_a_version_after_a_rollback_gets_a_new_name(shelf: Shelf):
    publish(shelf)
    publish(shelf)
    shelf.rollback()
    assert publish(shelf) == "v0003"
    assert shelf.current() == "v0003"


def test_prune_keeps_the_newest_and_the_current(shelf: Shelf, tmp_path: Path):
    for _ in range(5):
        publish(shelf)
    for _ in range(4):
        shelf.rollback()
    (tmp_path / "models/.new-abc").mkdir()
    assert shelf.prune(2) == ["v0002", "v0003"]
    assert shelf.versions() == ["v0001", "v0004", "v0005"]
    assert shelf.current() == "v0001"
    assert not (tmp_path / "models/.new-abc").exists()


def test_a_crash_while_publishing_leaves_the_serving_version(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    publish(shelf)
    calls = 0

    def die(path: Path, content: bytes) -> None:
        nonlocal calls
        if path.name == "manifest.json":
            calls += 1
            raise OSError(28, "No space left on device")
        write_private(path, content)

    monkeypatch.setattr("gpuq.learn.serving.shelf.write_private", die)
    with pytest.raises(OSError, match="No space"):
        publish(shelf)
    assert calls == 1
    assert shelf.versions() == ["v0001"]
    assert shelf.current() == "v0001"
    monkeypatch.undo()
    assert publish(shelf) == "v0002"


def test_missing_current_version_falls_back(shelf: Shelf, tmp_path: Path):
    publish(shelf)
    (tmp_path / "models/current").write_text("v0009\n")
    loaded = shelf.load_current()
    assert loaded is not None
    assert loaded.version == "v0001"
    (tmp_path / "models/current").write_text("../../etc\n")
    assert shelf.load_current() is None


def test_models_survive_json_and_odd_json_does_not_become_a_model():
    assert from_json(to_json(model())) == model()
    text = to_json(model()).decode()
    for odd in ("", "[]", "\xff", text.replace('"format": 1', '"format": 2'), json.dumps({"format": 1})):
        with pytest.raises(ValueError, match="model"):
            from_json(odd.encode("latin-1"))
    chance = random.Random(1)
    for _ in range(200):
        body = bytearray(to_json(model()))
        body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            from_json(bytes(body))
        except ValueError:
            continue
