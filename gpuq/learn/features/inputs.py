"""What the regression of peaks knows of a job before it runs: groups of words, and numbers.

The same function makes them for training and for serving. Tokens of no group are left out; odd tokens never raise.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from gpuq.learn.history.job_features import JobFeatures

# The groups in which jobs are compared, and the prefixes of the tokens (see `kind`) that belong to each.
GROUPS: dict[str, frozenset[str]] = {
    "owner": frozenset({"owner", "project"}),
    "script": frozenset({"script", "folder"}),
    "model": frozenset({"model"}),
    "family": frozenset({"family", "kind"}),
    "words": frozenset({"option", "word", "precision", "optimizer", "framework", "layer", "constructor"}),
}
# One more group: owner and all words together, which is one template of a command whatever model it trains.
TEMPLATE = "template"
# The names of the numbers, in the order of `JobInputs.numbers`.
NUMBERS = ("batch", "size", "compute")
_PLACE_OF = {prefix: place for place, prefixes in enumerate(GROUPS.values()) for prefix in prefixes}
_NUMERAL = re.compile(r"\d+(?:\.\d+)?")
_LARGEST_LOG2 = 64.0


@dataclass(frozen=True, slots=True)
class JobInputs:
    """The tokens of each group (see `GROUPS`), the template, and the numbers (see `NUMBERS`): log2, None for unknown."""

    owner: frozenset[str]
    script: frozenset[str]
    model: frozenset[str]
    family: frozenset[str]
    words: frozenset[str]
    template: frozenset[str]
    numbers: tuple[float | None, ...]


def job_inputs(known: JobFeatures) -> JobInputs:
    """The inputs of a job. Cached: the tokens of one submission are asked about for every type of device."""
    return _inputs(known.tokens, known.batch_log2, known.compute_log2)


@lru_cache(maxsize=16_384)
def _inputs(tokens: tuple[str, ...], batch_log2: float | None, compute_log2: float | None) -> JobInputs:
    found: list[list[str]] = [[] for _ in GROUPS]
    for token in tokens:
        place = _PLACE_OF.get(token.partition(":")[0])
        if place is not None:
            found[place].append(token)
    owner, script, models, family, words = found
    template = " ".join(sorted({*owner, *words}))
    # The product of the numbers in a model's name hints at its size. `resnet50` and `resnet152` differ by it in depth,
    # `L-4_H-512_A-8` and `L-2_H-128_A-2` in layers times width squared (heads grow with the width), to which parameters and work
    # are proportional. Only models of one family are comparable by it.
    logs = [math.log2(value) for model in models for value in map(float, _NUMERAL.findall(model)) if value > 0]
    size_log2 = max(-_LARGEST_LOG2, min(_LARGEST_LOG2, sum(logs))) if logs else None
    return JobInputs(
        owner=frozenset(owner),
        script=frozenset(script),
        model=frozenset(models),
        family=frozenset(family),
        words=frozenset(words),
        template=frozenset({template} if template else ()),
        numbers=(batch_log2, size_log2, compute_log2),
    )
