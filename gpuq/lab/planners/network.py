"""A trained network as plain NumPy arrays: saved, loaded with checks, and evaluated. It needs no deep-learning library.

A file is a NumPy archive (`.npz`) with the arrays `weights0`, `bias0`, `weights1`, … and a text `about`, a JSON object:

    {"format": "gpuq reinforced 2", "game": "...", "method": "dqn", "hidden": "relu", "trained": {...}}

`game` identifies the meaning of observations and actions: a network is useless in another game, and is refused. The archive is
read without pickle, so nothing in a file is ever executed, and its CRC sums reveal damage.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput
from gpuq.lab.planners.game import ABOUT_CHOICE, ABOUT_TURN, CHOICES, SIZE, Observation

FORMAT = "gpuq reinforced 2"
SHIPPED = Path(__file__).with_name("shipped.npz")
# The shipped network has 48 KiB. A site's file is untrusted input for the dispatcher, so its size is limited.
_MOST_BYTES = 8 * 2**20
_MOST_LAYERS = 8
_FIX = "Train it again with `python -m gpuq.lab.sim.train_policy`, or leave `reinforcement_file` empty for the one in gpuq."
_HIDDEN: Mapping[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class PolicyNetwork:
    """A multilayer perceptron from observations (SIZE) to actions (CHOICES + 1).

    `layers` are (weights (in, out), bias (out)). `hidden` names the activation of all but the last layer. `trained` says how and
    on what it was trained, for people.
    """

    method: str
    hidden: str
    layers: tuple[Layer, ...]
    trained: Mapping[str, Any]

    def scores(self, seen: Observation) -> NDArray[np.float32]:
        """The score of each action (CHOICES + 1): Q values of DQN, logits of PPO."""
        values = seen
        for weights, bias in self.layers[:-1]:
            values = np.asarray(_HIDDEN[self.hidden](values @ weights + bias), dtype=np.float32)
        weights, bias = self.layers[-1]
        return np.asarray(values @ weights + bias, dtype=np.float32)

    def choose(self, seen: Observation, allowed: NDArray[np.bool_]) -> int:
        """The allowed action with the highest score; the first of equals."""
        return int(np.argmax(np.where(allowed, self.scores(seen), -np.inf)))


def game_id() -> str:
    """A checksum of what observations and actions mean."""
    meaning = json.dumps([ABOUT_TURN, ABOUT_CHOICE, CHOICES])
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]


def save(network: PolicyNetwork, path: Path) -> None:
    """Write the network to this file."""
    about = {
        "format": FORMAT,
        "game": game_id(),
        "method": network.method,
        "hidden": network.hidden,
        "trained": dict(network.trained),
    }
    arrays: dict[str, Any] = {}
    for number, (weights, bias) in enumerate(network.layers):
        arrays[f"weights{number}"], arrays[f"bias{number}"] = np.float32(weights), np.float32(bias)
    with path.open("wb") as file:  # a file, since savez would append `.npz` to another name
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def load(path: Path) -> PolicyNetwork:
    """The network in this file. Raises BadInput for any other file, and for a network of another game."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is larger than {_MOST_BYTES >> 20} MiB: no network of this policy.", fix=_FIX)
        # Opened here, since np.load leaves a file open that begins like an archive and is none.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return _network(archive)
    except OSError as error:
        raise BadInput(f"the network {path} cannot be read: {error}.", fix=_FIX) from None
    except (
        ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, RecursionError, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise BadInput(f"{path} is no network of this policy: {error}.", fix=_FIX) from None


def _network(archive: Any) -> PolicyNetwork:
    """Raises ValueError, KeyError, TypeError or AttributeError for an archive that is no network of this game."""
    # A small archive may expand to a large one.
    if sum(member.file_size for member in archive.zip.infolist()) > _MOST_BYTES:
        raise ValueError(f"its arrays take more than {_MOST_BYTES >> 20} MiB")
    about = json.loads(str(archive["about"]))
    if about["format"] != FORMAT:
        raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
    if about["game"] != game_id():
        raise ValueError("it was trained for another version of the game")
    if about["hidden"] not in _HIDDEN:
        raise ValueError(f"there is no activation {about['hidden']!r}")
    count = (len(archive.files) - 1) // 2
    if not 0 < count <= _MOST_LAYERS:
        raise ValueError(f"it has {count} layers")
    layers = tuple((archive[f"weights{number}"], archive[f"bias{number}"]) for number in range(count))
    width = SIZE
    for weights, bias in layers:
        if weights.dtype != np.float32 or bias.dtype != np.float32:
            raise ValueError(f"its numbers are {weights.dtype} and {bias.dtype}, not float32")
        if weights.shape != (width, bias.size) or bias.ndim != 1:
            raise ValueError(f"a layer for {width} inputs has weights {weights.shape} and a bias {bias.shape}")
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise ValueError("it holds numbers that are not finite")
        width = bias.size
    if width != CHOICES + 1:
        raise ValueError(f"it has {width} outputs, not {CHOICES + 1}")
    return PolicyNetwork(str(about["method"]), about["hidden"], layers, dict(about["trained"]))
