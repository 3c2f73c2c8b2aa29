"""Sentences on verdicts and expected starts, shared by `show`, `explain` and `predict`.

The texts of verdicts are in `gpuq.messages.verdicts`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.client import Record
from gpuq.messages.verdicts import calculation, sentence, what_helps

_MOST_DEVICES = 8
_STARTS_WITHIN_S = 30.0


def lines(verdict: Record) -> list[str]:
    """What settled it, with the numbers; then what would change it. Where this version has no calculation for the rule, the
    server's own sentence is shown."""
    rule, admitted, device = verdict["rule"], verdict["admitted"], fmt.device_name(verdict)
    found = calculation(rule, admitted, verdict["numbers"])
    if found is None:
        first = fmt.with_local_times(verdict.get("sentence") or sentence(rule, verdict["numbers"], device))
    else:
        where = f" on {device}" if device else ""
        first = found if admitted else f"{rule}{where}: {found}"
    helps = what_helps(rule, verdict["numbers"])
    return [fmt.clean(first), *([helps] if helps and not admitted else [])]


def excluded(answer: Record, width: int) -> Iterator[str]:
    """The devices that a job may not have because it asked for others, a line for each reason."""
    names: dict[str, list[str]] = {}
    for verdict in answer.get("excluded") or []:
        why = calculation(verdict["rule"], False, verdict["numbers"]) or verdict["sentence"]
        names.setdefault(fmt.clean(why), []).append(fmt.device_name(verdict) or fmt.UNKNOWN)
    for why, devices in names.items():
        more = f" and {len(devices) - _MOST_DEVICES} more" if len(devices) > _MOST_DEVICES else ""
        yield from (
            f"  {part}" for part in console.wrapped(f"{', '.join(devices[:_MOST_DEVICES])}{more}: {why}", width - 2)
        )


def expected_start(answer: Record) -> str:
    """When a waiting job probably starts."""
    found = fmt.expected_start(answer.get("expected_start"), time.time())
    return found or "unknown, there is no estimate yet"


def slow_start(job: Record) -> str | None:
    """What may keep a job from running that was to start a while ago; None for any other job."""
    attempt: Record = (job.get("attempts") or [{}])[-1]
    since = job.get("state_since_unix") or fmt.when(attempt.get("launched_at"))
    late_s = 0.0 if since is None else time.time() - since
    if job["state"] != "STARTING" or late_s < _STARTS_WITHIN_S:
        return None
    where = fmt.clean(job.get("host") or attempt.get("host") or "its host")
    return (
        f"it was to start on {where} {fmt.duration(late_s)} ago, and does not run yet: the host is away, or the job's folder or "
        "program is on a file system that does not answer there"
    )
