"""Run one module of gpuq as `python -P -m` does, but with restarts of killed services that never wait for more than 0.2 s.

quick_restarts.py MODULE [ARGUMENT...]

A service that is killed again within ten seconds is started again after a pause that grows up to five seconds. Tests that kill
services on purpose would spend most of their time in these pauses. This script also runs the services that the module starts.
"""

import runpy
import sys

from gpuq.adapters import supervise


def quickly(module: str, *arguments: str) -> list[str]:
    """The argument list that runs a module by this script, in place of `supervise.python_module`."""
    return [sys.executable, "-P", __file__, module, *arguments]


if __name__ == "__main__":
    supervise._LONGEST_PAUSE_S = 0.2
    supervise.python_module = quickly
    module = sys.argv[1]
    sys.argv = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
