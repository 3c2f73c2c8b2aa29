"""What every page has: who reads it, the counts, and whether what it shows is current."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gpuq.api.context import context_of
from gpuq.api.identity import caller_of
from gpuq.api.live import Live
from gpuq.api.page.templates import render
from gpuq.core.state.job import ACTIVE, ENDED, JobState

SHADES = 8


@dataclass(frozen=True)
class Frame:
    """`counts` are pairs of a number and its word; `health` is a sentence, and `healthy` whether it is good news. The times of
    pages are of this machine's zone, which is so many minutes ahead of UTC."""

    title: str
    view: str
    user: str
    role: str
    counts: list[tuple[int, str]]
    health: str
    healthy: bool
    now: float
    zone_minutes: int

    @property
    def zone(self) -> str:
        """`UTC+05:30`."""
        hours, minutes = divmod(abs(self.zone_minutes), 60)
        return f"UTC{'-' if self.zone_minutes < 0 else '+'}{hours:02}:{minutes:02}"


async def page(
    request: web.Request, view: str, live: Live, *, title: str | None = None, status: int = 200, **values: Any
) -> web.Response:
    """The answer with the page `view`: its template with `values` in the frame."""
    context = context_of(request)
    counts = await context.counts()
    caller = caller_of(request)
    health, healthy = _health(live)
    running, waiting = _count(counts, ACTIVE), counts.get(JobState.PENDING, 0)
    held = counts.get(JobState.HELD, 0)
    facts = [(running, "running"), (waiting, "waiting"), (held, "held"), (_count(counts, ENDED), "ended")]
    frame = Frame(
        title=f"{title or view.capitalize()} · gpuq: {running} running, {waiting} waiting",
        view=view,
        user=caller.user,
        role=caller.role.name.lower(),
        counts=[(number, word) for number, word in facts if number or word != "held"],
        health=health,
        healthy=healthy,
        now=context.now(),
        zone_minutes=time.localtime(context.now()).tm_gmtoff // 60,
    )
    text = await context.run(render, f"{view}.html", frame=frame, manages=caller.manages, **values)
    answer = web.Response(text=text, status=status, content_type="text/html")
    answer.enable_compression()  # an open page is asked for every two seconds
    return answer


def _count(counts: Mapping[JobState, int], states: frozenset[JobState]) -> int:
    return sum(counts.get(state, 0) for state in states)


def _health(live: Live) -> tuple[str, bool]:
    if not live.redis_up:
        return "Redis does not answer: live numbers are missing, submissions are still taken", False
    if live.view is None:
        return "The dispatcher is silent: live numbers are missing, submissions are still taken", False
    policy = live.view.dispatcher.policy
    if policy is not None and policy.fault is not None:
        return f"live, but the policy {policy.chosen} is replaced by {policy.serving}: {policy.fault.reason}", False
    unwell = sum(device.unwell is not None for device in live.view.devices)
    if unwell:
        return f"live, but {unwell:,} device{'s get' if unwell > 1 else ' gets'} no new jobs", False
    return "live", True


def shades(jobs: list[int]) -> list[str]:
    """A colour class for each job: by its id, so that it does not change; different for all of these while there are enough."""
    taken: list[int] = []
    for job in jobs:
        number = job % SHADES
        while number in taken and len(taken) < SHADES:
            number = (number + 1) % SHADES
        taken.append(number)
    return [f"c{number}" for number in taken]


STRENGTHS = ("unknown", "none", "mild", "clear", "strong")


def strength(slowdown: float | None) -> str:
    """A class for how strong a slowdown is; always shown beside the number, never instead of it."""
    if slowdown is None:
        return "unknown"
    return "none" if slowdown < 1.02 else "mild" if slowdown < 1.1 else "clear" if slowdown < 1.25 else "strong"
