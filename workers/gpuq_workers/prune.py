"""Delete the folders of attempts that ended long ago, logs included, so that a host's disk does not fill up.

Only attempts whose end was reported are deleted, and only after `keep_attempts_days`. A late order for one of them cannot start
it again, because the attempt has ended in the database.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from gpuq_workers.attempts import folders_in

log = logging.getLogger(__name__)
_DAY_S = 86_400.0


def prune(root: Path, keep_days: float, now: float) -> int:
    """Delete old attempts' folders under `root`; returns how many. `now` is Unix seconds."""
    gone = 0
    for folder in list(folders_in(root)):
        end = folder.ended()
        if end is None or folder.marker().exited is None or now - end.at < keep_days * _DAY_S:
            continue
        shutil.rmtree(folder.path, ignore_errors=True)
        gone += 1
    if gone:
        log.info("deleted the folders of %d attempts older than %g days", gone, keep_days, extra={"action": "prune"})
    return gone
