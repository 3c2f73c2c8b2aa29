"""What a submission waits for of other jobs: a `Dependency` of the core, or for each task of an array the success of one job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gpuq import array
from gpuq.core.state.dependency import PATTERN as DEPENDENCY
from gpuq.core.state.dependency import Dependency, DependencyType

_CORR = "corr:"
_ID = "[1-9][0-9]{0,17}"
_JOBS = f"{_ID}(?:-{_ID}(?::{_ID})?)?"
_RANGE = re.compile(f"({_ID})(?:-({_ID})(?::({_ID}))?)?")
PATTERN = rf"{DEPENDENCY}|^{_CORR}{_JOBS}(?:,{_JOBS})*\Z"


@dataclass(frozen=True, slots=True)
class TaskByTask:
    """Each task of an array waits for the success of another array's task, in the same place of these ascending `jobs`."""

    jobs: tuple[int, ...]

    def __str__(self) -> str:
        return f"{_CORR}{array.text_of(self.jobs)}"

    def of_task(self, place: int) -> Dependency:
        """What the task at this place waits for; `place` counts from 0."""
        return Dependency(DependencyType.OK, self.jobs[place], self.jobs[place])


# Each task of an array of 10,000 reads the same text, of up to as many ids.
@lru_cache(maxsize=64)
def parse(text: str) -> Dependency | TaskByTask:
    """What is waited for in text that matches PATTERN. Raises ValueError for a range that runs backwards or is too long."""
    if not text.startswith(_CORR):
        return Dependency.parse(text)
    found: set[int] = set()
    count = 0
    for part in text.removeprefix(_CORR).split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not a dependency")
        jobs = range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
        if not jobs:
            raise ValueError(f"the range of {text!r} runs backwards")
        count += len(jobs)
        if count > array.MOST_TASKS:
            raise ValueError(f"{text[:100]!r} names more than {array.MOST_TASKS:,} tasks")
        found.update(jobs)
    return TaskByTask(tuple(sorted(found)))


def of_task(texts: Iterable[str], place: int) -> tuple[Dependency, ...]:
    """What the task at this place of an array waits for; a job that is no task has the place 0."""
    found = map(parse, texts)
    return tuple(dict.fromkeys(one if isinstance(one, Dependency) else one.of_task(place) for one in found))
