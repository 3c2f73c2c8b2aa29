"""`gpuq mcp`: tools for coding agents, by the Model Context Protocol. The server (`gpuq.mcp_server`) replaces this process."""

from __future__ import annotations

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_module
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Check the options, then become the server."""
    parser = Parser(
        "mcp",
        "Serve tools for coding agents on standard input and output (Model Context\n"
        "Protocol): look, predict, explain, wait, read logs, and submit within a budget.",
        epilog="The agent starts it: name `gpuq mcp --budget 8h` in its configuration.\n",
    )
    parser.add_argument("--budget", metavar="TIME", help="device-time that its jobs may take at most; default: none")
    options = parser.parse_args(words)
    budget_s = parse_duration(options.budget) if options.budget else 0.0
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise BadInput("`gpuq mcp` needs the package mcp.", fix="Install it: pip install 'gpuq-daemon[mcp]'")
    become_module(["gpuq.mcp_server", f"--budget-s={budget_s}", *([f"--host={options.host}"] if options.host else [])])
    return 1
