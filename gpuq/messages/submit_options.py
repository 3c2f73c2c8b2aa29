"""The options of `gpuq submit` that give what a job asked for: of the page's commands, `gpuq show` and `gpuq rerun`.

What was asked for is a mapping with the names of `gpuq.messages.submission.Submission`. Standard library only: the command
loads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuq.format import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Asked = Mapping[str, Any]


def options_of(asked: Asked, now: float) -> Iterator[str]:
    """The words of the options that give all that is not as usual, but for dependencies, `--hold`, and moments before `now`."""
    only: Asked = asked.get("constraints") or {}
    gpus, hosts = asked.get("gpus") or 1, asked.get("hosts") or 1
    most = f"-{asked['most_gpus']}" if asked.get("most_gpus") else ""
    values = {
        "--name": asked.get("name"),
        "--project": asked.get("project"),
        "--kind": asked.get("kind"),
        "--priority": asked.get("priority") or None,
        # Without a number, that of the devices and hosts that are named would count.
        "--gpus": f"{gpus}{most}" if gpus > 1 or most or only.get("devices") else None,
        "--hosts": hosts if hosts > 1 or only.get("hosts") else None,
        "--gpu-mem": size_of(asked["gpu_memory"]) if asked.get("gpu_memory") else None,
        "--share": "never" if asked.get("share") == "never" else None,
        "--max-slowdown": None if asked.get("max_slowdown") is None else percent_of(asked["max_slowdown"]),
        **constraint_options(only),
        "--time": time_of(asked["time_limit_s"]) if asked.get("time_limit_s") else None,
        "--begin": _ahead(asked.get("begin_at"), now),
        "--deadline": _ahead(asked.get("deadline_at"), now),
        "--retry": ",".join(asked.get("retry") or ()),
        "--signal": _signal(asked),
        "--lend-cores": asked.get("lend_cores") or None,
    }
    for option, value in values.items():
        if value is not None and value != "":
            yield from option_words(option, str(value))
    rules = asked.get("notify")
    for rule in () if rules is None else rules or ("none",):
        yield from ("--notify", rule)
    switches = {
        "--singleton": asked.get("singleton"),
        "--requeue": asked.get("requeue_on_node_fail"),
        "--preemptible": asked.get("preemptible") and (not asked.get("signal") or asked.get("signal_before_s")),
        "--blink": asked.get("blink"),
        "--no-pause": asked.get("no_pause"),
        "--idle-ok": asked.get("idle_ok"),
        "--pty": asked.get("interactive") == "terminal",
        "--sync": asked.get("sync"),
    }
    yield from (option for option, given in switches.items() if given)


def option_words(option: str, value: str) -> tuple[str, ...]:
    """The words that give the option this value; one that begins with a dash would be taken for an option by itself."""
    return (f"{option}={value}",) if value.startswith("-") else (option, value)


def constraint_options(only: Asked) -> dict[str, str]:
    """The options that give these constraints, with their values."""
    groups = ["&".join(group) for group in only.get("features") or ()]
    features = [f"({text})" if len(groups) > 1 and "&" in text else text for text in groups]
    values = {
        "--gpu-type": "|".join(only.get("types") or ()),
        "--gpu-mem-min": f"{only['least_memory']}B" if only.get("least_memory") else "",
        "--nodelist": ",".join(only.get("hosts") or ()),
        "--exclude": ",".join(only.get("excluded_hosts") or ()),
        "--device": ",".join(only.get("devices") or ()),
        "--constraint": "|".join(features),
    }
    return {option: value for option, value in values.items() if value}


def percent_of(slowdown: float | None) -> str:
    """A slowdown budget as the options take it: `15%` for 1.15, `default` for None."""
    return "default" if slowdown is None else f"{100 * (slowdown - 1):.4g}%"


def size_of(count: int) -> str:
    """`10G` or `512M`; what is no whole number of a unit in a smaller one."""
    for unit, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if count % unit == 0:
            return f"{count // unit}{letter}"
    return f"{count}B"


def time_of(seconds: float) -> str:
    """`2h30m` of 9000."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = ((hours, "h"), (minutes, "m"), (round(rest, 3), "s"))
    return "".join(f"{number:g}{unit}" for number, unit in parts if number)


def _ahead(moment: float | None, now: float) -> str | None:
    return None if moment is None or moment <= now else rfc3339(moment)


def _signal(asked: Asked) -> str | None:
    if not asked.get("signal"):
        return None
    before = f"@{asked['signal_before_s']:.0f}" if asked.get("signal_before_s") else ""
    return str(asked["signal"]).removeprefix("SIG") + before
