"""`--sync`: the files of the work tree, for a gpuq whose hosts do not see them. See docs/laptop.md.

They are listed and hashed here; the server says which contents it lacks, and these are sent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuq.cli import console
from gpuq.cli.capture import Command
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.git import git, lines, nested
from gpuq.errors import BadInput, Conflict
from gpuq.files import (
    MOST_FILES,
    BadStream,
    ListedFile,
    SentFile,
    content_sha256,
    header,
    is_name,
    last_line,
    pieces_of,
    tree_id,
)

IGNORE = ".gpuqignore"
_SENT_AT_ONCE = 8 * 2**20
_NOTE_FROM = 2**20
# A file that is edited while it is sent is missing again.
_ROUNDS = 3


@dataclass(frozen=True)
class WorkTree:
    """The files below `folder` that are sent, and where the content of each is."""

    folder: Path
    files: tuple[ListedFile, ...]
    contents: Mapping[str, Path]

    @property
    def id(self) -> str:
        """What names these files at the server."""
        return tree_id(self.files)

    def field(self) -> dict[str, str]:
        """The field `sync` of a submission."""
        _taken[self.id] = self
        return {"tree": self.id, "folder": str(self.folder)}

    def check(self, command: Command, words: Sequence[str], here: Path, folder: Path) -> None:
        """Raises BadInput for what is not in the tree: the script, a word that was typed `here`, the folder to run in."""
        for word in words:
            value = word.partition("=")[2] or word
            if value.startswith("../") and not self.holds(Path(os.path.normpath(here / value))):
                raise BadInput(
                    f"`{word}` leads out of {self.folder}, which is all that is sent.",
                    fix="Write it as an absolute path of the host, or cd to a folder above both.",
                )
        if not self.holds(folder):
            raise BadInput(
                f"{folder} is not below {self.folder}, which is all that is sent.",
                fix="Name a folder in it with --chdir.",
            )
        script = command.script
        if script is not None and not (self.holds(script) and str(script.relative_to(self.folder)) in self.contents):
            why = f"git or {IGNORE} ignores it" if self.holds(script) else f"it is not below {self.folder}"
            raise BadInput(f"{script} is not sent: {why}.", fix="Take it out of there, or cd to its work tree.")

    def holds(self, path: Path) -> bool:
        """Whether the path is in the tree."""
        return path.is_relative_to(self.folder)


_taken: dict[str, WorkTree] = {}
"""By id, for `send`: a submission names its tree only."""


def take(here: Path) -> WorkTree:
    """The work tree around `here`, or this folder where there is none. Raises BadInput for what cannot be sent."""
    if shutil.which("git") is None:
        raise BadInput("--sync needs git, which is not on PATH.", fix="Install git, or leave --sync out.")
    folder = _top(here)
    names = _names(folder) if folder is not None else _names_without_git(here)
    folder = folder or here
    if len(names) > MOST_FILES:
        raise BadInput(
            f"{len(names):,} files of {folder} would be sent; {MOST_FILES:,} is the limit.",
            fix=f"List data and results in {IGNORE}, in the syntax of .gitignore.",
        )
    contents = {name: path for name in sorted(names) if (path := _content(folder, name)) is not None}
    return WorkTree(folder, tuple(_listed(name, path) for name, path in contents.items()), contents)


def send(client: HttpClient, body: Record) -> None:
    """Send what the server lacks of the files that this submission names. Raises GpuqError."""
    tree = _taken[body["sync"]["tree"]]
    listed = [
        {"name": file.name, "size": file.size, "sha256": file.sha256, "executable": file.executable}
        for file in tree.files
    ]
    missing: set[str] = set()
    for _ in range(_ROUNDS):
        missing = set(client.post("/api/v1/trees", {"files": listed})["missing"])
        if not missing:
            return
        wanted = list({file.sha256: file for file in tree.files if file.sha256 in missing}.values())
        size = sum(file.size for file in wanted)
        if size >= _NOTE_FROM:
            console.note(f"gpuq: sending {len(wanted):,} of {len(tree.files):,} files, {size / 2**20:,.1f} MiB.")
        for batch in _batches(wanted):
            sent = [SentFile(file.name, file.size, file.executable) for file in batch]
            length = sum(len(header(file)) + file.size for file in sent) + len(last_line(len(sent)))
            client.send("/api/v1/trees/files", _pieces(tree, sent), length)
    changed = next(file.name for file in tree.files if file.sha256 in missing)
    raise Conflict(f"{tree.folder / changed} changed while it was sent.", fix="Run the command again.")


def _batches(files: Iterable[ListedFile]) -> Iterator[list[ListedFile]]:
    """A request for each, so that little is sent again after one that broke off."""
    batch: list[ListedFile] = []
    for file in files:
        if batch and sum(one.size for one in batch) + file.size > _SENT_AT_ONCE:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


def _pieces(tree: WorkTree, files: Sequence[SentFile]) -> Iterator[bytes]:
    for file in files:
        try:
            with tree.contents[file.name].open("rb") as content:
                yield from pieces_of(file, content)
        except (OSError, BadStream) as error:
            raise Conflict(
                f"{tree.folder / file.name} changed while it was sent.", fix="Run the command again."
            ) from error
    yield last_line(len(files))


# --- which files --------------------------------------------------------------------------------------------------------


def _top(here: Path) -> Path | None:
    """The top of the git work tree around a folder; None without one."""
    try:
        return Path(os.fsdecode(git(here, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except BadInput as error:
        if "not a git repository" in error.message:
            return None
        raise


def _names(top: Path) -> set[str]:
    """Tracked and new files of a repository, without those that are ignored."""
    ignore = [f"--exclude-from={top / IGNORE}"] if (top / IGNORE).is_file() else []
    names = set(lines(git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *ignore)))
    return names - set(lines(git(top, "ls-files", "-z", "--cached", "--ignored", *ignore)) if ignore else ())


def _names_without_git(folder: Path) -> set[str]:
    """The files of a folder that is in no repository: git only reads the ignore file."""
    if folder in {Path.home(), Path("/")}:
        raise BadInput(f"--sync would send all of {folder}.", fix="cd to the folder of your project.")
    ignore = [f"--exclude-from={folder / IGNORE}"] if (folder / IGNORE).is_file() else []
    with tempfile.TemporaryDirectory(prefix="gpuq-") as place:
        git(folder, "init", "--quiet", "--bare", "--template=", place)
        env = {"GIT_DIR": place, "GIT_WORK_TREE": str(folder)}
        return set(lines(git(folder, "ls-files", "-z", "--others", *ignore, env=env)))


def _content(folder: Path, name: str) -> Path | None:
    """The file whose content is sent under this name; None for what is not sent: one that was deleted, or compiled by Python."""
    path = folder / name
    if "__pycache__" in path.parts or not os.path.lexists(path):
        return None
    if not is_name(name):
        shown = ascii(name)
        if name.endswith("/"):
            raise nested(name)
        raise BadInput(f"{shown} has a name that cannot be sent.", fix=f"Rename it, or list it in {IGNORE}.")
    real = path.resolve()
    if path.is_symlink() and not (real.is_file() and real.is_relative_to(folder.resolve())):
        raise BadInput(
            f"{path} is a link to {path.readlink()}, which is no file of the tree.",
            fix=f"List it in {IGNORE}, and have the job read a path of its host.",
        )
    if path.is_dir():
        raise nested(name)
    return real


def _listed(name: str, path: Path) -> ListedFile:
    try:
        with path.open("rb") as content:
            status = os.fstat(content.fileno())
            return ListedFile(name, status.st_size, content_sha256(content), bool(status.st_mode & 0o100))
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}.", fix=f"Correct that, or list it in {IGNORE}."
        ) from error
