"""The user's key for SSH into jobs: made once. The user's other keys are not used, and stay where they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpuq.errors import BadInput


def path() -> Path:
    """The private key; its public part is beside it as `.pub`. Raises BadInput if there is no `ssh-keygen` to make it with."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gpuq"
    key = folder / "ssh_key"
    if not key.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuq", "-f", str(key)],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise BadInput(f"no key could be made at {key}.", fix="Install openssh-client.") from error
    return key


def public() -> bytes:
    """The public key, without its comment."""
    return b" ".join(path().with_suffix(".pub").read_bytes().split()[:2])
