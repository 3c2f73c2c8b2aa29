"""What the rules of verdicts mean, in sentences: one table for the API and the command.

Of each rule there is what it means (`title`), the calculation with the verdict's numbers (`calculation`) and what would change
the verdict (`what_helps`). The names of numbers end in their unit. A rule or a number that is not known here is shown by its
name, so that a command stays readable with a newer daemon. Moments are in the zone of this process, but for those
of `sentence`, which the API sends to other zones. Standard library only: the command loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuq.format import duration, gib, local_time, percent, rfc3339, share, slowdown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Numbers = Mapping[str, Any]

_TITLES = {
    "Idle": "The device was idle",
    "Fits": "It fits beside the jobs on the device",
    "KnownPair": "It is known how much these kinds of jobs slow each other down, and that is little enough",
    "Trial": "Too little is known of how much these kinds of jobs slow each other down, and they are tried",
    "Pause": "The jobs on the device stand still while it runs",
    "SlowdownAccount": "A job on the device may not lose more time to others within its slowdown budget",
    "Constraints": "The job asks for other devices",
    "Resources": "Every device is taken",
    "StaleReading": "The device has not been read lately, and an unread device admits no job",
    "Unwell": "The device had an error that it must recover from first",
    "NoStarts": "The device's host can start no job at the moment",
    "Drained": "The device's host is drained: an operator keeps new jobs off it",
    "PredictedMemory": "The predicted memory does not fit beside the jobs on the device",
    "PredictedLoad": "Together, the predicted peak utilisations exceed the limit",
    "SlowdownBudget": "Sharing would slow a job down by more than its budget",
    "SlowdownRisk": "The risk that sharing slows a job down by more than its budget is too high",
    "PackingSaving": "Running the jobs together would save too little time",
    "FirstRunExclusive": "Too little is known of its kind to share a device, so it gets one alone",
    "Exclusive": "One of the jobs does not share",
    "ForeignProcess": "A process that gpuq did not start uses the device",
    "UnsafePair": "These kinds of jobs have run out of memory together",
    "Reserved": "The device is kept free for another job",
    "Behind": "A device would take it, but the policy has it wait for others",
    "Booked": "A user has reserved the device, and the job would not end before that",
    "TimeLeft": "Its host gives the device back before the job would end",
    "NeverFits": "No known device could ever run it",
    "NoDevices": "No device is known yet",
    "Postponed": "A later start elsewhere is expected to cost less",
    "WaitLimit": "The expected wait is beyond the limit, so the job is kept back until the queue is shorter",
    "DeviceQuota": "Its user or project may not have more devices at a time",
    "DeviceHoursQuota": "Its user or project has used up its device-hours",
    "ArrayLimit": "As many tasks of its array run as may at once",
    "Dependency": "It waits for other jobs",
    "Singleton": "It waits for the earlier jobs of its user with its name",
    "BeginTime": "It was submitted to start later",
    "Backoff": "It did not end well, and is to start again after a pause",
}

_WHAT_HELPS = {
    "FirstRunExclusive": "It starts when a device is idle: a run alone is measured, so that its kind can share then. "
    "--kind names a known kind.",
    "Constraints": "Submit it again with fewer of --gpu-type, --gpu-mem-min, --nodelist, --exclude, --device and --constraint.",
    "SlowdownAccount": "It starts when that job ends, or has run for long enough; --max-slowdown of that job allows more.",
    "PredictedLoad": "It starts when a partner ends, or when a device is idle.",
    "PredictedMemory": "It starts when memory is freed. --gpu-mem lowers the promise if you know it needs less.",
    "SlowdownBudget": "--max-slowdown allows more, for it and for its partner.",
    "SlowdownRisk": "--max-slowdown allows more, for it and for its partner; every pair that is measured makes the risk clearer.",
    "PackingSaving": "It starts when that partner ends, or when another device is idle.",
    "Exclusive": "It starts when a device is idle; --share auto lets jobs share.",
    "ForeignProcess": "`gpuq gpus` shows how much such processes use; --gpu-mem lets a first run start beside them.",
    "StaleReading": "Its host does not report, or the device's driver does not answer: `gpuq doctor` says which.",
    "Unwell": "`gpuq doctor` says what the device needs: mostly a reset, or a restart of its machine.",
    "NoStarts": "It starts on another device, or once the host can start jobs: `gpuq doctor` says what keeps it from that.",
    "Drained": "It starts on another device, or after `gpuq host resume`.",
    "UnsafePair": "It starts when that partner ends, or when another device is idle.",
    "Reserved": "That job goes first, because it has waited long or others were stopped for it; then this one.",
    "Behind": "It starts after those that come first; `gpuq queue` shows the order. "
    "With `backfill` in [scheduling] as `strict` or `easy`, jobs that cannot start yet hold others back.",
    "Booked": "It starts on another device, or after the reservation; with -t, a time limit, it may end before that.",
    "TimeLeft": "It starts on a device with more time left; with -t, a time limit, or as --preemptible it may start there.",
    "NeverFits": "Ask for less memory, or cancel it.",
    "Postponed": "It starts by itself; an earlier deadline or a higher priority makes waiting dearer.",
    "WaitLimit": "It starts when fewer wait. `wait_limit_s` in [scheduling] is the limit.",
    "DeviceQuota": "It starts when jobs of the same user or project end. `gpuq quota` shows the limits; an admin sets them.",
    "DeviceHoursQuota": "It starts when earlier use is older than the window. `gpuq quota` shows the limits; an admin sets them.",
    "ArrayLimit": "It starts when another task of the array ends.",
    "Dependency": "It starts when they have ended so; `gpuq graph` shows who waits for whom.",
    "Singleton": "It starts when they have ended; `gpuq queue` lists them.",
    "BeginTime": "It may start from then on.",
    "Backoff": "It may start from then on; `gpuq show` says how it ended and how often it is tried.",
    "NoDevices": "Start a worker: `gpuq up`, or the gpuq-worker service; `gpuq pool` says what Slurm's pilots wait for.",
    "Resources": "It starts when a device is free.",
}


def title(rule: str, numbers: Numbers) -> str:
    """What the rule means with these numbers, as the begin of a sentence."""
    if rule == "Resources" and "wanted_devices" in numbers:
        return "Fewer devices of one host are free than it wants"
    if rule == "FirstRunExclusive" and "resident" in numbers:
        return "Too little is known of a job on the device to give it a partner"
    if rule == "Exclusive" and "compute_mode" in numbers:
        return "The device's compute mode lets one process at a time use it"
    return _TITLES.get(rule, rule)


def what_helps(rule: str, numbers: Numbers) -> str | None:
    """What would change the verdict, in a sentence; None where nothing is known to."""
    if rule == "Resources" and "wanted_devices" in numbers:
        return "It starts when as many devices of one host are free at the same time."
    if rule == "FirstRunExclusive" and "resident" in numbers:
        return "It starts when that job ends, or when another device is idle."
    if rule == "Exclusive" and "compute_mode" in numbers:
        return "It starts when a device is idle. Under MPS, or after `nvidia-smi -c DEFAULT`, jobs can share this one."
    return _WHAT_HELPS.get(rule)


def sentence(rule: str, numbers: Numbers, device: str | None) -> str:
    """The verdict as one general sentence with all its numbers; `device` is the name of the device that it is about."""
    known = {name: value for name, value in numbers.items() if value is not None}
    parts = [
        f"{label(name)} {rfc3339(value) if name.endswith('_at') else quantity(name, value)}"
        for name, value in known.items()
    ]
    if device is not None:
        parts.insert(0, f"device {device}")
    text = title(rule, numbers)
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


def calculation(rule: str, admitted: bool, numbers: Numbers) -> str | None:
    """The calculation that decided the verdict, as a clause; None where the rule has none or a number for it is missing."""
    formulate = _CALCULATIONS.get((rule, admitted))
    try:
        return formulate(numbers) if formulate else None
    except (KeyError, TypeError):
        return None


def label(name: str) -> str:
    """A number's name without its unit: `limit_pct` is `limit`."""
    for unit in ("_pct", "_bytes", "_s"):
        if name.endswith(unit):
            return name.removesuffix(unit).replace("_", " ")
    return name.replace("_", " ")


