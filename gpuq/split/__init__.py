"""Runs one OpenCL kernel on several devices at once: whether that is correct, which share each takes, and the run itself.

Optional (`pip install 'gpuq-daemon[split]'`). Nothing of the queue imports this package; docs/split.md is for its users.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpuq.split.decide import SplitOutcome


def run(
    kernel: Any,
    size: Sequence[int],
    local: Sequence[int],
    *arguments: Any,
    devices: Sequence[Mapping[str, Any]],
    options: str = "",
    limit_s: float = 600.0,
) -> SplitOutcome:
    """Run a kernel on several devices; arrays among the arguments are changed in place. Raises BadInput and Failure.

    `kernel`: a pyopencl.Kernel whose program was built from source, or (source, name). `arguments`: NumPy arrays, one array
    twice being one buffer twice, NumPy scalars, and pyopencl.LocalMemory. `devices`: the tables of [[devices]] in docs/split.md.
    """
    from gpuq.home import Home
    from gpuq.split import decide
    from gpuq.split.history import LaunchHistory
    from gpuq.split.launch import from_arrays

    launch = from_arrays(kernel, size, local, arguments, devices, options)
    outcome = decide.run(launch, launch.devices, LaunchHistory(Home.from_environment().root / "split"), limit_s=limit_s)
    for name, array in launch.buffers.items():
        array[...] = outcome.result.buffers[name]
    return outcome
