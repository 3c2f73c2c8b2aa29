"""The files that a job with `--sync` made or changed, brought into a folder here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from filecmp import cmp
from itertools import chain
from pathlib import Path

from gpuq.cli.capture import current_folder
from gpuq.cli.client import HttpClient, Lost
from gpuq.errors import BadInput, Conflict
from gpuq.files import BadStream, SentFile, receive

_MOST_NAMED = 5


@dataclass(frozen=True)
class Fetched:
    """The files that were brought into the folder `to`, and the names of those that were left out on the host."""

    to: Path
    files: tuple[SentFile, ...]
    left_out: tuple[str, ...]


def fetch(
    client: HttpClient,
    job: int,
    patterns: Sequence[str] = (),
    *,
    to: Path | None = None,
    attempt: int | None = None,
    force: bool = False,
) -> Fetched:
    """Bring the files that match into `to`, all or none. Raises Conflict for one that is there with another content, unless
    `force`; GpuqError."""
    if any("," in pattern or not pattern for pattern in patterns):
        raise BadInput("a pattern is empty or has a comma.", fix="Write `?` for the comma.")
    named = to or Path(f"gpuq-{job}")
    own, to = to is None, named if named.is_absolute() else current_folder() / named
    pieces = client.stream(f"/api/v1/jobs/{job}/files", match=",".join(patterns) or None, attempt=attempt)
    first = next(pieces, b"")  # raises what the server answers, before anything is made here
    above = next(folder for folder in (to, *to.parents) if folder.is_dir())
    try:
        place = Path(tempfile.mkdtemp(prefix=".gpuq-fetch-", dir=above))
    except OSError as error:
        raise BadInput(f"{above} cannot be written: {error.strerror}.", fix="Name another folder with --to.") from error
    try:
        files, left_out = receive(place, chain([first], pieces))
        _move([file.name for file in files], place, to, force=force)
        if own and files and not os.path.lexists(to / ".gitignore"):
            (to / ".gitignore").write_text("*\n")  # so that the next --sync does not send them
    except BadStream as error:
        raise Lost(
            f"The files of job {job} did not come whole: {error}.", fix="Try again; nothing was written."
        ) from error
    except (
        OSError
    ) as error:  # of a file that was written, which has no name in the error, or a name that is not to stay
        raise OSError(error.errno, error.strerror, str(to)) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Fetched(to, tuple(files), left_out)


def _move(names: Sequence[str], place: Path, to: Path, *, force: bool) -> None:
    """Move the files from `place` into `to`. Raises Conflict, before any is moved, for what is in the way."""
    taken = [name for name in names if not _is_free(place / name, to, name, force=force)]
    if taken:
        more = f" and {len(taken) - _MOST_NAMED} more" if len(taken) > _MOST_NAMED else ""
        raise Conflict(
            f"{to} has other files, or links, with the names {', '.join(taken[:_MOST_NAMED])}{more}; nothing was written.",
            fix="Name another folder with --to, or replace files with --force.",
        )
    to.mkdir(parents=True, exist_ok=True)
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).replace(to / name)


def _is_free(new: Path, to: Path, name: str, *, force: bool) -> bool:
    """Whether the file may lie there: over no link, and in place of nothing, of the same content or, with `force`, of a file."""
    target = to / name
    for above in (*reversed(target.relative_to(to).parents),):
        folder = to / above
        if above != Path() and os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            return False
    if not os.path.lexists(target):
        return True
    return target.is_file() and not target.is_symlink() and (force or cmp(new, target, shallow=False))
