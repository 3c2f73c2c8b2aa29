"""What holds for every test.

How long Hypothesis may take says something about the machine, and nothing about gpuq.
"""

import gc
import math
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# It limits the threads of the linear algebra library, and can do so only before numpy is imported, which some modules of tests
# do before any of gpuq. Threads that waited for each other took half of the processor time of tests of learning.
import gpuq.learn  # noqa: F401

settings.register_profile("gpuq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuq")

# Containers often set this. The suite starts hundreds of interpreters, and each would compile gpuq's modules again: a fifth of
# the start of a service.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# As in an activated environment: jobs run with this interpreter. On a machine where `python3` is a script that chooses a version,
# each start of it would take half a second.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# `nohup` and the background of a script let a process ignore these, and so all that the tests start would.
for _number, _handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# Modules and the five thousand items of tests live to the end, so the garbage collector looks through them neither while they are
# made, nor at each collection of a test's own objects.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Of the rows in tests/fleet: how often each is repeated in all, and from which seed."""
    parser.addoption(
        "--count", type=int, default=None, help="repetitions of each row of tests/fleet (default: its short form)"
    )
    parser.addoption("--seed", type=int, default=1, help="the seed of the rows of tests/fleet")
    parser.addoption(
        "--budget",
        type=float,
        default=math.inf,
        help="seconds after which no row begins another repetition (default: no limit)",
    )
