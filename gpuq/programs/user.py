"""The name of the user who runs this process, for records that people read."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """The user's name, or `uid N` where the system has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
