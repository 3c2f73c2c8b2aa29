"""Which messages a look at a user's jobs gives rise to.

A job is watched from its first look to its end. What was announced of it is kept, so that nothing is announced twice, and
what happened while no process looked is announced at the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gpuq import format as fmt
from gpuq.cli.job_labels import id_of
from gpuq.notification import parse
from gpuq.states import ENDED, MAY_REQUEUE, WAITING

_LONGEST_TEXT = 500
_NO_FAILURE = frozenset({"COMPLETED", "CANCELLED"})


class Announced(msgspec.Struct, kw_only=True):
    """What was announced of a job: the number of the last attempt that began, and of the last one after which it waits again.

    `is_idle`: at the last look its devices were idle.
    `ended_in` is the attempt in whose end it was seen last: an end after which it may wait again counts at the second look.
    """

    begun: int = 0
    requeued: int = 0
    is_idle: bool = False
    ended_in: int | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message for one target, and there for the address of this number in its list; `job` and `state` are for a summary of many
    messages. `at` in Unix seconds."""

    target: str
    title: str
    body: str
    state: str
    at: float
    job: int | None = None
    address: int = 0


class Watch(msgspec.Struct, kw_only=True):
    """The jobs that have not ended, by id, and the highest id that was seen; None before the first look."""

    last: int | None = None
    jobs: dict[int, Announced] = {}

    def begin(self, newest: int, unfinished: Iterable[Mapping[str, Any]]) -> None:
        """The first look: jobs that have begun or ended before it are not announced."""
        self.last = newest
        for job in unfinished:
            begun = job["attempt"] if job.get("started_at") else job["attempt"] - 1
            self.jobs[job["id"]] = Announced(begun=begun, requeued=job["attempt"])

    def look(
        self, jobs: Iterable[Mapping[str, Any]], default: Sequence[str], targets: Iterable[str], now: float
    ) -> Iterator[Notification]:
        """The messages for these jobs as they are now: new ones and those that are watched. Forgets those that have ended."""
        names = tuple(targets)
        for job in sorted(jobs, key=lambda job: int(job["id"])):
            self.last = max(self.last or 0, job["id"])
            known = self.jobs.setdefault(job["id"], Announced())
            events = list(self._events(job, known))
            rules = default if job.get("notify") is None else job["notify"]
            for event in events:
                yield from _messages(job, event, rules, names, now)

    def _events(self, job: Mapping[str, Any], known: Announced) -> Iterator[str]:
        attempt, state = job["attempt"], job["state"]
        if state in WAITING and attempt > known.requeued:
            known.requeued = attempt
            yield "requeue"
        if job.get("started_at") and attempt > known.begun:
            known.begun = attempt
            yield "begin"
        was_idle, known.is_idle = known.is_idle, bool((job.get("live") or {}).get("warned_of_idleness"))
        if known.is_idle and not was_idle:
            yield "idle"
        if state not in ENDED:
            known.ended_in = None
        elif state in MAY_REQUEUE and known.ended_in != attempt:
            known.ended_in = attempt
        else:
            del self.jobs[job["id"]]
            yield "end" if state in _NO_FAILURE else "fail"


def _messages(
    job: Mapping[str, Any], event: str, rules: Sequence[str], names: Sequence[str], now: float
) -> Iterator[Notification]:
    """One message for each target that a rule names for this event; a failure is an end, too."""
    meant = {event, "end"} if event == "fail" else {event}
    wanted: dict[str, None] = {}
    for rule in rules:
        events, targets = parse(rule)
        if events & meant:
            wanted.update(dict.fromkeys(targets or names))
    for target in wanted:
        title, body = _title(job, event), _body(job)
        yield Notification(target=target, title=title, body=body, state=job["state"], at=now, job=job["id"])


def _title(job: Mapping[str, Any], event: str) -> str:
    what = {"begin": "has started", "requeue": "waits again", "idle": "uses none of its devices"}.get(
        event, str(job["state"])
    )
    failed = job["state"] == "FAILED" and job.get("exit_code") is not None
    code = f" with exit code {job['exit_code']}" if failed and event == "fail" else ""
    name = fmt.clean(job.get("name") or "")[:100]
    return f"gpuq: job {id_of(job)}{f' ({name})' if name else ''} {what}{code}"


def _body(job: Mapping[str, Any]) -> str:
    """The facts that help to decide whether to look: how long it waited and ran, where, and why it ended."""
    submitted, started, ended = (job.get(f"{name}_at_unix") for name in ("submitted", "started", "ended"))
    slowdown, live = (job.get("actual") or {}).get("slowdown"), job.get("live") or {}
    devices = ", ".join(fmt.clean(name) for name in job.get("device_names") or [])
    facts = [
        ("waited", fmt.about(started - submitted) if submitted is not None and started is not None else None),
        ("uses none of its devices for", fmt.about(live["idle_s"]) if live.get("warned_of_idleness") else None),
        ("ran", fmt.about(ended - started) if started is not None and ended is not None else None),
        ("on", f"{devices} of {fmt.clean(job['host'])}" if devices and job.get("host") else devices or None),
        ("slowed by sharing", fmt.slowdown(slowdown) if slowdown is not None else None),
        ("project", fmt.clean(job["project"]) if job.get("project") else None),
        ("reason", fmt.clean(job["reason"])[:_LONGEST_TEXT] if job.get("reason") else None),
    ]
    return "\n".join(f"{label}: {value}" for label, value in facts if value) or "nothing else is known"
