"""The command that submits the same again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuq.core.state.job import Sharing
from gpuq.format import rfc3339
from gpuq.messages.submission import Constraints, Submission, in_work_tree


def submit_command(asked: Submission, now: float, *, waits: bool) -> str:
    """What to type in a shell. The environment, and standard input, are those of that shell.

    A job that `waits` is submitted in place of itself, so it waits for the same jobs; later these belong to the past.
    """
    asked = in_work_tree(asked)
    options = [*options_of(asked, now)]
    if waits:
        options += [word for text in asked.after for word in ("--after", text)]
    notebook = asked.interactive == "notebook"
    words = ["gpuq", "notebook", *options] if notebook else ["gpuq", "submit", *options, "--", *asked.command]
    return f"cd {shlex.quote(asked.cwd)} && " + shlex.join(words)


def options_of(asked: Submission, now: float) -> Iterator[str]:
    """The words of the options that give all that is not as usual, but for dependencies, `--hold`, and moments before `now`."""
    only = asked.constraints or Constraints()
    most = f"-{asked.most_gpus}" if asked.most_gpus is not None else ""
    values = {
        "--name": asked.name,
        "--project": asked.project,
        "--kind": asked.kind,
        "--priority": asked.priority or None,
        # Without a number, that of the devices and hosts that are named would count.
        "--gpus": f"{asked.gpus}{most}" if asked.gpus > 1 or most or only.devices else None,
        "--hosts": asked.hosts if asked.hosts > 1 or only.hosts else None,
        "--gpu-mem": None if asked.gpu_memory is None else _size(asked.gpu_memory),
        "--share": None if asked.share is Sharing.AUTO else asked.share.value,
        "--max-slowdown": None if asked.max_slowdown is None else percent_of(asked.max_slowdown),
        "--gpu-type": "|".join(only.types),
        "--gpu-mem-min": f"{only.least_memory}B" if only.least_memory else None,
        "--nodelist": ",".join(only.hosts),
        "--exclude": ",".join(only.excluded_hosts),
        "--device": ",".join(only.devices),
        "--constraint": _features(only.features),
        "--time": None if asked.time_limit_s is None else _time(asked.time_limit_s),
        "--begin": _ahead(asked.begin_at, now),
        "--deadline": _ahead(asked.deadline_at, now),
        "--retry": ",".join(asked.retry),
        "--signal": _signal(asked),
        "--lend-cores": asked.lend_cores or None,
    }
    for option, value in values.items():
        if value is not None and value != "":
            yield from (option, str(value))
    for rule in () if asked.notify is None else asked.notify or ("none",):
        yield from ("--notify", rule)
    switches = {
        "--singleton": asked.singleton,
        "--requeue": asked.requeue_on_node_fail,
        "--preemptible": asked.preemptible and (asked.signal is None or asked.signal_before_s is not None),
        "--blink": asked.blink,
        "--no-pause": asked.no_pause,
        "--idle-ok": asked.idle_ok,
        "--pty": asked.interactive == "terminal",
        "--sync": asked.sync is not None,
    }
    yield from (option for option, given in switches.items() if given)


def percent_of(slowdown: float | None) -> str:
    """A slowdown budget as the options take it: `15%` for 1.15, `default` for None."""
    return "default" if slowdown is None else f"{100 * (slowdown - 1):.4g}%"


def _size(size: int) -> str:
    return f"{size // 2**30}G" if size % 2**30 == 0 else f"{size}B"


def _time(seconds: float) -> str:
    """`2h30m` of 9000."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = ((hours, "h"), (minutes, "m"), (round(rest, 3), "s"))
    return "".join(f"{number:g}{unit}" for number, unit in parts if number)


def _ahead(moment: float | None, now: float) -> str | None:
    return None if moment is None or moment <= now else rfc3339(moment)


def _signal(asked: Submission) -> str | None:
    before = "" if asked.signal_before_s is None else f"@{asked.signal_before_s:.0f}"
    return None if asked.signal is None else asked.signal.removeprefix("SIG") + before


def _features(groups: tuple[tuple[str, ...], ...]) -> str:
    """`nvlink&ib`; with alternatives `(nvlink&ib)|fast`."""
    texts = ["&".join(group) for group in groups]
    return "|".join(f"({text})" if len(texts) > 1 and "&" in text else text for text in texts)
