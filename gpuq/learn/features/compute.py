"""How much work one sample is in a training step, as far as that is known before the job runs.

The regression of peaks uses it as a number of the job (see `inputs`): more work per sample keeps a device busier. It is known
where a reader of measured data states it, or where the network has a name that `architectures` knows. What a library does
beside the network is not counted. Odd features never raise, since clients send them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpuq.learn.features.architectures import named

# One pass forward and two back: the gradients of the outputs and those of the weights (arXiv:2001.08361, section 2.1).
PASSES = 3.0
_MOST = 1e18


def compute_log2(features: Mapping[str, Any]) -> float | None:
    """log2 of the multiply-adds per sample of a training step; None where neither a number nor a known network is named."""
    stated = _positive(features.get("multiply_adds"))
    found = stated or _of_network(features)
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


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 1 <= value <= _MOST else None
