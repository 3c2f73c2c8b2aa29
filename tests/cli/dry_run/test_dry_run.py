"""The process that a dry run is made in: what is refused, and what it can do. With PyTorch: tests/frameworks/test_dry_run.py."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuq.cli import dry_run as module
from gpuq.cli.dry_run import dry_run
from gpuq.errors import BadInput

TRACED = Path(module.__file__).with_name("traced")
GIB = 2**30


@pytest.mark.parametrize(
    "command",
    [
        "bash train.sh",
        "python3",
        "/usr/bin/python3",
        "python3 -c 1",
        "./train.py",
        "torchrun train.py",
        "python3 -m torch.distributed.run --nproc-per-node=2 train.py",
        "python3 -m pdb train.py",
        "srun python3 train.py",
        "nice srun python3 train.py",
        "conda run -n other python train.py",
        "uv run train.py",
        "bash -c 'python3 train.py'",
    ],
)
def test_only_one_process_of_an_interpreter_that_the_command_names_is_run(command: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="runs a Python script in one process") as refused:
        dry_run(shlex.split(command), tmp_path, os.environ, GIB)
    assert "Name the interpreter" in (refused.value.fix or "")


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("python3 train.py --lr 1", "script train.py ['--lr', '1'] None"),
        ("python3 -W ignore -u train.py -m 2", "script train.py ['-m', '2'] None"),
        ("nice -n 5 timeout 1h env A=1 B=2 python3 -X dev train.py", "script train.py [] 1 dev"),
        ("env A=1 taskset -c 0-3 python3 -X dev -um pkg.train x", "module pkg.train ['x'] 1 dev"),
        ("python3 -mpkg.train x", "module pkg.train ['x'] None"),
    ],
)
def test_the_interpreter_and_its_script_are_found_behind_launchers(
    command: str, started: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = "' dev' if sys.flags.dev_mode else ''"
    said = f"f\"{{asked['kind']}} {{asked['target']}} {{sys.argv[2:]}} {{os.environ.get('A')}}\" + ({dev})"
    (tmp_path / "main.py").write_text(ANSWERS.replace("**ANSWER", f"'has_read_whole': False, 'framework': {said}"))
    monkeypatch.setattr(module, "_MAIN", tmp_path / "main.py")
    command = command.replace("python3", sys.executable)
    assert dry_run(command.split(), tmp_path, os.environ, GIB).framework == started


def test_a_sweep_of_several_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="makes 4 runs"):
        dry_run(["python3", "train.py", "-m", "model.width=64,4096", "lr=1,2"], tmp_path, os.environ, GIB)


def test_a_script_that_does_not_train_is_refused_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('no driver here')")
    (tmp_path / "train.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(BadInput, match=r"no training step on a GPU[\s\S]*no driver here") as refused:
        dry_run([sys.executable, "-u", "train.py"], tmp_path, env, GIB)
    assert "--dry-run-memory" in (refused.value.fix or "")


def test_a_python_without_pytorch_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none here')")
    (tmp_path / "train.py").write_text("")
    with pytest.raises(BadInput, match=r"cannot import PyTorch.*none here") as refused:
        dry_run([sys.executable, "train.py"], tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path)}, GIB)
    assert "--dry-run-memory" in (refused.value.fix or "")


def test_a_script_that_goes_on_for_ever_is_ended(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    (tmp_path / "train.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(BadInput, match="within 1 s"):
        dry_run([sys.executable, "train.py"], tmp_path, env, GIB, limit_s=1)


PROTECTED = """
import sys; sys.path.insert(0, {traced!r})
import main
missing = list(main._protect({{"folder": {own!r}, "memory_bytes": 1 << 30, "limit_s": 60}}))
def may(what):
    try:
        what()
    except (OSError, MemoryError):
        return False
    return True
import os, socket
from pathlib import Path
kept = Path({kept!r})
print(missing)
print([may(lambda: kept.write_text("lost")), may(kept.unlink), may(lambda: os.mkdir({kept!r} + "-new"))])
print([may(kept.read_text), may(lambda: Path({own!r}, "own").write_text("mine"))])
print(may(lambda: socket.create_connection(("127.0.0.1", {port}), 1).close()))
print(may(lambda: bytearray(2 << 30)))
"""


def test_it_can_write_to_its_own_folder_only_and_has_no_network_as_far_as_this_kernel_lets_it(tmp_path: Path) -> None:
    import socket

    own, kept = tmp_path / "own", tmp_path / "kept.txt"
    own.mkdir()
    kept.write_text("results")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = PROTECTED.format(traced=str(TRACED), own=str(own), kept=str(kept), port=port)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    missing, changes, own_and_reading, network, memory = done.stdout.splitlines()
    assert (own_and_reading, memory) == ("[True, True]", "False")
    assert ("write" in missing) or changes == "[False, False, False]"
    assert ("network" in missing) or network == "False"
    if "write" not in missing:
        assert kept.read_text() == "results"


ANSWERS = """
import json, os, sys
asked = json.loads(sys.argv[1])
found = {"framework": "torch", "reserved_bytes": 7, "has_read_whole": True, **ANSWER}
with open(os.path.join(asked["folder"], "answer.json"), "w") as file:
    json.dump(found, file)
"""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("{'allocated_bytes': 512}", None),
        ("{'allocated_bytes': 512 * asked['whole']}", "whole numbers that it reads"),
        ("{'reserved_bytes': 7 - 7 * asked['whole']}", "whole numbers that it reads"),
        ("{'refused': 'its batches grow'}", "its batches grow"),
    ],
    ids=["counts that do not follow what is read", "counts that do", "a second run that fails", "a refusal"],
)
def test_where_whole_numbers_are_read_other_ones_must_give_the_same_count(
    answer: str, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.py").write_text(ANSWERS.replace("ANSWER", answer))
    monkeypatch.setattr(module, "_MAIN", tmp_path / "main.py")
    if why is None:
        assert dry_run([sys.executable, "train.py"], tmp_path, os.environ, GIB).reserved_bytes == 7
    else:
        with pytest.raises(BadInput, match=f"do not show how much memory this needs: {why}"):
            dry_run([sys.executable, "train.py"], tmp_path, os.environ, GIB)
