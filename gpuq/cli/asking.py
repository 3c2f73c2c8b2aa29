"""The options that describe a job, shared by `submit`, `run` and `predict`, and the submission they make.

Leaves: the JSON body of `POST /api/v1/jobs`, as `gpuq.submission.Submission` wants it; left out is what was not said.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from gpuq.cli import capture
from gpuq.cli.arguments import Parser
from gpuq.cli.quantities import parse_duration, parse_moment, parse_size, parse_slowdown
from gpuq.errors import BadInput

# Those of `gpuq.submission.Signal`.
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")

USAGE = "gpuq {verb} [OPTIONS] SCRIPT [ARGS...]\n       gpuq {verb} [OPTIONS] -- COMMAND [ARGS...]"
EPILOG = """\
Options stand before the script; everything after it is the script's own.
A .py file is run by --python, else by the active environment ($VIRTUAL_ENV,
$CONDA_PREFIX), else by a .venv beside it or here, else by python3 on PATH.
"""


def add_job_options(parser: Parser) -> None:
    """Everything that describes a job."""
    add = parser.add_argument
    add("-n", "-J", "--name", help="a name to show; default: the script's")
    add("-P", "--project", help="whose work it is; jobs of a project share what is learned")
    add("--kind", help="name the kind of work yourself; jobs of a kind share what is learned")
    add("-p", "--priority", help="-1000 to 1000, higher goes first; default 0")
    add("--share", choices=["auto", "never"], default="auto", help="whether it may share a device; default auto")
    add("--exclusive", action="store_true", help="same as --share never")
    add(
        "--max-slowdown",
        metavar="X",
        help="budget: refuse partners expected to slow it more than this, 15%% or 1.15; the bound may be higher",
    )
    add("--gpu-mem", metavar="SIZE", help="memory it needs at most: 10G, 512MiB; default: learned")
    add("--gpus", metavar="N", help="devices of one host it runs on: 2, or any number of a range, 1-4; default 1")
    add("-t", "--time", metavar="TIME", help="time limit: 30 (minutes), 2h30m, 1-12:00:00")
    add("--hold", action="store_true", help="do not start before `gpuq release`")
    add("--requeue", action="store_true", help="queue again if its host fails")
    add("--deadline", metavar="WHEN", help="wanted by then: 8h from now, or 2026-07-01T08:00 (local time)")
    add(
        "--preemptible", action="store_true", help="it saves its work when told, so it may be stopped and started again"
    )
    add("--signal", metavar="NAME", help="told by this signal, as in USR1; implies --preemptible; default TERM")
    add(
        "--blink", action="store_true", help="pause it and its partner by turns, under 1%% of the time, to measure both"
    )
    add("-C", "--chdir", metavar="DIR", help="run it in DIR; default: here")
    add("--python", metavar="PATH", help="the interpreter for a .py script")
    add(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="set a variable; NAME alone passes yours",
    )
    add("--pass-env", action="append", default=[], metavar="GLOB", help="pass variables that match, as in 'MY_*'")


def submission(options: argparse.Namespace, words: list[str], verbatim: bool) -> dict[str, Any]:
    """The body for these options and this command. Raises BadInput."""
    here = capture.current_folder()
    command = capture.command(words, verbatim=verbatim, python=options.python, environ=os.environ, cwd=here)
    body: dict[str, Any] = {
        "command": command.words,
        "cwd": str(_working_folder(options.chdir, here)),
        "env": capture.environment(os.environ, options.pass_env, options.env),
        "name": options.name or Path(words[0]).name,
        "project": options.project,
        "kind": options.kind,
        "priority": _whole("--priority", options.priority, -1000, 1000),
        "share": "never" if options.exclusive else options.share,
        "max_slowdown": parse_slowdown(options.max_slowdown) if options.max_slowdown else None,
        "gpu_memory": parse_size(options.gpu_mem) if options.gpu_mem else None,
        **_gpus(options.gpus),
        "time_limit_s": parse_duration(options.time) if options.time else None,
        "hold": options.hold,
        "requeue_on_node_fail": options.requeue,
        "deadline_at": parse_moment(options.deadline, time.time()) if options.deadline else None,
        "preemptible": options.preemptible or options.signal is not None or None,
        "signal": _signal(options.signal),
        "blink": options.blink or None,
    }
    body.update(_provenance(command.script, here))
    body["hints"] = capture.hints(command, Path(body["cwd"]))
    return {name: value for name, value in body.items() if value is not None}


def _provenance(script: Path | None, here: Path) -> dict[str, Any]:
    commit, dirty = capture.git_state(script.parent if script else here)
    found: dict[str, Any] = {"git_sha": commit, "git_dirty": dirty}
    if script is not None:
        found |= {"script": str(script), "script_sha256": capture.script_sha256(script)}
    return found


def _working_folder(asked: str | None, here: Path) -> Path:
    folder = capture.absolute(asked, here) if asked else here
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}.", fix="Make it, or name another with --chdir.")
    return folder


def _gpus(text: str | None) -> dict[str, int | None]:
    """`2` is two devices; `1-4` is one to four, as they are free."""
    if text is None:
        return {}
    least, dash, most = text.partition("-")
    low = _whole("--gpus", least, 1, 64)
    high = _whole("--gpus", most, 1, 64) if dash else None
    if low is not None and high is not None and high < low:
        raise BadInput(f"--gpus `{text}` runs backwards.", fix=f"Write --gpus {high}-{low}.")
    return {"gpus": low, "most_gpus": high}


def _signal(name: str | None) -> str | None:
    if name is None:
        return None
    full = "SIG" + name.upper().removeprefix("SIG")
    if full not in _SIGNALS:
        short = ", ".join(signal.removeprefix("SIG") for signal in _SIGNALS)
        raise BadInput(f"--signal `{name}` is none that a job may be told by.", fix=f"Use one of {short}.")
    return full


def _whole(option: str, text: str | None, low: int, high: int) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = high + 1
    if not low <= number <= high:
        raise BadInput(f"{option} `{text}` is not a whole number from {low} to {high}.")
    return number
