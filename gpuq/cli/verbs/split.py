"""`gpuq split`: run one OpenCL kernel on several devices at once. Needs no daemon; `gpuq.split` replaces this process."""

from __future__ import annotations

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_module
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput

_NEEDS = ("pyopencl", "pocl_binary_distribution", "llvmlite", "sklearn")
_EPILOG = """\
  gpuq split check launch.toml      whether a split gives the right results
  gpuq split predict launch.toml    which share the first device should take
  gpuq split run launch.toml        run it, split where that is right
  gpuq split search launch.toml     measure every share

docs/split.md has the file's form, and who gains by a split.
"""


def run(words: list[str]) -> int:
    """Check the options, then become the process that does it."""
    parser = Parser("split", "Run one OpenCL kernel on several devices of this machine at once.", epilog=_EPILOG)
    parser.add_argument("what", choices=["check", "predict", "run", "search"], help="what to do")
    parser.add_argument("launch", metavar="LAUNCH.toml", help="the kernel, its index space, arguments and devices")
    parser.add_argument("--limit", metavar="TIME", default="10m", help="stop a kernel that runs longer (default 10m)")
    options = parser.parse_args(words)
    limit_s = parse_duration(options.limit)
    from importlib.util import find_spec

    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise BadInput(f"`gpuq split` needs {', '.join(missing)}.", fix="Install it: pip install 'gpuq-daemon[split]'")
    json = ["--json"] if options.json else []
    become_module(["gpuq.split", options.what, f"--limit-s={limit_s}", *json, "--", options.launch])
    return 1
