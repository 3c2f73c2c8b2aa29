"""What users sent with `gpuq submit --sync`, on the main host: contents named by their SHA-256, and trees: lists of files.

    synced/USER/blobs/9f/9f86…   a content        synced/USER/trees/3a7b…   a tree, as JSON

Each user has a folder of their own, so none learns what others have. The file `lock` in it also has the bytes that are taken, so
that transfers at the same time share what the user may have. Calls block.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import msgspec

from gpuq.errors import Conflict, NotPermitted
from gpuq.files import MOST_FILES, BadStream, ListedFile, Receiver, SentFile, last_line, pieces_of, tree_id
from gpuq.format import gib
from gpuq.home import Home, write_private

_NEW = "new-"
KEEP_S = 30 * 86_400.0
_FRESH_S = 3600.0
"""What was sent or named so recently may belong to a submission that is about to come."""
_BLOCK = 4096
"""A file takes whole blocks of the disk; most file systems have them of so many bytes."""


class SyncedTrees:
    """The files of one user; all of them take `most_bytes` at most."""

    def __init__(self, home: Home, owner: str, most_bytes: int = 0) -> None:
        self._folder = home.synced / hashlib.sha256(owner.encode()).hexdigest()[:32]
        self._blobs, self._trees = self._folder / "blobs", self._folder / "trees"
        self._most_bytes = most_bytes

    def keep(self, files: Sequence[ListedFile]) -> tuple[str, list[str]]:
        """(the id of the tree with these files, the contents that are missing for it). It is kept once none is missing.

        Raises NotPermitted where the user may not have so much."""
        tree, id_ = msgspec.json.encode(files), tree_id(files)
        with self._locked():
            missing = {file.sha256: file.size for file in files if not _is_touched(self._blob(file.sha256))}
            further = [*missing.values(), *([] if (self._trees / id_).exists() else [len(tree)])]
            if further and self.used_bytes() + sum(map(_on_disk, further)) > self._most_bytes:
                raise self._no_room()
            if not missing:
                write_private(self._trees / id_, tree, durable=False)
        return id_, list(missing)

    def use(self, tree: str) -> None:
        """Note that a submission names this tree. Raises Conflict if the user has none such."""
        try:
            os.utime(self._trees / tree)
        except FileNotFoundError:
            raise Conflict(
                "The files of this submission are not here, or not any more.",
                fix="Send them again: `gpuq submit --sync`.",
            ) from None

    def receiver(self) -> Receiver:
        """Takes contents, each under the SHA-256 that it has. Its calls also raise NotPermitted for more than the user may have,
        and BadStream for more files than a tree has."""
        with self._locked() as lock:
            _note_taken(lock, self.used_bytes())

        def begin(file: SentFile) -> _NewBlob:
            if receiver.count > MOST_FILES:
                raise BadStream(f"it has more than {MOST_FILES:,} files")
            with self._locked() as lock:
                taken = int(os.pread(lock, 20, 0)) + _on_disk(file.size)
                if taken > self._most_bytes:
                    raise self._no_room()
                _note_taken(lock, taken)
                return _NewBlob(self._blobs, file.size)

        receiver = Receiver(begin)
        return receiver

    def pieces(self, tree: str) -> Iterator[bytes]:
        """The files of a tree as one stream. Raises Conflict if the user has none such."""
        self.use(tree)
        files = msgspec.json.decode((self._trees / tree).read_bytes(), type=list[ListedFile])
        for file in files:
            with self._blob(file.sha256).open("rb") as content:
                yield from pieces_of(SentFile(file.name, file.size, file.executable), content)
        yield last_line(len(files))

    def used_bytes(self) -> int:
        """What trees and contents take on the disk, those that are being received at their announced size."""
        return sum(_on_disk(size) for _, size, _ in self._files(f"blobs/{_NEW}*", "blobs/??/*", "trees/*"))

    def has_old(self, now: float) -> bool:
        """Whether there are trees that no submission has named for long."""
        return any(path.stat().st_mtime < now - KEEP_S for path in self._trees.glob("*"))

    def remove_unused(self, in_use: Iterable[str], now: float, keep_s: float = KEEP_S) -> None:
        """Remove the trees that are not in use and were last named `keep_s` ago, and the contents that no tree has."""
        keep_s, used = max(keep_s, _FRESH_S), set(in_use)
        with self._locked():
            needed: set[str] = set()
            for path in self._trees.glob("*"):
                if path.name not in used and path.stat().st_mtime < now - keep_s:
                    path.unlink()
                else:
                    needed |= {file.sha256 for file in msgspec.json.decode(path.read_bytes(), type=list[ListedFile])}
            for path, _, modified in self._files(f"blobs/{_NEW}*", "blobs/??/*"):
                if path.name not in needed and modified < now - _FRESH_S:
                    path.unlink(missing_ok=True)

    def _make(self) -> None:
        for folder in (self._folder.parent, self._folder, self._blobs, self._trees):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _blob(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256

    def _files(self, *patterns: str) -> Iterator[tuple[Path, int, float]]:
        """(file, bytes, when it was modified), without those that another transfer renames or removes meanwhile."""
        for path in chain.from_iterable(map(self._folder.glob, patterns)):
            with suppress(FileNotFoundError):
                found = path.stat()
                yield path, found.st_size, found.st_mtime

    def _no_room(self) -> NotPermitted:
        return NotPermitted(
            f"Your files of --sync would take more than {gib(self._most_bytes)} here; jobs that wait or run need the rest.",
            fix="Send less, wait until some of them have ended, or have an admin raise `sync_user_bytes` under [api].",
        )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._make()
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


class _NewBlob:
    """A content that is being received. Closed when it has `size` bytes it gets the name of its SHA-256; else it is removed."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._left, self._digest = folder, size, hashlib.sha256()
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=_NEW)
        self._new, self._file = Path(name), os.fdopen(descriptor, "wb")
        os.ftruncate(descriptor, size)

    def write(self, piece: bytes) -> None:
        self._file.write(piece)
        self._digest.update(piece)
        self._left -= len(piece)

    def close(self) -> None:
        try:
            self._file.flush()
            if self._left == 0:
                name = self._digest.hexdigest()
                self._keep(self._folder / name[:2] / name)
        finally:
            self._file.close()
            self._new.unlink(missing_ok=True)

    def _keep(self, path: Path) -> None:
        if _is_touched(path):
            return
        os.fsync(self._file.fileno())
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._new.rename(path)


def _is_touched(path: Path) -> bool:
    """Whether there is such a file; from now on it counts as fresh."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _note_taken(lock: int, taken: int) -> None:
    os.pwrite(lock, f"{taken:<20}".encode(), 0)
