"""A model: what the trainer found, as plain data that goes to JSON and back. No code, no pickles.

Leaves as JSON; comes back with every type checked. Raises ValueError where the text is not a model.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gpuq.learn.interference.learned import Interference
from gpuq.learn.memory.footprint import Coefficients
from gpuq.learn.memory.regression import Peaks
from gpuq.learn.statistics import SAME_KIND_MEMORY
from gpuq.learn.training.clusters import Cluster
from gpuq.learn.transfer.transfer import Transfer

Factor = Annotated[float, Meta(gt=0, le=100)]


class Calibration(msgspec.Struct, frozen=True):
    """By how much to widen (above 1) or narrow (below) the memory bound of each level, found on later attempts.

    `scale` is how much the logs of one kind's peak memory differ from run to run, over all kinds: the prior of the
    bounds. `few`, `some`, `many`: a kind's own runs of the same script and batch size, by how many there are (from 1, 4
    and 19); `changed`: its runs of others. What other kinds say has bounds of its own, in `Peaks`.
    """

    scale: Annotated[float, Meta(ge=0.01, le=2)] = SAME_KIND_MEMORY.scale
    few: Factor = 1.0
    some: Factor = 1.0
    many: Factor = 1.0
    changed: Factor = 1.0

    def own(self, runs: int) -> float:
        """The factor for a bound from this many own runs."""
        return {"few": self.few, "some": self.some, "many": self.many}[own_level(runs)]


def own_level(runs: int) -> str:
    """Which factor goes with this many own runs: the fewer there are, the more the bound rests on its prior."""
    if runs < 4:
        return "few"
    return "some" if runs < 19 else "many"


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's own words. `trained_until` is the end of the last attempt it has seen, Unix seconds."""

    format: int = 1
    version: str | None = None
    """Its name on the shelf; None before it is there."""
    trained_until: float
    attempts: int
    quantile: Annotated[float, Meta(gt=0, lt=1)]
    clusters: dict[str, tuple[Cluster, ...]]
    """Device type -> its clusters."""
    calibration: Calibration = Calibration()
    transfer: Transfer = Transfer()
    """Durations from one type of device to another."""
    peaks: dict[str, Peaks] = {}
    """Device type -> its regressions of peaks and duration."""
    layers: Coefficients | None = None
    """What a network's layers cost, over all types of device; None where too few were measured: then what ships."""
    layers_off: dict[str, Annotated[float, Meta(ge=0)]] = {}
    """Device type -> the log that sums of layers by what ships were off by there; empty with `layers` of our own."""
    interference: dict[str, Interference] = {}
    """Place (type of device and way of sharing, see `history.place_of`) -> what pairs taught there."""


def to_json(model: Model) -> bytes:
    """Readable JSON; the same model gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(model, order="deterministic"), indent=1)


def from_json(text: bytes) -> Model:
    """The model that `to_json` wrote. Raises ValueError."""
    try:
        model = msgspec.json.decode(text, type=Model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a model: {error}") from error
    if model.format != 1:
        raise ValueError(f"model format {model.format} is not one this gpuq knows")
    return model
