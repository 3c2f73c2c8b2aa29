"""Save a training (weights, optimizer state, step count) and resume it where it stopped.

The state of Keras models and further arrays is written to `checkpoint.npz` in a folder. The file is replaced atomically, and
reading it runs no code from it. It holds plain arrays, so a training saved under one framework resumes under another.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads import device
from workloads.progress import say
from workloads.whole import whole

if TYPE_CHECKING:
    import keras

FILE = "checkpoint.npz"
RANDOM = "random-"
SCALED = "mixed_float16"
# A saved training goes on as it was asked for at first; length, pace and place may change.
FREE_TO_CHANGE = {
    *("epochs", "steps", "seconds", "checkpoint", "checkpoint_seconds", "threads", "loaders", "data_dir"),
    *("storage_mbps", "real_time", "data"),
}


class Checkpoint:
    """The saved state of one training; does nothing where no folder was named."""

    def __init__(
        self, options: argparse.Namespace, models: Sequence[keras.Model], arrays: Mapping[str, np.ndarray]
    ) -> None:
        self._file: Path | None = Path(options.checkpoint) / FILE if options.checkpoint else None
        self._every_s = options.checkpoint_seconds
        self._saved_at = time.monotonic()
        self._asked = {name: value for name, value in vars(options).items() if name not in FREE_TO_CHANGE}
        self._models, self._arrays = models, arrays

    def restore(self) -> int:
        """Fill the models and arrays with what was saved; return its step count, 0 where nothing was saved."""
        if self._file is None or not self._file.exists():
            return 0
        try:
            with self._file.open("rb") as stream, np.load(stream) as saved:
                about = json.loads(str(saved["about"]))
                self._check(about["asked"])
                for name, place in self._places():
                    _fill(name, place, saved[name])
                states = {name.removeprefix(RANDOM): saved[name] for name in saved.files if name.startswith(RANDOM)}
                device.set_random_state(_backend(), states)
        except (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise SystemExit(
                f"cannot resume from {self._file}: {error}. Name another folder, or remove the file."
            ) from error
        step = int(about["step"])
        say(f"resumed at step {step} from {self._file}")
        return step

    def save_if_due(self, step: int) -> None:
        """Save if the last time is long enough ago. Where that fails the training goes on, and tries again later."""
        if 0 < self._every_s <= time.monotonic() - self._saved_at:
            try:
                self.save(step)
            except OSError as error:
                self._saved_at = time.monotonic()
                say(f"NOT SAVED: {error}. Going on; the next try is in {self._every_s:g} s.")

    def save(self, step: int) -> None:
        """Write the state after `step` steps. Raises OSError; what was saved before is left then, and after a crash."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"step": step, "asked": self._asked}, default=str)
        kept = {name: _value(place) for name, place in self._places()}
        states = {RANDOM + name: state for name, state in device.random_state(_backend()).items()}
        with whole(self._file) as stream:
            np.savez(stream, about=about, **kept, **states)
        self._saved_at = time.monotonic()
        say(f"saved step {step} to {self._file}")

    def _check(self, saved: dict[str, Any]) -> None:
        now = json.loads(json.dumps(self._asked, default=str))
        if not now.keys() - {"precision"} <= saved.keys():
            raise ValueError("another script made it, or another version of this one")
        other = sorted(name for name in now if not _agree(name, saved.get(name), now[name]))
        if other:
            saved_with = ", ".join(f"--{name.replace('_', '-')} {saved.get(name)}" for name in other)
            raise ValueError(f"it was made with {saved_with}")

    def _places(self) -> Iterator[tuple[str, Any]]:
        """Names, and the Keras variables or arrays that are saved under them."""
        named: set[int] = set()  # models may share their parts
        for number, model in enumerate(self._models):
            for place, variable in enumerate(model.variables):
                if id(variable) not in named:
                    named.add(id(variable))
                    yield f"model-{number}-variable-{place}", variable
            optimizer = getattr(model, "optimizer", None)
            if optimizer is not None:
                for place, variable in enumerate(optimizer.variables):
                    yield f"model-{number}-optimizer-{place}", variable
        for name, array in self._arrays.items():
            yield f"array-{name}", array


def _agree(flag: str, saved: Any, now: Any) -> bool:
    if flag == "precision":  # the numbers are saved in 32 bits; only with SCALED has the optimizer more of them
        return saved == now or SCALED not in (saved, now)
    return bool(saved == now)


def _backend() -> str:
    import keras

    return str(keras.backend.backend())


def _value(place: Any) -> np.ndarray:
    if isinstance(place, np.ndarray):
        return place
    import keras

    return np.asarray(keras.ops.convert_to_numpy(place))


def _fill(name: str, place: Any, saved: np.ndarray) -> None:
    if tuple(place.shape) != saved.shape:
        raise ValueError(f"{name} has the shape {saved.shape}, and {tuple(place.shape)} is needed")
    if isinstance(place, np.ndarray):
        place[...] = saved
    else:
        place.assign(saved)
