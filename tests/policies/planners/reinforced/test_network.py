"""What comes with gpuq says what its trainer said; a file that is not what was written is refused, and nothing in it is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuq.errors import BadInput
from gpuq.policies.planners.reinforced import network as module
from gpuq.policies.planners.reinforced.game import CHOICES, SIZE
from gpuq.policies.planners.reinforced.network import SHIPPED, PolicyNetwork, load, of_json, to_json

RECORDED = Path(__file__).with_name("recorded.json")


def small(hidden: str = "relu", inputs: int = SIZE, outputs: int = CHOICES + 1, width: int = 4) -> PolicyNetwork:
    rng = np.random.default_rng(0)
    shapes = [(inputs, 4), (width, outputs)]
    layers = tuple((rng.normal(size=s).astype(np.float32), rng.normal(size=s[1]).astype(np.float32)) for s in shapes)
    return PolicyNetwork("dqn", hidden, layers, {"seed": 0})


def test_the_one_that_is_shipped_says_what_stable_baselines_said() -> None:
    shipped, recorded = load(SHIPPED), json.loads(RECORDED.read_text())
    seen = np.array(recorded["observations"], dtype=np.float32)
    scores = np.array([shipped.scores(one) for one in seen])

    assert recorded["method"] == shipped.method
    np.testing.assert_allclose(scores, recorded["scores"], rtol=1e-4, atol=1e-4)
    assert scores.argmax(axis=1).tolist() == recorded["actions"]
    assert len(set(recorded["actions"])) > 1, "it does not always do the same"


def test_what_is_shipped_says_how_it_came_about() -> None:
    trained = load(SHIPPED).trained
    assert {"steps", "seed", "worlds", "versions", "held_out"} <= set(trained)


@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_what_is_written_is_read_again(hidden: str, tmp_path: Path) -> None:
    network, path = small(hidden), tmp_path / "mine.json"
    path.write_text(to_json(network))
    seen = np.linspace(-1, 1, SIZE, dtype=np.float32)
    np.testing.assert_array_equal(load(path).scores(seen), network.scores(seen))


def test_only_what_is_allowed_is_chosen() -> None:
    network, seen = small(), np.ones(SIZE, dtype=np.float32)
    best = int(network.scores(seen).argmax())
    allowed = np.arange(CHOICES + 1) != best
    assert network.choose(seen, np.ones(CHOICES + 1, dtype=np.bool_)) == best
    assert network.choose(seen, allowed) != best


def changed(**changes: Any) -> str:
    """A file with its checksum made right again after a change."""
    plain = {**json.loads(to_json(small())), **changes}
    plain.pop("sha256")
    return json.dumps({**plain, "sha256": module._sum(plain)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no network"),
        ("[]", "no network"),
        ("[" * 100_000, "no network"),
        ("{}", "its format is None"),
        (to_json(small()).replace('"seed": 0', '"seed": 1'), "changed since it was written"),
        (changed(game="another"), "another version of the game"),
        (changed(hidden="__import__"), "no activation"),
        (changed(hidden=[]), "no network"),
        (changed(layers=[]), "0 layers"),
        (changed(layers=[{"shape": [10**9, 1], "weights": "", "bias": ""}]), "a layer is 1000000000 x 1"),
        (changed(layers=[{"shape": [4, 4], "weights": "AAAA", "bias": "AAAA"}]), "no network"),
        (changed(layers=[{"shape": [4, 4], "weights": "!", "bias": "!"}]), "no network"),
        (to_json(small(inputs=SIZE + 1)), f"it maps {SIZE + 1} numbers"),
        (to_json(small(outputs=2)), "numbers to 2"),
        (to_json(small(width=5)), "do not fit each other"),
    ],
)
def test_any_other_file_is_refused_with_a_fix(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=why) as caught:
        load(path)
    assert "reinforcement_file" in caught.value.fix


def test_numbers_that_are_not_finite_are_refused() -> None:
    network = small()
    network.layers[0][1][0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        of_json(to_json(network))


def test_a_file_that_is_not_there_or_far_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "none.json")
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    (tmp_path / "large.json").write_text("x" * 11)
    with pytest.raises(BadInput, match="larger than"):
        load(tmp_path / "large.json")
