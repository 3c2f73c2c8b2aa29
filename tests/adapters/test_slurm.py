"""Slurm's commands, by stand-ins of them that print what Slurm 22.05 printed. `tests/slurm` has a real Slurm."""

from pathlib import Path

import pytest

from gpuq.adapters import slurm
from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Unreachable
from gpuq.messages.slurm_commands import MARK


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def prints(commands: Path, name: str, *, out: str = "", err: str = "", code: int = 0) -> None:
    path = commands / name
    path.write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{err}E\ncat <<'E'\n{out}E\nexit {code}\n")
    path.chmod(0o755)


def test_a_job_is_known_by_the_number_that_sbatch_prints_with_or_without_a_cluster(commands: Path) -> None:
    prints(commands, "sbatch", out="17\n")
    assert slurm.submit("#!/bin/sh\n", []) == 17
    prints(commands, "sbatch", out="18;cluster\n")
    assert slurm.submit("#!/bin/sh\n", []) == 18


def test_what_the_environment_says_to_slurms_commands_makes_no_array_hides_no_job_and_keeps_none_from_its_end(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SBATCH_ARRAY_INX", "SBATCH_WAIT", "SQUEUE_PARTITION", "SCANCEL_INTERACTIVE", "SBATCH_ACCOUNT"):
        monkeypatch.setenv(name, "1")
    (commands / "sbatch").write_text("#!/bin/sh\nenv | grep -E '^(SBATCH|SQUEUE|SCANCEL)_' >&2; exit 1\n")
    (commands / "sbatch").chmod(0o755)
    with pytest.raises(BadInput, match=r"it: SBATCH_ACCOUNT=1$"):
        slurm.submit("#!/bin/sh\n", [])


def test_gpuqs_own_commands_are_not_taken_for_slurms(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own := tmp_path / "own").mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (own / name).write_text(f"#!/bin/sh\n{MARK}\necho 1\n")
        (own / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{commands}")
    with pytest.raises(BadInput, match=r"The only `sbatch` on your PATH is gpuq's own\."):
        slurm.submit("#!/bin/sh\n", [])
    (commands / "sbatch").write_text("#!/bin/sh\necho 17\n")
    (commands / "sbatch").chmod(0o755)
    assert slurm.submit("#!/bin/sh\n", []) == 17
    with pytest.raises(BadInput, match="The only `squeue`"):
        slurm.check()


def test_a_number_is_found_behind_what_a_site_prints_besides(commands: Path) -> None:
    prints(commands, "sbatch", out="-----\n Welcome to node 7\n--> Checking your quota...OK\nSubmitted batch job 19\n")
    assert slurm.submit("#!/bin/sh\n", []) == 19


@pytest.mark.parametrize("out", ["", "slurm-wlm 22.05.8\n"])
def test_without_a_number_it_is_not_known_whether_there_is_a_job(commands: Path, out: str) -> None:
    prints(commands, "sbatch", out=out)
    with pytest.raises(Unreachable, match="printed no number of a job"):
        slurm.submit("#!/bin/sh\n", [])


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("Requested time limit is invalid (missing or exceeds some limit)", "less `--time`"),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "`--max`"),
        ("Requested node configuration is not available", "less `--gpus`"),
        ("Invalid qos specification", "meant for sbatch"),
    ],
)
def test_a_refusal_comes_with_its_fix(commands: Path, said: str, fix: str) -> None:
    prints(commands, "sbatch", err=f"sbatch: error: Batch job submission failed: {said}\n", code=1)
    with pytest.raises(BadInput) as refused:
        slurm.submit("#!/bin/sh\n", [])
    assert fix in refused.value.fix


def test_an_answer_in_another_encoding_is_read(commands: Path) -> None:
    (commands / "sbatch").write_bytes(b"#!/bin/sh\nprintf 'sbatch: error: ung\\374ltig\\n' >&2\nexit 1\n")
    (commands / "sbatch").chmod(0o755)
    with pytest.raises(BadInput, match=r"Slurm refuses it: ung.ltig"):
        slurm.submit("#!/bin/sh\n", [])


