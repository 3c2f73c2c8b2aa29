"""Peak memory of a training job from the layers of its network, before it ever ran.

A job's features and a type of device give a `LayerForecast`: point and upper bound in bytes, or None where the network or the
batch size is not known. It is one input of a forecast and never used alone: whatever was measured of the kind goes before it.
Data loaders, evaluation at other batch sizes and whatever else a script holds on the device are not counted. Without it the
error for networks never seen rises from 5.9% to 15% (docs/measurements/forecasts.md).

The sum, each term in MiB:

    context                                   the framework's and driver's own, per type of device
    + state   * parameters * copies           weights, gradients and the optimiser's state
    + saved   * saved per sample * batch      what the forward pass keeps for the backward pass
    + working * largest layer * batch         gradients of the layer at work, and its workspace

Physics says 1 for `state` and `saved`, and 2 for `working`: the gradients of a layer's input and output exist at the same
time. `fit` corrects these three and the contexts on measured rows, in logs (a peak is off in proportion), robustly (Huber),
and shrunk towards the physics, which remains where there are no rows. TensorFlow's allocator grows by doubling (peaks in
`miso_a100` lie a power of two MiB above a constant of their own), so there the sum without the context is rounded up to one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Any

import msgspec
import numpy as np

from gpuq.learn.features.architectures import network_of
from gpuq.learn.memory.conformal import Margin, Residual, held_out, margin
from gpuq.learn.statistics import Prior

MIB = 1 << 20
# The point is the typical peak, as for a kind's own runs: three of four stay at or under it.
TYPICAL_QUANTILE = 0.75
# A fit on fewer networks than this is worse than the shipped coefficients.
LEAST_NETWORKS = 6
# The error assumed without measured rows, a tenth: the layers are known, what a library adds to them is not.
PRIOR = Prior(0.1)
# Each assumption widens the bound's margin by half.
_SPREAD_PER_ASSUMPTION = 0.5
# Where the size of an image had to be assumed, the bound allows for twice its side, four times its area.
_ACTIVATIONS_AT_WORST = 4.0

# Tensors the size of the parameters that an optimiser keeps beside weights and gradients (their papers).
_OPTIMIZER_STATES = {"sgd": 1.0, "rmsprop": 1.0, "adagrad": 1.0, "lion": 1.0, "adafactor": 0.0, "adam8bit": 0.5}
# Adam's two moments; the most common one, and more than most others keep.
_COMMON_STATES = 2.0
_STEPPING = frozenset({"tensorflow", "keras"})
# A script that names no precision has the whole one.
_WHOLE = frozenset(
    {"32", "fp32", "float32", "f32", "float", "single", "full", "32-true", "tf32", "high", "highest", "medium"}
    | {"none", "no", "off", "false", "o0"}
)
# Mixed precision (Micikevicius et al., arXiv:1710.03740): activations in half the bytes, and a second copy of the weights.
_MIXED_ACTIVATIONS, _MIXED_COPY = 0.5, 0.5

# Standard deviations in logs: a coefficient from physics, a context from the common one, that from 600 MiB, a row from its sum.
_COEFFICIENT_SPREAD, _CONTEXT_SPREAD, _COMMON_SPREAD, _ROW_SPREAD = 0.3, 0.5, 0.7, 0.06
_HUBER = 1.5
_LEAST_MARGIN = 0.01
_PHYSICS = np.log(np.array([1.0, 1.0, 2.0]))
_COMMON_CONTEXT = math.log(600.0)
_MOST_ROUNDS = 50

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class LayerForecast:
    """Bytes: the typical peak and its upper bound; and what they rest on, in words."""

    point: int
    upper: int
    evidence: str


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted coefficients of the sum in the module docstring. Contexts in MiB."""

    context: float
    """For types of device that were not measured."""
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
    """The sum's terms without coefficients, in MiB, for any device; and what had to be assumed."""

    state: float
    saved: float
    working: float
    steps: bool
    name: str
    assumed: tuple[str, ...]
    sized: bool = True
    """Whether the size of a sample is known, not assumed."""


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """A job that ran alone: its terms and its peak."""

    parts: LayerTerms
    device_type: str
    peak_bytes: float


