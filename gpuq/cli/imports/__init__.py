"""Jobs that wait in another queue, read from there: `task_spooler`, `gflow`. Nothing there is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True)
class ImportedJob:
    """A job that waits in another queue.

    `stays` says why it cannot be taken over; None if it can. `fields` are those of a submission that its queue knows, besides the
    command's words, folder and environment.
    """

    id: str
    words: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    fields: Mapping[str, Any] = field(default_factory=dict)
    stays: str | None = None
