"""`gpuq url`: the address of the page with the token in it, for a browser without a cookie of this gpuq."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import THIS_MACHINE, host_and_port
from gpuq.cli.logins import Logins
from gpuq.errors import BadInput, GpuqError, NotPermitted, Unreachable
from gpuq.home import SHARED_SOCKET, Home

_SET = "Set GPUQ_TOKEN to the token of the gpuq that you named."
_SHARED_PAGE = "its page, which is http://127.0.0.1:8780 unless this site has another"


def run(words: list[str]) -> int:
    """Print the address. Raises Unreachable if no endpoint runs."""
    parser = Parser(
        "url",
        "Print the address of the page with the token. Who has it may do with this gpuq\n"
        "what you may: do not pass it on. `gpuq open` opens it in the browser.",
    )
    options = parser.parse_args(words)
    address = page_address(options)
    if options.json:
        console.print_json({"url": address})
    else:
        print(address)
    return 0


def page_address(options: argparse.Namespace) -> str:
    """The page's address with the token. Raises Unreachable, NotPermitted, BadInput."""
    home = Home.from_environment()
    named = options.host or os.environ.get("GPUQ_HOST") or ""
    if named.startswith("unix:"):
        raise BadInput(
            "A Unix socket has no page for a browser.", fix="Name the gpuq by its http address, or leave --host out."
        )
    if named and host_and_port(named)[0] not in THIS_MACHINE and not os.environ.get("GPUQ_TOKEN"):
        raise Unreachable(f"No token of {named} is known.", fix=_SET)
    if not named:
        try:
            note = json.loads((home.run / "http.json").read_bytes())
        except FileNotFoundError:
            note = None
        if note is None or not Path(f"/proc/{note['pid']}").exists():  # a killed endpoint leaves its note
            raise _no_own_page(home)
        named = str(note["url"])
    file, token = home.token_file, os.environ.get("GPUQ_TOKEN")
    try:
        token = token or file.read_text(encoding="ascii").strip()
    except PermissionError:
        raise NotPermitted(f"{file} is for the user who runs gpuq.", fix="Ask them for access.") from None
    except FileNotFoundError:
        raise Unreachable(f"{file} is not there.", fix=_SET) from None
    return f"{named.rstrip('/')}/?token={token}"


def _no_own_page(home: Home) -> GpuqError:
    """Who uses a gpuq elsewhere has no token in this home. One in the address would get into the log of a proxy."""
    page = None
    if not os.environ.get("GPUQ_HOME"):
        shared = SHARED_SOCKET.exists() and not home.is_in_use
        page = Logins.read(os.environ).address or (_SHARED_PAGE if shared else None)
    if page is None:
        return Unreachable(f"No gpuq is running in {home.root}.")
    return NotPermitted(
        "The page of the gpuq that your commands use asks for a token of yours.",
        fix=f"Make one with `gpuq token create`, and type it at {page}.",
    )
