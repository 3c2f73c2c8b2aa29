"""Verdicts in words: the rule, the sum behind it, and what would change it.

Arrives: a verdict as the API shows it. Leaves: lines of text. A rule or a number not known here is shown by the server's
own sentence, so a newer daemon stays readable.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuq import format as fmt
from gpuq.cli.client import Record

WHAT_HELPS = {
    "FirstRunExclusive": "It starts when a device is idle: a first run is measured alone, so that its kind can share then. "
    "--kind names a known kind.",
    "PredictedLoad": "It starts when a partner ends, or when a device is idle.",
    "PredictedMemory": "It starts when memory is freed. --gpu-mem lowers the promise if you know it needs less.",
    "SlowdownBudget": "--max-slowdown allows more, for it and for its partner.",
    "PackingSaving": "It starts when that partner ends, or when another device is idle.",
    "Exclusive": "It starts when a device is idle; --share auto lets jobs share.",
    "ForeignProcess": "Somebody uses the device without gpuq; `gpuq gpus` shows how much.",
    "StaleReading": "The device's host does not report; `gpuq doctor` says why.",
    "Unwell": "`gpuq doctor` says what the device needs: mostly a reset, or a restart of its machine.",
    "UnsafePair": "It starts when that partner ends, or when another device is idle.",
    "Reserved": "A job that waited long goes first; then this one.",
    "NeverFits": "Ask for less memory, or cancel it.",
    "Postponed": "It starts by itself; an earlier deadline or a higher priority makes waiting dearer.",
    "WaitLimit": "It starts when fewer wait. `wait_limit_s` in [scheduling] is the limit.",
    "NoDevices": "Start a worker: `gpuq up`, or the gpuq-worker service.",
    "Resources": "It starts when a device is free.",
}


def lines(verdict: Record) -> list[str]:
    """What settled it, with the numbers; then what would change it."""
    rule, admitted = verdict["rule"], verdict["admitted"]
    tell = _TELL.get((rule, admitted))
    try:
        told = tell(verdict["numbers"]) if tell else None
    except (KeyError, TypeError):
        told = None
    if told is None:
        text = [fmt.clean(verdict.get("sentence") or number_list(verdict))]
    else:
        where = _where(verdict)
        text = [fmt.clean(told) if admitted else f"{rule}{where}: {fmt.clean(told)}"]
    if not admitted and rule in WHAT_HELPS:
        text.append(WHAT_HELPS[rule])
    return text


def number_list(verdict: Record) -> str:
    """The rule and its numbers, when the server sent no sentence."""
    numbers = ", ".join(f"{label(name)} {quantity(name, value)}" for name, value in verdict["numbers"].items())
    where = _where(verdict)
    return f"{verdict['rule']}{where}: {numbers}." if numbers else f"{verdict['rule']}{where}."


def _where(verdict: Record) -> str:
    device = fmt.device_name(verdict)
    return f" on {device}" if device else ""


def label(name: str) -> str:
    """A number's name without its unit."""
    for unit in ("_pct", "_bytes", "_s"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def quantity(name: str, value: object) -> str:
    """A number by the unit its name ends in."""
    if not isinstance(value, int | float):
        return "unknown" if value is None else fmt.clean(value)
    if name.endswith("_pct"):
        return fmt.percent(value)
    if name.endswith("_bytes"):
        return fmt.gib(value)
    if name.endswith("_s"):
        return fmt.duration(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


# --- the sums, per rule; a missing or null number raises and the server's sentence is shown instead -----------------


def _load(n: Record) -> str:
    total = n["newcomer_pct"] + n["committed_pct"]
    relation = ">" if total > n["limit_pct"] else "<="
    return f"{n['newcomer_pct']:.0f}% + {n['committed_pct']:.0f}% = {total:.0f}% {relation} {n['limit_pct']:.0f}%"


def _memory(n: Record) -> str:
    headroom = n.get("headroom_bytes") or 0
    total = n["needed_bytes"] + n["committed_bytes"] + headroom
    relation = ">" if total > n["total_bytes"] else "<="
    spare = f" + {fmt.gib(headroom)} kept free" if headroom else ""
    committed = f"{fmt.gib(n['committed_bytes'])} spoken for"
    return (
        f"{fmt.gib(n['needed_bytes'])} + {committed}{spare} = {fmt.gib(total)} {relation} {fmt.gib(n['total_bytes'])}"
    )


def _overload(n: Record) -> str:
    foreign = n.get("foreign_pct") or 0
    others = f" and what gpuq did not start ({foreign:.0f}%)" if foreign >= 1 else ""
    return f"peak utilisation {_load(n)}, beside job {_jobs(n['residents'])}{others}."


def _too_much_memory(n: Record) -> str:
    return f"memory {_memory(n)}."


def _fits(n: Record) -> str:
    return (
        f"it fitted beside job {_jobs(n['beside'])}: peak utilisation {_load(n)}; memory {_memory(n)}; "
        f"slowdown {_expected(n)}{_of_budget(n)}."
    )


def _known_pair(n: Record) -> str:
    return (
        f"peak utilisation {_load(n)}, but beside job {_jobs(n['beside'])} slowdown {_expected(n)}{_of_budget(n)}; "
        f"its partner's {fmt.slowdown(n['resident_slowdown'])} ({n['slowdown_evidence']}); memory {_memory(n)}."
    )


def _expected(n: Record) -> str:
    """`4% expected (at most 12%)`."""
    slowdown = n.get("expected_slowdown")
    if slowdown is None:
        return "not measured yet"
    upper = f" (at most {fmt.slowdown(n['upper_slowdown'])})" if n.get("upper_slowdown") is not None else ""
    by_rule = " by the utilisations alone" if n.get("slowdown_evidence") == "rule" else ""
    return f"{fmt.slowdown(slowdown)} expected{by_rule}{upper}"


def _of_budget(n: Record) -> str:
    """What the two figures are compared with: only a pair beyond the load rule has a limit for its bound."""
    budget = f", and the budget for what is expected is {fmt.slowdown(n['budget'])}"
    return budget + (f", for the bound {fmt.slowdown(n['upper_limit'])}" if n.get("upper_limit") is not None else "")


def _saves_too_little(n: Record) -> str:
    return (
        f"beside kind {n['beside']} {n['saving']:.0%} of the time would be saved, {n['least_saving']:.0%} are wanted."
    )


def _idle(n: Record) -> str:
    return f"nobody else was on the device; {fmt.gib(n['needed_bytes'])} needed of {fmt.gib(n['total_bytes'])}."


def _first_run(n: Record) -> str:
    return f"too little is known of its kind to share, so it has the device ({fmt.gib(n['total_bytes'])}) alone."


def _unknown_partner(n: Record) -> str:
    if "resident" in n:
        return f"job {n['resident']} is there, and too little is known of it to give it a partner."
    return f"too little is known of its kind to share a device (evidence: {n['evidence']})."


def _exclusive(n: Record) -> str:
    return f"job {n['resident']} does not share." if "resident" in n else "this job does not share a device."


def _over_budget(n: Record) -> str:
    if "resident" in n:
        return f"it would slow job {n['resident']} by {fmt.slowdown(n['resident_slowdown'])}, {_budget(n)}."
    return (
        f"it would run {fmt.slowdown(n['newcomer_slowdown'])} slower beside a job of kind {n['beside']}, {_budget(n)}."
    )


def _budget(n: Record) -> str:
    return (
        f"whose budget is {fmt.slowdown(n['budget'])}"
        if "resident" in n
        else f"and its budget is {fmt.slowdown(n['budget'])}"
    )


def _full(n: Record) -> str:
    if "wanted_devices" in n:
        wanted = f"{n['wanted_devices']} devices of one host wanted; {n['busy_devices']} of {n['devices']} are busy"
        unusable = n.get("unusable_devices")
        return f"{wanted}, {unusable} unusable: `gpuq doctor` says why." if unusable else f"{wanted}."
    return f"{n['residents']} jobs are there, and {n['limit']} are the limit."


def _unsafe(n: Record) -> str:
    return f"beside kind {n['beside']} one of the two ran out of memory before."


def _never(n: Record) -> str:
    if "devices_per_host" in n:
        return f"{n['wanted_devices']} devices of one host wanted; the most that there are is {n['devices_per_host']}."
    needed, largest, missing = (fmt.gib(n[name]) for name in ("needed_bytes", "largest_device_bytes", "missing_bytes"))
    return f"{needed} needed, the largest device has {largest}: {missing} are missing."


def _jobs(ids: str) -> str:
    return " and ".join(ids.split())


_TELL: dict[tuple[str, bool], Callable[[Record], str]] = {
    ("Idle", True): _idle,
    ("Fits", True): _fits,
    ("KnownPair", True): _known_pair,
    ("PackingSaving", False): _saves_too_little,
    ("FirstRunExclusive", True): _first_run,
    ("FirstRunExclusive", False): _unknown_partner,
    ("Resources", False): _full,
    ("PredictedMemory", False): _too_much_memory,
    ("PredictedLoad", False): _overload,
    ("SlowdownBudget", False): _over_budget,
    ("Exclusive", False): _exclusive,
    ("UnsafePair", False): _unsafe,
    ("NeverFits", False): _never,
}
