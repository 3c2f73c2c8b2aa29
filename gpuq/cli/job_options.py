"""The options that describe a job, shared by `submit`, `run`, `predict` and `profile`. `gpuq.cli.job_body` makes of them what
is submitted.
"""

from __future__ import annotations

import argparse

from gpuq.cli import device_options
from gpuq.cli.arguments import Parser

MOST_TIMEOUTS = 100
"""A job that is done in slices of its time limit may have many. One that never ends by itself must not run for ever."""
_USAGE = """\
gpuq {verb} [OPTIONS] SCRIPT [ARGS...]
       gpuq {verb} [OPTIONS] -- COMMAND [ARGS...]
       gpuq {verb} [OPTIONS] - [ARGS...] < SCRIPT"""
_EPILOG = """\
Options stand before the script; everything after it is the script's own.
A .py file is run by --python, else by the active environment, a .venv beside
it or here, or python3 on PATH. A script on standard input goes along.
"""
_NOTIFY = (
    "send a message: end,fail:NAME. Of begin, end, fail, requeue, idle and all; or `none`. NAME is a target of yours; "
    "`gpuq notify --help` says more."
)
_MAX_SLOWDOWN = (
    "budget: 15%% or 1.15. Partners that are expected to slow it more are refused; the upper bound of a forecast "
    "may be higher."
)


def job_parser(verb: str, summary: str) -> Parser:
    """A parser for a verb that takes a job's command; `add_job_options` adds the options."""
    return Parser(verb, summary, usage=_USAGE.format(verb=verb), epilog=_EPILOG)


def add_job_options(parser: Parser, *, named: bool = False) -> None:
    """Add all options that describe a job, in groups; with `named` the verb's `--help` only has their names."""
    add = parser.group("the job", all_rare=named)
    add("-n", "-J", "--name", help="a name to show. Default: the script's.")
    add("-P", "--project", metavar="NAME", help="whose work it is. Jobs of a project share what is learned.")
    add("--kind", rare=True, help="name the kind of work yourself. Jobs of a kind share what is learned.")
    add(
        "-C",
        "--chdir",
        metavar="DIR",
        help="run it in DIR. Default: here. A script that is not here is looked up in DIR.",
    )
    add("--notify", action="append", default=[], metavar="RULE", help=_NOTIFY)

    add = parser.group("devices and sharing", all_rare=named)
    add("--gpus", metavar="N", help="devices: 2, or any number of 1-4. Default: one on each host.")
    add("--hosts", metavar="N", help="hosts at once, with as many devices of each. Default: 1.")
    device_options.add_device_options(add)
    add("--gpu-mem", metavar="SIZE", help="memory it needs at most: 10G, 512MiB. Default: learned.")
    dry = "Run its first steps here, without a GPU, and count its memory. PyTorch, and no `--array`."
    add("--dry-run-memory", rare=True, action="store_true", help=dry)
    add("--share", choices=["auto", "never"], default="auto", help="may it share a device? Default: auto.")
    same = "Same as --share never. Of several such options the last counts."
    add("--exclusive", rare=True, dest="share", action="store_const", const="never", help=same)
    add("--max-slowdown", metavar="X", help=_MAX_SLOWDOWN)
    add(
        "--blink",
        rare=True,
        action="store_true",
        help="Pause it and its partner by turns, <1%% of the time, to measure both.",
    )

    add = parser.group("when it runs", all_rare=named)
    add("-t", "--time", metavar="TIME", help="time limit: 30 (minutes), 2h30m, 1-12:00:00")
    add("-p", "--priority", metavar="N", help="-1000 to 1000, higher goes first. Default: 0.")
    after = "Wait for: ok:12, any:@, fail:NAME, start:12, corr:12. With corr, each task of an array after that of 12."
    add("--after", action="append", default=[], metavar="JOBS", help=after)
    add("--begin", metavar="WHEN", help="not before: 22:00, now+1hour, 2026-07-01T08:00")
    add("--singleton", rare=True, action="store_true", help="After all your earlier jobs of its name.")
    add("--hold", action="store_true", help="do not start before `gpuq release`")
    add("--requeue", action="store_true", help="queue again if its host fails")
    retry = "start again after such an end, so often at most: oom:2,node:5,exit=75:3, or N for any"
    add("--retry", action="append", default=[], metavar="RULES", help=retry)
    timeout = f"Queue again at its time limit, {MOST_TIMEOUTS} times at most. Same as --retry timeout:{MOST_TIMEOUTS}."
    add("--requeue-on-timeout", rare=True, action="store_true", help=timeout)
    add("--preemptible", action="store_true", help="may be stopped for others. It saves its work on a signal.")
    add(
        "--signal",
        rare=True,
        metavar="NAME[@SECONDS]",
        help="The signal to save its work on: USR1, which makes it preemptible. USR1@120 comes 120 s before its time limit.",
    )
    add("--no-pause", rare=True, action="store_true", help="Never pause it so that another job runs.")
    lend = "Up to N (4) idle cores of its host, for kernels that `gpuq split run` splits."
    add("--lend-cores", rare=True, metavar="N", help=lend)
    add("--idle-ok", rare=True, action="store_true", help="Do not stop it because it does not use its devices.")
    add("--deadline", rare=True, metavar="WHEN", help="Wanted by then: 8h from now, or 2026-07-01T08:00 (local time).")
    _add_environment_options(parser, named=named)


def _add_environment_options(parser: Parser, *, named: bool) -> None:
    add = parser.group("what it runs with", all_rare=named)
    add(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="set a variable. NAME alone passes yours.",
    )
    add(
        "--pass-env",
        rare=True,
        action="append",
        default=[],
        metavar="GLOB",
        help="Pass variables that match, as in 'MY_*'. docs/quickstart.md lists those that go along by themselves.",
    )
    add("--python", metavar="PATH", help="the interpreter for a .py script")
    image = "run it in this image: an address, or a .sif file. By apptainer or podman, whichever the host has."
    add("--image", help=image)
    module = "Load this module first, by `module load` of Lmod or Environment Modules; may be given several times."
    add("--module", rare=True, action="append", default=[], metavar="NAME", help=module)
    add("--snapshot", action="store_true", help="run a copy of the git work tree as it is now")
    sync = "send the work tree there. `gpuq fetch` brings results back."
    add("--sync", action="store_true", help=sync)
    key = "Run the copy that an earlier --snapshot made; `gpuq show` has its key."
    add("--from-snapshot", rare=True, metavar="KEY", help=key)
    pty = "Give it a terminal, which `gpuq attach` works in."
    add("--pty", action="store_true", help=pty)
    add("--slurm-env", rare=True, action="store_true", help="The job gets the SLURM_* variables that scripts read.")


def add_array_options(parser: Parser) -> None:
    """Add the options that make a submission an array."""
    add = parser.group("many jobs at once")
    tasks = "a job for each number, N at once: 0-99%%8, 1,3,5-9:2. {task} in the command is the number."
    add("-a", "--array", metavar="LIST[%N]", help=tasks)
    values = "a job for each value: lr=0.1,0.01, seed=1..5. {NAME} in the command is the value; several multiply."
    add("--grid", action="append", default=[], metavar="NAME=VALUES", help=values)
    rows = "a job for each row of CSV, JSON or YAML; - is stdin. {COLUMN} in the command is the value."
    add("--sweep", metavar="FILE", help=rows)


def asks_for_array(options: argparse.Namespace) -> bool:
    """Whether one of the options for arrays was given."""
    given = vars(options)
    return given.get("array") is not None or bool(given.get("grid")) or given.get("sweep") is not None
