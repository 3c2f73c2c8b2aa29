"""Modules and containers: the words that a job becomes, with stand-ins for apptainer, podman and `module`.

The stand-ins are programs of a few lines: Debian has no apptainer, and a container needs rights that a test seldom has. They show
what is called and pass the command on. A real podman is in test_podman.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.site import Site

HOOK = Path(__file__).resolve().parents[3] / "workers/gpuq_workers/hook"
# Prints its arguments up to the image, then runs the rest, as a container would.
STAND_IN = """#!/bin/sh
[ "$2" = prune ] && exit
name=$(basename "$0")
while [ "${1#*pytorch}" = "$1" ]; do printf '%s ' "$1"; shift; done >"$0.said"
echo "$1" >>"$0.said"
shift
echo "inside $name"
exec "$@"
"""
# Where modules are installed, no test can hide them: they are also looked for in the folders of the system.
MODULES = [Path(f"/etc/profile.d/{name}.sh") for name in ("lmod", "z00_lmod", "modules")]
without_modules = pytest.mark.skipif(any(file.exists() for file in MODULES), reason="this host has modules")
GPU = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The program, with only `folder` and the shell's own programs on PATH."""
    (folder / "bin").mkdir(exist_ok=True)
    environ = {"PATH": f"{folder}/bin:/bin:/usr/bin", "PYTHONPATH": str(HOOK), "HOME": str(folder), **env}
    command = [sys.executable, "-m", "gpuq_environment", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def stand_in(folder: Path, name: str, text: str = STAND_IN) -> Path:
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / name
    program.write_text(text)
    program.chmod(0o755)
    return program.with_name(f"{name}.said")


def test_podman_gets_the_devices_the_step_counter_and_the_names_of_variables(tmp_path: Path) -> None:
    said = stand_in(tmp_path, "podman")
    env = {
        "CUDA_VISIBLE_DEVICES": GPU,
        "GPUQ_PROGRESS": "/run/gpuq-job/progress",
        "GPUQ_JOB_ID": "7",
        "SECRET": "hidden",
    }
    done = run(
        tmp_path, "--image", "docker://docker.io/pytorch/pytorch", "--", "sh", "-c", "echo $GPUQ_JOB_ID '$x'", **env
    )
    assert (done.returncode, done.stdout) == (0, "inside podman\n7 $x\n"), done.stderr
    words = said.read_text().split()
    assert words[-1] == "docker.io/pytorch/pytorch"
    assert {f"--device=nvidia.com/gpu={GPU}", "--env=GPUQ_JOB_ID", "--env=PYTHONPATH", "--env=SECRET"} <= set(words)
    assert f"--mount=type=bind,source={HOOK},destination={HOOK},ro" in words
    assert "--mount=type=bind,source=/run/gpuq-job,destination=/run/gpuq-job" in words
    assert not any("hidden" in word or word == "--env=PATH" for word in words)


def test_apptainer_goes_first_and_takes_files(tmp_path: Path) -> None:
    stand_in(tmp_path, "podman")
    said = stand_in(tmp_path, "apptainer")
    assert run(tmp_path, "--image", "/images/pytorch.sif", "--", "true").stdout == "inside apptainer\n"
    assert said.read_text().split()[:3] == ["exec", "--pwd", str(tmp_path)], "no --nv without a GPU"
    assert run(tmp_path, "--image", "pytorch/pytorch", "--", "true", CUDA_VISIBLE_DEVICES=GPU).returncode == 0
    assert said.read_text().split()[1] == "--nv"
    assert said.read_text().split()[-1] == "docker://pytorch/pytorch"


def modules(folder: Path) -> None:
    """A stand-in for Environment Modules, for MODULESHOME."""
    (folder / "init").mkdir()
    (folder / "init" / "bash").write_text('module() { [ "$2" != missing ] && export LOADED="$LOADED$2 "; }\n')


def test_modules_are_loaded_before_the_image_is_run(tmp_path: Path) -> None:
    stand_in(tmp_path, "apptainer")
    modules(tmp_path)
    env = {"MODULESHOME": str(tmp_path)}
    words = [
        "--module",
        "cuda/12",
        "--module",
        "nccl",
        "--image",
        "pytorch",
        "--",
        "sh",
        "-c",
        'echo "$LOADED$1"',
        "sh",
        "a  b",
    ]
    assert run(tmp_path, *words, **env).stdout == "inside apptainer\ncuda/12 nccl a  b\n"
    done = run(tmp_path, "--module", "missing", "--", "true", **env)
    assert (done.returncode, "the module missing cannot be loaded" in done.stderr) == (127, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--image", "pytorch", "--", "true"], "neither apptainer nor podman, which run images. Install one"),
        pytest.param(["--module", "cuda", "--", "true"], "no command `module`. Install lmod", marks=without_modules),
    ],
)
def test_what_a_host_lacks_is_one_sentence_with_the_remedy(tmp_path: Path, words: list[str], sentence: str) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    done = run(tmp_path, *words, PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("gpuq: this host has ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_job_runs_in_its_image_and_with_its_modules() -> None:
    with Site(devices_cpu_count=1, admission_memory_headroom=0.95) as site:
        stand_in(site.home, "podman")
        env = {**site.env, "PATH": f"{site.home}/bin:{os.environ['PATH']}"}
        (site.home / "train.py").write_text("import os, gpuq_progress\nprint('job', os.environ['GPUQ_JOB_ID'])\n")
        job = forked.gpuq("submit", "--image", "pytorch", "train.py", env=env, cwd=site.home, text=True).stdout
        assert site.wait(int(job))["state"] == "COMPLETED"
        assert site.get(f"/api/v1/jobs/{int(job)}/logs")[1] == f"inside podman\njob {job}".encode()
        modules(site.home)
        asked = ["-e", f"MODULESHOME={site.home}", "--module", "cuda/12.4", "--", "sh", "-c", "echo has $LOADED"]
        job = forked.gpuq("submit", *asked, env=env, cwd=site.home, text=True).stdout
        assert site.wait(int(job))["state"] == "COMPLETED"
        assert site.get(f"/api/v1/jobs/{int(job)}/logs")[1] == b"has cuda/12.4\n"
        for words, sentence in ((["--image=-x"], "names no image"), (["--module", "a b"], "no name of a module")):
            done = forked.gpuq("submit", *words, "train.py", env=env, cwd=site.home, text=True)
            assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
