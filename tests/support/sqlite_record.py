"""An empty SQLite record, copied from one that the migrations made once: they would take half a second each time."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from gpuq.adapters.store.migrate import upgrade


def make_record(path: Path) -> str:
    """Put an empty record there; its address."""
    shutil.copy(_template(), path)
    return f"sqlite:///{path}"


@cache
def _template() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="gq-record-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "gpuq.db"
    upgrade(f"sqlite:///{path}")
    return path
