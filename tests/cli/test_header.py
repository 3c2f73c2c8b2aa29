"""Options at the head of a script, as `gpuq submit` takes them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli.header import translated
from gpuq.errors import BadInput
from tests.cli.conftest import Command, FakeApi

SUBMITTED = ("POST", "/api/v1/jobs")


def submitted(gpuq: Command, api: FakeApi, script: str, *words: str) -> tuple[dict[str, Any], str]:
    """(the submission of `job.sh` with this text, what was written to stderr)."""
    (gpuq.cwd / "job.sh").write_text(script)
    api.on(*SUBMITTED, {"id": 1})
    done = gpuq("submit", "--parsable", *words, "job.sh", "3")
    assert done.code == 0, done.err
    return api.asked(*SUBMITTED)[-1].body, done.err


def test_options_at_the_head_of_a_script_are_those_of_the_command_line(gpuq: Command, api: FakeApi) -> None:
    body, said = submitted(
        gpuq, api, "#!/bin/sh\n#GPUQ --gpus 2 -t 2h\n\n#GPUQ -n 'my run' # why\necho\n#GPUQ --hold\n"
    )
    assert (body["gpus"], body["time_limit_s"], body["name"], body["hold"]) == (2, 7200, "my run", False)
    assert said == ""


def test_what_is_typed_goes_before_the_head_and_gpuqs_lines_before_slurms(gpuq: Command, api: FakeApi) -> None:
    body, _ = submitted(gpuq, api, "#!/bin/sh\n#GPUQ --gpus 2 -t 1h\n#SBATCH --time=30 -J slurm\n", "--gpus", "3")
    assert (body["gpus"], body["time_limit_s"], body["name"]) == (3, 3600, "slurm")


def test_a_script_for_slurm_runs_and_what_has_no_effect_is_named(gpuq: Command, api: FakeApi) -> None:
    script = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH -t 1-12:00:00
#SBATCH --gres=gpu:a100:2
#SBATCH --account=nlp --nice=5 --exclusive
#SBATCH --mem=16G -c 8
python train.py
"""
    body, said = submitted(gpuq, api, script)
    assert body["command"] == ["/bin/bash", str(gpuq.cwd / "job.sh"), "3"]
    assert body["script"] == str(gpuq.cwd / "job.sh")
    assert (body["name"], body["time_limit_s"], body["gpus"]) == ("train", 36 * 3600, 2)
    assert (body["project"], body["priority"], body["share"]) == ("nlp", -5, "never")
    assert body["constraints"] == {"types": ["a100"]}
    assert said == "gpuq: job.sh: without effect here: --mem=16G -c 8 (line 6)\n"


def test_an_array_in_the_head_is_one_and_what_is_typed_goes_before_it(gpuq: Command, api: FakeApi) -> None:
    body, _ = submitted(gpuq, api, "#!/bin/sh\n#SBATCH --array=0-9:3,20%2\n")
    assert body["array"] == {"tasks": "0-9:3,20", "at_once": 2}
    body, _ = submitted(gpuq, api, "#!/bin/sh\n#SBATCH -a 0-9\n", "--array", "1-2")
    assert body["array"] == {"tasks": "1-2"}


def test_variables_and_tasks_of_slurm_reach_the_job(gpuq: Command, api: FakeApi) -> None:
    lines = ("--export=ALL,LR=0.1,HOME,UNSET", "--nodes=2", "--ntasks=4", "--gpus-per-node=2")
    script = "".join(["#!/bin/sh\n", *(f"#SBATCH {line}\n" for line in lines)])
    body, said = submitted(gpuq, api, script)
    assert (body["hosts"], body["gpus"]) == (2, 4), "lines count together"
    assert (body["env"]["LR"], body["env"]["SLURM_NTASKS_PER_NODE"]) == ("0.1", "2")
    assert "UNSET" not in body["env"]
    assert said == ""
    assert "--export=NONE" in submitted(gpuq, api, "#!/bin/sh\n#SBATCH --export=NONE\n")[1]


@pytest.mark.parametrize(
    ("slurms", "signal", "before_s"),
    [("B:USR1@120", "SIGUSR1", 120), ("10", "SIGUSR1", 60), ("SIGTERM@5", "SIGTERM", 5)],
)
def test_a_signal_before_the_time_limit_is_as_in_slurm(
    gpuq: Command, api: FakeApi, slurms: str, signal: str, before_s: int
) -> None:
    body, said = submitted(gpuq, api, f"#!/bin/sh\n#SBATCH --signal={slurms} -t 60\n")
    assert (body["signal"], body["signal_before_s"], body.get("preemptible"), said) == (signal, before_s, None, "")


