"""What a change of one setting may do to memory and time: assumed powers, and what two measurements show of them.

A setting whose value is multiplied by r multiplies the part of a measured value that grows by r to some power between the ends of
its `SettingEffect`:

- width: weights of dense and recurrent layers grow with its square, activations in proportion, data not at all;
- depth, batch, counts of rows, words, users, trees: in proportion at most;
- length of sequences, side of images, points that meet in pairs: with the square; side of a grid: with the third power;
- sizes of patches, strides, parts into which a model is split: a smaller one may need more, up to the third power;
- epochs and steps of the run: memory hardly, time in proportion;
- logarithms of sizes, depths of trees: one more doubles at most;
- factors such as a dropout or the weight of a loss: nothing, but anything where it was zero before;
- precision, optimiser: half to double; what saves memory by design: anything, once it is left out;
- another model, data set or configuration: anything; so does a setting of any other name, until runs have shown what it does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuq.learn.history.job_features import JobFeatures, Value, value_of
from gpuq.script.meaning import Meaning, meaning, names_file, names_size

ANYTHING = math.inf
# An exponent of 0 would divide by zero when two measurements are extrapolated.
_LEAST_POWER = 0.1


@dataclass(frozen=True, slots=True)
class FactorRange:
    """A factor as natural logarithms: least, usual and most."""

    least: float = 0.0
    usual: float = 0.0
    most: float = 0.0

    def __add__(self, other: FactorRange) -> FactorRange:
        return FactorRange(self.least + other.least, self.usual + other.usual, self.most + other.most)


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """Powers of the ratio of two values of a setting, by which memory and time grow: least, usual, most."""

    memory: FactorRange
    time: FactorRange

    def of(self, what: str) -> FactorRange:
        """The powers for "memory" or "time"."""
        return self.memory if what == "memory" else self.time


_ANY_FACTOR = FactorRange(-ANYTHING, 0.0, ANYTHING)
# For memory, "most" is the power in the module docstring, less a tenth for the batch, at which 96% of measured bounds hold, and
# "usual" the median over the scripts of `benchmarks/corpus`, where these have such settings. For time: the 50th and 90th
# percentiles over those scripts, and "least" is 0, except for a length: a setting that shrinks need not shorten a run, where a
# step's fixed cost dominates.
EFFECTS: Mapping[Meaning, SettingEffect] = {
    Meaning.LENGTH: SettingEffect(FactorRange(0.0, 0.0, 0.1), FactorRange(0.75, 0.95, 1.0)),
    Meaning.STEPS: SettingEffect(FactorRange(0.0, 0.4, 1.0), FactorRange(0.0, 0.5, 1.0)),
    Meaning.ACCUMULATION: SettingEffect(FactorRange(-1.0, 0.0, 0.1), FactorRange(0.0, 0.5, 1.0)),
    Meaning.DEPTH: SettingEffect(FactorRange(0.0, 0.5, 1.0), FactorRange(0.0, 0.8, 1.0)),
    Meaning.BATCH: SettingEffect(FactorRange(0.0, 0.3, 0.9), FactorRange(-0.3, 0.2, 0.8)),
    Meaning.SIDE: SettingEffect(FactorRange(0.0, 1.3, 2.0), FactorRange(0.0, 1.4, 1.9)),
    Meaning.VOLUME: SettingEffect(FactorRange(0.0, 2.0, 3.0), FactorRange(0.0, 2.0, 3.0)),
    Meaning.SPACING: SettingEffect(FactorRange(-3.0, 0.0, 3.0), FactorRange(-3.0, 0.0, 3.0)),
    Meaning.SEQUENCE: SettingEffect(FactorRange(0.0, 0.7, 2.0), FactorRange(0.0, 1.0, 2.0)),
    Meaning.WIDTH: SettingEffect(FactorRange(0.0, 0.8, 2.0), FactorRange(0.0, 1.0, 1.7)),
    Meaning.COUNT: SettingEffect(FactorRange(0.0, 0.5, 1.0), FactorRange(0.0, 0.6, 0.9)),
    # For memory only to extrapolate from what was measured, in either direction.
    Meaning.OTHER: SettingEffect(FactorRange(-3.0, 0.4, 3.0), FactorRange(0.0, 0.5, 0.9)),
}
# Settings of these meanings describe one quantity in several places (the widths of two layers), see `together`.
_OF_ONE_THING = frozenset({Meaning.WIDTH, Meaning.DEPTH, Meaning.SIDE, Meaning.SEQUENCE, Meaning.BATCH})
# What is off, or not there.
_OFF = (None, "false", "none", "no", 0.0)
# Words and switches: a factor in either direction.
_HALF_OR_DOUBLE = FactorRange(-math.log(2), 0.0, math.log(2))
UNKNOWN_TIME = FactorRange(-math.log(1.5), 0.0, math.log(1.5))
# `--disable-flash`, and what is switched off by a variable.
_DISABLES = re.compile(r"(?:^|[.-])(?:no|not|non|disabled?|without|skip|avoid|off)(?:-|$)")
# Optimisers that keep many vectors as long as the weights, or matrices.
_MANY_VECTORS = re.compile(r"lbfgs|l-bfgs|shampoo|soap|k-?fac|newton|hessian|gauss")
_BITS = re.compile(r"(?<!\d)(?:4|8|16|32|64)(?!\d)")
_BITS_OF_WORDS = {"half": 16, "mixed": 16, "amp": 16, "single": 32, "float": 32, "full": 32, "double": 64}
# Logs of a ratio below which two numbers count as one: no power of the range above makes more than 16% of it.
_SAME_NUMBER = 0.05


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting in which two jobs differ; None where one of them does not have it."""

    name: str
    old: Value | None
    new: Value | None

    @property
    def ratio(self) -> float | None:
        """New / old where both are numbers above zero, else None."""
        if isinstance(self.old, float) and isinstance(self.new, float) and self.old > 0 and self.new > 0:
            return self.new / self.old
        return None


