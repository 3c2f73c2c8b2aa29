"""`gpuq version`: the version of this command, and of the daemon if one answers."""

from __future__ import annotations

from gpuq import __version__
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.errors import GpuqError


def run(words: list[str]) -> int:
    """Print both versions."""
    parser = Parser("version", "The version of this command, and of the daemon if one answers.")
    options = parser.parse_args(words)
    try:
        daemon: Record | None = HttpClient.of(options, away_s=0).get("/version")
    except GpuqError:
        daemon = None
    if options.json:
        console.print_json({"version": __version__, "daemon": daemon})
    else:
        print(f"gpuq {__version__}")
        print(f"daemon {daemon['version']}" if daemon else "daemon not running")
    return 0
