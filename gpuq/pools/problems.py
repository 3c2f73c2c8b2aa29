"""What keeps pools from getting pilots, and until when each requests none for that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from gpuq.messages.pilot import PilotProblem
from gpuq.pools.pilots import PilotFolders

log = logging.getLogger("gpuq.pools")

_WAIT_AFTER_FAILURE_S, _LONGEST_WAIT_S = 60.0, 1800.0


class Problems:
    """Those of the pools of a home."""

    def __init__(self, folders: PilotFolders, clock: Callable[[], float]) -> None:
        self._folders, self._clock = folders, clock
        self._quiet_until: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._again_at: dict[str, float] = {}

    def is_quiet(self, name: str) -> bool:
        """Whether this pool requests no pilot for now."""
        return self._clock() < max(self._quiet_until.get(name, 0.0), self._again_at.get(name, 0.0))

    def quiet(self, name: str, seconds: float) -> None:
        """Let this pool request no pilot for so long."""
        self._quiet_until[name] = self._clock() + seconds

    def note(self, name: str, problem: str, fix: str) -> None:
        """Say why a pool gets no pilot."""
        self._folders.note(name, PilotProblem(self._clock(), problem, fix))
        log.warning("pool %s: %s %s", name, problem, fix)

    def failed(self, name: str, problem: str, fix: str) -> None:
        """Say why a request led to no pilot. The next one is made in a minute, and after each that fails too in twice the time:
        the answer is seldom another one, and a whole site shares the controller."""
        if not self.is_quiet(name):  # else it was requested with the one that failed before, and has one cause with it
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            waits_s = min(_WAIT_AFTER_FAILURE_S * 2 ** (failures - 1), _LONGEST_WAIT_S)
            self._again_at[name] = self._clock() + waits_s
        self.note(name, problem, fix)

    def solved(self, name: str) -> None:
        """The pool has got a pilot."""
        self._failures.pop(name, None)
        self._folders.note(name, None)

    def over(self, name: str) -> None:
        """What kept requests of the pool from leading to pilots may be over."""
        self._failures.pop(name, None)
        self._again_at.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Forget all pools but these: one that is added again begins again."""
        for known in (self._quiet_until, self._failures, self._again_at):
            for name in known.keys() - names:
                del known[name]
