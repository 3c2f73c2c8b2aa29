"""The shipped network gives the scores that its trainer recorded. Files that are no network of this game are refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuq.errors import BadInput
from gpuq.lab.planners import network as module
from gpuq.lab.planners.game import CHOICES, SIZE
from gpuq.lab.planners.network import SHIPPED, PolicyNetwork, load, save

RECORDED = Path(__file__).with_name("recorded.json")


def small(hidden: str = "relu", inputs: int = SIZE, outputs: int = CHOICES + 1, width: int = 4) -> PolicyNetwork:
    rng = np.random.default_rng(0)
    shapes = [(inputs, 4), (width, outputs)]
    layers = tuple((rng.normal(size=s).astype(np.float32), rng.normal(size=s[1]).astype(np.float32)) for s in shapes)
    return PolicyNetwork("dqn", hidden, layers, {"seed": 0})


def test_shipped_network_gives_the_scores_of_stable_baselines() -> None:
    shipped, recorded = load(SHIPPED), json.loads(RECORDED.read_text())
    seen = np.array(recorded["observations"], dtype=np.float32)
    scores = np.array([shipped.scores(one) for one in seen])

    assert recorded["method"] == shipped.method
    np.testing.assert_allclose(scores, recorded["scores"], rtol=1e-4, atol=1e-4)
    assert scores.argmax(axis=1).tolist() == recorded["actions"]
    assert len(set(recorded["actions"])) > 1, "it does not always do the same"


def test_shipped_network_says_how_it_was_trained() -> None:
    trained = load(SHIPPED).trained
    assert {"steps", "seed", "worlds", "versions", "held_out"} <= set(trained)


@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_saved_network_is_loaded_unchanged(hidden: str, tmp_path: Path) -> None:
    network, path = small(hidden), tmp_path / "mine.npz"
    save(network, path)
    seen = np.linspace(-1, 1, SIZE, dtype=np.float32)
    np.testing.assert_array_equal(load(path).scores(seen), network.scores(seen))
    assert load(path).trained == network.trained


def test_save_writes_the_very_file_that_was_named(tmp_path: Path) -> None:
    save(small(), tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_choose_takes_the_best_allowed_action() -> None:
    network, seen = small(), np.ones(SIZE, dtype=np.float32)
    best = int(network.scores(seen).argmax())
    allowed = np.arange(CHOICES + 1) != best
    assert network.choose(seen, np.ones(CHOICES + 1, dtype=np.bool_)) == best
    assert network.choose(seen, allowed) != best


def refused(path: Path, why: str) -> None:
    with pytest.raises(BadInput, match=why) as caught:
        load(path)
    assert "reinforcement_file" in caught.value.fix


def changed(path: Path, description: dict[str, Any] | None = None, /, **arrays: Any) -> Path:
    """A file of a sound network with other texts or arrays; None removes an array."""
    save(small(), path)
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    content["about"] = np.array(json.dumps({**json.loads(str(content["about"])), **(description or {})}))
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in {**content, **arrays}.items() if array is not None})
    return path


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"PK\x03\x04", pickle.dumps([1.0])])
def test_file_that_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    refused(path, "no network")


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.ones(3))
    refused(tmp_path / "mine.npy", "no network")


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"format": "gpuq reinforced 1"}, "its format is 'gpuq reinforced 1'"),
        ({"game": "another"}, "another version of the game"),
        ({"hidden": "__import__"}, "no activation"),
        ({"hidden": []}, "no network"),
        ({"trained": 3}, "no network"),
    ],
)
def test_other_description_is_refused(about: dict[str, Any], why: str, tmp_path: Path) -> None:
    refused(changed(tmp_path / "mine.npz", about), why)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"about": np.array("[" * 100_000)}, "no network"),
        ({"about": None}, "no network"),
        ({"weights0": None, "bias0": None, "weights1": None, "bias1": None}, "0 layers"),
        ({f"weights{n}": np.ones((1, 1), np.float32) for n in range(40)}, "layers"),
        ({"weights0": None}, "no network|0 layers"),
        ({"weights0": np.ones((SIZE, 4))}, "not float32"),
        ({"weights0": np.array(["a"])}, "not float32"),
        ({"bias0": np.ones((4, 1), np.float32)}, "a bias"),
        ({"bias1": np.full(CHOICES + 1, np.nan, np.float32)}, "not finite"),
    ],
)
def test_other_arrays_are_refused(arrays: dict[str, Any], why: str, tmp_path: Path) -> None:
    refused(changed(tmp_path / "mine.npz", **arrays), why)


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (small(inputs=SIZE + 1), f"a layer for {SIZE} inputs"),
        (small(outputs=2), "it has 2 outputs"),
        (small(width=5), "a layer for 4 inputs"),
    ],
)
def test_layers_that_do_not_fit_are_refused(network: PolicyNetwork, why: str, tmp_path: Path) -> None:
    save(network, tmp_path / "mine.npz")
    refused(tmp_path / "mine.npz", why)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    class Executed:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    refused(changed(tmp_path / "mine.npz", weights0=np.array([Executed()], dtype=object)), "no network")
    assert not (tmp_path / "executed").exists()


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    save(small(), path)
    content = bytearray(path.read_bytes())
    content[content.index(b"weights0") + 400] ^= 1
    path.write_bytes(content)
    refused(path, "no network")


def test_missing_and_oversized_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tmp_path / "none.npz", "cannot be read")
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    (tmp_path / "large.npz").write_text("x" * 11)
    refused(tmp_path / "large.npz", "larger than")


def test_archive_that_expands_to_too_much_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", about=np.zeros(module._MOST_BYTES + 1, np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < module._MOST_BYTES
    refused(tmp_path / "bomb.npz", "its arrays take more than 8 MiB")