def test_dependencies_and_a_later_start_are_as_in_slurm(gpuq: Command, api: FakeApi) -> None:
    script = "#!/bin/sh\n#SBATCH -d afterok:12:13,afternotok:14,singleton\n#SBATCH --begin=now+1hour\n"
    body, said = submitted(gpuq, api, script)
    assert (body["after"], body["singleton"]) == (["ok:12", "ok:13", "fail:14"], True)
    assert abs(body["begin_at"] - time.time() - 3600) < 60
    assert said == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("#GPUQ --gpsu 2", "job.sh, line 2: `gpuq submit` has no option `--gpsu`. Did you mean `--gpus`?"),
        ("#SBATCH --nodes=2 --ntasks=3", "job.sh, line 2: `--ntasks=3` cannot be divided evenly among 2 hosts."),
        ("#GPUQ -n 'open", "job.sh, line 2: No closing quotation."),
        ("#SBATCH -d after:3+5", "job.sh, line 2: `--dependency=after:3+5` is more than gpuq can do"),
        ("#SBATCH -d afterok:3?afterok:4", "job.sh, line 2: `--dependency` with `?` waits for any one of several jobs"),
        ("#SBATCH -N 2-4", "job.sh, line 2: `--nodes=2-4` leaves open on how many hosts it runs"),
        ("#SBATCH --nice=low", "job.sh, line 2: --nice: invalid int value: 'low'."),
    ],
)
def test_a_line_that_cannot_be_met_is_refused_with_its_number(
    gpuq: Command, api: FakeApi, line: str, sentence: str
) -> None:
    (gpuq.cwd / "job.sh").write_text(f"#!/bin/sh\n{line}\n")
    done = gpuq("submit", "job.sh")
    assert (done.code, done.err.startswith(f"gpuq: {sentence}")) == (2, True), done.err
    assert api.requests == []


def test_after_two_dashes_no_head_is_read(gpuq: Command, api: FakeApi) -> None:
    (gpuq.cwd / "job.sh").write_text("#!/bin/sh\n#GPUQ --gpus 2\n")
    api.on(*SUBMITTED, {"id": 1})
    assert gpuq("submit", "--parsable", "--", "/bin/sh", "job.sh").code == 0
    assert "gpus" not in api.asked(*SUBMITTED)[0].body


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-G", "a100:4"], ["--gpus=4", "--gpu-type=a100"]),
        (["--gpus-per-node=2", "-N1"], ["--gpus=2"]),
        (["--gres=gpu"], ["--gpus=1"]),
        (["--gpus-per-node=4", "-N2"], ["--gpus=8", "--hosts=2"]),
        (["--gres=gpu:a100:2", "--nodes=3-3"], ["--gpus=6", "--gpu-type=a100", "--hosts=3"]),
        (["--gpus=4", "--nodes=2"], ["--gpus=4", "--hosts=2"]),
        (["--gres=gpu:2"], ["--gpus=2"]),
        (["--gres=gpu:2g.10gb:3"], ["--gpus=3", "--gpu-type=2g.10gb"]),
        (["--gres=gpu:2", "-w", "n[1-2]"], ["--gpus=4", "--hosts=2", "--nodelist=n[1-2]"]),
        (
            ["-N1", "-w", "a,b", "-x", "c", "-C", "fast"],
            ["--hosts=1", "--nodelist=a,b", "--exclude=c", "--constraint=fast"],
        ),
        (["-D", "/data", "-H"], ["--chdir=/data", "--hold"]),
        (["--nice"], ["--priority=-100"]),
        (["--gres=gpu:2(S:0-1)"], ["--gpus=2"]),
        (["--tres-per-node=gres/gpu:a100:2", "-N2"], ["--gpus=4", "--gpu-type=a100", "--hosts=2"]),
        (["--gpus-per-task=1", "-n4"], ["--env=SLURM_NTASKS_PER_NODE=4", "--gpus=4"]),
        (["--tres-per-task=gres/gpu=2"], ["--gpus=2"]),
        (["--exclusive=user"], ["--exclusive"]),
        (["--time=UNLIMITED"], []),
        (["-t", "0"], []),
    ],
)
def test_slurms_options_in_our_words(words: list[str], found: list[str]) -> None:
    assert translated(words) == (found, [])


