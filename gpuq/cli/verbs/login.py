"""`gpuq login URL`: keep the address and a token of a gpuq elsewhere, once the token was accepted there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient
from gpuq.cli.logins import Logins, file_of, plain
from gpuq.errors import BadInput, NotPermitted


def run(words: list[str]) -> int:
    """Check the token and store it. Raises BadInput, NotPermitted where it is refused, Unreachable."""
    parser = Parser(
        "login",
        "Use a gpuq on another machine: from now on every command here goes to it.\n"
        "Asks for a token, which `gpuq token create` prints there; in a script it is\n"
        "read from standard input. It is kept in a file that only you may read.",
    )
    parser.add_argument("url", metavar="URL", help="its address: https://gpuq.example.org")
    parser.add_argument(
        "--ca-file", metavar="FILE", help="the authority that signed its certificate. Default: the system's."
    )
    options = parser.parse_args(words)
    if not options.url.startswith(("https://", "http://")):
        raise BadInput(
            f"`{options.url}` is no address on a network.", fix="Write https://HOST or http://127.0.0.1:PORT."
        )
    entry = {"token": _token()}
    if options.ca_file:
        entry["ca_file"] = str(Path(options.ca_file).expanduser().absolute())
    address, environ = plain(options.url), dict(os.environ)
    logins = Logins.read(environ)
    client = HttpClient(address, {**environ, "GPUQ_TOKEN": ""}, login=entry)
    try:
        client.get("/api/v1/jobs", limit=1)
    except NotPermitted as error:
        raise NotPermitted(
            f"{address} does not accept this token.", fix="`gpuq token create` on its machine prints one."
        ) from error
    logins.address, logins.tokens[address] = address, entry
    logins.write(environ)
    console.show(options, {"address": address}, lambda *_: [f"Commands here go to {address} from now on."])
    console.note(f"The token is in {file_of(environ)}. `gpuq logout` removes it.")
    if environ.get("GPUQ_HOST") or environ.get("GPUQ_HOME"):
        console.warn("GPUQ_HOST or GPUQ_HOME is set here, and goes first")
    return 0


def _token() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        token = getpass("token: ").strip()
    else:
        token = sys.stdin.readline(4096).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("this is no token.", fix="`gpuq token create` on the machine of that gpuq prints one.")
    return token
