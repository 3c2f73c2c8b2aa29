"""`gpuq host add`: the key of another GPU host, and the lines to run there."""

from __future__ import annotations

import re

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.errors import BadInput, NotFound, NotPermitted
from gpuq.home import Home, host_key

# As `[worker] host` in the settings.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def run(words: list[str]) -> int:
    """Print the lines for the new host. Raises BadInput, NotFound, NotPermitted."""
    parser = Parser(
        "host",
        "Add a GPU host: print the lines to run there as root, its key included. Whoever\n"
        "has the key can act as that host, and as no other: do not pass it on. Run this\n"
        "on the main host as the user who runs gpuq.",
    )
    parser.add_argument("action", choices=["add"], metavar="add", help="what to do")
    parser.add_argument("name", metavar="NAME", help="the host's name, `[worker] host` in its settings")
    options = parser.parse_args(words)
    name = options.name
    if not _NAME.fullmatch(name):
        raise BadInput(f"`{name}` is no name for a host.", fix="Use 1 to 64 letters, digits, `.`, `_` and `-`.")
    key = host_key(_master_key(Home.from_environment()), name)
    if options.json:
        console.print_json({"host": name, "key": key})
    else:
        print(_lines(name, key))
    return 0


def _master_key(home: Home) -> str:
    file = home.order_key_file
    try:
        return file.read_text().strip()
    except PermissionError:
        raise NotPermitted(f"{file} is for the user who runs gpuq.", fix="Run this as that user.") from None
    except FileNotFoundError:
        raise NotFound(
            f"{file} is not there.", fix="Set GPUQ_HOME to the home of the dispatcher, and start it there once."
        ) from None


def _lines(name: str, key: str) -> str:
    return f"""\
# On {name}, as root:
echo {key} | install -m 600 -o gpuq -g gpuq /dev/stdin /var/lib/gpuq/host.key
# /etc/gpuq/environment needs GPUQ_REDIS_URL and GPUQ_DATABASE_URL, both by address, and where
# `hostname` is not {name}: GPUQ_WORKER_HOST={name}
systemctl enable --now gpuq-worker"""