def test_gpus_among_other_resources_of_a_node_are_found() -> None:
    found = translated(["--gres=lscratch:10,gpu:v100x:2"])
    assert found == (["--gpus=2", "--gpu-type=v100x"], ["--gres=lscratch:10"])


@pytest.mark.parametrize("option", ["--gres=gpu:a100:1,gpu:v100:1", "--gpus=a100:1,v100:1"])
def test_gpus_of_several_types_are_refused(option: str) -> None:
    with pytest.raises(BadInput, match="asks for GPUs of several types"):
        translated([option])


def test_a_script_without_a_first_line_for_the_kernel_is_refused(gpuq: Command, tmp_path: Path) -> None:
    (gpuq.cwd / "job").write_text("echo\n")
    done = gpuq("submit", "job")
    assert (done.code, "has no first line `#!`" in done.err) == (2, True)


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(BadInput, match="expected one argument"):
        translated(["--time"])


def test_a_script_on_standard_input_brings_its_options_along(gpuq: Command, api: FakeApi) -> None:
    api.on(*SUBMITTED, {"id": 1})
    text = "#!/usr/bin/env python3\n#GPUQ --name headed -t 5m\nprint(1)\n"
    assert gpuq("submit", "--name", "typed", "-", "--lr", "1", stdin=text).code == 0
    body = api.asked(*SUBMITTED)[-1].body
    assert (body["stdin"], body["name"], body["time_limit_s"]) == (text, "typed", 300)
    wrong = gpuq("submit", "-", stdin="#!/bin/sh\n#GPUQ --gpus 1000\n#GPUQ --tine 5\n")
    assert (wrong.code, "gpuq: stdin, line 3: " in wrong.err) == (2, True), wrong.err


def test_a_script_with_lines_for_slurm_gets_its_variables(gpuq: Command, api: FakeApi) -> None:
    body, said = submitted(gpuq, api, "#!/bin/sh\n#SBATCH --array=1-3 --mem=4G\necho > fold_$SLURM_ARRAY_TASK_ID\n")
    assert (body["env"]["SLURM_JOB_ID"], body["env"]["SLURM_SUBMIT_DIR"]) == ("", str(gpuq.cwd))
    assert body["env"]["SLURM_JOB_NAME"] == "job.sh"
    assert "warning" not in said
    body, _ = submitted(gpuq, api, "#!/bin/sh\n#SBATCH\n# SBATCH -t 5\n#GPUQ -t 5\necho\n")
    assert not any(name.startswith("SLURM_") for name in body["env"]), "it has no line for Slurm"


@pytest.mark.parametrize(
    ("read", "missed"),
    [
        ("${SLURM_JOB_ID}/$SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_ID, SLURM_JOB_ID"),
        ("${SLURM_JOB_ID%_*}", "SLURM_JOB_ID"),
        ("${SLURM_JOB_ID:-0} ${SLURM_NTASKS-1} SLURM_PROCID", None),
    ],
)
def test_a_script_that_reads_slurms_variables_without_getting_them_is_named(
    gpuq: Command, api: FakeApi, read: str, missed: str | None
) -> None:
    script = f"#!/bin/sh\necho {read}\n"
    _, said = submitted(gpuq, api, script)
    warning = f"gpuq: warning: it reads {missed}, which will be empty; --slurm-env gives it Slurm's variables.\n"
    assert said == (warning if missed else "")
    given = ("--slurm-env",) if missed != "SLURM_JOB_ID" else ("-e", "SLURM_JOB_ID=7")
    assert submitted(gpuq, api, script, *given)[1] == ""


@pytest.mark.parametrize("option", ["--host http://127.0.0.1:1", "--host=unix:///elsewhere.sock", "--dry-run-memory"])
@pytest.mark.parametrize("verb", ["submit", "predict"])
def test_a_script_chooses_neither_who_is_sent_the_token_nor_that_it_runs_here(
    gpuq: Command, api: FakeApi, option: str, verb: str
) -> None:
    (gpuq.cwd / "given.py").write_text(f"#GPUQ {option}\nprint(1)\n")
    done = gpuq(verb, "given.py")
    assert (done.code, f"`{option.partition(' ')[0].partition('=')[0]}` counts on a command line only" in done.err) == (
        2,
        True,
    )
    assert "given.py, line 1" in done.err
    assert not api.requests
