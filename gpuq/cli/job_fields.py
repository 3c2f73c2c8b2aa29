"""The fields of a submission that only depend on its options, not on the command or the folder."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from gpuq import notify_file
from gpuq.cli import capture, console, dependencies, device_options, job_ids
from gpuq.cli.client import HttpClient
from gpuq.cli.job_options import MOST_TIMEOUTS
from gpuq.cli.quantities import parse_begin, parse_duration, parse_moment, parse_size, parse_slowdown, whole
from gpuq.errors import BadInput

_MOST_GPUS = 64
# The limits of `gpuq.messages.submission.Submission`, checked here so that the message can name the option.
LONGEST = {"name": 200, "project": 200, "kind": 400}
# The signals of `gpuq.messages.submission.Signal`.
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")


# Once: `--stdin` submits many commands with the same options.
warn = cache(console.warn)


def fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields that only depend on the options; None where one was not given. Raises BadInput."""
    constraints = device_options.constraints(options)
    return {
        "project": label("project", options.project),
        "kind": label("kind", options.kind),
        "priority": whole("--priority", options.priority, -1000, 1000),
        "share": options.share,
        "max_slowdown": _read("--max-slowdown", options.max_slowdown, parse_slowdown),
        "gpu_memory": _read("--gpu-mem", options.gpu_mem, parse_size),
        **_places(options.gpus, options.hosts, constraints or {}),
        "constraints": constraints,
        "time_limit_s": _read("--time", options.time, parse_duration),
        "after": dependencies.parse(options.after, lambda: HttpClient.of(options)) or None,
        "begin_at": _read("--begin", options.begin, lambda text: parse_begin(text, time.time())),
        "singleton": options.singleton or None,
        "retry": _retry(options.retry, options.requeue_on_timeout) or None,
        "hold": options.hold,
        "requeue_on_node_fail": options.requeue,
        "deadline_at": _read("--deadline", options.deadline, lambda text: parse_moment(text, time.time())),
        "preemptible": options.preemptible or (options.signal is not None and "@" not in options.signal) or None,
        **_signal(options),
        "blink": options.blink or None,
        "idle_ok": options.idle_ok or None,
        "no_pause": options.no_pause or None,
        "lend_cores": None if options.lend_cores is None else whole("--lend-cores", options.lend_cores, 0, 4) or None,
        "notify": notify_file.option(options.notify, os.environ),
        "interactive": "terminal" if options.pty else None,
        "umask": capture.umask(),
    }


def label(name: str, text: str | None) -> str | None:
    """The value of --name, --project or --kind. Raises BadInput if it is empty, too long or not one printable line."""
    if text is None:
        return None
    if not text.strip():
        raise BadInput(f"--{name} is empty.", fix="Write some text, or leave the option out.")
    if not capture.is_text(text):
        raise BadInput(f"--{name} is not valid UTF-8.", fix="Use other characters.")
    if not text.isprintable():
        raise BadInput(f"--{name} holds a line break or another control character.", fix="Write it on one line.")
    if len(text) > LONGEST[name]:
        raise BadInput(
            f"--{name} has {len(text)} characters; {LONGEST[name]} is the limit.", fix="Choose a shorter one."
        )
    if name == "name" and job_ids.reads_as_ids(text):
        slurms = " Slurm's -n is --ntasks; here it is the name." if text.isdecimal() else ""
        fix = f"Write it without @, and not as a number.{slurms}"
        raise BadInput(f"--name `{text}` would be read as ids of jobs, as in `gpuq show {text}`.", fix=fix)
    return text


def _gpus(text: str | None) -> dict[str, int | None]:
    """The fields for --gpus: `2` is two devices, `1-4` one to four, whatever is free. Raises BadInput."""
    if text is None:
        return {}
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text.strip())
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (1 <= low <= _MOST_GPUS and 1 <= high <= _MOST_GPUS):
        raise BadInput(
            f"--gpus `{text}` is not a number of devices.",
            fix=f"Write a number from 1 to {_MOST_GPUS}, or a range such as 1-4.",
        )
    if high < low:
        raise BadInput(f"--gpus `{text}` runs backwards.", fix=f"Write --gpus {high}-{low}.")
    return {"gpus": low, "most_gpus": high if "-" in text else None}


