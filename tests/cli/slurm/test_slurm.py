"""`sbatch`, `srun`, `squeue`, `scancel`, `scontrol` and `sinfo` of gpuq: what scripts say to them, and what they print."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from gpuq import format as fmt
from gpuq.cli.slurm import sinfo, srun
from gpuq.errors import BadInput
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply

Slurm = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(api: FakeApi, gpuq: Command) -> Slurm:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    assert gpuq("slurm-commands", "slurm").code == 0

    def call(name: str, *words: str, stdin: str | None = None) -> tuple[int, str, str]:
        program = str(gpuq.cwd / "slurm" / name)
        tree = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        done = subprocess.run(
            [program, *words],
            cwd=gpuq.cwd,
            env=gpuq.env | tree,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def script(gpuq: Command) -> str:
    (gpuq.cwd / "job.sh").write_text("#!/bin/bash\n#SBATCH --job-name=old\n#SBATCH --gres=gpu:2\n#SBATCH -t 5\necho\n")
    return "job.sh"


def body(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.asked("POST", "/api/v1/jobs")[-1].body
    return found


def test_sbatch_takes_a_script_with_its_lines_and_says_the_id_as_slurm_does(
    run: Slurm, api: FakeApi, script: str
) -> None:
    done = run("sbatch", "--job-name", "new", "--cpus-per-task=4", "-p", "gpu", script, "--time", "7")
    assert done[:2] == (0, "Submitted batch job 42\n")
    assert "sbatch: without effect in gpuq: --cpus-per-task=4 -p gpu" in done[2]
    sent = body(api)
    assert (sent["name"], sent["gpus"], sent["time_limit_s"]) == ("new", 2, 300)
    assert sent["command"][-2:] == ["--time", "7"], "what follows the script is its own"
    assert sent["env"]["SLURM_SUBMIT_DIR"] == sent["cwd"]
    assert run("sbatch", "--parsable", script)[1] == "42\n"


def test_sbatch_takes_the_lines_of_a_script_on_standard_input(run: Slurm, api: FakeApi) -> None:
    text = "#!/bin/bash\n#SBATCH --array=1-2 --job-name=foo\n#SBATCH --time=5\necho $SLURM_ARRAY_TASK_ID\n"
    assert run("sbatch", "--time=7", stdin=text)[0] == 0
    sent = body(api)
    assert (sent["stdin"], sent["name"], sent["time_limit_s"]) == (text, "foo", 420)
    assert sent["array"] == {"tasks": "1-2"}
    assert sent["env"]["SLURM_JOB_NAME"] == "foo"


def test_sbatch_wraps_a_command(run: Slurm, api: FakeApi) -> None:
    assert run("sbatch", "--wrap=echo $HOME; exit 3")[0] == 0
    assert body(api)["command"][-2:] == ["-c", "echo $HOME; exit 3"]
    assert body(api)["name"] == "wrap"


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("sbatch", ("--array=9-1", "job.sh"), "--array: the range `9-1` runs backwards."),
        ("sbatch", ("--wrap=ls", "job.sh"), "--wrap takes the place of the script"),
        ("sbatch", ("missing.sh",), "missing.sh"),
        ("squeue", ("-o", "%Z"), "has no field `%Z`"),
        ("squeue", ("-j", "12,train"), "`train` is no job id"),
        ("scancel", ("12.batch",), "`12.batch` is no job id"),
        ("scancel", (), "nothing to cancel"),
        ("sinfo", ("--bad",), "unrecognized arguments: --bad"),
        ("srun", ("-n", "2"), "there is no command to run"),
        ("scontrol", ("update", "12"), "gpuq has no `scontrol update 12`"),
    ],
)
def test_what_gpuq_cannot_do_is_refused(
    run: Slurm, api: FakeApi, script: str, name: str, words: tuple[str, ...], sentence: str
) -> None:
    api.on("GET", "/api/v1/jobs", Reply({"jobs": [samples.running(42)], "next": None}))
    code, _, err = run(name, *words)
    assert code == 2
    assert err.startswith(f"{name}: ")
    assert sentence in err
    assert not api.asked("POST", "/api/v1/jobs")


def test_squeue_prints_slurms_columns_or_those_asked_for(run: Slurm, api: FakeApi) -> None:
    jobs = [
        samples.running(42, host="box", owner="ana"),
        samples.job(43, state="HELD", name="a long name", owner="ana"),
    ]
    api.on("GET", "/api/v1/jobs", Reply({"jobs": jobs, "next": None}))
    lines = run("squeue", "-u", "ana")[1].splitlines()
    assert lines[0].split() == ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"]
    assert lines[1].split()[:5] == ["42", "gpu", "resnet", "ana", "R"]
    assert lines[2].split()[-1] == "(JobHeldUser)"
    assert api.asked("GET", "/api/v1/jobs")[0].query["owner"] == "ana"
    assert run("squeue", "-h", "-o", "%i|%T", "--me")[1] == "42|RUNNING\n43|PENDING\n"


def test_scancel_ends_jobs_silently_and_names_one_that_is_not_there(run: Slurm, api: FakeApi) -> None:
    done = {"jobs": {"RUNNING": [42]}, "now": {}, "refused": [{"ids": [43], "state": "COMPLETED", "why": "ended"}]}
    api.on("POST", "/api/v1/jobs/cancel", Reply({**done, "missing": []}), Reply({**done, "missing": [[99, 99]]}))
    assert run("scancel", "42", "43") == (0, "", "")
    assert api.asked("POST", "/api/v1/jobs/cancel")[0].body["where"] == {"ids": [[42, 43]]}
    code, _, err = run("scancel", "99")
    assert (code, "no job 99" in err) == (3, True)


@pytest.mark.parametrize(
    ("words", "ids"),
    [(["12"], [[12, 15]]), (["12_3"], [14]), (["12_[1,3-4]", "20"], [12, [14, 15], 20])],
)
def test_scancel_and_squeue_take_an_array_for_all_its_tasks_and_tasks_by_their_numbers(
    run: Slurm, api: FakeApi, words: list[str], ids: list[Any]
) -> None:
    api.on("GET", "/api/v1/arrays", Reply({"arrays": [{"id": 12, "count": 4, "tasks": "1-4"}]}))
    api.on("POST", "/api/v1/jobs/cancel", Reply({"jobs": {}, "now": {}, "refused": [], "missing": []}))
    assert run("scancel", *words) == (0, "", "")
    assert api.asked("POST", "/api/v1/jobs/cancel")[0].body["where"] == {"ids": ids}
    each = [job for one in ids for job in (range(one[0], one[1] + 1) if isinstance(one, list) else [one])]
    api.on("GET", "/api/v1/jobs", Reply({"jobs": [samples.running(job) for job in each], "next": None}))
    assert run("squeue", "-h", "-o", "%i", "-j", ",".join(words))[1].split() == [str(job) for job in each]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65, "1:05"), (7200, "2:00:00"), (3 * 86400 + 4 * 3600, "3-04:00:00")]
)
def test_durations_are_slurms(seconds: int, text: str) -> None:
    assert fmt.duration(seconds) == text


def test_sinfo_says_what_the_devices_of_a_host_do() -> None:
    def device(host: str, *, jobs: int = 0, drained: str | None = None, read: bool = True) -> dict[str, Any]:
        return {"host": host, "residents": [{}] * jobs, "drained": drained, "read_at": "now" if read else None}

    rows = sinfo.rows([device("a", jobs=1), device("a"), device("b"), device("c"), device("d", read=False)])
    assert [row.split()[3:] for row in rows] == [["1", "down", "d"], ["2", "idle", "b,c"], ["1", "mix", "a"]]
    assert sinfo.state([device("a", jobs=1, drained="driver")]) == "drng"


def test_they_are_written_to_a_folder_and_replace_no_other_programs(gpuq: Command) -> None:
    done = gpuq("slurm-commands", "slurm")
    assert done.code == 0
    assert sorted(path.name for path in (gpuq.cwd / "slurm").iterdir()) == sorted(
        ["sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"]
    )
    assert gpuq("slurm-commands", "slurm").code == 0, "again, after an upgrade"
    (gpuq.cwd / "slurm" / "sbatch").write_text("#!/bin/sh\n")
    done = gpuq("slurm-commands", "slurm")
    assert done.code == 2
    assert "is there, and not gpuq's" in done.err


JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a,b", "SLURMD_NODENAME": "b", "SLURM_NTASKS_PER_NODE": "2"}


def ranks(*asked: Any, **environ: str) -> list[str]:
    return [task["SLURM_PROCID"] for task in srun.tasks({**JOB, **environ}, *asked)]


def test_each_host_of_a_job_has_its_own_tasks_of_a_step() -> None:
    assert ranks(None, None, None, None) == ["2", "3"]
    assert ranks(None, None, None, None, SLURMD_NODENAME="a") == ["0", "1"]
    assert ranks(5, None, None, None, SLURMD_NODENAME="a") == ["0", "1", "2"]
    assert ranks(None, 3, None, ["b"]) == ["0", "1", "2"]
    assert ranks(1, None, 1, None) == [], "a step on one host is on the first"
    with pytest.raises(BadInput, match="c is no host of this job"):
        ranks(1, None, None, ["c"])


def test_a_step_in_a_job_gives_its_highest_exit_code(run: Slurm, gpuq: Command, api: FakeApi) -> None:
    gpuq.env.update(JOB)
    said = run("srun", "-N1", "--nodelist", "b", "--exclusive", "sh", "-c", "echo $SLURM_PROCID; exit $SLURM_PROCID")
    assert (said[0], sorted(said[1].split())) == (1, ["0", "1"])
    assert run("scontrol", "show", "hostnames") == (0, "a\nb\n", "")
    assert run("srun", "missing-program")[0] == 2
    assert not api.requests
