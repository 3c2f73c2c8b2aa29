"""Which settings runs of a script have shown to make no difference to memory, whatever they are called.

Of a setting with an unknown name nothing can be assumed, so a job that has another value of it runs alone. Most such settings
are names of runs, seeds and factors, so what their values did not change is learned. Runs rarely differ in one setting alone:
two runs whose memory agrees speak for all settings that they differ in, and of two whose memory differs one setting is the
cause. The fewest causes that explain all differences are looked for, and what is in none of them is cleared.

Two settings may cancel out, as `--ways 20 --shots 1` and `--ways 4 --shots 5` do. So numbers that move in opposite directions
clear each other never, and two values of which runs that differ in more show no difference count as two values only.

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
from dataclasses import dataclass, replace
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
    differed between them.

    `shown` are the pairs of values between which runs differ in nothing else; `differing` the values of runs whose memory was
    another one, for whatever cause.
    """

    values: frozenset[Value | None] = frozenset()
    spread: float = _NOISE
    needed: int = _VALUES_NEEDED
    shown: frozenset[frozenset[Value | None]] = frozenset()
    differing: frozenset[Value | None] = frozenset()

    def share(self, change: SettingChange) -> float | None:
        """By which share of it memory may differ after this change; None where too little was seen."""
        ends = frozenset({change.old, change.new})
        if ends in self.shown:
            return self.spread
        needed = max(self.needed, _needed(change))
        numbers = sorted(value for value in self.values if isinstance(value, float))
        words = self.values.difference(numbers)
        asked = [value for value in ends if isinstance(value, float)]
        others = ends.difference(asked)
        if asked and len(numbers) < needed:
            return None
        if len(words) < needed and not (others <= self.values and len(self.values) >= needed):
            return None
        # Which of several settings was the cause is a guess: a word that came with another need is cleared by its own runs only.
        if others & self.differing - self.values:
            return None
        ways = [_beyond(numbers, value) for value in asked]
        return None if None in ways else self.spread * max((way for way in ways if way), default=1.0)


def without_effect(runs: Sequence[tuple[JobFeatures, float | None]]) -> Mapping[str, LevelSetting]:
    """The settings that made no difference between these runs of a script, given the memory that each needed."""
    level: list[tuple[list[SettingChange], float]] = []
    moved: list[list[SettingChange]] = []
    for (one, its), (other, others) in combinations(runs, 2):
        if not its or not others:
            continue
        changed = [change for change in changes(one, other) if has_effect(change, "memory")]
        # A known effect, of a width or a batch, would hide that of the others.
        if changed and all(meaning(change.name) in _UNKNOWN or is_choice(change) for change in changed):
            if max(its, others) <= _LEVEL * min(its, others):
                level.append((changed, max(its, others) / min(its, others) - 1))
            else:
                moved.append(changed)
    causes = _causes(map(_names, moved), [_names(_cleared(changed)) for changed, _ in level])
    found: dict[str, LevelSetting] = {}
    for changed, share in level:
        if causes.isdisjoint(_names(changed)):
            for change in _cleared(changed):
                found[change.name] = _with(found.get(change.name, LevelSetting()), change, share, len(changed) == 1)
    for change in chain.from_iterable(moved):
        if change.name in found:
            setting = found[change.name]
            found[change.name] = replace(setting, differing=setting.differing | {change.old, change.new})
    return found


def _names(changed: Iterable[SettingChange]) -> frozenset[str]:
    return frozenset(change.name for change in changed)


def _cleared(changed: Sequence[SettingChange]) -> list[SettingChange]:
    """Of settings that changed together without a difference those that cannot have cancelled out: all, less numbers that did not
    all grow or all shrink."""
    numbers = [change for change in changed if isinstance(change.old, float) or isinstance(change.new, float)]
    grew = {None if change.ratio is None else change.ratio > 1 for change in numbers}
    if len(numbers) < 2 or grew in ({True}, {False}):
        return list(changed)
    return [change for change in changed if change not in numbers]


def _with(before: LevelSetting, change: SettingChange, share: float, is_alone: bool) -> LevelSetting:
    ends = frozenset({change.old, change.new})
    return replace(
        before,
        values=before.values | ends,
        spread=max(before.spread, share),
        needed=max(before.needed, _needed(change)),
        shown=before.shown | {ends} if is_alone else before.shown,
    )


def _needed(change: SettingChange) -> int:
    """How many values have to be seen. A number of a model or a version is bounded by the numbers around it, as any other."""
    is_word = isinstance(change.old, str) or isinstance(change.new, str)
    return _CHOICES_NEEDED if is_word and is_choice(change) else _VALUES_NEEDED


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
