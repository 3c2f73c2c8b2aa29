"""The command as a process: help, unknown verbs, errors, exit codes, and what it imports."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuq.cli import other_queues
from gpuq.cli.main import ALIASES, VERBS, guarded
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, problem, serve

HEAVY = {
    "msgspec",
    "redis",
    "rq",
    "sqlalchemy",
    "aiohttp",
    "numpy",
    "psutil",
    "rich",
    "typing",
    "dataclasses",
    "shutil",
}
HEAVY |= {"gpuq.core", "gpuq.settings", "gpuq.messages.submission", "gpuq.messages.codec", "gpuq.api", "gpuq.adapters"}


def test_help_lists_every_verb_with_one_line_each(gpuq: Command) -> None:
    assert gpuq("help", "queue").out == gpuq("queue", "-h").out
    for words in (["--help"], [], ["help"]):
        done = gpuq(*words)
        assert done.code == 0
        lines = done.out.splitlines()
        for verb, (_, summary) in VERBS.items():
            assert sum(line.startswith(f"  {verb} ") and summary in line for line in lines) == 1
        assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_on_one_page(gpuq: Command, verb: str) -> None:
    done = gpuq(verb, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: gpuq {verb}")
    assert "--json" in done.out
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 60, "shorten the first sentence of an option, or mark one of few users `rare`"


def test_the_page_names_rare_options_which_the_whole_help_explains(gpuq: Command) -> None:
    page, whole = gpuq("submit", "--help").out, gpuq("submit", "--help-all").out
    assert "  also --kind\n" in page
    assert "Jobs of a kind share" not in page
    assert "Jobs of a kind share" in whole.replace("\n" + " " * 27, " ")
    assert [line for line in page.splitlines() if line.endswith(":")][:2] == ["the job:", "devices and sharing:"]


def test_an_unknown_verb_gets_the_nearest_one(gpuq: Command) -> None:
    done = gpuq("sumbit", "train.py")
    assert (done.code, done.out) == (2, "")
    assert done.err == "gpuq: there is no verb `sumbit`. Did you mean `submit`?\n  `gpuq --help` lists the verbs.\n"


@pytest.mark.parametrize(
    ("verb", "meant"),
    [
        ("delete", "`cancel`"),
        ("stop", "`cancel` or `down`"),
        ("sbatch", "`submit`"),
        ("requeue", "`rerun`"),
        ("resume", "`release`"),
        ("tail", "`logs`"),
        ("history", "`queue --all`"),
    ],
)
def test_a_verb_of_another_queue_gets_that_for_the_same_thing(gpuq: Command, verb: str, meant: str) -> None:
    assert f"there is no verb `{verb}`. Did you mean {meant}?" in gpuq(verb, "3").err


def test_verbs_of_other_queues_stand_for_verbs_that_there_are() -> None:
    for here, words in other_queues._VERBS.items():
        assert here.split()[0] in VERBS
        assert not {*VERBS, *ALIASES} & set(words.split())


def test_an_unknown_option_is_a_usage_error(gpuq: Command) -> None:
    assert gpuq("--jsno", "queue").code == 2
    done = gpuq("queue", "--al")
    assert done.code == 2
    assert done.err.startswith("gpuq: unrecognized arguments: --al")


def test_no_daemon_is_one_sentence_its_fix_and_code_4(gpuq: Command) -> None:
    for words in (["queue"], ["show", "1"], ["submit", "--", "true"], ["logs", "-f", "1"], ["wait", "1"], ["gpus"]):
        done = gpuq(*words)
        assert (done.code, done.out) == (4, "")
        assert done.err.startswith("gpuq: No gpuq is running at unix://")
        assert "gpuq up" in done.err.splitlines()[1]
        assert len(done.err.splitlines()) == 2


def test_a_socket_without_listener_is_no_daemon(gpuq: Command, api: FakeApi) -> None:
    with serve(FakeApi(api.home), api.home / "stale.sock"):
        pass
    (api.home / "stale.sock").touch()
    assert gpuq("--host", f"unix://{api.home}/stale.sock", "queue").code == 4


def test_the_servers_problem_is_printed_unchanged(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/7", problem(404, 3, "There is no job 7.", "`gpuq queue --all` lists every job."))
    done = gpuq("show", "7")
    assert (done.code, done.out) == (3, "")
    assert done.err == "gpuq: There is no job 7.\n  `gpuq queue --all` lists every job.\n"


ESCAPES = "\x1b]0;pwned\x07 \x9b31m \u202e \r"


@pytest.mark.parametrize(
    "words", [("gpus",), ("show", "7"), ("show", "7", "--json"), ("queue", "--json"), ("submit", "a.sh")]
)
def test_what_a_server_or_a_script_says_does_not_steer_the_terminal(
    gpuq: Command, api: FakeApi, words: tuple[str, ...]
) -> None:
    (gpuq.cwd / "a.sh").write_text(f"#!/bin/sh\n#SBATCH --odd={ESCAPES[:-1]}\n#GPUQ --{ESCAPES[:-1]}\n")
    api.on("GET", "/api/v1/gpus", problem(409, 6, f"No{ESCAPES}.", f"Try{ESCAPES}."))
    job = {**samples.job(7), "reason": ESCAPES, "command": ["python", ESCAPES]}
    api.on("GET", "/api/v1/jobs/7", job)
    api.on("GET", "/api/v1/jobs", {"jobs": [job], "arrays": [], "next": None})
    done = gpuq(*words)
    assert "pwned" in done.out + done.err
    assert not set(ESCAPES) - {" ", *"]0;pwned31m"} & set(done.out + done.err)


def test_a_problem_of_another_form_is_an_error_all_the_same(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", Reply({"detail": ["no"], "hint": {"a": 1}, "exit_code": [6]}, 409))
    done = gpuq("gpus")
    assert (done.code, "['no']" in done.err, "unexpected" in done.err) == (1, True, False)


def test_an_answer_that_is_not_json_gives_a_sentence(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", Reply(raw=b"hello"))
    done = gpuq("gpus")
    assert done.code == 1
    assert "is this really a gpuq" in done.err


def test_an_unexpected_answer_gives_a_sentence_and_with_debug_a_traceback(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", [{"nonsense": 1}])
    done = gpuq("gpus")
    assert done.code == 1
    assert "GPUQ_DEBUG=1" in done.err
    env = {**gpuq.env, "GPUQ_DEBUG": "1"}
    shown = subprocess.run([gpuq.program, "gpus"], env=env, capture_output=True, text=True, check=False)
    assert "Traceback" in shown.stderr


def test_common_options_may_stand_before_or_after_the_verb(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert gpuq("--json", "gpus").json == gpuq("gpus", "--json").json == samples.DEVICES


def test_a_closed_pipe_exits_with_141(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(number) for number in range(5000)], "next": None})
    shell = subprocess.run(
        ["/bin/bash", "-c", f"{gpuq.program} queue | head -1; echo ${{PIPESTATUS[0]}}"],
        env=gpuq.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stderr == ""
    assert shell.stdout.splitlines()[0].startswith("ID")
    assert shell.stdout.splitlines()[1] == "141"


def test_output_that_has_no_room_is_named_and_doctor_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system names no file where what was printed does not fit; no part of gpuq is to be checked for it."""

    def prints() -> int:
        print("a line")
        return 0

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert guarded(prints) == 1
    said = "gpuq: standard output: No space left on device.\n  Make room there, or write to another place.\n"
    assert capsys.readouterr().err == said


