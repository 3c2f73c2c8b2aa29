"""`gpuq up`: becomes the supervisor. This process is replaced, so nothing of the daemon is imported here."""

from __future__ import annotations

import os
import sys

from gpuq.cli.arguments import Parser
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Replace this process by the supervisor."""
    parser = Parser(
        "up",
        "Run gpuq here, in the foreground: Redis, dispatcher, worker, HTTP endpoint.\n"
        "Ctrl-C ends it and leaves jobs running; the next `gpuq up` goes on where it was.",
    )
    parser.add_argument("--port", metavar="N", help="TCP port of the HTTP endpoint on 127.0.0.1; 0 picks a free one")
    parser.add_argument("--stop-jobs", action="store_true", help="end all running jobs when this ends")
    options = parser.parse_args(words)
    command = ["gpuq.daemon.up"]
    if options.port is not None:
        if not options.port.isdecimal() or int(options.port) > 65535:
            raise BadInput(f"--port `{options.port}` is not a port.", fix="Use a number from 0 to 65535.")
        command += ["--port", options.port]
    if options.stop_jobs:
        command.append("--stop-jobs")
    become_module(command)
    return 1


def become_module(arguments: list[str]) -> None:
    """Replace this process by `python -m ARGUMENTS`. `-P`: a file in the user's folder must not pose as a module."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", *arguments])  # noqa: S606  our own interpreter, no shell
