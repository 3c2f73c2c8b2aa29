"""`python -m gpuq_workers.sync HOME ATTEMPT OWNER TREE CWD -- COMMAND`: get the files of `--sync`, become the command.

The first process of such a job. It runs as the job does: the transfer counts as part of it, its output is the job's, and a stop
ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpuq.adapters.synced import SyncedTrees
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import GpuqError, Unreachable
from gpuq.files import BadStream, ListedFile, content_sha256, receive, tree_id
from gpuq.home import Home, write_private

FOLDER = "files"
"""In the folder of an attempt: the files that its job was sent, and where it runs."""
LISTING = "tree.json"
"""Beside it: name -> [size, SHA-256] of these files."""
NOT_FOUND = 127
TRY_LATER = 75
WITHIN_S = 300.0
_PAUSE_S = 2.0


def command(home: Home, attempt: AttemptId, owner: str, tree: str, cwd: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words that run `words` with the files of a tree of this owner, in the folder `cwd` below `FOLDER`."""
    return (
        *(sys.executable, "-I", "-m", "gpuq_workers.sync", str(home.root), str(attempt), owner, tree, cwd),
        *("--", *words),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the command. Returns an exit code only if that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m gpuq_workers.sync")
    for name in ("home", "attempt", "owner", "tree", "cwd"):
        parser.add_argument(name)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    home = Home(Path(options.home))
    job, _, number = options.attempt.partition("-")
    attempt = AttemptId(JobId(int(job)), int(number))
    get = source(home, attempt, options.owner, options.tree)
    return serve(home.attempt(attempt.job, attempt.number), get, options.tree, options.cwd, options.command)


def serve(
    attempt: Path,
    pieces: Callable[[], Iterator[bytes]],
    tree: str,
    cwd: str,
    words: list[str],
    *,
    for_services: bool = False,
) -> int:
    """Make the files of the tree in the folder of an attempt, and become the command in `cwd`; an exit code if that cannot be.

    `for_services`: the folder is not theirs, and they are to read it for `gpuq fetch`.
    """
    try:
        fill(attempt, pieces, tree)
        if for_services:
            (attempt / FOLDER).chmod(0o755)
            (attempt / LISTING).chmod(0o644)
        Path(cwd).mkdir(parents=True, exist_ok=True)
        os.chdir(cwd)
        os.environ["PWD"] = cwd
    except (GpuqError, BadStream, OSError) as error:
        sys.stderr.write(f"gpuq: the files that were sent for this job could not be had here: {error}\n")
        return TRY_LATER
    try:
        os.execvp(words[0], words)  # noqa: S606  no shell is wanted
    except OSError as error:
        sys.stderr.write(
            f"gpuq: {words[0]} cannot be started on {os.uname().nodename}: {error.strerror}. Name a program that this host has; "
            "for a .py file, name its interpreter: gpuq submit --sync --python PATH.\n"
        )
    return NOT_FOUND


def fill(attempt: Path, pieces: Callable[[], Iterator[bytes]], tree: str) -> None:
    """Make `FOLDER` with the files of the tree, and `LISTING`. Tries for five minutes. Raises GpuqError, BadStream, OSError."""
    deadline = time.monotonic() + WITHIN_S
    folder = attempt / FOLDER
    while True:
        folder.mkdir(mode=0o777)
        try:
            made, _ = receive(folder, pieces())
            break
        except (Unreachable, BadStream):
            shutil.rmtree(folder)
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    files = []
    for file in made:
        with (folder / file.name).open("rb") as content:
            files.append(ListedFile(file.name, file.size, content_sha256(content), file.executable))
    if tree_id(files) != tree:
        raise BadStream("they are not what was submitted")
    listing = {file.name: [file.size, file.sha256] for file in files}
    write_private(attempt / LISTING, json.dumps(listing).encode(), durable=False)


def source(home: Home, attempt: AttemptId, owner: str, tree: str) -> Callable[[], Iterator[bytes]]:
    """What gives the stream: the main host's own files, or the main host that this one joined."""
    if not home.joined_file.exists():
        return lambda: SyncedTrees(home, owner).pieces(tree)
    from gpuq.adapters.main_host import Link, joined

    where = joined(home)
    assert where is not None, f"{home.joined_file} was just there"
    return lambda: Link(home, where).stream("/tree", {"job": attempt.job, "attempt": attempt.number})


if __name__ == "__main__":
    sys.exit(main())