def test_a_file_that_has_no_room_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def writes() -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "/full/model.pt")

    assert guarded(writes) == 1
    assert capsys.readouterr().err.startswith("gpuq: /full/model.pt: No space left on device.\n  Make room there")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_verb_runs_without_standard_streams(gpuq: Command, api: FakeApi, closed: str) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    line = f'exec "$0" gpus {closed}'
    done = subprocess.run(["sh", "-c", line, gpuq.program], env=gpuq.env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_ctrl_c_ends_quietly_with_130(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1)], "next": None})
    process = gpuq.start("wait", "1")
    while not api.requests:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b""


def test_the_fast_path_imports_nothing_heavy(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    code = (
        "import sys; sys.argv = ['gpuq', 'queue']; from gpuq.cli.main import main; code = main();"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    # -S leaves out site-packages' own start-up files, which are not ours to answer for.
    env = {**gpuq.env, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "gpuq.cli.verbs.queue" in loaded
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("gpuq.cli.")} == {
        f"gpuq.cli.{name}"
        for name in (
            "main",
            "arguments",
            "client",
            "connection",
            "console",
            "job_labels",
            "logins",
            "verbs",
            "verbs.queue",
        )
    }


def test_aliases_do_what_they_stand_for(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    listing = gpuq("queue", "--json").json
    for alias in ("ls", "list", "ps", "status"):
        assert ALIASES[alias] == "queue"
        assert gpuq(alias, "--json").json == listing
    assert (ALIASES["why"], ALIASES["kill"], ALIASES["devices"]) == ("explain", "cancel", "gpus")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (
            ("submit", "--gpu", "1", "--", "true"),
            "no option `--gpu`. Did you mean `--gpus` or `--gpu-mem` or `--gpu-type`?",
        ),
        (("submit", "--mem=4G", "--", "true"), "Slurm's `--mem`: without effect here; leave it out.\n"),
        (("submit", "--dependency=afterok:1", "a.py"), "Slurm's `--dependency=afterok:1` is `--after=ok:1` here.\n"),
        (("run", "--dependency", "after:1+5", "a.py"), "`--dependency=after:1+5` is more than gpuq can do"),
        (("run", "--gres", "gpu:h100:2", "a.py"), "Slurm's `--gres gpu:h100:2` is `--gpus=2 --gpu-type=h100` here.\n"),
        (("submit", "-p", "gpu", "--", "true"), "Slurm's `-p gpu` names a partition: leave it out.\n"),
        (("edit", "3", "--gpus", "2"), "--gpus of a job cannot be changed.\n"),
        (("edit", "3", "--nonsense"), "unrecognized arguments: --nonsense.\n"),
        (("submit", "-N1", "a.py"), "Slurm's `-N1` needs no option here.\n"),
        (("submit", "-N", "2", "a.py"), "Slurm's `-N 2` is `--hosts=2` here.\n"),
        (("submit", "--wrap=python a.py", "x"), "write the command after `--`, as in -- bash -c 'COMMAND'"),
        (("submit", "-o", "out.txt", "a.py"), "gpuq keeps the output, and `gpuq logs ID` shows it"),
        (
            ("run", "--array", "0-3", "a.py"),
            "no option `--array`. Did you mean `gpuq submit --wait`, which takes arrays?",
        ),
        (("predict", "--grid", "lr=1,2", "a.py"), "Did you mean `gpuq submit --dry-run`, which takes arrays?"),
        (("submit", "--epochs", "3", "a.py"), "no option `--epochs`.\n"),
        (("logs", "--tail", "5", "3"), "Did you mean `-n N`?"),
        (("queue", "--watch"), "Did you mean `gpuq top`?"),
        (("queue", "-w"), "Did you mean `gpuq top`?"),
        (("queue", "-t", "F"), "Did you mean `--state STATE`?"),
        (
            ("explain", "1", "2"),
            "2 jobs are named, and this takes one.\n  Give one id; `gpuq queue 42 43` lists several.",
        ),
        (("submit", "--priorty", "1", "--", "true"), "Did you mean `--priority`?"),
        (("queue", "--surprise"), "unrecognized arguments: --surprise.\n"),
        (("queue", "-Z"), "unrecognized arguments: -Z.\n"),
    ],
)
def test_an_unknown_option_suggests_similar_ones(gpuq: Command, words: tuple[str, ...], meant: str) -> None:
    done = gpuq(*words)
    assert done.code == 2
    assert meant in done.err


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("wait", "7", "--timeout", "5s", "8"), "/api/v1/jobs"),
        (("host", "drain", "--json", "n1"), "/api/v1/hosts/n1/drain"),
        (("token", "revoke", "--json", "t1"), "/api/v1/tokens/t1/revoke"),
        (("token", "create", "--expires", "1h", "t1"), None),
    ],
)
def test_options_may_stand_between_arguments(
    gpuq: Command, api: FakeApi, words: tuple[str, ...], asked: str | None
) -> None:
    done = gpuq(*words)
    assert [request.path for request in api.requests] == ([] if asked is None else [asked]), done.err
    if asked is None:
        assert "only `revoke` takes them" in done.err


