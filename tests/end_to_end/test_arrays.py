"""One array through the real command: submitted, filled in, ended, addressed in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support import forked
from tests.support.site import Site

JOB = """#!/bin/sh
#SBATCH --array=3-5%2
echo "$GPUQ_ARRAY_TASK of $GPUQ_ARRAY_ID: $* $lr $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, admission_memory_headroom=0.95) as site:
        script = site.home / "job.sh"
        script.write_text(JOB)
        yield site


def gpuq(site: Site, *words: str, stdin: bytes | None = None, code: int = 0) -> str:
    done = forked.gpuq(*words, env=site.env, cwd=site.home, stdin=stdin)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return (done.stdout if code == 0 else done.stderr).decode()


def test_the_tasks_of_an_array_run_with_their_own_values(site: Site) -> None:
    rows = b"lr,width\n0.1,8\n0.01,8\n0.001,16\n"
    words = ("--sweep", "-", "--slurm-env", "--wait", "job.sh", "{lr}", "--width={width}")
    first = int(gpuq(site, "submit", *words, stdin=rows))

    printed = [gpuq(site, "logs", f"{first}_{task}") for task in (3, 4, 5)]
    assert printed == [
        f"3 of {first}: 0.1 --width=8 0.1 3/3\n",
        f"4 of {first}: 0.01 --width=8 0.01 4/3\n",
        f"5 of {first}: 0.001 --width=16 0.001 5/3\n",
    ]
    tasks = [json.loads(gpuq(site, "show", "--json", f"{first}_{task}")) for task in (3, 4, 5)]
    assert {task["kind"] for task in tasks} == {tasks[0]["kind"]}, "one kind, since the values do not matter to it"


def test_an_array_is_addressed_as_a_whole_and_in_parts(site: Site) -> None:
    words = ("-n", "sleeper", "--hold", "--array", "1-4", "--", "/bin/sh", "-c", "echo $0; exit $0", "{task}")
    array = gpuq(site, "submit", *words).strip()
    assert "0/4" in gpuq(site, "queue", array)
    gpuq(site, "cancel", f"{array}_[1,4]")
    gpuq(site, "release", array)

    gpuq(site, "wait", "sleeper", code=125)  # that of the cancelled tasks
    assert gpuq(site, "logs", array) == f"==> job {array}_2 <==\n2\n==> job {array}_3 <==\n3\n"
    summary = json.loads(gpuq(site, "show", "--json", array))
    assert (summary["states"], summary["first"]) == ({"CANCELLED": 2, "FAILED": 2}, {"CANCELLED": 1, "FAILED": 2})
    assert f"{array}_3" in gpuq(site, "queue", "-r", "-s", "FAILED", array)


def test_a_name_without_values_queues_nothing(site: Site) -> None:
    said = gpuq(site, "submit", "--grid", "lr=1,2", "--", "echo", "{rate}", code=2)
    assert said == (
        "gpuq: there is no parameter `rate` for {rate}.\n"
        "  The parameters are lr. Write {{rate}} for the text {rate} itself.\n"
    )