def footprint(
    features: Mapping[str, Any], device_type: str, coefficients: Coefficients | None = None
) -> LayerForecast | None:
    """The forecast for a job with these features on this type of device; None where they say too little. Never raises."""
    parts = parts_of(features)
    return None if parts is None else on_device(parts, device_type, coefficients)


def on_device(parts: LayerTerms, device_type: str, coefficients: Coefficients | None = None) -> LayerForecast:
    """The forecast that these terms add up to on this type of device. None as coefficients: those that gpuq ships."""
    known = SHIPPED if coefficients is None else coefficients
    context = known.contexts.get(device_type)
    assumed = parts.assumed if context is not None else (*parts.assumed, f"a context of {known.context:.0f} MiB")
    context = known.context if context is None else context
    activations = known.saved * parts.saved + known.working * parts.working
    spread = 1.0 + _SPREAD_PER_ASSUMPTION * len(assumed)

    def with_margin(of: Margin, spread: float, times: float = 1.0) -> int:
        whole = of.over(context + known.state * parts.state + times * activations, spread)
        if parts.steps:
            # The allocator doubles what it holds, so the sum without the context is rounded up to a power of two.
            whole = context + 2.0 ** math.ceil(math.log2(max(whole - context, 1.0)))
        return round(whole * MIB)

    point = with_margin(known.typical, 1.0)
    upper = with_margin(known.bound, spread, 1.0 if parts.sized else _ACTIVATIONS_AT_WORST)
    evidence = f"layers of {parts.name}" + (f", assuming {' and '.join(assumed)}" if assumed else "")
    return LayerForecast(point, max(point, upper), evidence)


def blended(guess: tuple[float, float], found: LayerForecast, off: float = 0.0) -> tuple[float, float]:
    """(point, upper bound) from the regression's (point, bound) and a footprint, each weighted by how tight its bound is.

    Logs are averaged as two measurements are, by the inverse square of their margins. A footprint's margin is at least `off`,
    the log by which such sums were off on this type of device (see `usually_off`). Where the two disagree by more than their
    margins allow, the bound widens accordingly; where they agree, it is no narrower than the tighter of the two bounds.
    """
    first, second = math.log(max(guess[0], 1.0)), math.log(max(found.point, 1.0))
    bounds = math.log(max(guess[1], 1.0)), math.log(max(found.upper, 1.0))
    squares = [max(bounds[0] - first, _LEAST_MARGIN) ** 2, max(bounds[1] - second, off, _LEAST_MARGIN) ** 2]
    # Weights by inverse variance: the weight of the first is the second's share of the variances.
    weight = squares[1] / sum(squares)
    point = weight * first + (1.0 - weight) * second
    # The variance of the mixture of both: that of the average, and what their disagreement adds.
    square = squares[0] * weight + weight * (1.0 - weight) * (first - second) ** 2
    return math.exp(point), math.exp(max(point + math.sqrt(square), min(bounds)))


def usually_off(measured: Iterable[MeasuredPeak], quantile: float) -> float:
    """The log that `quantile` of the sums with shipped coefficients are off by at most, either way. One vote per network.

    The terms do not count what a library reserves, nor that frozen layers need less, so the error differs from site to site.
    One more vote says that it is no larger than `PRIOR`, which decides while few networks were measured.
    """
    squares: dict[str, list[float]] = {}
    for row in measured:
        point = on_device(row.parts, row.device_type).point
        squares.setdefault(row.parts.name, []).append(math.log(max(row.peak_bytes, 1.0) / max(point, 1)) ** 2)
    votes = [PRIOR.scale**2, *map(fmean, squares.values())]
    return round(NormalDist().inv_cdf(quantile) * math.sqrt(fmean(votes)), 6)