@pytest.mark.parametrize("verb", ["up", "db"])
def test_up_and_db_become_the_daemons_own_module_and_trust_no_file_here(gpuq: Command, verb: str) -> None:
    """The module is not part of the client; what counts is what is executed, and that the user's folder is not searched."""
    package = gpuq.cwd / "gpuq"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the wrong gpuq')")
    tracer = gpuq.cwd / "sitecustomize.py"
    tracer.write_text(
        "import sys; sys.orig_argv[1:2] == ['-P'] and (print(*sys.orig_argv[1:]), sys.stdout.flush(), __import__('os')._exit(9))"
    )
    words = ["up", "--port", "0", "--stop-jobs"] if verb == "up" else ["db", "upgrade"]
    hook = gpuq.cwd / "hook"
    hook.mkdir()
    tracer.rename(hook / "sitecustomize.py")
    done = gpuq(*words, PYTHONPATH=str(hook))
    assert done.code == 9
    expected = "-P -m gpuq.programs.up --port 0 --stop-jobs" if verb == "up" else "-P -m gpuq.adapters.store.migrate"
    assert done.out.strip() == expected


def test_a_bad_port_is_refused_before_anything_starts(gpuq: Command) -> None:
    for port in ("http", "-1", "70000"):
        assert gpuq("up", f"--port={port}").code == 2
