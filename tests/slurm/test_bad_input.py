"""What keeps a pilot from joining: the sentence and the fix that `gpuq pool` shows, on a real Slurm.

An unknown partition is in test_pools.py: Slurm refuses it at `gpuq pool add`, as it does an unknown account.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuq
from tests.slurm.user import User, user_of_cluster
from tests.support.site import wait_for

pytestmark = pytest.mark.slurm
OTHER_VERSION = "import gpuq; gpuq.__version__ = '0.0.1'"
SLOW_CLOCK = "import time; real = time.time; time.time = lambda: real() - 600"
FAST_CLOCK = SLOW_CLOCK.replace("-", "+")


@pytest.fixture(scope="module")
def problems() -> Iterator[dict[str, str]]:
    """Of each pool what keeps it from being added, or from getting pilots: of each something else is wrong."""
    with user_of_cluster(nodes=3, gpus=2, accounts=True) as user:
        user.cluster.hide("n0", Path(sys.prefix))
        user.cluster.hide("n1", user.home)
        add(user, "environment", "--nodelist=n0")
        add(user, "home", "--nodelist=n1")
        for name, program in {"version": OTHER_VERSION, "clock": SLOW_CLOCK, "ahead": FAST_CLOCK}.items():
            (user.home / name).mkdir()
            (user.home / name / "sitecustomize.py").write_text(program)
            path = os.pathsep.join(filter(None, [str(user.home / name), os.environ.get("PYTHONPATH")]))
            add(user, name, "--nodelist=n2", f"--export=ALL,PYTHONPATH={path}")
        refused = user.gpuq("pool", "add", "slurm", "--name", "account", "--", "--account=nope")
        assert (refused.returncode, refused.stdout) == (2, "")
        add(user, "hours", "--account=spent")
        for _ in range(6):
            user.submit(1, "--exclusive")

        def all_there() -> dict[str, str] | None:
            pools = user.json("pool")["pools"]  # type: ignore[index]
            found = {pool["name"]: pool["problem"] for pool in pools}
            if not all(found.values()):
                return None
            return {"account": refused.stderr} | {name: f"{one['problem']} {one['fix']}" for name, one in found.items()}

        yield wait_for(all_there, 180)


def add(user: User, name: str, *options: str) -> None:
    done = user.gpuq("pool", "add", "slurm", "--name", name, "--max", "1", "--time", "10m", "--", *options)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("account", ["Invalid account", "Correct the options"]),
        ("hours", ["AssocGrpGRESMinutes", "no hours left", "--account=NAME"]),
        ("environment", ["exit code 127:0, on n0", "not found", "install it in a folder that they share"]),
        ("home", ["FAILED", "on n1", "The nodes have to see gpuq's home"]),
        (
            "version",
            [f"This node has gpuq 0.0.1, and the login node {gpuq.__version__}.", "exit code 2:0, on n2", "Install"],
        ),
        ("ahead", ["The clock of node n2 is 6", "s ahead of the login node's", "exit code 2:0, on n2", "--exclude=n2"]),
        ("clock", ["The clock of node n2 is", "behind the login node's", "exit code 2:0, on n2", "--exclude=n2"]),
    ],
)
def test_why_there_is_no_pilot_is_said_with_slurms_answer_and_the_fix(
    problems: dict[str, str], pool: str, said: list[str]
) -> None:
    missing = [one for one in said if one not in problems[pool]]
    assert not missing, problems[pool]
