"""Where a data set comes from: a folder, the makers' archives fetched once, or nowhere, and then it is made up.

Arrives: what `--data` says, and the archives of a set with the checksums that are published for them. Leaves: the folder to
read, and the files in it, also those inside archives. Nothing is unpacked to disk, and nothing that was fetched is ever run.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads.progress import say

CHUNK = 1 << 20
TIMEOUT_S = 30
AUTO, SYNTHETIC, DOWNLOAD = "auto", "synthetic", "download"


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
        if all((kept / archive.name).is_file() for archive in self.archives):
            return kept
        say(f"NO REAL DATA: {self.title} is not in {kept}. --data download fetches it. Going on with synthetic data.")
        return None

    def fetch(self, folder: Path) -> None:
        """Download what is missing in `folder`, and check it. Ends the program if that cannot be done."""
        folder.mkdir(parents=True, exist_ok=True)
        for archive in self.archives:
            file = folder / archive.name
            if not file.is_file():
                say(f"fetching {archive.url}")
                try:
                    _download(archive, file)
                except (OSError, urllib.error.URLError) as error:
                    raise SystemExit(
                        f"cannot fetch {archive.url}: {error}. Put the file into {folder} yourself, or say --data synthetic."
                    ) from error


def cache() -> Path:
    """Where downloads are kept, as the XDG base directory specification has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuq-workloads"


def members(folder: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the wanted files below `folder`; of those inside its archives if none lies there unpacked."""
    plain = sorted(file for file in folder.rglob("*") if file.is_file() and wanted(file.as_posix()))
    if plain:
        yield from ((file.as_posix(), file.read_bytes()) for file in plain)
        return
    for file in sorted(folder.iterdir()):
        if file.suffix == ".zip":
            yield from _in_zip(file, wanted)
        elif file.name.endswith((".tar.gz", ".tgz", ".tar")):
            yield from _in_tar(file, wanted)


def _in_zip(file: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if wanted(name):
                yield name, archive.read(name)


def _in_tar(file: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(file) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and wanted(member.name) else None
            if stream is not None:
                yield member.name, stream.read()


def _download(archive: Archive, file: Path) -> None:
    """Into place only once its checksum is right, so that two jobs may fetch at the same time and none sees half a file."""
    checksum = hashlib.md5(usedforsecurity=False)  # the one that is published
    with (
        urllib.request.urlopen(archive.url, timeout=TIMEOUT_S) as answer,  # noqa: S310 - addresses are constants of ours
        tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part,
    ):
        place = Path(part.name)
        try:
            while chunk := answer.read(CHUNK):
                checksum.update(chunk)
                part.write(chunk)
            if checksum.hexdigest() != archive.md5:
                raise OSError(f"its MD5 is {checksum.hexdigest()} and not {archive.md5}")
            part.flush()
            place.replace(file)
        finally:
            place.unlink(missing_ok=True)
