"""`gpuq characterize`: measure workloads alone and in pairs on this machine. Needs no daemon.

The measuring itself is the laboratory's (`gpuq.lab.campaign`), which replaces this process.
"""

from __future__ import annotations

import re

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_laboratory
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput

_EPILOG = """\
  gpuq characterize workloads/campaign.toml            all of it
  gpuq characterize workloads/campaign.toml --for 9m   nine minutes of it
  gpuq model characterize --data measurements          what it says

Started again it goes on where it stopped. docs/characterize.md has the list's
form, and how rates and slowdowns are measured.
"""
# option -> (metavar, help); each is passed on unchanged.
_VALUES = {
    "--out": ("DIR", "folder for runs.jsonl, singles.csv, pairs.csv (default: measurements)"),
    "--device": ("ID", "a device: its index, name or UUID, as 3 or gpu3 (default: the first)"),
    "--cores": ("N", "cores of a CPU device (default 1)"),
    "--pairs": ("N", "pairs to measure; `all` for all (default all)"),
    "--repeats": ("N", "runs of a job or pair that is not tight yet, at most (default 3)"),
    "--tight": ("PCT", "95%% half-width wanted of rates and slowdowns, in percent (default 3)"),
    "--backend": ("NAME", "which devices: auto, nvml or cpu (default: auto)"),
    "--sharing": ("MODE", "how a GPU is shared: time-slicing or mps (default: as the settings say)"),
    "--for": ("TIME", "stop cleanly after this long: 9m, 2h"),
}
_CHOICES = {"--backend": ["auto", "nvml", "cpu"], "--sharing": ["time-slicing", "mps"]}
_FLAGS = ("retry_failed", "busy_anyway", "plan", "json")
_WHOLE = {"--cores": 1, "--pairs": 0, "--repeats": 1}


def run(words: list[str]) -> int:
    """Check the options, then become the process that measures."""
    parser = Parser(
        "characterize",
        "Measure a list of workloads on this machine, each alone and then in pairs.\nIt runs them itself, beside no other load.",
        epilog=_EPILOG,
    )
    parser.add_argument("list", metavar="LIST", help="the workloads, TOML")
    for name, (metavar, text) in _VALUES.items():
        parser.add_argument(name, metavar=metavar, help=text, choices=_CHOICES.get(name))
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this workload of the list")
    parser.add_argument("--retry-failed", action="store_true", help="try again what failed in earlier starts")
    parser.add_argument("--busy-anyway", action="store_true", help="measure beside other load")
    parser.add_argument("--plan", action="store_true", help="only show what is left to measure, and how long it takes")
    options = parser.parse_args(words)
    if options.host is not None:
        raise BadInput("`characterize` measures on this machine.", fix="Leave out --host, or run it there.")
    command = [f"--only={name}" for name in options.only]
    for name in _VALUES:
        text = getattr(options, name.removeprefix("--"))
        if text is not None:
            _check(name, text)
            command.append(f"{name}={text}")
    command += [f"--{name.replace('_', '-')}" for name in _FLAGS if getattr(options, name)]
    become_laboratory("characterize", [*command, "--", options.list], needs=("scipy",))
    return 1


def parse_tight(text: str) -> float:
    """The share, between 0 and 1, of a percentage such as `3` or `2.5%`. Raises BadInput."""
    match = re.fullmatch(r"(\d{1,2}(?:\.\d{1,3})?)%?", text)
    if match is None or float(match[1]) <= 0:
        raise BadInput(f"--tight `{text}` is not a percentage.", fix="Write one above 0 and below 100: 3, 2.5%.")
    return float(match[1]) / 100


def _check(name: str, text: str) -> None:
    """Raises BadInput for a value that the measuring process would refuse later."""
    if name in _WHOLE and not (name == "--pairs" and text == "all"):
        if not text.isdecimal() or len(text) > 6 or int(text) < _WHOLE[name]:
            raise BadInput(f"{name} `{text}` is not a whole number from {_WHOLE[name]} on.")
    elif name == "--tight":
        parse_tight(text)
    elif name == "--for":
        parse_duration(text)
