"""What submissions wait for of other jobs: arrays in place of their ids, and no dependency that can never hold.

A user may name many ranges of thousands of jobs in one request. So all of this is done in a thread, and how many jobs the
dependencies of a request are on is bounded: what waits for them is looked up at each end of one of them, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import ArrayRow, Selection
from gpuq.array import merged, text_of
from gpuq.core.state.dependency import Dependency, left_of
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.errors import Conflict, NotFound, NotPermitted
from gpuq.messages import dependency
from gpuq.messages.dependency import TaskByTask
from gpuq.messages.submission import Submission

MOST_IN_RANGE = 100_000
MOST_IN_REQUEST = 1_000_000
"""Jobs of all its dependencies, those of equal ones once."""
_SHORT = 60

Waits = Dependency | TaskByTask


def resolved(store: Store, wanted: Sequence[Submission], owner: str | None) -> list[Submission]:
    """The submissions, with the tasks of an array in place of its id where they wait for one. Blocks.

    Raises NotFound for a dependency on jobs or corresponding tasks that there are not, NotPermitted for one on a job of another
    than `owner` (None: all may be named), and Conflict for one that can never hold, or on too many jobs. So no two jobs ever wait
    for each other: each can name earlier ones only.
    """
    after = {text: dependency.parse(text) for one in wanted for text in one.after}
    _check_sizes(after)
    arrays = _arrays_of(store, after.values())
    for text, one in after.items():
        job = _first(one)
        if re.fullmatch(r"[a-z]+:[0-9]+", text) and job in arrays and arrays[job].id == job:
            last = job + arrays[job].record.job_count - 1
            whole = (
                Dependency(one.type, job, last) if isinstance(one, Dependency) else TaskByTask((*range(job, last + 1),))
            )
            after[text] = whole
    found = [
        replace(one, after=tuple(str(_of_tasks(text, after[text], one, arrays)) for text in one.after))
        if one.after
        else one
        for one in wanted
    ]
    waits = {text: dependency.parse(text) for one in found for text in one.after}
    _check_sizes(waits)
    _check(store, waits, owner)
    return found


def _check_sizes(waits: Mapping[str, Waits]) -> None:
    """Raises Conflict: no schema can say this of numbers in a text."""
    sizes = [len(one.jobs) for one in set(waits.values())]
    if any(size > MOST_IN_RANGE for size in sizes):
        raise Conflict(f"A dependency is on more than {MOST_IN_RANGE:,} jobs.", fix="Name a shorter range.")
    if sum(sizes) > MOST_IN_REQUEST:
        raise Conflict(
            f"The dependencies of this request are on more than {MOST_IN_REQUEST:,} jobs.",
            fix="Name shorter ranges, or send the jobs in several requests.",
        )


def _first(one: Waits) -> int:
    return one.first if isinstance(one, Dependency) else one.jobs[0]


def _short(text: str) -> str:
    """A dependency for an error message: one on tasks with numbers of any kind is long."""
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _arrays_of(store: Store, after: Collection[Waits]) -> dict[int, ArrayRow]:
    """By the first job of each dependency the array that it is, or that it is a task of where corresponding ones are meant."""
    in_array = {job: job for job in map(JobId, map(_first, after))}
    corresponding = [JobId(one.jobs[0]) for one in after if isinstance(one, TaskByTask)]
    for row in store.lines(ids=corresponding) if corresponding else ():
        if row.record.task is not None:
            in_array[row.id] = row.record.task.array
    rows = {row.id: row for row in store.arrays(ids=sorted(set(in_array.values())))}
    return {job: rows[array] for job, array in in_array.items() if array in rows}


def _of_tasks(text: str, wait: Waits, submission: Submission, arrays: Mapping[int, ArrayRow]) -> Waits:
    """What is waited for; of corresponding tasks those that have the numbers of the submission's."""
    if isinstance(wait, Dependency):
        return wait
    text = _short(text)
    if submission.array is None:
        fix = "Wait for one task with ok:12_3, or for all with ok:12; or make this an array too, with --array."
        raise Conflict(f"`{text}` is for the tasks of an array, and this is one job.", fix=fix)
    first = wait.jobs[0]
    if first not in arrays:
        fix = f"Wait for it with ok:{first}."
        raise NotFound(f"Job {first} is no array, so `{text}` names no corresponding tasks.", fix=fix)
    row = arrays[first]
    other = row.record.submission.array
    assert other is not None, f"{row.id} is no array"
    named = set(wait.jobs)
    job_of = {number: job for job, number in enumerate(other.numbers, start=row.id) if job in named}
    missing = [number for number in submission.array.numbers if number not in job_of]
    if missing:
        raise NotFound(
            f"Array {row.id} has no task {missing[0]} among those of `{text}`, so task {missing[0]} would wait for ever.",
            fix=f"Its tasks are {text_of(tuple(job_of))}; submit the array with these.",
        )
    return TaskByTask(tuple(job_of[number] for number in submission.array.numbers))


@dataclass(frozen=True)
class _Known:
    """Jobs, in ascending order."""

    jobs: Sequence[int]

    def first_missing(self, wait: Waits) -> int | None:
        """The first job of the dependency that is not among these."""
        first, last, count = _first(wait), wait.jobs[-1], len(wait.jobs)
        place, end = bisect_left(self.jobs, first), bisect_right(self.jobs, last)
        if end - place == count == last - first + 1:
            return None
        known = set(self.jobs[place:end])
        return next((job for job in wait.jobs if job not in known), None)


def _check(store: Store, waits: Mapping[str, Waits], owner: str | None) -> None:
    named = Selection(ids=tuple(merged((_first(one), one.jobs[-1]) for one in waits.values())))
    states = store.select(named)
    there = _Known(sorted(states))
    shown = there if owner is None else _Known(sorted(store.select(replace(named, owner=owner))))
    ended = {int(job): state for job, state in states.items() if state in ENDED}
    for whole_text, wait in waits.items():
        text = _short(whole_text)
        if (job := there.first_missing(wait)) is not None:
            raise NotFound(f"There is no job {job}, which `{text}` waits for.")
        if (job := shown.first_missing(wait)) is not None:
            raise NotPermitted(
                f"Job {job}, which `{text}` waits for, belongs to another user.",
                fix="Wait for jobs of your own; `others_jobs` under [api] decides this.",
            )
        if ended:
            _check_open(text, wait, ended)


def _check_open(text: str, wait: Waits, ended: Mapping[int, JobState]) -> None:
    parts = [wait] if isinstance(wait, Dependency) else map(wait.of_task, range(len(wait.jobs)))
    left = next((one for one in left_of(parts, ended) if all(job in ended for job in one.jobs)), None)
    if left is not None:
        first = left.first
        raise Conflict(
            f"Job {first} has ended as {ended[first]}, so `{text}` can never hold.",
            fix=f"Leave it out, or wait for another end: any:{first} holds.",
        )
