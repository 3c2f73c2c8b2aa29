"""Folders of attempts that ended long ago go, logs and all, so that a host's disk does not fill up.

Only what has been reported may go, and only after `keep_attempts_days`. A late order finds the record's fence closed: the
attempt has ended there.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from gpuq_workers.attempts import folders_in

log = logging.getLogger(__name__)
_DAY_S = 86_400.0


def prune(root: Path, keep_days: float, now: float) -> int:
    """Remove old attempts' folders under `root`; how many went. `now` is Unix seconds."""
    gone = 0
    for folder in list(folders_in(root)):
        end = folder.ended()
        if end is None or folder.marker().exited is None or now - end.at < keep_days * _DAY_S:
            continue
        shutil.rmtree(folder.path, ignore_errors=True)
        gone += 1
    if gone:
        log.info("%d attempts older than %g days were removed", gone, keep_days)
    return gone
