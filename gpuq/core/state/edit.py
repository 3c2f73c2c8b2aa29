"""Changes of a job after its submission: of which fields, in which states, and what becomes of the job."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from gpuq.core.state.job import WAITING, Job, JobState, Sharing

# The fields that the core has under another name than a submission.
_CORE_NAMES = {"share": "sharing", "gpu_memory": "declared_memory", "begin_at": "not_before"}
_LABELS = frozenset({"name", "notify"})
"""No decision depends on them, but for the name of a singleton."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdit:
    """New values of some fields of a job, named as in a submission; a field that is None stays as it is. Those in `reset` are
    taken back to what a submission without them has, which is None.

    Times are Unix seconds, the limit seconds, memory bytes. `notify` is for the record: the core has no such field.
    """

    name: str | None = None
    priority: int | None = None
    share: Sharing | None = None
    max_slowdown: float | None = None
    gpu_memory: int | None = None
    time_limit_s: float | None = None
    deadline_at: float | None = None
    begin_at: float | None = None
    notify: tuple[str, ...] | None = None
    reset: tuple[
        Literal["name", "max_slowdown", "gpu_memory", "time_limit_s", "deadline_at", "begin_at", "notify"], ...
    ] = ()

    @property
    def changes(self) -> dict[str, Any]:
        """The new value of each field that it changes."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "reset"}
        return {name: value for name, value in given.items() if value is not None} | dict.fromkeys(self.reset)

    @property
    def only_labels(self) -> bool:
        """Whether the job stays where it is in the queue, with the devices that are reserved for it."""
        return self.changes.keys() <= _LABELS

    def then(self, later: JobEdit) -> JobEdit:
        """Both edits as one."""
        return edit_of(self.changes | later.changes)

    def later(self, by_s: float) -> JobEdit:
        """The edit by a clock that is so many seconds ahead."""
        return self if self.begin_at is None else replace(self, begin_at=self.begin_at + by_s)

    def applied_to(self, job: Job) -> Job:
        """The job after the edit. One that is given a moment to begin at is not eligible before the next pass."""
        values = {_CORE_NAMES.get(name, name): value for name, value in self.changes.items() if name != "notify"}
        if "sharing" in values and job.host_count > 1:
            values["sharing"] = Sharing.NEVER
        if values.get("not_before") is not None:
            values |= {"eligible": False, "eligible_at": None}
        return replace(job, **values)

    def obstacle(self, state: JobState, limit_s: float | None) -> str | None:
        """Why a job in this state cannot be edited so, as a phrase that follows "Job 7"; None if it can.

        The host ends a running job at `limit_s` after its start, the limit that it had then; None: at none. It can be made
        shorter than that, not longer.
        """
        if state in WAITING:
            return None
        if state is not JobState.RUNNING:
            return f"cannot be edited: it is {state}"
        if others := sorted(self.changes.keys() - _LABELS - {"time_limit_s"}):
            return f"runs: {' and '.join(others).replace('_', ' ')} cannot be changed any more"
        longer = limit_s is not None and (self.time_limit_s is None or self.time_limit_s > limit_s)
        if "time_limit_s" in self.changes and longer:
            return f"runs with a time limit of {limit_s:g} s, which can be made shorter, not longer"
        return None


def edit_of(changes: dict[str, Any]) -> JobEdit:
    """The edit that gives these fields these values, None for those that are to be reset."""
    values: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    return JobEdit(**values | {"reset": tuple(name for name, value in changes.items() if value is None)})
