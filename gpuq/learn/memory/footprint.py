"""Peak memory of a training job from first principles, where its script reveals enough: before it ever ran.

Arrives: a job's features and a type of device. Leaves: a `LayerForecast`, point and upper bound in bytes; None where the network
or the batch size is not known. It is one input to a forecast and is never used alone: whatever was measured of the kind
goes before it. Ignores data loaders, evaluation at other batch sizes, and whatever else a script holds on the device.

The sum, each term in MiB:

    context                                   the framework's and driver's own, per type of device
    + state   * parameters * copies           weights, gradients and the optimiser's state
    + saved   * saved per sample * batch      what the forward pass keeps for the backward pass
    + working * largest layer * batch         gradients of the layer at work, and its workspace

Physics says 1 for `state` and `saved`, and 2 for `working`: the gradients of a layer's input and output stand side by side.
`fit` corrects these three and the contexts on measured rows, in logs (a peak is off in proportion), robustly (Huber), and
shrunk to the physics: without rows the physics is left. TensorFlow's allocator grows by doubling (peaks in `miso_a100`
lie a power of two MiB above a constant of their own), so there the sum without the context is rounded up to one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Any

import msgspec
import numpy as np

from gpuq.learn.features.architectures import Architecture, named
from gpuq.learn.memory.conformal import Margin, Residual, held_out, margin
from gpuq.learn.statistics import Prior

MIB = 1 << 20
# "The highest typical" memory, as of a kind's own runs: three of four stay at or under it.
TYPICAL_QUANTILE = 0.75
# Fewer networks than this correct less than what ships knows already.
LEAST_NETWORKS = 6
# Off by a tenth, for want of measured rows: what a network's layers add up to is known, what a library adds is not.
PRIOR = Prior(0.1)
# Each thing that had to be assumed makes the bound half as wide again.
_SPREAD_PER_ASSUMPTION = 0.5
# Of a sample whose size had to be assumed, the bound allows for twice that side, four times the area.
_ACTIVATIONS_AT_WORST = 4.0

# Tensors the size of the parameters that an optimiser keeps beside weights and gradients (their papers).
_OPTIMIZER_STATES = {"sgd": 1.0, "rmsprop": 1.0, "adagrad": 1.0, "lion": 1.0, "adafactor": 0.0, "adam8bit": 0.5}
# Adam's two moments; the most common one, and more than most others keep.
_COMMON_STATES = 2.0
_STEPPING = frozenset({"tensorflow", "keras"})
# Whole precision is what a script has that says nothing.
_WHOLE = frozenset(
    {"32", "fp32", "float32", "f32", "float", "single", "full", "32-true", "tf32", "high", "highest", "medium"}
    | {"none", "no", "off", "false", "o0"}
)
# Mixed precision (Micikevicius et al., arXiv:1710.03740): activations in half the bytes, and a second copy of the weights.
_MIXED_ACTIVATIONS, _MIXED_COPY = 0.5, 0.5

# Logs: how far a coefficient may lie from the physics, a context from the common one, that from 600 MiB, a row from its sum.
_COEFFICIENT_SPREAD, _CONTEXT_SPREAD, _COMMON_SPREAD, _ROW_SPREAD = 0.3, 0.5, 0.7, 0.06
_HUBER = 1.5
_LEAST_MARGIN = 0.01
_PHYSICS = np.log(np.array([1.0, 1.0, 2.0]))
_COMMON_CONTEXT = math.log(600.0)
_MOST_ROUNDS = 50

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class LayerForecast:
    """Bytes: the highest typical peak, its upper bound; and what they rest on, for people."""

    point: int
    upper: int
    evidence: str


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """What was fitted; see the module's own words. Contexts in MiB."""

    context: float
    """Of a type of device that was not measured."""
    contexts: dict[str, float]
    state: float
    saved: float
    working: float
    typical: Margin
    """From the sum to the point."""
    bound: Margin
    """From the sum to the upper bound."""
    rows: int


@dataclass(frozen=True, slots=True)
class LayerTerms:
    """What the script says, on whatever device: the sum's terms without coefficients, in MiB, and what had to be assumed."""

    state: float
    saved: float
    working: float
    steps: bool
    name: str
    assumed: tuple[str, ...]
    sized: bool = True
    """Whether the size of a sample is known."""


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """A job that ran alone: what its script says, and its peak."""

    parts: LayerTerms
    device_type: str
    peak_bytes: float


def footprint(
    features: Mapping[str, Any], device_type: str, coefficients: Coefficients | None = None
) -> LayerForecast | None:
    """What the script says this job will need on this type of device; None where it says too little. Never raises."""
    parts = parts_of(features)
    return None if parts is None else on_device(parts, device_type, coefficients)


