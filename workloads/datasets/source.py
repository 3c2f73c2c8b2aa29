"""Find the files of a data set: in a folder, or in its publisher's archives, which are fetched once; else it is synthetic.

`--data` chooses between these. Fetched archives are compared with their published checksums. Files inside archives are read in
place: nothing is unpacked to disk, and nothing that was fetched is run. Every error ends the program with one sentence that
says what to do.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.progress import say
from workloads.whole import whole

CHUNK = 1 << 20
TIMEOUT_S = 30
AUTO, SYNTHETIC, DOWNLOAD = "auto", "synthetic", "download"
# All that the readers of zip, tar and gzip raise over a file that is cut off or damaged.
_DAMAGED = (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


@dataclass(frozen=True)
class Archive:
    """A file that the makers publish, and its MD5, which tells a broken download from a whole one."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """One data set as it is published."""

    title: str
    folder: str
    archives: tuple[Archive, ...]

    def find(self, data: str) -> Path | None:
        """The folder to read as `--data` says; None: make the data up."""
        if data == SYNTHETIC:
            return None
        kept = cache() / self.folder
        if data == DOWNLOAD:
            self.fetch(kept)
            return kept
        if data != AUTO:
            return Path(data).expanduser()
        if all(_is_there(kept / archive.name) for archive in self.archives):
            return kept
        say(f"NO REAL DATA: {self.title} is not in {kept}. --data download fetches it. Going on with synthetic data.")
        return None

    def fetch(self, folder: Path) -> None:
        """Download what is missing in `folder`, and check it. Ends the program if that cannot be done."""
        for archive in self.archives:
            file = folder / archive.name
            if _is_there(file):
                continue
            say(f"fetching {archive.url}")
            try:
                folder.mkdir(parents=True, exist_ok=True)
                # Into place only once its checksum is right: two jobs may fetch at the same time, and none sees half a file.
                with whole(file) as stream:
                    for chunk in _checked(archive):
                        stream.write(chunk)
            except _NotBrought as error:
                raise SystemExit(
                    f"cannot fetch {archive.url}: {error}. Put the file into {folder} yourself, or say --data synthetic."
                ) from error
            except OSError as error:
                raise SystemExit(
                    f"cannot write {file}: {error.strerror or error}. Make room there, let XDG_CACHE_HOME name another "
                    "place, or say --data synthetic."
                ) from error


class _NotBrought(Exception):
    """The network did not bring the file, or another one."""


def _checked(archive: Archive) -> Iterator[bytes]:
    """The archive piece by piece. Raises _NotBrought, after the last piece too if the sum of all is wrong."""
    checksum = hashlib.md5(usedforsecurity=False)  # the one that is published
    try:
        with urllib.request.urlopen(archive.url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - addresses are constants of ours
            while chunk := answer.read(CHUNK):
                checksum.update(chunk)
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _NotBrought(" ".join(str(error).split()) or type(error).__name__) from error
    if checksum.hexdigest() != archive.md5:
        raise _NotBrought(f"its MD5 is {checksum.hexdigest()} and not {archive.md5}: cut off, or another file")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except PermissionError:  # of a folder that may not be looked into
        return False


def cache() -> Path:
    """Where downloads are kept, as the XDG base directory specification has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuq-workloads"


def members(folder: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the wanted files below `folder`; of those inside its archives if none lies there unpacked.

    Ends the program over an archive that is damaged or cut off, rather than take a part of it for the set.
    """
    plain = sorted(file for file in folder.rglob("*") if file.is_file() and wanted(file.as_posix()))
    if plain:
        yield from ((file.as_posix(), file.read_bytes()) for file in plain)
        return
    for file in sorted(folder.iterdir()):
        try:
            if file.suffix == ".zip":
                yield from _in_zip(file, wanted)
            elif file.name.endswith((".tar.gz", ".tgz", ".tar")):
                yield from _in_tar(file, wanted)
        except _DAMAGED as error:
            raise SystemExit(
                f"{file} is damaged or cut off: {error}. Remove it; --data download fetches it again."
            ) from error


@contextmanager
def published_as(title: str, name: str) -> Iterator[None]:
    """Ends the program, naming the file and the set, if what is inside finds another content than it expects."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, SyntaxError) as error:
        raise SystemExit(f"{name} is not as {title} publishes it: {error}. Fetch the set again.") from error


def _in_zip(file: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if wanted(name):
                yield name, archive.read(name)


def _in_tar(file: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    # Named, as a guess that fails tells of four compressions.
    with tarfile.open(file, "r:" if file.suffix == ".tar" else "r:gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and wanted(member.name) else None
            if stream is not None:
                yield member.name, stream.read()
        # Damage to a header looks like the end to `tarfile`. The checksum of gzip is at the end, so that is read too.
        while archive.fileobj is not None and archive.fileobj.read(CHUNK):
            pass
