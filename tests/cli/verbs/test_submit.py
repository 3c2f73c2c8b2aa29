"""`gpuq submit`, as a person types it and as a script calls it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from gpuq.cli import job_body, job_fields, job_options
from gpuq.errors import GpuqError
from gpuq.messages.submission import Signal, Submission
from gpuq.settings import Worker
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, problem


@pytest.fixture
def taken(api: FakeApi) -> FakeApi:
    def take(request: Any) -> Reply:
        bodies = request.body if isinstance(request.body, list) else [request.body]
        for body in bodies:
            msgspec.convert(body, Submission)
        return Reply({"ids": [*range(1, len(bodies) + 1)]} if isinstance(request.body, list) else {"id": 42}, 201)

    api.on("POST", "/api/v1/jobs", take)
    return api


def test_a_job_that_may_be_stopped_has_a_deadline_and_takes_what_devices_there_are(
    gpuq: Command, taken: FakeApi, script: Path
) -> None:
    before = time.time()
    gpuq("submit", "--gpus", "1-4", "--deadline", "8h", "--signal", "usr1", "train.py")
    body = submitted(taken)
    assert (body["gpus"], body["most_gpus"]) == (1, 4)
    assert (body["preemptible"], body["signal"]) == (True, "SIGUSR1")
    assert before + 8 * 3600 <= body["deadline_at"] <= time.time() + 8 * 3600
    gpuq("submit", "--preemptible", "train.py")
    assert submitted(taken)["preemptible"] is True
    assert {"signal", "deadline_at", "gpus"}.isdisjoint(submitted(taken))


def test_a_job_may_be_measured_by_blinks(gpuq: Command, taken: FakeApi, script: Path) -> None:
    gpuq("submit", "--blink", "train.py")
    assert submitted(taken)["blink"] is True
    gpuq("submit", "train.py")
    assert "blink" not in submitted(taken)


def test_a_job_with_a_terminal_reads_no_script_and_knows_what_the_terminal_shows(
    gpuq: Command, taken: FakeApi, script: Path
) -> None:
    gpuq("submit", "--pty", "--", "bash", stdin="echo this is no script", TERM="xterm-256color")
    body = submitted(taken)
    assert (body["interactive"], body["env"]["TERM"]) == ("terminal", "xterm-256color")
    assert "stdin" not in body
    gpuq("submit", "train.py")
    assert "interactive" not in submitted(taken)


def test_the_signals_are_those_that_the_rest_of_gpuq_knows() -> None:
    assert get_args(Signal) == job_fields._SIGNALS
    assert get_args(get_type_hints(Worker)["checkpoint_signal"]) == get_args(Signal)


@pytest.fixture
def script(gpuq: Command) -> Path:
    script = gpuq.cwd / "train.py"
    script.write_text("print('hello')\n")
    return script


def submitted(api: FakeApi) -> dict[str, Any]:
    body: dict[str, Any] = api.asked("POST", "/api/v1/jobs")[-1].body
    return body


def test_to_a_pipe_only_the_id_is_printed(gpuq: Command, taken: FakeApi, script: Path) -> None:
    done = gpuq("submit", "train.py", "--lr", "0.1")
    assert (done.code, done.out, done.err) == (0, "42\n", "")
    body = submitted(taken)
    assert body["command"][1:] == [str(script), "--lr", "0.1"]
    assert body["cwd"] == str(gpuq.cwd)
    assert body["script"] == str(script)
    assert len(body["script_sha256"]) == 64
    assert body["name"] == "train.py"


@pytest.mark.parametrize("program", ["42", "@last"])
def test_a_program_whose_name_reads_as_an_id_is_called_by_its_path(gpuq: Command, taken: FakeApi, program: str) -> None:
    (gpuq.cwd / program).write_text("#!/bin/sh\n")
    (gpuq.cwd / program).chmod(0o755)
    assert gpuq("submit", f"./{program}").code == 0
    name = submitted(taken)["name"]
    assert name == f"./{program}"
    assert gpuq("submit", "--name", name, "--", "true").code == 0, "as a job is submitted again"


@pytest.mark.parametrize("form", [[], ["--json"], ["--stdin"]])
@pytest.mark.parametrize(
    ("to", "said"), [(">&-", ""), (">/dev/full", "queued; stdout cannot be written: No space"), (">/dev/full 2>&1", "")]
)
def test_a_job_that_is_queued_is_no_failure_where_its_id_cannot_be_written(
    gpuq: Command, taken: FakeApi, script: Path, form: list[str], to: str, said: str
) -> None:
    """A script that takes it for one submits the job again."""
    what = form if form == ["--stdin"] else [*form, "train.py"]
    line = f'exec "$0" submit "$@" {to}'
    command = ["sh", "-c", line, gpuq.program, *what]
    done = subprocess.run(
        command, env=os.environ | gpuq.env, cwd=gpuq.cwd, input=b"true\n", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stderr.decode()
    assert bool(said) == bool(done.stderr)


def test_on_a_terminal_a_sentence_goes_to_stderr(gpuq: Command, taken: FakeApi, script: Path) -> None:
    leader, follower = pty.openpty()
    done = subprocess.run(
        [gpuq.program, "submit", "train.py"],
        env=gpuq.env,
        cwd=gpuq.cwd,
        stdout=follower,
        stderr=subprocess.PIPE,
        check=True,
    )
    os.close(follower)
    os.close(leader)
    assert done.stderr.decode() == "Submitted job 42 (train.py). `gpuq logs -f 42` follows it.\n"


def test_json_and_parsable(gpuq: Command, taken: FakeApi, script: Path) -> None:
    assert gpuq("submit", "--json", "train.py").json == {"id": 42}
    assert gpuq("submit", "--parsable", "train.py").out == "42\n"


def test_our_options_end_at_the_script(gpuq: Command, taken: FakeApi, script: Path) -> None:
    done = gpuq("submit", "--name", "x", "-p3", "train.py", "--name", "theirs", "--na", "-e", "--", "--json")
    assert done.code == 0
    body = submitted(taken)
    assert (body["name"], body["priority"]) == ("x", 3)
    assert body["command"][2:] == ["--name", "theirs", "--na", "-e", "--", "--json"]


def test_every_option_reaches_the_body(gpuq: Command, taken: FakeApi, script: Path) -> None:
    words = "--project vision --kind k --priority -5 --exclusive --max-slowdown 15% --gpu-mem 10G --gpus 2 -t 90 --hold --requeue"
    assert gpuq("submit", *words.split(), "-C", "/", "train.py").code == 0
    body = submitted(taken)
    expected = {
        "project": "vision",
        "kind": "k",
        "priority": -5,
        "share": "never",
        "max_slowdown": 1.15,
        "gpu_memory": 10 * 2**30,
        "gpus": 2,
        "time_limit_s": 5400.0,
        "hold": True,
        "requeue_on_node_fail": True,
        "cwd": "/",
    }
    assert {name: body[name] for name in expected} == expected


def test_retries_are_rules_of_one_end_each(gpuq: Command, taken: FakeApi, script: Path) -> None:
    gpuq("submit", "--retry", "oom:2,exit=75:3", "--retry", "1", "--requeue-on-timeout", "train.py")
    assert submitted(taken)["retry"] == ["oom:2", "exit=75:3", "any:1", "timeout:100"]


def test_options_that_were_not_given_are_left_to_the_server(gpuq: Command, taken: FakeApi, script: Path) -> None:
    gpuq("submit", "train.py")
    assert {"priority", "gpus", "max_slowdown", "gpu_memory", "time_limit_s", "git_sha"}.isdisjoint(submitted(taken))


@pytest.mark.parametrize(
    ("words", "sentence", "fix"),
    [
        (["missing.py"], "there is no script", "you are in"),
        (["trian.py"], "Did you mean train.py?", "Check the path"),
        (["nosuchcommand"], "no command on PATH named `nosuchcommand`", "Check the name"),
        (["run.sh"], "has no first line `#!`", "-- bash run.sh"),
        (["--", "./run.sh"], "has no first line `#!`", "-- bash ./run.sh"),
        (["--image", "x.org/y", "run.sh"], "has no first line `#!`", "-- bash run.sh"),
        (["plot.R"], "has no first line `#!`", "-- Rscript plot.R"),
        (["notebook.ipynb"], "has no first line `#!`", "-- jupyter execute notebook.ipynb"),
        (["--", "./first.sh"], "is not executable", "chmod +x ./first.sh"),
        (["windows.sh"], "end as on Windows", r"sed -i 's/\r$//' windows.sh mends them."),
        (["--", "./windows.sh"], "end as on Windows", r"sed -i 's/\r$//' ./windows.sh"),
        (["pipe.py"], "is a pipe", "gpuq submit - < FILE"),
        (["--", "./pipe.py"], "is a pipe", "gpuq submit - < FILE"),
        (["."], "is a folder", "Name the script"),
        (["folder"], "is a folder", "Name the script"),
        (["python train.py 3"], "is one word, because of its quotes", "-- python train.py 3"),
        (["python train.py | cat"], "is one word, because of its quotes", "-- bash -c 'python train.py | cat'"),
        (["cd x; ./a it's"], "is one word, because of its quotes", "-- bash -c 'cd x; ./a it'\"'\"'s'"),
        (["source env/bin/activate"], "is one word", "-- bash -c 'source env/bin/activate'"),
        (["--", "python $SCRIPT"], "is one word", "-- bash -c 'python $SCRIPT'"),
        (["OMP=4 python train.py"], "is one word, because of its quotes", "-- OMP=4"),
        (["OMP=4", "python", "train.py"], "a shell would set a variable by it", "-e OMP=4 -- COMMAND"),
        (["CUDA_VISIBLE_DEVICES=0", "python", "train.py"], "a shell would set a variable by it", "--device names one"),
        (["--", "nosuchcommand", "x"], "no command on PATH", "Check the name"),
        (["folder.py"], "is a folder", "Name the script"),
        ([], "there is nothing to run", "Name a script, as train.py"),
        (["--"], "there is nothing to run", "Name a script, as train.py"),
        (["--max-slowdown", "15", "train.py"], "15 times as slow", "15%"),
        (["--gpu-mem", "10", "train.py"], "`10` is not a size", "10G"),
        (["--time", "soon", "train.py"], "is not a time", "2h30m"),
        (["--gpus", "0", "train.py"], "--gpus `0`", ""),
        (["--gpus", "4-2", "train.py"], "runs backwards", "--gpus 2-4"),
        (["--gpus", "2-", "train.py"], "--gpus `2-` is not a number of devices", "1-4"),
        (["--gpus", "-1", "train.py"], "--gpus `-1` is not a number of devices", "from 1 to 64"),
        (["--gpus", "5", "--hosts", "2", "train.py"], "cannot be divided evenly among 2 hosts", "--hosts 2 --gpus 4"),
        (["--gpus", "2-4", "--hosts", "2", "train.py"], "not with a range", "--gpus 2"),
        (["--hosts", "0", "train.py"], "--hosts `0`", ""),
        (["--max-slowdown", "-5%", "train.py"], "--max-slowdown: `-5%` is not a slowdown", "15%"),
        (["--gpu-mem", "-1G", "train.py"], "--gpu-mem: `-1G` is not a size", "above 0"),
        (["--gpu-mem", "--hold", "train.py"], "--gpu-mem needs a value", "--help"),
        (["--name", "two\nlines", "train.py"], "--name holds a line break", "one line"),
        (["--name", "12", "train.py"], "--name `12` would be read as ids of jobs", "Slurm's -n is --ntasks"),
        (["-n", "1-3", "train.py"], "--name `1-3` would be read as ids of jobs, as in `gpuq show 1-3`", "Write it"),
        (["-n", "12_3", "train.py"], "would be read as ids", "not as a number"),
        (["-n", "@", "train.py"], "would be read as ids", "without @"),
        (["--name", "x" * 300, "train.py"], "--name has 300 characters; 200 is the limit", "shorter"),
        (["--name", b"caf\xe9", "train.py"], "--name is not valid UTF-8", ""),
        (["--project", b"caf\xe9", "train.py"], "--project is not valid UTF-8", ""),
        (["--kind", "", "train.py"], "--kind is empty", "leave the option out"),
        (
            ["--lr", "0.1", "train.py", "--epochs", "3"],
            "no option `--lr`",
            "after the script: train.py --lr 0.1 --epochs 3",
        ),
        (["--signal", "USR1@60", "-t", "1", "train.py"], "--signal USR1@60 is no later than the start", "longer limit"),
        (["--signal", "USR1@soon", "train.py"], "--signal USR1@ `soon`", "--signal USR1@5"),
        (["--lend-cores", "-1", "train.py"], "--lend-cores `-1` is not a whole number from 0 to 4", "--lend-cores 4"),
        (["--begin", "now+99999999hours", "train.py"], "--begin: `now+99999999hours` is more than ten years", ""),
        (["--signal", "KILL", "train.py"], "--signal `KILL`", "TERM, INT, HUP, USR1, USR2"),
        (
            ["--deadline", "yesterday", "train.py"],
            "--deadline: `yesterday` is neither a time from now nor a date",
            "8h",
        ),
        (["--deadline", "2020-01-01", "train.py"], "`2020-01-01` has passed", "8h"),
        (["--deadline", "9999-01-01T00:00", "train.py"], "more than ten years ahead", "next ten years"),
        (["--priority", "high", "train.py"], "--priority `high`", ""),
        (["--after", "12,done:13", "train.py"], "--after `done:13` does not say which end", "ok:12"),
        (["--begin", "25:00", "train.py"], "--begin: `25:00` is no time that a clock shows", "22:00"),
        (["--retry", "oom:2,often", "train.py"], "--retry `often` is not an end and a number", "exit=75:3"),
        (["--retry", "oom:2", "--retry", "oom:3", "train.py"], "--retry has two numbers for `oom`", "Leave one"),
        (["--retry", "exit=256:1", "train.py"], "--retry `exit=256:1`", "exit=75:3"),
        (["--share", "maybe", "train.py"], "invalid choice", "--help"),
        (["--chdir", "nowhere", "train.py"], "there is no folder", "Make it"),
        (
            ["--python", "/nowhere/python", "train.py"],
            "--python `/nowhere/python`: there is no such file",
            "interpreter",
        ),
        (["--python", "nosuchpython", "train.py"], "--python `nosuchpython` is not on PATH", "path"),
        (["--python", "folder.py", "train.py"], "--python `folder.py` is a folder", "folder.py/bin/python"),
        (["-e", "NOT_SET_HERE", "train.py"], "NOT_SET_HERE is not set", "=VALUE"),
        (["--name"], "-n/-J/--name needs a value", "--help"),
        (["--pty", "-"], "--pty reads from a terminal", "Name a script"),
        (["--pty", "--hosts", "2", "train.py"], "--pty runs on one host", "Leave out --hosts"),
        (["--pty", "--array", "0-3", "train.py"], "--pty gives one job a terminal", "--array"),
        (["--stdin", "train.py"], "takes its commands from stdin", "Leave one"),
    ],
)
def test_bad_input_is_a_sentence_with_its_fix_and_code_2(
    gpuq: Command, taken: FakeApi, script: Path, words: list[str | bytes], sentence: str, fix: str
) -> None:
    for name in ("run.sh", "plot.R", "notebook.ipynb"):
        (gpuq.cwd / name).write_text("echo")
    (gpuq.cwd / "first.sh").write_text("#!/bin/sh\necho")
    (gpuq.cwd / "windows.sh").write_bytes(b"#!/bin/sh\r\necho\r\n")
    os.mkfifo(gpuq.cwd / "pipe.py")
    for name in ("folder", "folder.py"):
        (gpuq.cwd / name).mkdir()
    done = gpuq("submit", *words)
    assert (done.code, done.out) == (2, "")
    said, hint = done.err.splitlines()
    assert sentence in said
    assert fix in hint
    assert taken.requests == []


def test_a_folder_that_may_not_be_entered_is_refused_at_once(tmp_path: Path) -> None:
    closed = Path(tempfile.mkdtemp(dir="/tmp"))
    closed.chmod(0o600)
    try:
        for folder in (closed, closed / "inner"):
            said = as_other_user(lambda folder=folder: job_body._working_folder(str(folder), tmp_path))
            assert said == f"you may not enter the folder {folder}."
    finally:
        closed.rmdir()


def as_other_user(call: Callable[[], object]) -> str:
    """The error of `call` in a process that does not have root's rights; blank for none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setuid(65_534)
        try:
            call()
        except GpuqError as error:
            os.write(writing, error.message.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as file:
        return file.read().decode()


def test_the_umask_goes_along(taken: FakeApi, script: Path, gpuq: Command) -> None:
    words = [sys.executable, "-P", "-c", "import gpuq.cli.main as m; m.main()", "submit", "train.py"]
    subprocess.run(words, cwd=gpuq.cwd, env=gpuq.env, stdout=subprocess.DEVNULL, umask=0o027, check=True)
    assert submitted(taken)["umask"] == 0o027


def test_an_empty_argument_is_an_argument(gpuq: Command, taken: FakeApi, script: Path) -> None:
    assert gpuq("submit", "train.py", "--tag", "").code == 0
    assert submitted(taken)["command"][2:] == ["--tag", ""]


def test_a_variable_that_the_script_reads_and_the_job_does_not_get_is_named(
    gpuq: Command, taken: FakeApi, script: Path
) -> None:
    script.write_text("import os\nbatch = os.environ.get('BATCH_SIZE')\ngpu = os.environ['CUDA_VISIBLE_DEVICES']\n")
    mine = {"BATCH_SIZE": "256", "CUDA_VISIBLE_DEVICES": "0", "UNREAD": "1"}
    done = gpuq("submit", "train.py", **mine)
    assert (done.code, done.err) == (
        0,
        "gpuq: warning: the job does not get BATCH_SIZE, which its script reads and which is set here; "
        "-e BATCH_SIZE passes it.\n",
    )
    assert gpuq("submit", "-e", "BATCH_SIZE", "train.py", **mine).err == ""
    assert gpuq("submit", "--grid", "BATCH_SIZE=1,2", "train.py", **mine).err == ""


def test_a_pattern_that_matches_no_variable_is_named_once(gpuq: Command, taken: FakeApi, script: Path) -> None:
    done = gpuq("submit", "--pass-env", "NOMATCH_*", "--pass-env", "MY_*", "train.py", MY_SEED="3")
    assert (done.code, done.err) == (
        0,
        "gpuq: warning: --pass-env `NOMATCH_*` matches no variable that is set here.\n",
    )
    assert submitted(taken)["env"]["MY_SEED"] == "3"
    done = gpuq("submit", "--stdin", "--pass-env", "NOMATCH_*", stdin="true\ntrue\n")
    assert done.err.count("NOMATCH") == 1


def test_a_command_longer_than_linux_takes_is_refused_before_it_is_read(gpuq: Command, taken: FakeApi) -> None:
    done = gpuq("submit", "--stdin", stdin="true\n" + "x" * 3_000_000)
    assert done.code == 2
    assert "line 2 of stdin is longer than 2 MiB" in done.err
    done = gpuq("submit", "--stdin", stdin="true" + " a" * 5000)
    assert "line 1 of stdin: the command has 5,001 words; 4,095 is the limit" in done.err
    assert taken.requests == []


def test_an_argument_that_is_no_utf8_is_refused(gpuq: Command, taken: FakeApi, script: Path) -> None:
    done = gpuq("submit", "train.py", b"\xff\xfe")
    assert done.code == 2
    assert "word 2 of the command is not valid UTF-8" in done.err


def test_any_command_may_follow_two_dashes(gpuq: Command, taken: FakeApi, script: Path) -> None:
    assert gpuq("submit", "--", "bash", "-c", "echo $HOME; exit 3").code == 0
    command = submitted(taken)["command"]
    assert command[0].startswith("/")
    assert command[0].endswith("/bash")
    assert command[1:] == ["-c", "echo $HOME; exit 3"]


def test_a_python_command_still_tells_its_script(gpuq: Command, taken: FakeApi, script: Path) -> None:
    assert gpuq("submit", "--", sys.executable, "-u", "train.py", "--lr", "1").code == 0
    body = submitted(taken)
    assert body["command"] == [sys.executable, "-u", "train.py", "--lr", "1"]
    assert body["script"] == str(script)
    assert gpuq("submit", sys.executable, "-u", "train.py").code == 0
    assert submitted(taken)["script"] == str(script), "not the interpreter, which is a file too"


def test_an_executable_script_runs_itself(gpuq: Command, taken: FakeApi) -> None:
    script = gpuq.cwd / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert gpuq("submit", "run.sh", "a b").code == 0
    assert submitted(taken)["command"] == [str(script), "a b"]


def test_a_lost_answer_is_requested_again_with_the_same_key(gpuq: Command, api: FakeApi, script: Path) -> None:
    api.on("POST", "/api/v1/jobs", Reply(cut=True), Reply(cut=True), Reply({"id": 42}, 201))
    done = gpuq("submit", "train.py")
    assert (done.code, done.out) == (0, "42\n")
    keys = [request.headers["Idempotency-Key"] for request in api.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_ctrl_c_before_the_answer_says_that_it_may_be_queued(gpuq: Command, api: FakeApi, script: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def late(_: object) -> Reply:
        asked.set()
        over.wait(60)
        return Reply(cut=True)

    api.on("POST", "/api/v1/jobs", late)
    process = gpuq.start("submit", "train.py", env={**gpuq.env, "PYTHONPATH": str(Path(__file__).parents[3])})
    assert asked.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    over.set()
    assert (process.returncode, out) == (130, b"")
    assert b"no answer came yet; see with `gpuq queue` whether it was done" in err


def test_a_submission_is_repeated_while_the_database_is_away(gpuq: Command, api: FakeApi, script: Path) -> None:
    away = problem(503, 4, "The database has not answered for 4 s.", "Send it again in a moment.")
    api.on("POST", "/api/v1/jobs", away, away, Reply({"id": 42}, 201))
    done = gpuq("submit", "train.py")
    assert (done.code, done.out) == (0, "42\n")
    keys = [request.headers["Idempotency-Key"] for request in api.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_submissions_have_two_keys(gpuq: Command, taken: FakeApi, script: Path) -> None:
    gpuq("submit", "train.py")
    gpuq("submit", "train.py")
    assert len({request.headers["Idempotency-Key"] for request in taken.requests}) == 2


def test_a_refusal_is_not_repeated(gpuq: Command, api: FakeApi, script: Path) -> None:
    api.on("POST", "/api/v1/jobs", problem(422, 7, "The job asks for 900 GiB.", "Ask for less."))
    done = gpuq("submit", "--gpu-mem", "900G", "train.py")
    assert (done.code, done.out) == (7, "")
    assert len(api.requests) == 1


def test_one_command_per_line(gpuq: Command, taken: FakeApi, script: Path) -> None:
    done = gpuq("submit", "--stdin", "-p", "2", stdin="train.py --lr '0 1'\n\n# a remark\nbash -c 'exit 0'\n")
    assert (done.code, done.out) == (0, "1\n2\n")
    first, second = submitted(taken)
    assert first["command"][1:] == [str(script), "--lr", "0 1"]
    assert second["command"][1:] == ["-c", "exit 0"]
    assert (first["priority"], second["priority"]) == (2, 2)


@pytest.mark.parametrize("verb", ["submit", "predict"])
def test_a_shells_operator_among_the_words_is_named(gpuq: Command, taken: FakeApi, script: Path, verb: str) -> None:
    for words, operator in (
        (("|", "tee", "log.txt", "&&", "echo", "ok"), "|"),
        (("--lr", "1", ">", "out.log"), ">"),
        (("2>&1",), "2>&1"),
    ):
        said = gpuq(verb, "train.py", *words).err
        assert f"gpuq: warning: no shell runs the command, so `{operator}` is an argument of it" in said
    for fine in (("train.py", "a > b", "=>", "<pad>"), ("--", "find", ".", "-exec", "ls", "{}", ";")):
        assert "no shell" not in gpuq(verb, *fine).err


def test_what_only_a_shell_does_is_refused_in_a_line(gpuq: Command, taken: FakeApi, script: Path) -> None:
    for line, sign in (("train.py > log 2>&1", ">"), ("train.py | tee log", "|"), ("train.py && train.py", "&&")):
        done = gpuq("submit", "--stdin", stdin=f"true\n{line}\n")
        assert (done.code, f"line 2 of stdin: no shell runs the line, so `{sign}`" in done.err) == (2, True), done.err
        assert "bash -c '…'" in done.err
    assert taken.requests == []
    assert gpuq("submit", "--stdin", stdin="train.py 'a > b' \"c | d\" e\\;\n-- bash -c 'true > log'\n").code == 0
    first, second = submitted(taken)
    assert first["command"][2:] == ["a > b", "c | d", "e;"]
    assert second["command"][1:] == ["-c", "true > log"]


def test_a_script_that_is_not_here_is_looked_up_in_the_folder_to_run_in(
    gpuq: Command, taken: FakeApi, script: Path
) -> None:
    there = gpuq.cwd / "there"
    there.mkdir()
    for name in ("train.py", "other.py"):
        (there / name).write_text("#GPUQ --gpus 2\n")
    assert gpuq("submit", "-C", "there", "other.py", "3").code == 0
    body = submitted(taken)
    assert (body["command"][1:], body["cwd"]) == ([str(there / "other.py"), "3"], str(there))
    assert (body["name"], body["gpus"]) == ("other.py", 2)
    assert gpuq("submit", "-C", "there", "train.py").code == 0
    assert submitted(taken)["script"] == str(script), "the one here goes before it"


def test_the_last_word_on_sharing_counts(gpuq: Command, taken: FakeApi) -> None:
    (gpuq.cwd / "alone.py").write_text("#GPUQ --exclusive\n")
    for words, share in (([], "never"), (["--share", "auto"], "auto"), (["--share", "auto", "--exclusive"], "never")):
        assert gpuq("submit", *words, "alone.py").code == 0
        assert submitted(taken)["share"] == share


def test_a_bad_line_is_named_and_nothing_is_submitted(gpuq: Command, taken: FakeApi, script: Path) -> None:
    for text, sentence in (
        ("train.py\ntrain.py 'x\n", "line 2 of stdin: No closing quotation"),
        ("true\nx.py\n", "line 2 of stdin"),
    ):
        done = gpuq("submit", "--stdin", stdin=text)
        assert done.code == 2
        assert sentence in done.err
    assert gpuq("submit", "--stdin", stdin="\n\n").code == 2
    assert "line 1 of stdin" in gpuq("submit", "--stdin", stdin="true \udcff\n").err
    assert taken.requests == []


def test_ten_thousand_lines_go_in_bounded_requests_in_order(gpuq: Command, taken: FakeApi) -> None:
    done = gpuq("submit", "--stdin", stdin="".join(f"true {number}\n" for number in range(10_000)))
    assert done.code == 0
    assert len(done.out.splitlines()) == 10_000
    assert all(len(request.body) <= 500 for request in taken.requests)
    assert [body["command"][1] for request in taken.requests for body in request.body] == [
        str(n) for n in range(10_000)
    ]
    assert len({request.headers["Idempotency-Key"] for request in taken.requests}) == len(taken.requests)


def test_ids_before_a_failure_are_printed(gpuq: Command, api: FakeApi) -> None:
    refusal = problem(500, 1, "The disk that holds the record is full.", "Free some space.")
    api.on("POST", "/api/v1/jobs", Reply({"ids": [*range(1, 501)]}, 201), refusal)
    done = gpuq("submit", "--stdin", stdin="true\n" * 600)
    assert done.code == 1
    assert len(done.out.splitlines()) == 500
    assert "500 of 600 commands were queued" in done.err


def test_a_dry_run_asks_for_the_forecast_and_queues_nothing(gpuq: Command, taken: FakeApi, script: Path) -> None:
    taken.on("POST", "/api/v1/predict", {"kind": "k", "forecast": samples.FORECAST, "never_fits": None})
    done = gpuq("submit", "--dry-run", "train.py")
    assert done.code == 0
    assert "12 attempts of this kind" in done.out
    assert taken.asked("POST", "/api/v1/jobs") == []


def test_wait_ends_with_the_jobs_code(gpuq: Command, taken: FakeApi, script: Path) -> None:
    taken.on(
        "GET",
        "/api/v1/jobs",
        {"jobs": [samples.job(42)], "next": None},
        {"jobs": [samples.ended(42, "FAILED", 3)], "next": None},
    )
    done = gpuq("submit", "--wait", "train.py")
    assert (done.code, done.out) == (3, "42\n")
    assert "job 42 ended FAILED with exit code 3" in done.err


def test_a_dry_run_goes_along_with_what_was_read(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuq.cli import dry_run as module

    asked: list[list[str]] = []

    def count(command: Sequence[str], *_: object) -> module.Traced:
        asked.append(list(command))
        return module.Traced("torch", 2**30, 2**20, ("it could reach the network",))

    monkeypatch.setattr(module, "dry_run", count)
    monkeypatch.chdir(script.parent)
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    _, body = job_body.parse(parser, ["--dry-run-memory", str(script)])
    assert "could not shut off the dry run: it could reach the network" in capsys.readouterr().err
    assert body["hints"]["traced"] == {
        "framework": "torch",
        "reserved_bytes": 2**30,
        "convolution_bytes": 2**20,
    }
    assert asked == [list(body["command"])]
    msgspec.convert(body, Submission)


def test_programs_of_modules_are_looked_up_on_the_host(gpuq: Command, taken: FakeApi, script: Path) -> None:
    for words, inside in (
        (["--", "gmx", "mdrun"], ["gmx", "mdrun"]),
        (["train.py"], ["python3", str(script)]),
        (["--python", "python3.9", "train.py"], ["python3.9", str(script)]),
        (["--python", sys.executable, "train.py"], [sys.executable, str(script)]),
        (["--", "/bin/sh", "-c", "true"], ["/bin/sh", "-c", "true"]),
    ):
        assert gpuq("submit", "--module", "gromacs", *words).code == 0
        assert submitted(taken)["command"] == ["python3", "-m", "gpuq_environment", "--module=gromacs", "--", *inside]
    environment = gpuq.cwd / ".venv" / "bin" / "python"
    environment.parent.mkdir(parents=True)
    environment.symlink_to(sys.executable)
    gpuq("submit", "--module", "cuda", "train.py")
    assert submitted(taken)["command"][5:] == [str(environment), str(script)]


@pytest.mark.parametrize("words", [["--array", "0-3"], ["--image", "a.sif"], ["--module", "cuda/12"], ["--pty"]])
def test_a_dry_run_is_for_one_script_of_this_machine(gpuq: Command, script: Path, words: list[str]) -> None:
    if "a.sif" in words:
        script.with_name("a.sif").write_text("")
        words = ["--image", str(script.with_name("a.sif"))]
    done = gpuq("submit", "--dry-run-memory", *words, str(script))
    assert done.code == 2
    assert "one script of this machine" in done.err


def test_submissions_leave_the_options_as_they_were_parsed() -> None:
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    options = parser.parse_args(["--time", "2h", "--retry", "oom:2"])
    before = dict(vars(options))
    first, second = (job_body.submission(options, ["true"], verbatim=True) for _ in range(2))
    assert vars(options) == before
    assert first == second
