"""The rest of a script, once its first training steps have shown what they need: a validation may have larger batches, the best
weights are copied after an epoch, and images may grow with it.

The loops of the script are made short (`loops`), loaders of data give a few batches, and the loops of packages validate at once.
So most scripts come to their end.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loops import ScriptLoops

_BATCHES = 3
# So many steps that need no more than those before are enough, in loops of packages and of the script's own.
_STEPS, _STEPS_OF_OWN = 3, 200
_LONGEST_S = 60
_STARTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"})


class Epoch:
    """What comes after the steps that showed enough. `over` is called when enough of it was seen; it must not return."""

    def __init__(self, over: Callable[[], None], loops: ScriptLoops) -> None:
        self._over, self._loops = over, loops
        self.is_cut = False
        """Whether enough was seen, so that the rest is gone through."""
        self._limit: float = _STEPS
        self._level = self._most = 0
        self._reading = 0

    def cut(self, *, to_its_end: bool) -> None:
        """Enough was seen. Unless the rest has to be seen `to_its_end`, a part of it may be enough. Where neither a loop of the
        script nor a loader goes on, nothing tells how to come to the end of the epoch."""
        self.is_cut = self._loops.is_cut = True
        sys.addaudithook(_reach_nothing)
        if self._loops.go_on:
            self._limit = math.inf if to_its_end else _STEPS_OF_OWN
        elif self._reading == 0:
            self._over()
        _validate_at_once()
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGALRM, lambda *_: self._over())
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)

    def stepped(self, needed: int) -> None:
        """An optimizer made a step after that; by now so many bytes were `needed`."""
        self._level = 0 if needed > self._most else self._level + 1
        self._most = max(self._most, needed)
        if self._level >= self._limit:
            self._over()

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """These batches of a loader, and only a few of them once enough was seen."""
        count = 0
        self._reading += 1
        try:
            for batch in batches:
                if self.is_cut and count >= _BATCHES:
                    return
                yield batch
                count += 1
        finally:
            self._reading -= 1


def _reach_nothing(event: str, given: tuple[Any, ...]) -> None:
    """What a script does at its end is not done: it may submit the next job, or shut the machine down."""
    if event in _STARTS or (event == "socket.connect" and isinstance(given[1], (str, bytes))):
        raise PermissionError(f"{event}: a dry run starts no process, and connects to no socket, after the first steps")


def _validate_at_once() -> None:
    """Let the loops of Lightning and of Transformers, whose rounds are not the script's own, validate after each step."""
    for package in ("lightning.pytorch", "pytorch_lightning"):
        loop = getattr(sys.modules.get(f"{package}.loops.training_epoch_loop"), "_TrainingEpochLoop", None)
        if loop is not None:
            loop._should_check_val_fx = lambda self, *_: self.trainer.enable_validation
    flow = getattr(sys.modules.get("transformers.trainer_callback"), "DefaultFlowCallback", None)
    if flow is not None:
        end_of_step = flow.on_step_end

        def on_step_end(self: Any, args: Any, state: Any, control: Any, **options: Any) -> Any:
            control = end_of_step(self, args, state, control, **options) or control
            control.should_evaluate = str(getattr(args.eval_strategy, "value", args.eval_strategy)) != "no"
            return control

        flow.on_step_end = on_step_end