def changes(new: JobFeatures, old: JobFeatures) -> list[SettingChange]:
    """The settings that differ between a job and a run, sorted by name."""
    names = new.different(old)
    if not names:
        return []
    ours, theirs = dict(new.values or ()), dict(old.values or ())
    return [SettingChange(name, value_of(theirs, name), value_of(ours, name)) for name in names]


def of_a_step(changed: Sequence[SettingChange]) -> Iterable[tuple[SettingChange, FactorRange]]:
    """The changes that alter the work of one step, with their effects; the number of steps does not."""
    return [
        (change, assumed_effect(change, "memory"))
        for change in changed
        if meaning(change.name) not in (Meaning.LENGTH, Meaning.ACCUMULATION)
    ]


def together(spans: Iterable[tuple[SettingChange, FactorRange]]) -> FactorRange:
    """The joint effect of several changes.

    Two widths enlarge the matrix between them as squaring one of them does, and two depths enlarge the stack of which they
    are parts: of such settings the one with the largest effect counts. Rows and columns, and everything else, multiply.
    """
    # One running maximum per meaning and direction: a width that grows and another that shrinks do not cancel out.
    total = FactorRange()
    ends: dict[tuple[Meaning, bool], FactorRange] = {}
    for change, span in spans:
        about = meaning(change.name)
        if about not in _OF_ONE_THING or change.ratio is None:
            total += span
            continue
        key = about, change.ratio > 1
        ends[key] = max(ends.get(key, span), span, key=lambda one: abs(one.usual) + one.most - one.least)
    return sum(ends.values(), total)


@lru_cache(maxsize=65_536)
def assumed_effect(change: SettingChange, what: str) -> FactorRange:
    """The assumed effect of a change before anything was measured of it."""
    about, ratio = meaning(change.name), change.ratio
    # What a run goes on from is known by its size, where it is there.
    if about is Meaning.RESUME and ratio is not None and what == "memory":
        return FactorRange(min(0.0, math.log(ratio)), math.log(ratio) / 2, max(0.0, math.log(ratio)))
    if about in (Meaning.RESUME, Meaning.STOPPING):
        return FactorRange() if what == "memory" else _ANY_FACTOR
    if (switched := _of_switch(about, change, what)) is not None:
        return switched
    numbers = [value for value in (change.old, change.new) if isinstance(value, float)]
    # Nothing says what another value of an unknown setting does: whether `--tuner full` is the same as `lora`, or `--reduction 1`
    # less than 8. One run alone measures it, where a wrong bound is paid with jobs that run out of memory.
    if about is Meaning.OTHER and what == "memory" and (ratio is None or abs(math.log(ratio)) > _SAME_NUMBER):
        return _ANY_FACTOR
    # A batch below 1 is a share of the device's memory.
    if about is Meaning.BATCH and numbers and min(numbers) < 1:
        return _ANY_FACTOR
    if about is Meaning.EXPONENT and len(numbers) == 2:
        doublings = (numbers[1] - numbers[0]) * math.log(2)
        return FactorRange(min(0.0, doublings), doublings / 2, max(0.0, doublings))
    # A fraction among them shows that the setting is a factor or a share: sizes are whole.
    if about is Meaning.OTHER and len(numbers) == 2 and not all(value.is_integer() for value in numbers):
        return UNKNOWN_TIME
    # A ratio below 1 swaps which end of the range is the lower one.
    if ratio is not None and about in EFFECTS:
        power = EFFECTS[about].of(what)
        ends = sorted(exponent * math.log(ratio) for exponent in (power.least, power.most))
        return FactorRange(ends[0], power.usual * math.log(ratio), ends[1])
    if about is Meaning.LENGTH:
        return FactorRange(0.0, 0.0, 0.1) if what == "memory" else _ANY_FACTOR
    # A number given to only one of the two, against an unknown default, may be any factor.
    if numbers or about not in (Meaning.COPIES, Meaning.OTHER):
        return _ANY_FACTOR
    return _of_copies(change) if about is Meaning.COPIES else UNKNOWN_TIME