def test_options_that_name_a_script_are_found_by_a_script_that_sbatch_does_not_read(commands: Path) -> None:
    (commands / "sbatch").write_text('#!/bin/sh\ncase "$*" in *job.sh*) exit 0;; esac\ntest -n "$(cat)"\n')
    (commands / "sbatch").chmod(0o755)
    assert slurm.ignores_the_script(["job.sh"])
    assert not slurm.ignores_the_script(["--partition=gpu"])


def test_what_slurm_says_against_a_job_is_in_the_error(commands: Path) -> None:
    said = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n"
    prints(commands, "sbatch", err=said, code=1)
    with pytest.raises(BadInput, match="Slurm refuses it: Batch job submission failed: Invalid account"):
        slurm.submit("#!/bin/sh\n", ["--account=nope"])


def test_a_controller_that_is_away_is_no_refusal(commands: Path) -> None:
    said = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    prints(commands, "squeue", err=said, code=1)
    with pytest.raises(Unreachable, match="Unable to contact slurm controller"):
        slurm.jobs({1})


def test_a_login_node_whose_munge_is_away_is_no_refusal(commands: Path) -> None:
    failed = 'Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory'
    said = f"sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: {failed}\n"
    prints(commands, "sbatch", err=said, code=1)
    with pytest.raises(Unreachable, match="Munge encode failed"):
        slurm.submit("#!/bin/sh\n", [])


def test_a_job_is_found_by_its_folder_and_other_lines_are_passed_over(commands: Path) -> None:
    lines = [
        "CLUSTER: gpu",
        "",
        "7|PENDING|Resources|/home/ada/a folder",
        "8|COMPLETED|None|/home/ada/b",
        "9_1|RUNNING|None|/home/ada/c",
    ]
    prints(commands, "squeue", out="".join(f"{line}\n" for line in lines))
    wanted = {"/home/ada/a folder", "/home/ada/b", "/home/ada/c"}
    found = SlurmJob(7, "PENDING", "Resources", "/home/ada/a folder")
    assert slurm.jobs_in(wanted) == {"/home/ada/a folder": found}
    assert slurm.jobs({7, 8, 9}) == {7: found}


def test_jobs_that_have_ended_and_those_of_others_are_left_out(commands: Path) -> None:
    lines = [
        "1|RUNNING|None",
        "2|PENDING|Resources",
        "3|COMPLETED|None",
        "6|COMPLETING|None",
        "4_[0-9]|PENDING|Priority",
        "5|RUNNING|None",
    ]
    prints(commands, "squeue", out="".join(f"{line}\n" for line in lines))
    assert slurm.jobs({1, 2, 3, 6}) == {
        1: SlurmJob(1, "RUNNING", "None"),
        2: SlurmJob(2, "PENDING", "Resources"),
        6: SlurmJob(6, "COMPLETING", "None"),  # its processes may run yet
    }


@pytest.mark.parametrize(
    ("said", "ends_at"),
    [("1795447000\n", 1795447000.0), ("CLUSTER: gpu\n1795447000\n", 1795447000.0), ("N/A\n", None), ("", None)],
)
def test_a_running_job_ends_when_squeue_says_so(commands: Path, said: str, ends_at: float | None) -> None:
    prints(commands, "squeue", out=said)
    assert slurm.ends_at(7) == ends_at


def test_how_a_job_ended_is_said_in_slurms_words(commands: Path) -> None:
    prints(
        commands,
        "scontrol",
        out="JobId=7 JobName=a JobState=NODE_FAIL Reason=NodeDown ExitCode=0:1 NodeList=n3 BatchHost=n3\n",
    )
    assert slurm.ended(7) == "NODE_FAIL, NodeDown, exit code 0:1, on n3"


def test_without_slurm_the_error_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="`sbatch` is not on your PATH"):
        slurm.check()
