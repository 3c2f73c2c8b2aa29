"""`gpuq profile`: where a job's time goes, op by op. `gpuq.programs.profile` replaces this process."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpuq.cli import job_body, job_options
from gpuq.cli.programs import become_module
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput

_NAMES = ("command", "cwd", "project", "kind", "script", "script_sha256")
# The longest argument that a program accepts is 131,072 bytes (MAX_ARG_STRLEN).
_MOST_TEXT = 131_000


def run(words: list[str]) -> int:
    """Check the options and the command, then become the process that profiles it."""
    parser = job_options.job_parser(
        "profile",
        "Run a job here until some of its training steps are recorded, and show where\n"
        "their time goes. PyTorch, and Keras on TensorFlow; no change to the script.\n"
        "The profile is kept, and lets gpuq predict how long this kind takes on types\n"
        "of device that it never ran on.",
    )
    add = parser.group("profiling")
    add("--out", metavar="FILE", help="write the profile there too, as JSON")
    add("--from", dest="source", metavar="FILE", help="run nothing: read what a profiler of either framework wrote")
    add("--device-type", metavar="TYPE", help="what the device is called; default: this host's first")
    add("--skip", metavar="N", default="10", help="steps to let pass first; default 10")
    add("--steps", metavar="N", default="20", help="steps to time, and then to record; default 20")
    add("--limit", metavar="TIME", default="5", help="give up after this long: 5 (minutes), 90s; default 5 minutes")
    job_options.add_job_options(parser, named=True)
    options, body = job_body.parse(parser, words)
    if "stdin" in body:
        raise BadInput("a script on standard input cannot be profiled.", fix="Save it in a file, and profile that.")
    text = json.dumps({name: body[name] for name in _NAMES if name in body})
    if len(text.encode()) > _MOST_TEXT:
        raise BadInput("the command is too long to profile.", fix="Put its arguments into a file.")
    arguments = ["--skip", _whole("--skip", options.skip), "--steps", _whole("--steps", options.steps)]
    arguments += ["--limit", str(parse_duration(options.limit))]
    for name, value in (("--out", options.out), ("--from", options.source), ("--device-type", options.device_type)):
        if value is not None:
            arguments += [name, str(Path(value).absolute()) if name != "--device-type" else value]
    if options.json:
        arguments.append("--json")
    os.environ.update(dict(setting.split("=", 1) for setting in options.env if "=" in setting))
    become_module(["gpuq.programs.profile", *arguments, "--", text])
    return 1


def _whole(option: str, text: str) -> str:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise BadInput(f"{option} `{text}` is not a whole number from 1 to 1,000,000.")
    return text
