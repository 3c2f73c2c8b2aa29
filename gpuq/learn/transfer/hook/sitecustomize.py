"""Records one profile of a training that is not prepared for it. Every Python process of the job imports this first.

`gpuq profile` puts this folder first on the job's PYTHONPATH. Without GPUQ_PROFILE it does nothing. With it, it waits until
PyTorch's or Keras's optimizers are imported, lets GPUQ_PROFILE_SKIP steps pass, times GPUQ_PROFILE_STEPS steps, records as
many with the framework's own profiler into the folder that GPUQ_PROFILE names, and writes `done.json` there. One process of a
job records. It never raises, and runs the `sitecustomize` that would have been found without it. Python 3.8 and newer,
standard library only: it runs in the job's environment, so it can share no code with gpuq.
"""

# ruff: noqa: PTH100, PTH118, PTH120, PTH123, PTH105 - pathlib is slow to import, and every process of a job pays for it
from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = ("torch.optim.optimizer", "keras.src.optimizers.base_optimizer")
_POLL_EVERY_S = 0.01


class _Profile:
    """The states of one recording (warm up, time, record, over), driven by the number of steps so far."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.folder = os.environ["GPUQ_PROFILE"]
        self.skip = int(os.environ.get("GPUQ_PROFILE_SKIP", "10"))
        self.steps = int(os.environ.get("GPUQ_PROFILE_STEPS", "20"))
        self.state = "warm up"
        self._at: tuple[int, float] = (0, 0.0)
        self._step_s: float | None = None
        self._profiler: Any = None
        self._lock = threading.Lock()

    def seen(self, count: int) -> None:
        """`count` steps have been made so far."""
        with self._lock:
            now = time.monotonic()
            if self.state == "warm up" and count >= self.skip:
                self.state, self._at = "time", (count, now)
            elif self.state == "time" and count >= self._at[0] + self.steps:
                self._step_s = (now - self._at[1]) / (count - self._at[0])
                self.state = "record" if self._claim() and self._start() else "over"
                self._at = (count, time.monotonic())
            elif self.state == "record" and count >= self._at[0] + self.steps:
                self._finish(count)

    def at_exit(self, count: int) -> None:
        """The process ends: write what has been recorded so far."""
        with self._lock:
            if self.state == "record" and count > self._at[0]:
                self._finish(count)

    def _finish(self, count: int) -> None:
        self.state = "over"
        self._stop()
        import json

        done = {"framework": self.framework, "steps": count - self._at[0], "step_s": self._step_s}
        aside = os.path.join(self.folder, f".done.{os.getpid()}")
        with open(aside, "w") as file:
            json.dump(done, file)
        os.replace(aside, os.path.join(self.folder, "done.json"))

    def _claim(self) -> bool:
        """Whether this process is the one that records."""
        try:
            os.close(os.open(os.path.join(self.folder, "claimed"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return False
        return True

    def _start(self) -> bool:
        if self.framework == "pytorch":
            profiler = sys.modules["torch"].profiler
            self._profiler = profiler.profile()
            self._profiler.start()
            return True
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None:  # Keras on another backend has no profiler of its own
            return False
        tensorflow.profiler.experimental.start(self.folder)
        self._profiler = tensorflow.profiler.experimental
        return True

    def _stop(self) -> None:
        self._profiler.stop()
        if self.framework == "pytorch":
            self._profiler.export_chrome_trace(os.path.join(self.folder, "trace.json"))


def _attach(module: ModuleType) -> None:
    """Count the steps of the optimizers of this freshly imported module."""
    if module.__name__ == "torch.optim.optimizer":
        _attach_torch(module)
    else:
        _attach_keras(module.BaseOptimizer)


def _attach_torch(module: ModuleType) -> None:
    profile, counted = _Profile("pytorch"), [0]

    def after_step(*_: object) -> None:
        counted[0] += 1
        if profile.state != "over":
            _quietly(profile.seen, counted[0])

    module.register_optimizer_step_post_hook(after_step)
    atexit.register(lambda: _quietly(profile.at_exit, counted[0]))


def _attach_keras(base: Any) -> None:
    """Keras compiles a step once and then runs it without Python, so the counters of its optimizers are polled."""
    profile = _Profile("tensorflow")
    counters: list[Any] = []
    original = base.__init__

    def construct(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        counters.append(self._iterations)
        if len(counters) == 1:
            threading.Thread(target=watch, name="gpuq-profile", daemon=True).start()
            atexit.register(lambda: _quietly(profile.at_exit, total()))

    def total() -> int:
        return max(int(counter.numpy()) for counter in counters)

    def watch() -> None:
        while profile.state != "over":
            time.sleep(_POLL_EVERY_S)
            _quietly(lambda: profile.seen(total()))

    construct.__wrapped__ = original  # type: ignore[attr-defined]
    base.__init__ = construct


def _quietly(call: Any, *arguments: Any) -> None:
    try:
        call(*arguments)
    except Exception as error:  # noqa: BLE001 - the training goes on, recorded or not
        if os.environ.get("GPUQ_DEBUG"):
            sys.stderr.write(f"gpuq profile: {type(error).__name__}: {error}\n")


class _Finder:
    """Finds no module of its own: it gives the watched ones a loader that attaches to them after they are loaded."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in _WATCHED:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: Any = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec  # type: ignore[no-any-return]
        return None


class _Loader:
    """Another loader, with `_attach` after it has run."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        _quietly(_attach, module)


def _hand_over() -> None:
    """Run the next `sitecustomize` on the path as if this one did not exist. Its errors are its own."""
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if os.path.abspath(entry) != _HERE])
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("GPUQ_PROFILE"):
    sys.meta_path.insert(0, _Finder())
_hand_over()
