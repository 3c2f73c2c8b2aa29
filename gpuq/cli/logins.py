"""The addresses and tokens that `gpuq login` keeps: `$XDG_CONFIG_HOME/gpuq/login.json`, mode 0600.

{"address": "https://gpuq.example.org", "tokens": {"https://gpuq.example.org": {"token": "...", "ca_file": "/..."}}}
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gpuq.errors import BadInput, NotPermitted
from gpuq.home import write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Logins:
    """What the file holds. `address` is that of the last login, None if there is none."""

    def __init__(self, address: str | None, tokens: dict[str, dict[str, str]]) -> None:
        self.address = address
        self.tokens = tokens

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Logins:
        """Raises NotPermitted for a file that others may read, BadInput for one that is damaged."""
        path = file_of(environ)
        try:
            with path.open("rb") as opened:
                if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                    raise NotPermitted(f"{path} holds tokens, and others may read it.", fix=f"chmod 600 {path}")
                found: Any = json.load(opened)
            return cls(found["address"], found["tokens"])
        except FileNotFoundError:
            return cls(None, {})
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is damaged.", fix="Remove it, and log in again: gpuq login URL") from error

    def write(self, environ: Mapping[str, str]) -> None:
        """Replace the file. Raises OSError."""
        path = file_of(environ)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, json.dumps({"address": self.address, "tokens": self.tokens}, indent=2).encode())


def file_of(environ: Mapping[str, str]) -> Path:
    """Where the file is."""
    config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(config) / "gpuq" / "login.json"


def plain(address: str) -> str:
    """The address as the file has it."""
    return address.rstrip("/")
