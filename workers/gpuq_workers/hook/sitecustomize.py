"""Imported first by every Python process of a job: has its training steps counted.

The worker puts this folder first on the job's PYTHONPATH. Without GPUQ_PROGRESS it does nothing. With it, it waits until PyTorch,
Keras or JAX is imported and then attaches `gpuq_progress`. It imports none of them, never raises, and runs the `sitecustomize`
that Python would have found without it. Python 3.7 and newer, standard library only.
"""

# Every process of a job pays for what is imported here, and pathlib is slow to import.
# ruff: noqa: PTH100, PTH118, PTH120
from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = (
    "torch.optim.optimizer",
    "keras.src.optimizers.base_optimizer",
    # JAX's compiled functions (the second was its name before 0.7), and what applies an update in them.
    "jaxlib._jax",
    "jaxlib.xla_extension",
    "optax._src.update",
    "equinox._update",
)


class _Finder:
    """An import hook for the watched modules: wraps their loader so that `gpuq_progress` is attached after the import."""

    def __init__(self) -> None:
        self.waiting = set(_WATCHED)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of the other finders, its loader wrapped by ours; None for modules that are not watched."""
        if name not in self.waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.waiting)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Wraps another loader, attaches `gpuq_progress` after it has run, and puts the other loader back."""

    def __init__(self, loader: object, waiting: set[str]) -> None:
        self._loader = loader
        self._waiting = waiting

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate to the wrapped loader."""
        return self._loader.create_module(spec)  # type: ignore[attr-defined, no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then attach to it."""
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr, assignment]
        self._loader.exec_module(module)  # type: ignore[attr-defined]
        if module.__name__ not in self._waiting:
            return
        # Not in find_spec: a program may only have asked where the module is.
        self._waiting.discard(module.__name__)
        try:
            import gpuq_progress

            gpuq_progress.attach(module)
        except Exception:  # noqa: BLE001, S110 - the job must run, counted or not
            pass


def _hand_over() -> None:
    """Run the next `sitecustomize` on the path in our place. Its errors propagate."""
    path = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec  # slow to import, so only where it is needed

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("GPUQ_PROGRESS"):
    try:
        sys.meta_path.insert(0, _Finder())
        # `import gpuq; gpuq.step()` works without gpuq installed; an installed gpuq is found first.
        fallback = os.path.join(_HERE, "fallback")
        if fallback not in sys.path:
            sys.path.append(fallback)
        # The counter's file, empty, shows that the hook is installed even if no step is ever counted.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(os.environ["GPUQ_PROGRESS"], flags, 0o600))
    except Exception:  # noqa: BLE001, S110 - the job must run, counted or not
        pass
_hand_over()
