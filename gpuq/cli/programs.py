"""Verbs that are programs of their own, which replace this process; nothing of them is imported here.

Those of the laboratory (`gpuq.lab`) are found by their entry points. It is an optional extra of the installation: it needs
scientific libraries that a queue does not.
"""

from __future__ import annotations

import os
import sys

from gpuq.errors import BadInput

GROUP = "gpuq.verbs"
INSTALL = "pip install 'gpuq-daemon[lab]'"


def become_module(arguments: list[str]) -> None:
    """Replace this process by `python -m ARGUMENTS`. `-P` keeps files in the user's folder from being imported as modules."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", *arguments])  # noqa: S606  our own interpreter, no shell


def become_laboratory(verb: str, arguments: list[str], needs: tuple[str, ...]) -> None:
    """Replace this process by the laboratory's module for `verb`, an entry of `gpuq.verbs`.

    `needs`: the libraries of the extra that this call will import, by import name. Raises BadInput, with the command that
    installs the extra, where one of them or the laboratory itself is not installed.
    """
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    entries = tuple(entry_points(group=GROUP, name=verb))
    missing = [name for name in needs if find_spec(name) is None]
    if not entries or missing:
        lacks = f" ({', '.join(missing)} not found)" if missing else ""
        raise BadInput(
            f"`gpuq {verb.replace('-', ' ')}` is part of gpuq's laboratory, which is not installed{lacks}.",
            fix=f"Install it: {INSTALL}",
        )
    become_module([entries[0].module, *arguments])
