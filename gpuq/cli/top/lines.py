"""Lines about devices and jobs, at most as wide as the terminal. Only those on the screen are made, so a thousand devices cost as
much as twenty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq import format as fmt
from gpuq.cli import arrays, console, job_labels
from gpuq.cli.client import Record
from gpuq.cli.verbs import queue
from gpuq.states import ACTIVE, WAITING

_BAR, _WIDE_BAR, _WIDE = 8, 16, 110
_LONGEST_NAME = 18
_FIGURES = 9


@dataclass(frozen=True)
class PaneLine:
    """A line of a pane: what it is about (None: a heading), its text, and a colour of the terminal, if any."""

    key: int | str | None
    text: str
    colour: str | None = None


def device_heading(devices: Sequence[Record], width: int) -> str:
    """The heading of `device`."""
    name, bar = _widths(devices, width)
    util, memory = f"{'UTIL/FORECAST':<{bar + _FIGURES}}", f"{'MEMORY/PROMISED':<{bar + 1 + 14}}"
    return console.shorten(f"  {'DEVICE':<{name}} {util} {memory} JOBS, SLOWDOWN", width)


def device(devices: Sequence[Record], number: int, width: int) -> PaneLine:
    """One of the devices: utilisation now of what its jobs are forecast to reach, memory now of what is promised of all."""
    one = devices[number]
    name, bar = _widths(devices, width)
    total, used, promised = one["total_memory_bytes"], one["used_memory_bytes"], one["promised_memory_bytes"]
    utilization, forecast = one["utilization_pct"], peak_forecast(one)
    load = f"{_number(utilization)}/{fmt.percent(forecast)}"
    memory = f"{_number_of_gib(used)}/{_number_of_gib(promised)}/{_number_of_gib(total)}G"
    trouble = trouble_of(one)
    text = (
        f"{'!' if trouble else ' '} {console.shorten(fmt.clean(one['name']), name):<{name}} "
        f"{_bars(utilization, forecast, 100, bar)}{load:>{_FIGURES}} "
        f"{_bars(used, promised, total, bar)} {memory:>14} {_residents(one)}"
    )
    if trouble:
        text += f"{'; ' if one['residents'] else ''}{trouble}"
    colour = "red" if trouble else "green" if one["residents"] else None
    return PaneLine(one["id"], console.shorten(text, width), colour)


def peak_forecast(device: Record) -> float | None:
    """The sum of the peak utilisations that are forecast for its jobs, percent; None without a job or where one is unknown."""
    peaks: list[float | None] = [(one["forecast"] or {}).get("peak_utilization_pct") for one in device["residents"]]
    known = [peak for peak in peaks if peak is not None]
    return min(999.0, sum(known)) if known and len(known) == len(peaks) else None


def trouble_of(device: Record) -> str | None:
    """Why a device gets no new jobs, or runs slower; None for one that is well."""
    if device["unwell"]:
        return f"no new jobs: {fmt.clean(device['unwell'])}"
    if device["drained"]:
        return f"no new jobs: its host is drained: {fmt.clean(device['drained'])}"
    if device["read_at"] is None:
        return "not reported"
    if device.get("no_starts"):
        return f"no new jobs: its host can start none: {fmt.clean(device['no_starts'])}"
    if device["throttling"]:
        return f"lower clocks: {fmt.clean(', '.join(device['throttling'])).replace('_', ' ')}"
    return None


def _widths(devices: Sequence[Record], width: int) -> tuple[int, int]:
    """Of the name of a device, and of each bar."""
    longest = max((len(one["name"]) for one in devices), default=6)
    return max(6, min(longest, _LONGEST_NAME)), _WIDE_BAR if width >= _WIDE else _BAR


def _bars(now: float | None, most: float | None, total: float, length: int) -> str:
    """Full as far as now, shaded as far as is promised or forecast; blank where neither is known."""
    if now is None and most is None:
        return " " * length
    full, shaded = (min(length, round(length * (value or 0.0) / total)) for value in (now, most))
    full = max(full, 1 if now else 0)
    return ("█" * full + "░" * max(0, shaded - full)).ljust(length, "·")


def _number(percent: float | None) -> str:
    return "?" if percent is None else f"{percent:.0f}"


def _number_of_gib(value: float | None) -> str:
    """A number for `0.8/0.01/10.6G`, where all have one unit."""
    if value is None:
        return "?"
    number = value / 2**30
    return f"{number:.{2 if 0 < number < 0.1 else 1 if number < 100 else 0}f}"


def _residents(device: Record) -> str:
    """`42 resnet 4%, 43 bert 6%`: the slowdown that each measures, with ~ the expected one."""
    texts = []
    for resident in device["residents"]:
        measured, expected = resident["slowdown"], resident["expected_slowdown"]
        cost = fmt.slowdown(measured) if measured is not None else f"~{fmt.slowdown(expected)}" if expected else ""
        name = console.shorten(fmt.clean(resident["name"] or ""), 16)
        texts.append(" ".join(filter(None, (str(resident["job"]), name, cost))))
    return ", ".join(texts)


def jobs(listed: Sequence[Record], width: int, now: float) -> list[PaneLine]:
    """Tables of the jobs that wait, of arrays and of the jobs that run, as `gpuq queue` has them, each with a heading.

    What waits comes first, because what runs stands beside its device too.
    """
    running = [job for job in listed if not is_array(job) and job["state"] not in WAITING]
    waiting = [job for job in listed if not is_array(job) and job["state"] in WAITING]
    found: list[PaneLine] = []
    for some, table in (
        (waiting, queue.table),
        ([job for job in listed if is_array(job)], arrays.table),
        (running, queue.table),
    ):
        if some:
            heading, *rows = table(some, width - 2, now)
            found.append(PaneLine(None, f"  {heading}"))
            found += [PaneLine(int(job["id"]), f"  {row}", _colour(job)) for job, row in zip(some, rows, strict=True)]
    return found


def count(listed: Sequence[Record]) -> tuple[int, int]:
    """(how many of the jobs and tasks run, how many wait)."""
    states = [job["states"] if is_array(job) else {job["state"]: 1} for job in listed]
    # The tasks of an array that run are listed by themselves.
    running = sum(job["state"] in ACTIVE for job in listed if not is_array(job))
    return running, sum(number for of in states for state, number in of.items() if state in WAITING)


def is_array(job: Record) -> bool:
    """Whether it is an array, with the id of its first task."""
    return "count" in job


def _colour(job: Record) -> str:
    return "yellow" if is_array(job) or job["state"] in WAITING else "green"


def matches(job: Record, words: str) -> bool:
    """Whether each of the words is in the id, name, owner, project, state, device or reason of a job."""
    names = ("name", "owner", "project", "state", "reason", "device_name")
    texts = [job_labels.id_of(job), *(str(job.get(name) or "") for name in names)]
    return _has(" ".join(texts), words)


def device_matches(device: Record, words: str) -> bool:
    """Whether each of the words is in the name, host or type of a device, or in the number or name of a job on it."""
    texts = [device["name"], device["host"], device["kind"]]
    texts += [f"{resident['job']} {resident['name'] or ''}" for resident in device["residents"]]
    return _has(" ".join(texts), words)


def _has(text: str, words: str) -> bool:
    return all(word in text.lower() for word in words.lower().split())
