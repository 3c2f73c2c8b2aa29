"""docs/migrate: every command of the column "here" does what it says, on a real gpuq."""

from __future__ import annotations

import json
import re
import select
import shlex
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gpuq.home import Home
from tests.support import forked
from tests.support.site import Site, wait_for

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "migrate"
ROW = re.compile(r"^\| (?!there|command|---)(.+?) \| (.+) \|$", re.MULTILINE)
COMMAND = re.compile(r"^`(gpuq [^`]+)`")
# What needs another gpuq than the one here, and the test that runs it.
_IN_THE_BACKGROUND = (
    "tests/programs/test_up.py::test_in_the_background_it_returns_once_it_is_ready_and_down_ends_it_and_its_jobs"
)
_IN_AN_ENVIRONMENT = "tests/workers/hook/test_gpuq_environment.py::test_a_job_runs_in_its_image_and_with_its_modules"
_IN_A_TERMINAL = (
    "tests/end_to_end/test_interactive.py::test_a_shell_survives_the_api_and_the_worker_service_and_is_gone_back_to"
)
ELSEWHERE = {
    "gpuq down": _IN_THE_BACKGROUND,
    "gpuq run --image IMAGE -- python train.py": _IN_AN_ENVIRONMENT,
    "gpuq run --pty bash": _IN_A_TERMINAL,
    "gpuq submit --hosts 2 job.sh": "tests/end_to_end/test_gang_over_hosts.py::test_the_processes_of_two_hosts_meet",
    "gpuq submit --module cuda/12.4 job.sh": _IN_AN_ENVIRONMENT,
    "gpuq up -d": _IN_THE_BACKGROUND,
}


def commands_of(document: Path) -> list[str]:
    table = document.read_text().partition("\n## ")[0]
    found = [COMMAND.match(here) for _, here in ROW.findall(table)]
    return list(dict.fromkeys(match[1] for match in found if match))


COMMANDS = {path.stem: commands_of(path) for path in sorted(FOLDER.glob("*.md"))}
# What several documents name is run once.
DISTINCT = list(
    dict.fromkeys(command for commands in COMMANDS.values() for command in commands if command not in ELSEWHERE)
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site(devices_cpu_count=2, admission_memory_headroom=0.95)
    Home(site.home).settings_file.write_text('[devices]\nfeatures = ["fast"]\n')
    with site:
        (site.home / "bin").mkdir()
        work = site.home / "work"
        work.mkdir()
        (work / "train.py").write_text("print('trained')\n")
        (work / "train.sh").write_text("#!/bin/sh\necho trained\n")
        (work / "job.sh").write_text("#!/bin/sh\n#SBATCH --time=10\necho job $SLURM_JOB_ID\n")
        (work / "commands.txt").write_text("train.py --lr 0.1\ntrain.py --lr 0.01\n")
        yield site


def gpuq(site: Site, *words: str, stdin: bytes | None = None) -> str:
    done = forked.gpuq(*words, env=site.env, cwd=site.home / "work", stdin=stdin)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout.decode()


@pytest.fixture(scope="module")
def ended(site: Site) -> str:
    """The id of a job that has ended."""
    job = gpuq(site, "submit", "train.py").strip()
    site.wait(int(job))
    return job


@pytest.fixture(scope="module")
def array(site: Site) -> str:
    """The id of an array whose tasks have ended."""
    array = gpuq(site, "submit", "--array", "1-10", "job.sh").strip()
    gpuq(site, "wait", array)
    return array


def prepared(site: Site, verb: str) -> str:
    """The id of a job that the verb changes."""
    job = gpuq(site, "submit", "--hold", "train.py").strip()
    if verb == "hold":  # waits, because it wants more devices than are free
        long = gpuq(site, "submit", "--exclusive", "--", "sleep", "600").strip()
        site.wait(int(long), "RUNNING")
        return gpuq(site, "submit", "--gpus", "2", "train.py").strip()
    return job


def first_event(site: Site, job: str) -> dict[str, Any]:
    """What `gpuq events` prints first of a job whose priority changes until it does."""
    with subprocess.Popen([forked.PROGRAM, "events", job], env=site.env, stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        priorities = count(1)

        def printed() -> bool:
            gpuq(site, "edit", job, "--priority", str(next(priorities)))
            return bool(select.select([command.stdout], [], [], 0.5)[0])

        try:
            wait_for(printed)
            return dict(json.loads(command.stdout.readline()))
        finally:
            command.terminate()


@pytest.mark.parametrize("command", DISTINCT, ids=lambda text: str(text).replace("/", "|"))
def test_the_command_here_does_what_the_one_there_did(site: Site, ended: str, array: str, command: str) -> None:
    words = shlex.split(command.partition(" < ")[0])[1:]
    device = site.get("/api/v1/gpus")[1][0]
    here = {"gpu0,gpu1": "cpu0,cpu1", "h100": device["kind"], "node1": device["host"]}
    words = [here.get(word, word) for word in words]
    if "--after" in words or "-d" in words:
        of_tasks = any(re.search("corr:|_", word) for word in words)
        words = [re.sub(r"\b12(?=\b|_)", array if of_tasks else ended, word) for word in words]
    elif "12" in words:
        job = ended if words[0] in {"logs", "wait", "show", "queue"} else prepared(site, words[0])
        words = [job if word == "12" else word for word in words]
    source = command.partition(" < ")[2]
    if words[0] == "events":
        assert first_event(site, words[1])["jobs"] == [int(words[1])]
        return
    said = gpuq(site, *words, stdin=(site.home / "work" / source).read_bytes() if source else None)
    if words[0] in {"submit", "run"} and "--dry-run" not in words:
        for job in re.findall(r"^(\d+)$", said, re.MULTILINE):
            if "--hold" in words:
                gpuq(site, "cancel", job)
            else:
                assert site.wait(int(job))["state"] == "COMPLETED"
    elif words[0] == "logs":
        assert said == "trained\n"
    for left in site.get("/api/v1/jobs?state=waiting&state=active")[1]["jobs"]:
        site.request("POST", f"/api/v1/jobs/{left['id']}/cancel")
    for left in site.get("/api/v1/bookings")[1]:
        site.request("POST", f"/api/v1/bookings/{left['id']}/cancel")


def test_a_script_for_slurm_finds_its_variables(site: Site) -> None:
    for words in (["job.sh"], ["--slurm-env", "--", "sh", "-c", 'echo "job $SLURM_JOB_ID"']):
        job = gpuq(site, "submit", *words).strip()
        assert Path(site.wait(int(job))["log_path"]).read_text() == f"job {job}\n"
    plain = gpuq(site, "submit", "--", "sh", "-c", 'echo "job $SLURM_JOB_ID"').strip()
    assert Path(site.wait(int(plain))["log_path"]).read_text() == "job \n"


def test_every_line_has_a_command_that_is_run_here_or_elsewhere() -> None:
    named = {command for commands in COMMANDS.values() for command in commands}
    assert set(ELSEWHERE) <= named
    for test in ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (FOLDER.parents[1] / path).read_text()
    for document, commands in COMMANDS.items():
        for there, here in (
            ROW.findall((FOLDER / f"{document}.md").read_text().partition("\n## ")[0]) if commands else ()
        ):
            assert COMMAND.match(here) or here.startswith(("not here: ", "not needed: ")), (document, there)


def test_the_tables_are_found() -> None:
    assert {document for document, commands in COMMANDS.items() if commands} == {
        "task-spooler",
        "gflow",
        "jobd",
        "slurm",
    }
    assert sum(map(len, COMMANDS.values())) > 50
