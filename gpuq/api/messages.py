"""Verdicts and times in words, for `explanation` and for the page.

Arrives: a rule and its numbers, whose names end in their unit. Leaves: one sentence. Numbers this module has never
seen are shown by their name, so a new rule needs no change here to be readable.
"""

from __future__ import annotations

from gpuq.core.state.job import JobState
from gpuq.core.state.verdict import Rule
from gpuq.format import duration, gib

Value = float | int | str | None

RULES: dict[str, str] = {
    Rule.IDLE: "The device was idle",
    Rule.FITS: "It fits beside the jobs on the device",
    Rule.KNOWN_PAIR: "It is known how much these kinds of jobs slow each other down, and that is little enough",
    Rule.RESOURCES: "Every device is taken",
    Rule.STALE_READING: "The device has not been read lately, and an unread device admits nobody",
    Rule.UNWELL: "The device had an error that it must recover from first",
    Rule.PREDICTED_MEMORY: "The predicted memory does not fit beside the jobs on the device",
    Rule.PREDICTED_LOAD: "Together, the predicted peak utilisations exceed the limit",
    Rule.SLOWDOWN_BUDGET: "Sharing would slow a job down by more than its budget",
    Rule.PACKING_SAVING: "Running the jobs together would save too little time",
    Rule.FIRST_RUN_EXCLUSIVE: "Nothing is known about this kind of job yet, so its first run gets a device alone",
    Rule.EXCLUSIVE: "One of the jobs does not share",
    Rule.FOREIGN_PROCESS: "A process that gpuq did not start uses the device",
    Rule.UNSAFE_PAIR: "These kinds of jobs have run out of memory together",
    Rule.RESERVED: "The device is kept free for a job that has waited long",
    Rule.NEVER_FITS: "No known device could ever run it",
    Rule.NO_DEVICES: "No device is known yet",
    Rule.POSTPONED: "A later start elsewhere is expected to cost less",
    Rule.WAIT_LIMIT: "The expected wait is beyond the limit, so the job is kept back until the queue is shorter",
}

STATES: dict[JobState, str] = {
    JobState.PENDING: "It waits for the dispatcher to look at it.",
    JobState.HELD: "It is held; `gpuq release` lets it go on.",
    JobState.STARTING: "It is being started.",
    JobState.RUNNING: "It runs.",
    JobState.COMPLETING: "It is being stopped.",
    JobState.COMPLETED: "It completed.",
    JobState.FAILED: "It failed.",
    JobState.CANCELLED: "It was cancelled.",
    JobState.TIMEOUT: "It reached its time limit.",
    JobState.OUT_OF_MEMORY: "It ran out of memory.",
    JobState.PREEMPTED: "It was stopped for a job that goes before it.",
    JobState.NODE_FAIL: "Its host or its device went away.",
}


def sentence(rule: str, numbers: dict[str, Value], device: str | None) -> str:
    """The verdict in words, numbers included."""
    parts = [f"{label(name)} {quantity(name, value)}" for name, value in numbers.items() if value is not None]
    if device is not None:
        parts.insert(0, f"device {device}")
    text = RULES.get(rule, rule)
    if rule == Rule.RESOURCES and "wanted_devices" in numbers:
        text = "Fewer devices of one host are free than it wants"
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


def label(name: str) -> str:
    """A number's name without its unit: `limit_pct` is `limit`."""
    for unit in ("_pct", "_bytes", "_s"):
        if name.endswith(unit):
            return name.removesuffix(unit).replace("_", " ")
    return name.replace("_", " ")


def quantity(name: str, value: Value) -> str:
    """A number as people write it, by the unit its name ends in."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if name.endswith("_bytes"):
        return gib(value)
    if name.endswith("_pct"):
        return f"{value:.0f}%"
    if name.endswith("_s"):
        return duration(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)
