"""`gpuq open`: open the page in the browser.

The browser gets the address through a private file, because every user of the machine could read the token on its command line.
"""

from __future__ import annotations

import os

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.verbs.url import page_address
from gpuq.home import Home, write_private


def run(words: list[str]) -> int:
    """Open the page, or print its address where there is no browser."""
    parser = Parser(
        "open",
        "Open the page in the browser; where there is none, print its address with the\ntoken.",
    )
    options = parser.parse_args(words)
    address = page_address(options)
    opened = _open(address)
    if options.json:
        console.print_json({"url": address, "opened": opened})
    elif opened:
        console.note("If the browser does not show the page, open the address that `gpuq url` prints.")
    else:
        console.note("There is no browser to open here; open this address where there is one:")
        print(address)
    return 0


def _open(address: str) -> bool:
    # Without a display webbrowser would start one that takes over the terminal.
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        return False
    import webbrowser
    from html import escape

    home = Home.from_environment()
    if not home.run.is_dir():  # a gpuq elsewhere, named by --host
        return False
    file = home.run / "open.html"
    refresh = f'<meta http-equiv="refresh" content="0; url={escape(address)}">'
    write_private(file, f"<!doctype html><title>gpuq</title>{refresh}\n".encode(), durable=False)
    return webbrowser.open(file.as_uri())
