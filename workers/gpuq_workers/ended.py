"""Which attempts of this host are over and reported, so that a start of the worker service need not open their folders.

It is a cache of what `spooled.json` in each attempt's folder says. An attempt that is not in it is looked up in its folder, so a
file that is old, broken or missing costs time and loses nothing.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import KeysView
from pathlib import Path

import msgspec

from gpuq.home import read_regular, write_private
from gpuq.messages.launch import NOT_JSON

log = logging.getLogger(__name__)

_FILE = "ended.json"
_DAY_S = 86_400.0
# Some thirty bytes an attempt.
_LARGEST_BYTES = 256 * 2**20


class EndedAttempts:
    """The names of the folders under `root` whose attempts are over and reported, each with its end (Unix seconds)."""

    def __init__(self, root: Path) -> None:
        self._root, self._file = root, root / _FILE
        self._saved = self._read()
        here = {path.name for path in root.iterdir()} if self._saved else set()
        self._at = {name: at for name, at in self._saved.items() if name in here}

    @property
    def names(self) -> KeysView[str]:
        """The names of the folders."""
        return self._at.keys()

    def add(self, name: str, at: float) -> None:
        """The attempt is over, and its end is in the spool."""
        self._at[name] = at

    def remove(self, name: str) -> None:
        """The end is to be sent again."""
        del self._at[name]

    def prune(self, keep_days: float, now: float) -> int:
        """Delete the folders of attempts that ended long ago, logs included; returns how many. `now` is Unix seconds.

        A late order for one of them cannot start it again, because the attempt has ended in the database. May be called from
        another thread.
        """
        old = [name for name, at in list(self._at.items()) if now - at >= keep_days * _DAY_S]
        for name in old:
            shutil.rmtree(self._root / name, ignore_errors=True)
            if not (self._root / name).exists():
                del self._at[name]
        if old:
            log.info(
                "deleted the folders of %d attempts older than %g days", len(old), keep_days, extra={"action": "prune"}
            )
        return len(old)

    def save(self) -> None:
        """Write the file, if anything has changed. A file that cannot be written makes the next start slower."""
        current = dict(self._at)
        if current == self._saved:
            return
        try:
            write_private(self._file, msgspec.json.encode(current), durable=False)
            self._saved = current
        except OSError as error:
            log.warning("%s cannot be written: %s", self._file, error.strerror)

    def _read(self) -> dict[str, float]:
        try:
            return msgspec.json.decode(read_regular(self._file, _LARGEST_BYTES), type=dict[str, float])
        except FileNotFoundError:
            return {}
        except (OSError, *NOT_JSON) as error:
            log.warning("%s cannot be read, so the folders are: %s", self._file, error)
            return {}
