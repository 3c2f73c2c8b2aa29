"""gpuq: an online, interference-aware GPU job queue.

Importing this package is free of cost and side effects, because training scripts may do it: `gpuq.step()` counts one
optimizer step for jobs whose framework gpuq does not know. `from gpuq import Client` submits and watches jobs from Python.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpuq.client import AsyncClient as AsyncClient
    from gpuq.client import Client as Client
    from gpuq.client import JobInfo as JobInfo

__version__ = "0.1.0"


def step(count: int = 1) -> None:
    """Count `count` training steps of the job this process belongs to; outside a gpuq job it does nothing."""
    try:
        import gpuq_progress  # on the path of gpuq jobs only: the worker puts its hook folder there
    except ImportError:
        return
    gpuq_progress.step(count)


def __getattr__(name: str) -> object:
    """Import the client when it is first used, because most importers only count steps."""
    if name in {"AsyncClient", "Client", "JobInfo"}:
        from importlib import import_module

        return getattr(import_module("gpuq.client"), name)
    raise AttributeError(f"module 'gpuq' has no attribute {name!r}")