def quantity(name: str, value: object) -> str:
    """A number as people write it, by the unit its name ends in."""
    if not isinstance(value, int | float):
        return "unknown" if value is None else str(value)
    if name.endswith("_pct"):
        return percent(value)
    if name.endswith("_bytes"):
        return gib(value)
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_at"):
        return local_time(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


# --- the calculations; a missing or null number raises, and the general sentence is shown instead -------------------


def _load(n: Numbers) -> str:
    total = n["newcomer_pct"] + n["committed_pct"]
    relation = ">" if total > n["limit_pct"] else "<="
    return f"{n['newcomer_pct']:.0f}% + {n['committed_pct']:.0f}% = {total:.0f}% {relation} {n['limit_pct']:.0f}%"


def _memory(n: Numbers) -> str:
    headroom = n.get("headroom_bytes") or 0
    total = n["needed_bytes"] + n["committed_bytes"] + headroom
    relation = ">" if total > n["total_bytes"] else "<="
    spare = f" + {gib(headroom)} kept free" if headroom else ""
    committed = f"{gib(n['committed_bytes'])} promised"
    return f"{gib(n['needed_bytes'])} + {committed}{spare} = {gib(total)} {relation} {gib(n['total_bytes'])}"


def _overload(n: Numbers) -> str:
    foreign = n.get("foreign_pct") or 0
    others = f" and what gpuq did not start ({foreign:.0f}%)" if foreign >= 1 else ""
    return f"peak utilisation {_load(n)}, beside job {_jobs(n['residents'])}{others}."


def _fits(n: Numbers) -> str:
    return (
        f"it fitted beside job {_jobs(n['beside'])}{_by(n)}: peak utilisation {_load(n)}; memory {_memory(n)}; "
        f"slowdown {_expected(n)}{_of_budget(n)}{_at_risk(n)}."
    )


def _known_pair(n: Numbers) -> str:
    return (
        f"peak utilisation {_load(n)}, but beside job {_jobs(n['beside'])}{_by(n)} slowdown {_expected(n)}{_of_budget(n)}; "
        f"its partner's {slowdown(n['resident_slowdown'])} ({n['slowdown_evidence']}){_at_risk(n)}; memory {_memory(n)}."
    )


def _by(n: Numbers) -> str:
    """How they share the device, where that is known."""
    return {"mps": " under MPS", "time-slicing": " by time slicing"}.get(n.get("sharing") or "", "")


def _expected(n: Numbers) -> str:
    """`4% expected (at most 12%)`."""
    expected = n.get("expected_slowdown")
    if expected is None:
        return "not measured yet"
    upper = f" (at most {slowdown(n['upper_slowdown'])})" if n.get("upper_slowdown") is not None else ""
    by_rule = " by the utilisations alone" if n.get("slowdown_evidence") == "rule" else ""
    return f"{slowdown(expected)} expected{by_rule}{upper}"


def _of_budget(n: Numbers) -> str:
    return f", and the budget for what is expected is {slowdown(n['budget'])}"


def _risk(n: Numbers) -> str:
    return f"the risk of more than that is {share(n['risk'])}"


def _at_risk(n: Numbers) -> str:
    return "" if n.get("risk") is None else f"; {_risk(n)}"


def _unknown_partner(n: Numbers) -> str:
    if "resident" in n:
        return f"job {n['resident']} is there, and too little is known of it to give it a partner."
    return f"too little is known of its kind to share a device (evidence: {n['evidence']})."


def _over_budget(n: Numbers) -> str:
    budget = slowdown(n["budget"])
    if "resident" in n:
        return f"it would slow job {n['resident']} by {slowdown(n['resident_slowdown'])}, whose budget is {budget}."
    slower = slowdown(n["newcomer_slowdown"])
    return f"it would run {slower} slower beside a job of kind {n['beside']}, and its budget is {budget}."


def _full(n: Numbers) -> str:
    if "wanted_devices" in n:
        wanted = f"{n['wanted_devices']} devices of one host wanted; {n['busy_devices']} of {n['devices']} are busy"
        unusable = n.get("unusable_devices")
        return f"{wanted}, {unusable} unusable: `gpuq doctor` says why." if unusable else f"{wanted}."
    return f"{n['residents']} jobs are there, and {n['limit']} are the limit."


def constraint(n: Numbers) -> str:
    """What the job asks of a device, and what it has instead: this one, or all that are known."""
    name, here = n["constraint"], n.get("has", n.get("has_bytes"))
    wanted = str(n.get("wanted")).replace("|", " or ").replace("&", " and ")
    if name == "devices":
        return "it names other devices"
    if name == "excluded_hosts":
        return f"it excludes host {here}" if here is not None else f"it excludes all hosts that are left: {n['known']}"
    if name == "least_memory":
        has = f"this one has {gib(here)}" if here is not None else f"the largest has {gib(n['largest_device_bytes'])}"
        return f"it asks for a device sold with {n['wanted_bytes'] / 1e9:g} GB; {has}"
    has = f"this one has {here or 'none'}" if here is not None else f"there are {n['known'] or 'none'}"
    return f"it asks for {_CONSTRAINED[name]} {wanted}; {has}"


_CONSTRAINED = {"types": "type", "hosts": "host", "features": "the features"}


def _no_starts(n: Numbers) -> str:
    again = f"; it tries again at {local_time(n['again_at'])}" if "again_at" in n else ""
    return f"host {n['host']} starts no job since {local_time(n['since_at'])}: {str(n['why']).rstrip('.')}{again}."


def _booked(n: Numbers) -> str:
    start, end = local_time(n["from_at"]), local_time(n["until_at"])
    whose = f"user {n['user']} has it from {start} until {end} (reservation {n['booking']})"
    lasts_s = n.get("lasts_s")
    return f"{whose}; how long the job lasts is {'unknown' if lasts_s is None else f'{duration(lasts_s)} at most'}."


def _time_left(n: Numbers) -> str:
    if not n["left_s"]:
        return f"it is given back at {local_time(n['until_at'])}."
    return f"{duration(n['left_s'])} are left until {local_time(n['until_at'])}; the job may last {duration(n['lasts_s'])}."


def _unshared(n: Numbers) -> str:
    if "compute_mode" in n:
        return "its compute mode lets one process at a time use it."
    return f"job {n['resident']} does not share." if "resident" in n else "this job does not share a device."


def _never(n: Numbers) -> str:
    if "constraint" in n:
        return f"{constraint(n)}."
    if "devices_per_host" in n:
        return f"{n['wanted_devices']} devices of one host wanted; the most that there are is {n['devices_per_host']}."
    needed, largest, missing = (gib(n[name]) for name in ("needed_bytes", "largest_device_bytes", "missing_bytes"))
    return f"{needed} needed, the largest device has {largest}: {missing} are missing."


def _device_quota(n: Numbers) -> str:
    has = f"{_account(n)} has {n['used_devices']} of {n['limit_devices']} devices"
    kept = f", {n['kept_devices']} are kept for job {_jobs(n['kept_for'])}" if n.get("kept_devices") else ""
    return f"{has}{kept}, and the job wants {n['wanted_devices']}."


def _device_hours_quota(n: Numbers) -> str:
    used = f"{_account(n)} has had {n['used_device_hours']:g} of {n['limit_device_hours']:g} device-hours"
    free = "" if n.get("free_at") is None else f"; below the limit at {local_time(n['free_at'])} at the earliest"
    return f"{used} in {duration(n['window_s'])}{free}."


def _dependency(n: Numbers) -> str:
    words = {"ok": "to succeed", "any": "to end", "fail": "to end without success", "start": "to start"}
    parts = (text.partition(":") for text in n["after"].split())
    return f"it waits for {', and for '.join(f'{_range(jobs)} {words[type_]}' for type_, _, jobs in parts)}."


def _range(jobs: str) -> str:
    return f"jobs {jobs}" if "-" in jobs else f"job {jobs}"


def _account(n: Numbers) -> str:
    return f"user {n['user']}" if "user" in n else f"project {n['project']}"


def _jobs(ids: str) -> str:
    return " and ".join(ids.split())


_CALCULATIONS: dict[tuple[str, bool], Callable[[Numbers], str]] = {
    ("Idle", True): lambda n: (
        f"no other job was on the device; {gib(n['needed_bytes'])} needed of {gib(n['total_bytes'])}."
    ),
    ("Fits", True): _fits,
    ("KnownPair", True): _known_pair,
    ("Trial", True): lambda n: (
        f"beside job {_jobs(n['beside'])}{_by(n)} slowdown {_expected(n)}{_of_budget(n)}; {_risk(n)}, more than "
        f"{share(n['most_risk'])}, for want of measurements. What it costs is known within "
        f"{duration(n['trial_s'])}; if that is too much, it ends."
    ),
    ("Pause", True): lambda n: (
        f"job {_jobs(n['paused'])} may stand still for {duration(n['pause_allowed_s'])} within its slowdown budget, and at most "
        f"{duration(n['pause_needed_s'])} are needed."
    ),
    ("SlowdownRisk", False): lambda n: (
        f"beside job {_jobs(n['beside'])}{_by(n)} slowdown {_expected(n)}{_of_budget(n)}; {_risk(n)}, "
        f"and {share(n['most_risk'])} is the most."
    ),
    ("PackingSaving", False): lambda n: (
        f"beside kind {n['beside']} {n['saving']:.0%} of the time would be saved, {n['least_saving']:.0%} are wanted."
    ),
    ("FirstRunExclusive", True): lambda n: (
        f"too little is known of its kind to share, so it has the device ({gib(n['total_bytes'])}) alone."
    ),
    ("FirstRunExclusive", False): _unknown_partner,
    ("Constraints", False): lambda n: f"{constraint(n)}.",
    ("Booked", False): _booked,
    ("Reserved", False): lambda n: f"it is kept free for job {n['reserved_for']}.",
    ("TimeLeft", False): _time_left,
    ("Resources", False): _full,
    ("PredictedMemory", False): lambda n: f"memory {_memory(n)}.",
    ("PredictedLoad", False): _overload,
    ("SlowdownBudget", False): _over_budget,
    ("Exclusive", False): _unshared,
    ("NoStarts", False): _no_starts,
    ("Drained", False): lambda n: f"its host is drained: {n['why']}.",
    ("UnsafePair", False): lambda n: f"beside kind {n['beside']} one of the two ran out of memory before.",
    ("NeverFits", False): _never,
    ("DeviceQuota", False): _device_quota,
    ("DeviceHoursQuota", False): _device_hours_quota,
    ("Dependency", False): _dependency,
    ("Backoff", False): lambda n: f"it is tried again, but not before {local_time(n['begin_at'])}.",
    ("BeginTime", False): lambda n: f"it is not to start before {local_time(n['begin_at'])}.",
}
