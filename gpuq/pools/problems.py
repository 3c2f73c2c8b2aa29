"""What keeps pools from getting pilots, and until when each requests none for that."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpuq.messages.pilot import PilotProblem
from gpuq.pools.pilots import PilotFolders

log = logging.getLogger("gpuq.pools")

_WAIT_AFTER_FAILURE_S = 60.0


class Problems:
    """Those of the pools of a home."""

    def __init__(self, folders: PilotFolders, clock: Callable[[], float]) -> None:
        self._folders, self._clock = folders, clock
        self._quiet_until: dict[str, float] = {}

    def is_quiet(self, name: str) -> bool:
        """Whether this pool requests no pilot for now."""
        return self._clock() < self._quiet_until.get(name, 0.0)

    def quiet(self, name: str, seconds: float) -> None:
        """Let this pool request no pilot for so long."""
        self._quiet_until[name] = self._clock() + seconds

    def note(self, name: str, problem: str, fix: str) -> None:
        """Say why a pool gets no pilot, and request none for a minute."""
        self.quiet(name, _WAIT_AFTER_FAILURE_S)
        self._folders.note(name, PilotProblem(self._clock(), problem, fix))
        log.warning("pool %s: %s %s", name, problem, fix)
