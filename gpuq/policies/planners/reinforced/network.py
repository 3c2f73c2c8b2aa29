"""A trained network as plain arrays: read from JSON, checked, and played. numpy is all it needs.

    {"format": "gpuq reinforced 1", "game": "...", "method": "dqn", "hidden": "relu",
     "layers": [{"shape": [in, out], "weights": base64, "bias": base64}, ...], "trained": {...}, "sha256": "..."}

Weights are little-endian 32-bit floats, row by row; `sha256` is of all the rest, as canonical JSON. It tells a damaged or
hand-edited file, not a malicious one: whoever may write the file may write the sum. Nothing in it is ever executed. Raises
`BadInput` for what is no such file, or was trained for another game.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput
from gpuq.policies.planners.reinforced.game import ABOUT_CHOICE, ABOUT_TURN, CHOICES, SIZE, Observation

FORMAT = "gpuq reinforced 1"
SHIPPED = Path(__file__).with_name("shipped.json")
_MOST_BYTES = 8 * 2**20
_MOST_WIDTH = 4096
_MOST_LAYERS = 8
_FLOAT = np.dtype("<f4")
_FIX = "Train it again with `python -m gpuq.lab.sim.train_policy`, or leave `reinforcement_file` empty for the one in gpuq."
_HIDDEN: Mapping[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class PolicyNetwork:
    """`layers` are (weights (in, out), bias (out)), the first of `SIZE` inputs, the last of `CHOICES + 1` outputs.

    `trained` says, for people, how and on what.
    """

    method: str
    hidden: str
    layers: tuple[Layer, ...]
    trained: Mapping[str, Any]

    def scores(self, seen: Observation) -> NDArray[np.float32]:
        """(CHOICES + 1) What each action is worth to it: Q values, or the logits of a policy."""
        values = seen
        for weights, bias in self.layers[:-1]:
            values = np.asarray(_HIDDEN[self.hidden](values @ weights + bias), dtype=np.float32)
        weights, bias = self.layers[-1]
        return np.asarray(values @ weights + bias, dtype=np.float32)

    def choose(self, seen: Observation, allowed: NDArray[np.bool_]) -> int:
        """The best of the actions allowed; the first of equals."""
        return int(np.argmax(np.where(allowed, self.scores(seen), -np.inf)))


def game_sum() -> str:
    """What an observation means, as a checksum: a network is of no use in another game."""
    said = json.dumps([ABOUT_TURN, ABOUT_CHOICE, CHOICES])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def to_json(network: PolicyNetwork) -> str:
    """As a file has it."""
    plain: dict[str, Any] = {
        "format": FORMAT,
        "game": game_sum(),
        "method": network.method,
        "hidden": network.hidden,
        "layers": [
            {"shape": list(weights.shape), "weights": _text(weights), "bias": _text(bias)}
            for weights, bias in network.layers
        ],
        "trained": dict(network.trained),
    }
    return json.dumps({**plain, "sha256": _sum(plain)}, indent=1) + "\n"


def load(path: Path) -> PolicyNetwork:
    """The network of this file. Raises BadInput."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is larger than {_MOST_BYTES >> 20} MiB: no network of this policy.", fix=_FIX)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the network {path} cannot be read: {error}.", fix=_FIX) from None
    try:
        return of_json(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise BadInput(f"{path} is no network of this policy: {error}.", fix=_FIX) from None


def of_json(text: str) -> PolicyNetwork:
    """The network of this text. Raises ValueError, KeyError or TypeError for any other."""
    plain = json.loads(text)
    if plain.get("format") != FORMAT:
        raise ValueError(f"its format is {plain.get('format')!r}, not {FORMAT!r}")
    if plain.pop("sha256", None) != _sum(plain):
        raise ValueError("it was changed since it was written: its checksum does not match")
    if plain["game"] != game_sum():
        raise ValueError("it was trained for another version of the game")
    if plain["hidden"] not in _HIDDEN:
        raise ValueError(f"there is no activation {plain['hidden']!r}")
    layers = tuple(_layer(layer) for layer in plain["layers"][: _MOST_LAYERS + 1])
    _check(layers)
    return PolicyNetwork(str(plain["method"]), plain["hidden"], layers, dict(plain["trained"]))


def _check(layers: Sequence[Layer]) -> None:
    if not 0 < len(layers) <= _MOST_LAYERS:
        raise ValueError(f"it has {len(layers)} layers")
    widths = [weights.shape[0] for weights, _ in layers]
    if widths[0] != SIZE or layers[-1][0].shape[1] != CHOICES + 1:
        raise ValueError(f"it maps {widths[0]} numbers to {layers[-1][0].shape[1]}, not {SIZE} to {CHOICES + 1}")
    if widths[1:] != [weights.shape[1] for weights, _ in layers[:-1]]:
        raise ValueError("its layers do not fit each other")
    if not all(np.isfinite(weights).all() and np.isfinite(bias).all() for weights, bias in layers):
        raise ValueError("it holds numbers that are not finite")


def _layer(plain: Mapping[str, Any]) -> Layer:
    rows, columns = (int(width) for width in plain["shape"])
    if not (0 < rows <= _MOST_WIDTH and 0 < columns <= _MOST_WIDTH):
        raise ValueError(f"a layer is {rows} x {columns}")
    return _array(plain["weights"]).reshape(rows, columns), _array(plain["bias"]).reshape(columns)


def _array(text: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=_FLOAT).astype(np.float32)


def _text(array: NDArray[np.float32]) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=_FLOAT).tobytes()).decode()


def _sum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
