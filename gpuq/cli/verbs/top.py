"""`gpuq top`: devices, queue and jobs on one screen of the terminal."""

from __future__ import annotations

import os
import sys
from functools import partial

from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient
from gpuq.cli.quantities import whole
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Show the screen until the user leaves it."""
    parser = Parser(
        "top",
        "Devices with their jobs, and the queue with its reasons, on one screen that\nrenews. ? in it lists the keys.",
    )
    add = parser.add_argument
    add("-i", "--interval", metavar="SECS", help="seconds between two looks (default: 1)")
    add("-u", "--user", metavar="WHO", default="all", help="jobs of all (default), of me, or of this user")
    options = parser.parse_args(words)
    interval_s = whole("--interval", options.interval, 1, 3600) or 1
    if options.json:
        raise BadInput("`gpuq top` prints no JSON.", fix="`gpuq gpus --json` and `gpuq queue -u all --json` do.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") in {None, "", "dumb"}:
        raise BadInput(
            "`gpuq top` needs a terminal on which it can move the cursor.",
            fix="`gpuq gpus` and `gpuq queue` print the same once; `gpuq watch ID` follows a job line by line.",
        )
    if options.no_color:
        os.environ["NO_COLOR"] = "1"
    connect = partial(HttpClient.of, options, away_s=0.0)
    connect().get("/version")  # who may not, or reaches nothing, gets a sentence and no screen
    try:
        from gpuq.cli.top.app import Top
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "textual":
            raise
        raise BadInput(
            "`gpuq top` needs Textual, which is not installed beside gpuq-client.",
            fix="pip install 'gpuq-client[top]'",
        ) from missing
    top = Top(connect, interval_s, options.user)
    top.run(mouse=False)
    if top.failure is not None:
        raise top.failure
    return 0
