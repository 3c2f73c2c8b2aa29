"""The highest epoch of a dispatcher that this host has seen, in one file for all processes of its worker service.

An order or an acknowledgement of a lower epoch comes from a dispatcher that another one has replaced: it may have been suspended
between its last commit and what it sends now. The file outlives restarts, also of the machine.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from gpuq.home import open_regular

log = logging.getLogger(__name__)

_BYTES = 17
"""Sixteen digits, for any number below 2**53, and a line feed."""


class SeenEpoch:
    """The epoch in this file; 0 before the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._highest = 0

    def highest(self) -> int:
        """The highest epoch that any process of this host has seen."""
        return self._raise_to(0)

    def admits(self, epoch: int) -> bool:
        """Whether no higher epoch was seen; it is remembered then."""
        return self._raise_to(epoch) <= epoch

    def _raise_to(self, epoch: int) -> int:
        """The highest epoch, this one included. What cannot be stored holds for this process."""
        try:
            self._highest = max(self._highest, epoch, self._stored(max(self._highest, epoch)))
        except OSError as error:
            log.warning("%s cannot be kept up to date: %s", self._path, error, extra={"action": "epoch"})
            self._highest = max(self._highest, epoch)
        return self._highest

    def _stored(self, epoch: int) -> int:
        """What the file had; it has `epoch` afterwards if that is higher. Raises OSError."""
        with os.fdopen(open_regular(self._path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read(_BYTES + 1) or b""
            stored = int(text) if text.strip().isdigit() and len(text) <= _BYTES else 0
            if epoch > stored:
                # In place and of fixed length: one sector, which a power cut leaves as it was or as it is to be.
                os.pwrite(file.fileno(), b"%0*d\n" % (_BYTES - 1, epoch), 0)
                os.ftruncate(file.fileno(), _BYTES)
                os.fsync(file.fileno())
            return stored
