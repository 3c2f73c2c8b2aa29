"""`gpuq simulate`: what sharing, or another policy, would have done to your jobs. Needs no daemon.

The simulator (`gpuq.sim`) replaces this process.
"""

from __future__ import annotations

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_module
from gpuq.errors import BadInput

_EPILOG = """\
Without TRACE it plays this gpuq's own history: as a queue that shares nothing
would have run it, as its policy would have without sharing, and with sharing.

  gpuq simulate                                     one's own history
  gpuq simulate jobs.csv --gpus 8 --seeds 5         a trace (docs/simulate.md)
  gpuq simulate --slurm jobs.txt                    what Slurm ran
  gpuq simulate --set admission.max_slowdown=1.3    with another setting
"""
# option -> (metavar, help); each is passed on unchanged.
_VALUES = {
    "--policy": (
        "NAMES",
        "policies or rivals to compare, separated by commas; the first is what others are compared with",
    ),
    "--world": ("NAME", "where the jobs' needs and pair slowdowns come from"),
    "--gpus": ("N", "devices to simulate"),
    "--load": ("X", "scale the arrivals to this share of exclusive capacity: 0.9"),
    "--jobs": ("N", "jobs to play"),
    "--seeds": ("N", "runs with different draws; figures are their medians (default 1)"),
    "--forecasts": (
        "KIND",
        "learned (default): learning from nothing, as live; oracle: all known; cold: nothing known",
    ),
    "--budget": ("X", "slowdown above which a job counts as over budget (default 1.2)"),
    "--html": ("FILE", "where the page goes (default: gpuq-simulation.html here)"),
}
_WHOLE = {"--gpus": 1, "--jobs": 1, "--seeds": 1}
_ABOVE = {"--load": 0.0, "--budget": 1.0}


def run(words: list[str]) -> int:
    """Check the options, then become the process that simulates."""
    parser = Parser(
        "simulate",
        "What sharing, or another policy, would have done to your jobs:\nthe daemon's own core in virtual time.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("trace", nargs="?", metavar="TRACE", help="a CSV, or the name of a public trace")
    for name, (metavar, text) in _VALUES.items():
        choices = ["learned", "oracle", "cold"] if name == "--forecasts" else None
        add(name, metavar=metavar, help=text, choices=choices)
    add("--slurm", metavar="FILE", help="play what `sacct --parsable2` printed (docs/simulate.md)")
    add("--rivals", action="store_true", help="compare with all rivals: how other queues would have done")
    setting = "try a setting, as docs/settings.md has it"
    add("--set", action="append", default=[], metavar="GROUP.SETTING=VALUE", help=setting)
    options = parser.parse_args(words)
    if options.host is not None:
        raise BadInput("`simulate` runs on this machine, on its own record.", fix="Leave out --host, or run it there.")
    command = ["gpuq.sim", *(["--json"] if options.json else []), *(["--rivals"] if options.rivals else [])]
    for name in _VALUES:
        value = getattr(options, name.removeprefix("--"))
        if value is not None:
            _check(name, value)
            command.append(f"{name}={value}")
    command += [f"--set={word}" for word in options.set]
    if options.slurm is not None:
        if options.trace is not None:
            raise BadInput("There are two traces: TRACE and --slurm.", fix="Leave one of them out.")
        options.trace = f"slurm:{options.slurm}"
    become_module([*command, *(["--", options.trace] if options.trace is not None else [])])
    return 1


def _check(name: str, value: str) -> None:
    """Raises BadInput for a value that the simulator would refuse later."""
    if name in _WHOLE and not (value.isdecimal() and int(value) >= _WHOLE[name]):
        raise BadInput(f"{name} `{value}` is not a whole number from {_WHOLE[name]} on.")
    if name in _ABOVE:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not _ABOVE[name] < number < 1e6:
            raise BadInput(f"{name} `{value}` is not a number above {_ABOVE[name]:g}.")
