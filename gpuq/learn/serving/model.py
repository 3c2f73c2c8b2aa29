"""A model: what the trainer found, as plain data in JSON. No code, no pickles.

Reading checks every type. The names of fields are the stored format: models of older versions stay readable.
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
    """Factors of the memory bounds by the amount of evidence, found on later attempts; above 1 widens a bound.

    `scale` is the standard deviation of the log of one kind's peak memory from run to run, over all kinds: the prior of the
    bounds. `few`, `some`, `many`: a kind's own runs of the same script and settings, from 1, 4 and 19 runs on; `changed`:
    runs with other settings. Tiers of other kinds have margins of their own, in `Peaks`.
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
    """The name of the factor for this many own runs: with fewer, the bound rests more on its prior."""
    if runs < 4:
        return "few"
    return "some" if runs < 19 else "many"


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that serves. `trained_until` is the end of the last attempt that it has seen, in Unix seconds."""

    format: int = 1
    version: str | None = None
    """Its name on the shelf; None before it is published."""
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
    """Coefficients of networks' memory, over all types of device; None where too few were measured: then the shipped ones."""
    layers_off: dict[str, Annotated[float, Meta(ge=0)]] = {}
    """Device type -> the log by which sums with the shipped coefficients were off there; empty where `layers` is given."""
    interference: dict[str, Interference] = {}
    """Place (see `history.place_of`) -> what was learned from its pairs."""


def to_json(model: Model) -> bytes:
    """Readable JSON; the same model gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(model, order="deterministic"), indent=1)


def from_json(text: bytes) -> Model:
    """The model that `to_json` wrote. Raises ValueError with what is wrong."""
    try:
        model = msgspec.json.decode(text, type=Model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a model: {error}") from error
    if model.format != 1:
        raise ValueError(f"model format {model.format} is not one this gpuq knows")
    return model
