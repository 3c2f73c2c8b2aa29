"""What systemd gives gpuq's services, and a shell does not have."""

from __future__ import annotations

from pathlib import Path

from gpuq.errors import BadSettings
from gpuq.home import Home

HOME = Path("/var/lib/gpuq")
"""The home of the services that systemd starts."""
FILE = Path("/etc/gpuq/environment")
"""Where their units read variables from."""


def variables(home: Home) -> dict[str, str]:
    """The variables of gpuq in `FILE`, if this home is that of the services; else none.

    Without them a command would check other settings, or upgrade another record, than those of the services. Raises BadSettings.
    """
    if home.root != HOME:
        return {}
    try:
        lines = FILE.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"{FILE} cannot be read, which the services of {home.root} have their settings from: {error}.",
            fix=f"Run this as the user gpuq: chgrp gpuq {FILE} && chmod 640 {FILE}",
        ) from error
    pairs = (line.strip().partition("=") for line in lines)
    return {name: _unquoted(value) for name, is_set, value in pairs if is_set and name.startswith("GPUQ_")}


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
