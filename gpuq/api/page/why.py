"""Why a job waits: the rules in the order in which they are tried, the number that decided, and who holds the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpuq.api.contract.schema import DeviceView
from gpuq.api.contract.schema_jobs import VerdictView
from gpuq.core.state.verdict import Rule
from gpuq.format import about, when
from gpuq.messages.verdicts import calculation, label, quantity, title, what_helps

_HOLDERS_SHOWN = 8

# As `scheduling/quotas.py` and `scheduling/admit.py` try them.
OF_NO_DEVICE = (Rule.DEPENDENCY, Rule.SINGLETON, Rule.BEGIN_TIME, Rule.BACKOFF)
OF_THE_JOB = (
    *OF_NO_DEVICE,
    Rule.NO_DEVICES,
    Rule.NEVER_FITS,
    Rule.DEVICE_QUOTA,
    Rule.DEVICE_HOURS_QUOTA,
    Rule.ARRAY_LIMIT,
)
OF_ANY_DEVICE = (
    Rule.CONSTRAINTS,
    Rule.DRAINED,
    Rule.STALE_READING,
    Rule.NO_STARTS,
    Rule.UNWELL,
    Rule.RESERVED,
    Rule.RESOURCES,
)
OF_AN_IDLE_DEVICE = (Rule.FOREIGN_PROCESS, Rule.PREDICTED_MEMORY)
OF_A_SHARED_DEVICE = (
    Rule.EXCLUSIVE,
    Rule.FIRST_RUN_EXCLUSIVE,
    Rule.PREDICTED_MEMORY,
    Rule.FOREIGN_PROCESS,
    Rule.PREDICTED_LOAD,
    Rule.UNSAFE_PAIR,
    Rule.SLOWDOWN_BUDGET,
    Rule.PACKING_SAVING,
    Rule.SLOWDOWN_RISK,
    Rule.SLOWDOWN_ACCOUNT,
)
# Asked last, because it depends on the time.
OF_THE_TIME = (Rule.BOOKED, Rule.TIME_LEFT)
OF_THE_POLICY = (Rule.BEHIND, Rule.POSTPONED, Rule.WAIT_LIMIT)

# What a rule asks; the answer yes lets the next rule be tried.
QUESTIONS: dict[Rule, str] = {
    Rule.DEPENDENCY: "Have the jobs that it waits for ended?",
    Rule.SINGLETON: "Have the earlier jobs of its name ended?",
    Rule.BEGIN_TIME: "Is it time to start?",
    Rule.BACKOFF: "Has it waited long enough since its last end?",
    Rule.NO_DEVICES: "Is there a device?",
    Rule.NEVER_FITS: "Could a device ever run it?",
    Rule.DEVICE_QUOTA: "Within the quota of devices?",
    Rule.DEVICE_HOURS_QUOTA: "Within the quota of device-hours?",
    Rule.ARRAY_LIMIT: "May another task of its array run?",
    Rule.CONSTRAINTS: "Is it what the job asks for?",
    Rule.DRAINED: "Does its host take new jobs?",
    Rule.STALE_READING: "Was the device read lately?",
    Rule.NO_STARTS: "Can its host start jobs at the moment?",
    Rule.UNWELL: "Is the device well?",
    Rule.RESERVED: "Is it free for this job, not reserved for another?",
    Rule.RESOURCES: "Is there room for one more job?",
    Rule.FOREIGN_PROCESS: "Is it free of processes that gpuq did not start, or is their use known?",
    Rule.PREDICTED_MEMORY: "Does the memory fit?",
    Rule.EXCLUSIVE: "Do all the jobs share?",
    Rule.FIRST_RUN_EXCLUSIVE: "Is enough known of all the jobs?",
    Rule.PREDICTED_LOAD: "Does the load fit, or is the slowdown known to be small?",
    Rule.UNSAFE_PAIR: "Did these kinds never run out of memory together?",
    Rule.SLOWDOWN_BUDGET: "Is the slowdown within each budget?",
    Rule.PACKING_SAVING: "Does sharing save enough time?",
    Rule.SLOWDOWN_RISK: "Is the risk small that a job is slowed beyond its budget?",
    Rule.SLOWDOWN_ACCOUNT: "Or may the jobs there stand still until it ends?",
    Rule.BOOKED: "Is it free of reservations until the job has ended?",
    Rule.TIME_LEFT: "Does the job end before its host gives the device back?",
    Rule.BEHIND: "Does no other job come first?",
    Rule.POSTPONED: "Is now better than a later start?",
    Rule.WAIT_LIMIT: "Is the queue short enough?",
}


@dataclass(frozen=True)
class RuleAnswer:
    """One rule. `numbers` are those of the rule that decided."""

    rule: str
    question: str
    answer: Literal["yes", "no", "not asked"]
    numbers: str | None = None


@dataclass(frozen=True)
class Holder:
    """A job that holds a device now."""

    device: str
    job: int
    name: str | None
    owner: str | None
    memory_bytes: int | None
    left: str


@dataclass(frozen=True)
class Why:
    """`device` is the name of the one that the verdict is about; None where it is about all of them."""

    sentence: str
    helps: str | None
    device: str | None
    steps: list[RuleAnswer]
    holders: list[Holder]


def why(
    verdict: VerdictView,
    devices: Sequence[DeviceView],
    names: Mapping[int, str | None],
    owners: Mapping[int, str],
    now: float,
) -> Why:
    """The verdict of a waiting job as a list of questions. `names` and `owners` are those of running jobs."""
    about_one = next((device for device in devices if device.id == verdict.device), None)
    rules = _rules(verdict.rule, shared=about_one is None or bool(about_one.residents))
    numbers = deciding_numbers(verdict)
    steps = []
    decided = False
    for rule in rules:
        here = rule == verdict.rule
        question = (QUESTIONS.get(rule) if isinstance(rule, Rule) else None) or title(rule, verdict.numbers)
        answer: Literal["yes", "no", "not asked"] = "not asked" if decided else "no" if here else "yes"
        steps.append(RuleAnswer(str(rule), question, answer, numbers if here else None))
        decided = decided or here
    shown = [about_one] if about_one is not None and about_one.residents else list(devices)
    shown = [] if verdict.rule in OF_NO_DEVICE else shown
    holders = [_holder(device, one, names, owners, now) for device in shown for one in device.residents]
    return Why(
        title(verdict.rule, verdict.numbers),
        what_helps(verdict.rule, verdict.numbers),
        None if about_one is None else about_one.name,
        steps,
        holders[:_HOLDERS_SHOWN],
    )


def _rules(deciding: str, *, shared: bool) -> list[Rule | str]:
    """The rules in order. One that this gpuq does not know, or that a policy brings, stands alone."""
    if deciding in OF_THE_POLICY or deciding not in [str(rule) for rule in Rule]:
        return [deciding]
    of_device = OF_A_SHARED_DEVICE if shared or deciding not in OF_AN_IDLE_DEVICE else OF_AN_IDLE_DEVICE
    return [*OF_THE_JOB, *OF_ANY_DEVICE, *of_device, *OF_THE_TIME]


def deciding_numbers(verdict: VerdictView) -> str | None:
    """The calculation that settled the verdict, or its numbers one by one; None where it has none."""
    known = [f"{label(name)} {quantity(name, value)}" for name, value in verdict.numbers.items() if value is not None]
    return calculation(verdict.rule, verdict.admitted, verdict.numbers) or ", ".join(known) or None


def _holder(
    device: DeviceView, one: Any, names: Mapping[int, str | None], owners: Mapping[int, str], now: float
) -> Holder:
    left = time_left(when(one.started_at), one.forecast.duration_p50_s if one.forecast else None, now)
    return Holder(device.name, one.job, names.get(one.job), owners.get(one.job), one.memory_bytes, left)


def time_left(started: float | None, usual_s: float | None, now: float) -> str:
    """`about 5m left`, or `overdue by 3m`, of a job that usually runs for `usual_s`; empty where that is not known."""
    if started is None or usual_s is None:
        return ""
    left = started + usual_s - now
    return f"about {about(left)} left" if left > 0 else f"overdue by {about(-left)}"
