"""Which settings runs of a script have shown to make no difference to memory, whatever they are called.

Of a setting with an unknown name nothing can be assumed, so a job that has another value of it runs alone. Most such settings
are names of runs, seeds and factors, so what their values did not change is learned. Runs rarely differ in one setting alone:
two runs whose memory agrees clear all settings that they differ in, and of two whose memory differs one setting is the cause.
The fewest causes that explain all differences are looked for, and what is in none of them is cleared.

How many values have to be seen: let a share p of such settings matter, and of these let a value make the same of memory as
another with a probability that may be anything. After n values without a difference, the next one makes one with probability

    p * 2 / (n + 1) / (n + 2) / (1 - p + p * 2 / (n + 1)).

Of unknown names in public training code two in five matter; three values give 5%. Of names of models and data sets nine in ten
do, and ten values give 5%.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from gpuq.learn.features.setting_effects import EFFECTS, SettingChange, changes, has_effect, is_choice
from gpuq.learn.history.job_features import JobFeatures, Value
from gpuq.script.meaning import Meaning, meaning

# What is private is known as a switch only.
_UNKNOWN = frozenset({Meaning.OTHER, Meaning.PRIVATE})
_VALUES_NEEDED, _CHOICES_NEEDED = 3, 10
# The ratio of two needs that counts as no difference: a run repeated differs by less in 99% of cases, and by 5% often.
_LEVEL, _NOISE = 1.2, 0.05


@dataclass(frozen=True, slots=True)
class LevelSetting:
    """One setting without effect: the values that were seen, None for runs without it, and the largest share by which memory
    differed between them."""

    values: frozenset[Value | None]
    spread: float
    needed: int

    def share(self, change: SettingChange) -> float | None:
        """By which share of it memory may differ after this change; None where too little was seen."""
        if {change.old, change.new} <= self.values:
            return self.spread
        numbers = sorted(value for value in self.values if isinstance(value, float))
        asked = [value for value in (change.old, change.new) if isinstance(value, float)]
        if len(numbers if asked else self.values) < self.needed:
            return None
        ways = [_beyond(numbers, value) for value in asked]
        return None if None in ways else self.spread * max((way for way in ways if way), default=1.0)


def without_effect(runs: Sequence[tuple[JobFeatures, float | None]]) -> Mapping[str, LevelSetting]:
    """The settings that made no difference between these runs of a script, given the memory that each needed."""
    level: list[tuple[list[SettingChange], float]] = []
    moved: list[frozenset[str]] = []
    for (one, its), (other, others) in combinations(runs, 2):
        if not its or not others:
            continue
        changed = [change for change in changes(one, other) if has_effect(change, "memory")]
        # A known effect, of a width or a batch, would hide that of the others.
        if changed and all(meaning(change.name) in _UNKNOWN or is_choice(change) for change in changed):
            if max(its, others) <= _LEVEL * min(its, others):
                level.append((changed, max(its, others) / min(its, others) - 1))
            else:
                moved.append(frozenset(change.name for change in changed))
    causes = _causes(moved, [frozenset(change.name for change in changed) for changed, _ in level])
    found: dict[str, LevelSetting] = {}
    for changed, share in level:
        if causes.isdisjoint(change.name for change in changed):
            for change in changed:
                found[change.name] = _with(found.get(change.name), change, share)
    return found


def _with(before: LevelSetting | None, change: SettingChange, share: float) -> LevelSetting:
    seen = before or LevelSetting(frozenset(), _NOISE, _VALUES_NEEDED)
    # A number of a model or a version is bounded by the numbers around it, as any other.
    is_word = isinstance(change.old, str) or isinstance(change.new, str)
    needed = _CHOICES_NEEDED if is_word and is_choice(change) else seen.needed
    return LevelSetting(seen.values | {change.old, change.new}, max(seen.spread, share), needed)


def _causes(moved: Iterable[frozenset[str]], level: Iterable[frozenset[str]]) -> set[str]:
    """Few settings of which each difference in memory has one; those first that differ least often where memory does not."""
    causes: set[str] = set()
    while unexplained := [names for names in moved if causes.isdisjoint(names)]:
        blamed = Counter(chain.from_iterable(unexplained))
        cleared = Counter(chain.from_iterable(names for names in level if causes.isdisjoint(names)))
        causes.add(max(blamed, key=lambda name: (blamed[name] / (blamed[name] + cleared[name]), blamed[name], name)))
    return causes


def _beyond(numbers: Sequence[float], value: float) -> float | None:
    """By how much a difference too small to see between these numbers may have grown at another one, which lies beyond them; 1
    between them. None where that cannot be said."""
    if numbers[0] <= value <= numbers[-1]:
        return 1.0
    positive = [number for number in numbers if number > 0]
    if value <= 0 or len(positive) < 2:
        return None
    far, near = (positive[0], positive[-1]) if value > positive[-1] else (positive[-1], positive[0])
    power = EFFECTS[Meaning.OTHER].memory.most * (1 if value > near else -1)
    # The logs of numbers such as times of day hardly differ.
    return math.expm1(min(300.0, power * math.log(value / far))) / math.expm1(power * math.log(near / far))
