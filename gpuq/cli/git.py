"""What git says of a work tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuq.errors import BadInput

# A repository's configuration may name programs to run, which taking its state must not start.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "advice.addEmbeddedRepo=false")


def git(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    no: bytes | None = None,
) -> bytes:
    """What git prints. Raises BadInput with git's own sentence; `no` is the answer where git ends with 1 instead."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    given: dict[str, object] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done: subprocess.CompletedProcess[bytes] = subprocess.run(  # type: ignore[call-overload]
        ["git", *_SAFE, "-C", str(folder), *arguments],
        **given,
        capture_output=True,
        env={**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8", **(env or {})},
        check=False,
    )
    if done.returncode == 1 and no is not None:
        return no
    if done.returncode:
        printed = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        fatal = next(
            (line for line in printed if line.startswith(("fatal:", "error:"))), printed[-1] if printed else "no reason"
        )
        raise BadInput(
            f"git {arguments[0]} in {folder} failed: {fatal.partition(': ')[2] or fatal}.",
            fix="Correct that, or leave --snapshot or --sync out.",
        )
    return done.stdout


def lines(output: bytes) -> Sequence[str]:
    """The texts that git separates by a zero byte with `-z`."""
    return [os.fsdecode(line) for line in output.split(b"\0") if line]


def nested(name: str) -> BadInput:
    """The error for a repository in the repository."""
    return BadInput(
        f"{name} is a repository of its own (a submodule, perhaps), whose files would be missing.",
        fix="cd into it for that one, or list it in .gitignore (with --sync in .gpuqignore).",
    )
