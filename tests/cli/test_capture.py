"""What goes along with a submission: interpreter, hash, hints."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

import pytest

from gpuq.cli import capture
from gpuq.errors import BadInput
from gpuq.script.hints import _surveys


def make_python(folder: Path) -> str:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return str(python)


def test_the_umask_is_read_and_stays() -> None:
    before = os.umask(0o027)
    try:
        assert [capture.umask(), capture.umask()] == [0o027, 0o027]
    finally:
        os.umask(before)


def test_the_interpreter_is_the_nearest_environments(tmp_path: Path) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    path_python = tmp_path / "bin" / "python3"
    make_python(tmp_path)
    path_python.write_text("#!/bin/sh\n")
    path_python.chmod(0o755)
    environ = {"PATH": str(tmp_path / "bin")}
    find = capture.interpreter
    assert find(None, script, environ, tmp_path) == str(path_python)
    here = make_python(tmp_path / ".venv")
    assert find(None, script, environ, tmp_path) == here
    beside = make_python(script.parent / ".venv")
    assert find(None, script, environ, tmp_path) == beside
    environ["CONDA_PREFIX"] = str(tmp_path / "conda")
    assert find(None, script, environ, tmp_path) == beside  # an environment that is gone is passed over
    conda = make_python(tmp_path / "conda")
    assert find(None, script, environ, tmp_path) == conda
    environ["VIRTUAL_ENV"] = str(tmp_path / "venv")
    venv = make_python(tmp_path / "venv")
    assert find(None, script, environ, tmp_path) == venv
    assert find(str(path_python), script, environ, tmp_path) == str(path_python)


def test_a_virtual_environments_link_is_kept(tmp_path: Path) -> None:
    """Resolved, it would be the system's Python, without the environment's packages."""
    real = make_python(tmp_path / "system")
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert capture.interpreter(None, tmp_path / "x.py", {"VIRTUAL_ENV": str(tmp_path / "venv")}, tmp_path) == str(link)


def test_a_missing_python_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no python3 on PATH"):
        capture.interpreter(None, tmp_path / "x.py", {"PATH": str(tmp_path)}, tmp_path)


def sha256(folder: Path, *words: str) -> str | None:
    capture._sha256.cache_clear()
    _surveys.cache_clear()
    script = folder / words[-1] if words[0] in ("python", "bash") else None
    return capture.work_sha256(capture.Command(words, script), folder)


def test_the_hash_covers_the_first_16_mib(tmp_path: Path) -> None:
    small, large = tmp_path / "small.py", tmp_path / "large.py"
    small.write_bytes(b"pass\n")
    large.write_bytes(bytes(capture.HASHED_BYTES) + b"more")
    assert sha256(tmp_path, "python", "small.py") == hashlib.sha256(b"pass\n").hexdigest()
    assert sha256(tmp_path, "python", "large.py") == hashlib.sha256(bytes(capture.HASHED_BYTES)).hexdigest()
    assert sha256(tmp_path, "python", "gone.py") is None
    assert sha256(tmp_path, "make", "all") is None


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("python", "train.py"), {"PYTHONPATH": "lib:/elsewhere"}),
        (("env", "PYTHONPATH=lib", "python", "train.py"), {}),
        (("bash", "-c", "export PYTHONPATH=$PWD/lib:$PYTHONPATH && python train.py"), {}),
    ],
)
def test_modules_of_the_folders_on_pythonpath_count(
    tmp_path: Path, words: tuple[str, ...], env: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text("import torch, net\n")
    (tmp_path / "lib").mkdir()

    def seen(width: int) -> tuple[object, ...]:
        (tmp_path / "lib" / "net.py").write_text(f"net = Linear({width}, 8)\n")
        capture.forget()
        command = capture.Command(words, tmp_path / "train.py")
        return capture.work_sha256(command, tmp_path, env), capture.hints(command, tmp_path, env)

    small, large = seen(8), seen(8192)
    assert seen(8) == small
    assert small[0] != large[0]
    assert small[1] != large[1]


@pytest.mark.parametrize("environ", [{}, {"PYTHONPATH": "code/lib"}])
def test_a_module_is_found_in_src_and_on_pythonpath(tmp_path: Path, environ: dict[str, str]) -> None:
    module = tmp_path / ("code/lib" if environ else "src") / "pkg" / "train.py"
    module.parent.mkdir(parents=True)
    module.write_text("import torch\n")
    words = (sys.executable, "-m", "pkg.train", "--width", "64")
    found = capture.command(words, verbatim=True, python=None, environ={**os.environ, **environ}, cwd=tmp_path)
    assert found.script == module


@pytest.mark.parametrize(
    ("words", "edited"),
    [
        (("python", "train.py"), "model.py"),
        (("python", "train.py"), "nets/blocks.py"),
        (("python", "train.py"), "src/data/load.py"),
        (("bash", "run.sh"), "train.py"),
        (("bash", "run.sh"), "nets/__init__.py"),
        (("make", "train"), "Makefile"),
        (("make", "train"), "model.py"),
        (("pixi", "run", "train"), "pixi.toml"),
        (("dvc", "repro"), "params.yaml"),
        (("uv", "run", "train"), "nets/blocks.py"),
        (("jupyter", "execute", "a.ipynb"), "model.py"),
        (("lmp", "-in", "in.melt"), "in.melt"),
    ],
)
def test_an_edit_of_what_a_job_uses_changes_the_hash(tmp_path: Path, words: tuple[str, ...], edited: str) -> None:
    files = {
        "train.py": "import os, torch\nfrom model import (\n    make,  # the network\n)\nimport data.load as load\n",
        "model.py": "def make():\n    from nets import blocks\n",
        "nets/__init__.py": "",
        "nets/blocks.py": "from ..model import make\nfrom . import blocks\n",
        "src/data/load.py": "",
        "other.py": "",
        "run.sh": 'cd "$(dirname "$0")"\npython $HERE/train.py "$@"\n',
        "Makefile": "train:\n\tpython -m train\n",
        "pixi.toml": "",
        "dvc.yaml": "",
        "params.yaml": "",
        "pyproject.toml": '[project.scripts]\ntrain = "nets.blocks:main"\n',
        "a.ipynb": '{"cells": [{"cell_type": "code", "source": ["import model"], "outputs": []}]}',
        "in.melt": "run 100\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = sha256(tmp_path, *words)
    (tmp_path / "other.py").write_text("changed")
    (tmp_path / "a.ipynb").write_text(files["a.ipynb"].replace("[]", '["a result"]'))
    assert sha256(tmp_path, *words) == before, "an edit of what it does not use is none of it"
    with (tmp_path / edited).open("a") as file:
        file.write("# changed\n")
    assert sha256(tmp_path, *words) != before


@pytest.mark.parametrize(
    "launcher", ["env -C {}", "uv run --directory {}", "srun --chdir={}", "docker run -v ./{}:/w -w /w image"]
)
def test_the_script_is_that_of_the_folder_which_the_launcher_goes_to(tmp_path: Path, launcher: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"hidden = '{name}'")
        words = [*launcher.format(name).split(), "python", "train.py"]
        assert capture.in_image(words, verbatim=True, python=None, cwd=tmp_path).script == tmp_path / name / "train.py"


def test_dots_in_a_path_do_not_make_another_kind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert capture.absolute("../train.py", tmp_path / "a") == tmp_path.resolve() / "train.py"
    assert capture.absolute("./train.py", tmp_path) == tmp_path / "train.py"


@pytest.mark.parametrize(
    ("line", "name", "before", "after"),
    [
        (
            "accelerate launch --config_file a.yaml train.py",
            "a.yaml",
            "fsdp_sharding_strategy: FULL_SHARD",
            "fsdp_sharding_strategy: NO_SHARD",
        ),
        ("docker run --env-file a.env image train", "a.env", "BS=8", "BS=512"),
        ("bash -c 'source a.env && python train.py'", "a.env", "export BS=8", "export BS=512"),
        (
            "bash -c '. ./env.sh; python train.py'",
            "env.sh",
            "if true; then export BS=8; fi",
            "if true; then export BS=512; fi",
        ),
    ],
)
def test_files_that_a_launcher_is_given_are_settings_of_the_job(
    tmp_path: Path, line: str, name: str, before: str, after: str
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    words = tuple(shlex.split(line))
    found = []
    for text in (before, after):
        (tmp_path / name).write_text(text)
        script = None if words[0] == "docker" else tmp_path / "train.py"
        hints = capture.hints(capture.Command(words, script), tmp_path)
        assert hints is not None
        found.append(hints["values"])
    assert found[0] != found[1]


def test_a_script_on_standard_input_runs_by_its_first_line_in_an_image_too(tmp_path: Path) -> None:
    def captured(script: str) -> tuple[str, ...]:
        return capture.in_image(["-", "7"], verbatim=False, python=None, cwd=tmp_path, read=lambda: script).words

    assert captured("#!/bin/bash -e\necho 1\n") == ("/bin/bash", "-e", "/dev/stdin", "7")
    assert captured("#!/usr/bin/env python3\nprint(1)\n") == ("python3", "-", "7")
