"""How much work one sample is in a step of training, as far as it is known before the job runs.

Arrives: the features of a job, as `kind.describe` gives them or a reader of measured data adds to them. Leaves: log2 of
multiply-adds, or None. Ignores what a library does beside the network, and never raises on odd features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpuq.learn.features.architectures import named

# One pass forward and two back: the gradients of the outputs and those of the weights (arXiv:2001.08361, section 2.1).
PASSES = 3.0
# Layers that use each parameter once per sample, or per token of it; beside them only what costs next to nothing.
_ONCE = frozenset({"linear", "dense", "multiheadattention", "transformerencoderlayer", "transformerdecoderlayer"})
_NEXT_TO_NOTHING = frozenset({"layernorm", "batchnorm1d", "batchnormalization", "layernormalization", "rmsnorm"})
_MOST = 1e18


def compute_log2(features: Mapping[str, Any]) -> float | None:
    """log2 of the multiply-adds per sample: what is stated, else by the network's name, else by its dense layers."""
    stated = _positive(features.get("multiply_adds"))
    found = stated or _of_network(features) or _of_layers(features)
    return None if found is None else round(math.log2(found), 3)


def _of_network(features: Mapping[str, Any]) -> float | None:
    model, constructors = features.get("model"), features.get("constructors")
    names = [name for name in constructors if isinstance(name, str)] if isinstance(constructors, list | tuple) else []
    found = named(model if isinstance(model, str) else None, names)
    if found is None:
        return None
    size = _positive(features.get("sequence_length" if found[1].tokens else "image_size"))
    forward = found[1].multiply_adds(size)
    return None if forward is None else PASSES * forward


def _of_layers(features: Mapping[str, Any]) -> float | None:
    """Parameters, each used once per sample or token; None where other layers may use theirs many times over."""
    parameters, layers = _positive(features.get("parameters")), features.get("layers")
    if parameters is None or not isinstance(layers, Mapping):
        return None
    names = {str(name).lower() for name in layers}
    if not names & _ONCE or names - _ONCE - _NEXT_TO_NOTHING:
        return None
    return PASSES * parameters * (_positive(features.get("sequence_length")) or 1.0)


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 1 <= value <= _MOST else None
