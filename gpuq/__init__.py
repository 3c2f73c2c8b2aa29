"""gpuq: an online, interference-aware GPU job queue.

Importing this package is free of cost and side effects, because training scripts may do it: `gpuq.step()` counts one
optimizer step for jobs whose framework gpuq does not know.
"""

__version__ = "0.1.0"


def step(count: int = 1) -> None:
    """Count `count` training steps of the job this process belongs to; outside a gpuq job it does nothing."""
    try:
        import gpuq_progress  # on the path of gpuq jobs only: the worker puts its hook folder there
    except ImportError:
        return
    gpuq_progress.step(count)
