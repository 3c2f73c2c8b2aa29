"""Starts the verbs that the laboratory (`gpuq.lab`) brings, found by their entry points; nothing of it is imported here.

The laboratory is an optional extra of the installation: it needs scientific libraries that a queue does not.
"""

from __future__ import annotations

from gpuq.cli.verbs.up import become_module
from gpuq.errors import BadInput

GROUP = "gpuq.verbs"
INSTALL = "pip install 'gpuq-daemon[lab]'"


def become(verb: str, arguments: list[str], needs: tuple[str, ...]) -> None:
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