def _places(gpus: str | None, hosts: str | None, constraints: dict[str, Any]) -> dict[str, int | None]:
    """The fields for --gpus and --hosts; without these, all hosts and devices that are named count. Raises BadInput."""
    devices = constraints.get("devices", [])
    if hosts is None:
        named = constraints.get("hosts", []) or device_options.hosts_of(devices)
        hosts = str(len(named)) if len(named) > 1 else None
    if gpus is None and devices:
        gpus = str(len(devices))
    count = whole("--hosts", hosts, 1, _MOST_GPUS)
    if count is None or count == 1:
        return _gpus(gpus)
    asked = _gpus(gpus or str(count))
    if asked["most_gpus"] is not None:
        raise BadInput("--hosts goes with a fixed number of devices, not with a range.", fix=f"Write --gpus {count}.")
    if asked["gpus"] is None or asked["gpus"] % count:
        fix = f"Ask for a multiple of {count}, as in --hosts {count} --gpus {2 * count}: --gpus counts those of all hosts."
        raise BadInput(f"--gpus {gpus} cannot be divided evenly among {count} hosts.", fix=fix)
    return {**asked, "hosts": count}


def _retry(words: list[str], on_timeout: bool) -> list[str]:
    """The rules for retries, as the API takes them. Raises BadInput."""
    found: dict[str, str] = {}
    for part in (part.strip() for word in words for part in word.split(",")):
        rule = re.fullmatch(r"(?:(oom|node|timeout|any|exit=([0-9]{1,3})):)?([1-9][0-9]{0,3})", part)
        cause = (rule[1] or "any") if rule else ""
        if rule is None or (rule[2] and not 1 <= int(rule[2]) <= 255):
            raise BadInput(
                f"--retry `{part}` is not an end and a number of retries.",
                fix="Write oom:2, node:5, timeout:20, exit=75:3 or any:1, up to 9999 each; 3 alone is any:3.",
            )
        if cause in found:
            raise BadInput(f"--retry has two numbers for `{cause}`.", fix="Leave one of them out.")
        found[cause] = f"{cause}:{rule[3]}"
    if on_timeout:
        found.setdefault("timeout", f"timeout:{MOST_TIMEOUTS}")
    return list(found.values())


def _signal(options: argparse.Namespace) -> dict[str, str | float | None]:
    """The fields for --signal: `USR1` is for a preemption, `USR1@120` also for the time limit, so many seconds before it. Raises
    BadInput."""
    if options.signal is None:
        return {}
    name, at, before = options.signal.partition("@")
    full = "SIG" + name.upper().removeprefix("SIG")
    if full not in _SIGNALS:
        short = ", ".join(signal.removeprefix("SIG") for signal in _SIGNALS)
        raise BadInput(f"--signal `{name}` cannot tell a job to save its work.", fix=f"Use one of {short}.")
    if not at:
        return {"signal": full}
    seconds = whole(f"--signal {name}@", before, 1, 10**6)
    limit = _read("--time", options.time, parse_duration)
    if limit is None:
        warn(f"--signal {options.signal} counts back from the time limit, and there is none; --time sets one")
    elif seconds is not None and seconds >= limit:
        fix = "Name fewer seconds, or a longer limit."
        raise BadInput(f"--signal {options.signal} is no later than the start: the time limit is {limit:g} s.", fix=fix)
    return {"signal": full, "signal_before_s": seconds}


def _read(option: str, text: str | None, parse: Callable[[str], float]) -> float | None:
    """The parsed value of an option; None if it was not given. Raises BadInput with the option's name."""
    if text is None:
        return None
    try:
        return parse(text)
    except BadInput as error:
        raise BadInput(f"{option}: {error.message}", fix=error.fix) from error
