"""Dependencies: what a job waits for of other jobs, written as `ok:12` and for all tasks of an array as `ok:12-21`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuq.states import JobState

PATTERN = r"^(ok|any|fail|start):[1-9][0-9]{0,17}(-[1-9][0-9]{0,17})?\Z"


class DependencyType(StrEnum):
    """What the jobs are to do: end with success, in any way, or without success; or start. Of several, `FAIL` wants at least one
    to do so, the others all."""

    OK = "ok"
    ANY = "any"
    FAIL = "fail"
    START = "start"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job waits until the jobs `first` to `last` have done what `type` says: one job, or all tasks of an array."""

    type: DependencyType
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.type}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")

    @classmethod
    def parse(cls, text: str) -> Dependency:
        """The dependency in text that matches PATTERN. Raises ValueError for a range that runs backwards."""
        if not re.fullmatch(PATTERN, text):
            raise ValueError(f"{text!r} is not a dependency")
        word, _, jobs = text.partition(":")
        first, _, last = jobs.partition("-")
        found = cls(DependencyType(word), int(first), int(last or first))
        if found.last < found.first:
            raise ValueError(f"the range of {text!r} runs backwards")
        return found

    @property
    def jobs(self) -> range:
        """The ids of the jobs that it waits for."""
        return range(self.first, self.last + 1)

    def after_end(self, job: int, state: JobState, *, is_last: bool) -> Dependency | None:
        """What is left of it after this end of one of its jobs; None: it holds. `is_last`: all others have ended.

        One that can never hold any more is left as a dependency on jobs that have all ended.
        """
        succeeded = state is JobState.COMPLETED
        if self.type is DependencyType.OK and not succeeded:
            return Dependency(DependencyType.OK, job, job)
        left = replace(self, type=DependencyType.ANY) if self.type is DependencyType.FAIL and not succeeded else self
        return None if is_last and left.type is not DependencyType.FAIL else left


def left_of(after: Iterable[Dependency], ended: Mapping[int, JobState]) -> tuple[Dependency, ...]:
    """What is left of these dependencies when those of their jobs that are in `ended` have ended so."""
    left = (_left_of_one(dependency, ended) for dependency in after)
    return tuple(dict.fromkeys(one for one in left if one is not None))


def left_of_each(
    waits: Iterable[tuple[Dependency, ...]], ended: Mapping[int, JobState]
) -> dict[tuple[Dependency, ...], tuple[Dependency, ...]]:
    """`left_of` for what each of many jobs waits for. All tasks of an array may wait for all of another, so equal ones are looked
    at once: to go through thousands of jobs for each of thousands of tasks would take minutes."""
    return {after: left_of(after, ended) for after in dict.fromkeys(waits)}


def _left_of_one(dependency: Dependency, ended: Mapping[int, JobState]) -> Dependency | None:
    found = [job for job in dependency.jobs if job in ended]
    left = dependency
    for place, job in enumerate(found, start=1):
        after = left.after_end(job, ended[job], is_last=place == len(dependency.jobs))
        if after is None or after.jobs != dependency.jobs:
            return after
        left = after
    return left