def _of_switch(about: Meaning, change: SettingChange, what: str) -> FactorRange | None:
    """Of what adds or saves any amount of memory; None for a setting of another meaning."""
    # Of a factor only zero is kept, which leaves out what it is a factor of. Against none at all, as of a device.
    if about is Meaning.HARMLESS and what == "time":
        return UNKNOWN_TIME if 0.0 in (change.old, change.new) else _ANY_FACTOR
    if about is Meaning.HARMLESS:
        return FactorRange(-ANYTHING, 0.0, 0.0) if change.new == 0 else _ANY_FACTOR
    # Keeping data in memory adds a data set of unknown size; not keeping them can only lower the need.
    if about is Meaning.STORE:
        return FactorRange(-ANYTHING, 0.0, 0.0) if change.new in _OFF else _ANY_FACTOR
    # Without recomputation all activations are kept, which may be any number of times what is kept with it.
    if about is Meaning.SAVING:
        is_switched_on = change.old in _OFF and change.new not in _OFF and not _DISABLES.search(change.name)
        memory = FactorRange(-ANYTHING, 0.0, 0.0) if is_switched_on else _ANY_FACTOR
        return _HALF_OR_DOUBLE if what == "time" else memory
    return None


def _of_copies(change: SettingChange) -> FactorRange:
    """Of another precision or optimiser: half or double, or what their bits say."""
    old, new = str(change.old or ""), str(change.new or "")
    if _MANY_VECTORS.search(new):
        return _ANY_FACTOR
    bits = [_bits(change.name, word) for word in (old, new)]
    if None in bits:
        # Against an unknown default.
        return _ANY_FACTOR if min(one or 32 for one in bits) < 16 else _HALF_OR_DOUBLE
    grown = math.log((bits[1] or 1) / (bits[0] or 1))
    return FactorRange(min(_HALF_OR_DOUBLE.least, grown), 0.0, max(_HALF_OR_DOUBLE.most, grown))


def _bits(name: str, word: str) -> int | None:
    """How many bits a number has in this precision; None for a word that says none."""
    found = _BITS.search(word) or (_BITS.search(name) if word in ("true", "on", "yes") else None)
    return int(found[0]) if found else _BITS_OF_WORDS.get(word)


def projected(change: SettingChange, seen: SettingChange, share: float, noise: float, what: str) -> FactorRange | None:
    """The effect of a change, where another change of the same setting added `share` of the growing part, within `noise`.

    Two measured values of a number determine one power law for each exponent in the assumed range. The extrapolation with the
    highest exponent bounds all others. For the same change, the measured effect itself. None where the other change was too
    small to tell, and for another word: `bf16` shows nothing of `fp32`. That memory does not grow with the length of a run is
    assumed, and shows no more.
    """
    power = EFFECTS.get(meaning(change.name), EFFECTS[Meaning.OTHER]).of(what)
    if meaning(change.name) is Meaning.LENGTH and what == "memory":
        if seen.ratio is None or (share if seen.ratio > 1 else -share) <= noise:
            return None
        # Something is kept of each step, so it may go on in proportion.
        power = FactorRange(power.least, 1.0, 1.0)
    if change == seen:
        return FactorRange(*(math.log(max(0.01, 1 + share + error)) for error in (-noise, 0.0, noise)))
    if change.ratio is None or seen.ratio is None or abs(math.log(seen.ratio)) < _SAME_NUMBER:
        return None
    ways = [
        (change.ratio**exponent - 1) / (seen.ratio**exponent - 1)
        for exponent in (
            part if abs(part) > _LEAST_POWER else _LEAST_POWER for part in (power.least, power.usual, power.most)
        )
    ]
    # At least a hundredth of the growing part remains: a measured decrease may not extrapolate to nothing or below.
    ends = [math.log(max(0.01, 1 + (share + error) * way)) for way in ways for error in (-noise, noise)]
    return FactorRange(min(ends), math.log(max(0.01, 1 + share * ways[1])), max(ends))


def is_choice(change: SettingChange) -> bool:
    """Whether the setting chooses a model, data set or configuration, by its name or by a value, so that another value may be any
    other work."""
    words = [value for value in (change.old, change.new) if isinstance(value, str)]
    return meaning(change.name) is Meaning.CHOICE or any(names_size(word) or names_file(word) for word in words)


def has_effect(change: SettingChange, what: str) -> bool:
    """Whether a change can have made a difference of its own to what is compared."""
    span = assumed_effect(change, what)
    # In logs: a range of more than 28%, or a usual change of more than 10%, exceeds the noise between two equal runs.
    return span.most - span.least > 0.25 or abs(span.usual) > 0.1
