"""What git says of a work tree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

_QUICK_S = 0.5
# A repository's configuration may name programs to run, which taking its state must not start.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "advice.addEmbeddedRepo=false")
# These compare or write files of the work tree, which go through the programs that the configuration names as filters.
_WITH_FILTERS = frozenset({"status", "add", "checkout-index", "reset"})
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"


def git(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    no: bytes | None = None,
) -> bytes:
    """What git prints. Raises BadInput with git's own sentence; `no` is the answer where git ends with 1 instead."""
    done = run(folder, *arguments, env=env, stdin=stdin)
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


def run(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Git with these arguments, without the programs of the repository's configuration."""
    import subprocess  # most commands of gpuq start no git

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    whole = {**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8", **(env or {})}
    if arguments[0] in _WITH_FILTERS:
        listed = run(folder, "config", "--null", "--name-only", "--get-regexp", _FILTERS, env=env, timeout=timeout)
        whole |= _switched_off(lines(listed.stdout))
    given: dict[str, object] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        ["git", *_SAFE, "-C", str(folder), *arguments],
        **given,
        capture_output=True,
        env=whole,
        check=False,
        timeout=timeout,
    )


def _switched_off(filters: Sequence[str]) -> dict[str, str]:
    """The variables that empty these settings of filters. `-c NAME=VALUE` would not do for a name with `=`."""
    names = dict.fromkeys(filters)
    found = {"GIT_CONFIG_COUNT": str(len(names))}
    for number, name in enumerate(names):
        found[f"GIT_CONFIG_KEY_{number}"] = name
        found[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(".required") else ""
    return found


def lines(output: bytes) -> Sequence[str]:
    """The texts that git separates by a zero byte with `-z`."""
    return [os.fsdecode(line) for line in output.split(b"\0") if line]


@cache
def state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether tracked files differ from it) of the work tree around `folder`; None where git has no quick answer."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None, None
    commit = _said(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None, None
    # In a submodule git would start what the submodule's configuration names.
    status = _said(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    return commit.strip(), None if status is None else bool(status.strip())


def _said(folder: Path, *arguments: str) -> str | None:
    from subprocess import SubprocessError

    try:
        done = run(folder, *arguments, timeout=_QUICK_S)
    except (OSError, SubprocessError):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


def nested(name: str) -> BadInput:
    """The error for a repository in the repository."""
    return BadInput(
        f"{name} is a repository of its own (a submodule, perhaps), whose files would be missing.",
        fix="cd into it for that one, or list it in .gitignore (with --sync in .gpuqignore).",
    )