def fit(measured: Iterable[MeasuredPeak], quantile: float) -> Coefficients:
    """The coefficients of these rows, with margins calibrated on sums that were each made without their own network.

    Rows of an allocator that grows in steps are left out, since a step hides the slope; so are peaks that are no positive
    number.
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
    found = _Solved.of(table, logs, types)
    state, saved, working = (round(float(value), 4) for value in np.exp(found.coefficients_log))
    return Coefficients(
        context=round(math.exp(found.common), 1),
        contexts={name: round(math.exp(found.common + value), 1) for name, value in found.contexts.items()},
        state=state,
        saved=saved,
        working=working,
        typical=margin(residuals, TYPICAL_QUANTILE, "times", PRIOR),
        bound=margin(residuals, quantile, "times", PRIOR),
        rows=len(rows),
    )


@dataclass(frozen=True)
class _Solved:
    """Logs of the three coefficients and of the common context, and each type's deviation from it."""

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
            # Steps of more than one in a log overshoot.
            found += step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-9:
                break
        return cls(found[:3], float(found[3]), dict(zip(types, map(float, found[4:]), strict=True)))

    def sum(self, terms: Numbers, device_type: str) -> float:
        """The sum in MiB for these terms."""
        context = math.exp(self.common + self.contexts.get(device_type, 0.0))
        return float(terms @ np.exp(self.coefficients_log)) + context


def parts_of(features: Mapping[str, Any]) -> LayerTerms | None:
    """The terms of a job's features (see `kind.describe`); None without a known network, its memory or a batch size."""
    found, batch = network_of(features), _positive(features.get("batch_size"))
    if found is None or batch is None or found[1].saved_mib is None:
        return None
    name, architecture, stated = found
    size = _positive(stated)
    saved, largest = architecture.per_sample(size)
    assumed: tuple[str, ...] = ()
    if size is None:
        usual = f"{architecture.size:.0f}"
        assumed = (f"{usual} tokens" if architecture.tokens else f"images of {usual} pixels",)
    mixed = str(features.get("precision") or "32").lower() not in _WHOLE
    if mixed:
        assumed = (*assumed, "mixed precision")
    activations = batch * (_MIXED_ACTIVATIONS if mixed else 1.0)
    # Tensors of the parameters' size: weights, gradients, the optimiser's own, and a half copy of the weights in mixed precision.
    optimizer = str(features.get("optimizer") or "").lower()
    copies = 2.0 + _OPTIMIZER_STATES.get(optimizer, _COMMON_STATES) + (_MIXED_COPY if mixed else 0.0)
    steps = str(features.get("framework")).lower() in _STEPPING
    return LayerTerms(
        state=architecture.parameters_mib * copies,
        saved=saved * activations,
        working=largest * activations,
        steps=steps,
        name=name,
        assumed=(*assumed, "an allocator that doubles") if steps else assumed,
        sized=size is not None,
    )


def traced_terms(features: Mapping[str, Any]) -> LayerTerms | None:
    """The terms that a dry run counted; None without one. The workspace of a convolution follows its largest result."""
    found = features.get("traced")
    reserved = _positive_bytes(found.get("reserved_bytes")) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or reserved is None:
        return None
    working = (_positive_bytes(found.get("convolution_bytes")) or 0.0) / MIB
    return LayerTerms(state=reserved / MIB, saved=0.0, working=working, steps=False, name="a dry run", assumed=())


def _positive_bytes(value: Any) -> float | None:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value < 1e9 else None


# Fitted by `fit` on SchedTune's measured peaks (CCGrid 2022, MIT licence): 12 CNNs in PyTorch, 240 rows. A model trained on a
# site's own rows has coefficients of its own, which are used instead.
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

# The same for what a dry run counts (`traced_terms`), on the same rows, by `python -m benchmarks.dry_run`.
TRACED = Coefficients(
    context=989.4,
    contexts={
        "RTX 3070": 1257.8,
        "RTX 3090": 1390.3,
        "Tesla K80 (one die)": 495.6,
        "Tesla T4": 1102.6,
        "Tesla V100": 1280.4,
    },
    state=0.9677,
    saved=1.0,
    working=0.7618,
    typical=Margin(scale="times", amount=0.029812, quantile=0.75, votes=12.0, rows=240),
    bound=Margin(scale="times", amount=0.138292, quantile=0.95, votes=12.0, rows=240),
    rows=240,
)