def on_device(parts: LayerTerms, device_type: str, coefficients: Coefficients | None = None) -> LayerForecast:
    """What these parts add up to on this type of device."""
    known = SHIPPED if coefficients is None else coefficients
    context = known.contexts.get(device_type)
    assumed = parts.assumed if context is not None else (*parts.assumed, f"a context of {known.context:.0f} MiB")
    context = known.context if context is None else context
    activations = known.saved * parts.saved + known.working * parts.working
    spread = 1.0 + _SPREAD_PER_ASSUMPTION * len(assumed)

    def with_margin(of: Margin, spread: float, times: float = 1.0) -> int:
        whole = of.over(context + known.state * parts.state + times * activations, spread)
        return round((context + _stepped(whole - context) if parts.steps else whole) * MIB)

    point = with_margin(known.typical, 1.0)
    upper = with_margin(known.bound, spread, 1.0 if parts.sized else _ACTIVATIONS_AT_WORST)
    return LayerForecast(point, max(point, upper), _evidence(parts.name, assumed))


def blended(guess: tuple[float, float], found: LayerForecast, off: float = 0.0) -> tuple[float, float]:
    """(point, upper bound) from a forecast by likeness and a footprint: each counts by how near its bound is to its point.

    A footprint counts no more than `off` allows, the log that such sums were off by here (see `usually_off`).
    Logs are averaged as two measurements are, by the inverse square of their margins. Where the two disagree by more than
    those margins allow, the bound widens by how much; where they agree, it is no narrower than the nearer of the two.
    """
    first, second = math.log(max(guess[0], 1.0)), math.log(max(found.point, 1.0))
    bounds = math.log(max(guess[1], 1.0)), math.log(max(found.upper, 1.0))
    squares = [max(bounds[0] - first, _LEAST_MARGIN) ** 2, max(bounds[1] - second, off, _LEAST_MARGIN) ** 2]
    weight = squares[1] / sum(squares)
    point = weight * first + (1.0 - weight) * second
    square = squares[0] * weight + weight * (1.0 - weight) * (first - second) ** 2
    return math.exp(point), math.exp(max(point + math.sqrt(square), min(bounds)))


def usually_off(measured: Iterable[MeasuredPeak], quantile: float) -> float:
    """The log that `quantile` of the sums that ship are off by at most, either way, as far as these rows show; one vote per
    network.

    What layers add up to is not what a library reserves, nor what a network with frozen layers needs. One more vote says
    that it is off as little as `PRIOR`.
    """
    squares: dict[str, list[float]] = {}
    for row in measured:
        point = on_device(row.parts, row.device_type).point
        squares.setdefault(row.parts.name, []).append(math.log(max(row.peak_bytes, 1.0) / max(point, 1)) ** 2)
    votes = [PRIOR.scale**2, *map(fmean, squares.values())]
    return round(NormalDist().inv_cdf(quantile) * math.sqrt(fmean(votes)), 6)


def fit(measured: Iterable[MeasuredPeak], quantile: float) -> Coefficients:
    """The coefficients of these rows, and margins calibrated on sums each made without its own network.

    Passes over what steps (a step hides the slope), and peaks that are no size.
    """
    rows = [row for row in measured if not row.parts.steps and 0 < row.peak_bytes < math.inf]
    table = np.array([[row.parts.state, row.parts.saved, row.parts.working] for row in rows]).reshape(-1, 3)
    logs = np.log(np.array([row.peak_bytes / MIB for row in rows]))
    types = [row.device_type for row in rows]
    residuals = []
    for kept, out in held_out([row.parts.name for row in rows]):
        solved = _Solved.of(table[kept], logs[kept], [types[place] for place in kept])
        sums = [solved.sum(table[place], types[place]) for place in out]
        residuals += [
            Residual(rows[place].parts.name, math.exp(logs[place]), total)
            for place, total in zip(out, sums, strict=True)
        ]
    return _Solved.of(table, logs, types).coefficients(
        margin(residuals, TYPICAL_QUANTILE, "times", PRIOR), margin(residuals, quantile, "times", PRIOR), len(rows)
    )


