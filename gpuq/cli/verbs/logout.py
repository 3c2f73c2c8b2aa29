"""`gpuq logout [URL]`: forget the token of a gpuq elsewhere."""

from __future__ import annotations

import os

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.logins import Logins, plain
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Remove it. Raises BadInput if there is none."""
    parser = Parser(
        "logout",
        "Forget the token of a gpuq elsewhere. The token stays valid: `gpuq token\nrevoke` on that machine ends it.",
    )
    parser.add_argument("url", nargs="?", metavar="URL", help="its address. Default: that of the last login.")
    options = parser.parse_args(words)
    environ = dict(os.environ)
    logins = Logins.read(environ)
    address = plain(options.url) if options.url else logins.address
    if address is None or address not in logins.tokens:
        raise BadInput(f"you are not logged in{f' at {address}' if address else ''}.", fix="gpuq login URL")
    del logins.tokens[address]
    if logins.address == address:
        logins.address = None
    logins.write(environ)
    console.show(options, {"address": address}, lambda *_: [f"The token of {address} is removed."])
    return 0