@dataclass(frozen=True)
class _Solved:
    """Logs of the coefficients, of the common context, and of each type's, in the order of `types`."""

    coefficients_log: Numbers
    common: float
    contexts: dict[str, float]

    @classmethod
    def of(cls, table: Numbers, logs: Numbers, device_types: Sequence[str]) -> _Solved:
        """Maximum a posteriori by Gauss-Newton in logs: Huber's loss on the rows, normal priors about the physics."""
        types = sorted(set(device_types))
        place = np.array([types.index(name) for name in device_types], dtype=int)
        prior = np.concatenate([_PHYSICS, [_COMMON_CONTEXT], np.zeros(len(types))])
        spread = np.array([_COEFFICIENT_SPREAD] * 3 + [_COMMON_SPREAD] + [_CONTEXT_SPREAD] * len(types))
        found = prior.copy()
        for _ in range(_MOST_ROUNDS):
            contexts = np.exp(found[3] + found[4:])[place]
            terms = table * np.exp(found[:3])
            total = terms.sum(axis=1) + contexts
            slopes = np.zeros((len(logs), len(found)))
            slopes[:, :3] = terms / total[:, None]
            slopes[:, 3] = contexts / total
            slopes[np.arange(len(logs)), 4 + place] = slopes[:, 3]
            off = logs - np.log(total)
            weight = np.minimum(1.0, _HUBER * _ROW_SPREAD / np.maximum(np.abs(off), 1e-12)) / _ROW_SPREAD**2
            bend = slopes.T @ (slopes * weight[:, None]) + np.diag(spread**-2)
            step = np.linalg.solve(bend, slopes.T @ (weight * off) - (found - prior) / spread**2)
            # Logs that move by more than one at a time overshoot.
            found += step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-9:
                break
        return cls(found[:3], float(found[3]), dict(zip(types, map(float, found[4:]), strict=True)))

    def sum(self, terms: Numbers, device_type: str) -> float:
        """The sum in MiB for these terms."""
        context = math.exp(self.common + self.contexts.get(device_type, 0.0))
        return float(terms @ np.exp(self.coefficients_log)) + context

    def coefficients(self, typical: Margin, bound: Margin, rows: int) -> Coefficients:
        """With margins, as they are stored."""
        state, saved, working = (round(float(value), 4) for value in np.exp(self.coefficients_log))
        contexts = {name: round(math.exp(self.common + value), 1) for name, value in self.contexts.items()}
        return Coefficients(
            context=round(math.exp(self.common), 1),
            contexts=contexts,
            state=state,
            saved=saved,
            working=working,
            typical=typical,
            bound=bound,
            rows=rows,
        )


def parts_of(features: Mapping[str, Any]) -> LayerTerms | None:
    """What the features of a job, as `kind.describe` gives them, say of its layers; None where they say too little."""
    model = features.get("model")
    constructors = [name for name in _list(features.get("constructors")) if isinstance(name, str)]
    found = named(model if isinstance(model, str) else None, constructors)
    batch = _positive(features.get("batch_size"))
    if found is None or batch is None or found[1].saved_mib is None:
        return None
    name, architecture = found
    size = _positive(features.get("sequence_length" if architecture.tokens else "image_size"))
    saved, largest = architecture.per_sample(size)
    assumed = () if size is not None else (_assumed_size(architecture),)
    mixed = str(features.get("precision") or "32").lower() not in _WHOLE
    if mixed:
        assumed = (*assumed, "mixed precision")
    activations = batch * (_MIXED_ACTIVATIONS if mixed else 1.0)
    steps = str(features.get("framework")).lower() in _STEPPING
    return LayerTerms(
        state=architecture.parameters_mib * (_copies(features.get("optimizer")) + (_MIXED_COPY if mixed else 0.0)),
        saved=saved * activations,
        working=largest * activations,
        steps=steps,
        name=name,
        assumed=(*assumed, "an allocator that doubles") if steps else assumed,
        sized=size is not None,
    )


def _copies(optimizer: Any) -> float:
    """Weights, gradients and the optimiser's own."""
    return 2.0 + _OPTIMIZER_STATES.get(str(optimizer or "").lower(), _COMMON_STATES)


def _assumed_size(architecture: Architecture) -> str:
    if architecture.tokens:
        return f"{architecture.size:.0f} tokens"
    return f"images of {architecture.size:.0f} pixels"


def _evidence(name: str, assumed: Sequence[str]) -> str:
    return f"layers of {name}" + (f", assuming {' and '.join(assumed)}" if assumed else "")


def _stepped(mib: float) -> float:
    return float(2.0 ** math.ceil(math.log2(max(mib, 1.0))))


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value < 1e9 else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


# Fitted by `fit` on SchedTune's measured peaks (CCGrid 2022, MIT): 12 CNNs in PyTorch, 240 rows. A night's own fit goes before.
SHIPPED = Coefficients(
    context=897.8,
    contexts={
        "RTX 3070": 1162.9,
        "RTX 3090": 1295.0,
        "Tesla K80 (one die)": 404.9,
        "Tesla T4": 993.5,
        "Tesla V100": 1182.7,
    },
    state=0.9991,
    saved=1.0469,
    working=2.5461,
    typical=Margin(scale="times", amount=0.044566, quantile=0.75, votes=12.0, rows=240),
    bound=Margin(scale="times", amount=0.141254, quantile=0.95, votes=12.0, rows=240),
    rows=240,
)
