"""The packages, installed where nothing of gpuq is: a clean Debian, pipx, uv. Run by `make package-test`; minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packages.conftest import ROOT, why_no_root

MIRROR = "http://deb.debian.org/debian"
KEPT = ROOT / "build" / "package-test"
# What a person would type. It fails with the first command that does.
STORY = """
set -eu
# The machine may be busy with other things.
export GPUQ_DEVICES_BACKEND=cpu GPUQ_DEVICES_CPU_COUNT=1 GPUQ_ADMISSION_MEMORY_HEADROOM=0.95
gpuq up -d --port {port}
trap 'gpuq down --stop-jobs' EXIT
job=$(gpuq submit -- sh -c 'echo it runs as $(id -un)')
gpuq wait $job
gpuq logs $job
"""
pytestmark = pytest.mark.packages


@pytest.fixture(scope="module")
def clean_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a Debian with nothing but Python, as often as it is called."""
    reason = why_no_root()
    if reason:
        pytest.skip(reason)
    archive = KEPT / "bookworm.tar"
    if not archive.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        root = tmp_path_factory.mktemp("bootstrap") / "root"
        command = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root), MIRROR]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"debootstrap from {MIRROR} failed: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
        subprocess.run(["tar", "-C", str(root), "-cf", f"{archive}.new", "."], check=True)
        Path(f"{archive}.new").rename(archive)

    def make() -> Path:
        root = tmp_path_factory.mktemp("debian")
        root.chmod(0o755)
        subprocess.run(["tar", "-C", str(root), "-xf", str(archive)], check=True)
        return root

    return make


def inside(*roots: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script that finds the roots as $1 and $2. All that it starts ends with it."""
    mounts = "".join(f"mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev; " for root in roots)
    words = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-euc",
        mounts + script,
        "sh",
        *map(str, roots),
    ]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


def test_a_deb_runs_a_job_on_a_clean_debian_and_another_machine_submits_with_the_client(
    built: Path, clean_root: Callable[[], Path]
) -> None:
    main, laptop = clean_root(), clean_root()
    (whole,) = built.glob("gpuq_*.deb")
    (client,) = built.glob("gpuq-client_*.deb")
    shutil.copy(whole, main / "gpuq.deb")
    shutil.copy(client, laptop / "client.deb")
    (main / "story").write_text(STORY.format(port=18780) + "cat ~/.local/state/gpuq/token\nread -r line </tmp/go\n")
    done = inside(
        main,
        laptop,
        script="""
        for root in "$1" "$2"; do chroot "$root" useradd --create-home --shell /bin/sh ann; done
        chroot "$1" dpkg -i /gpuq.deb >/dev/null
        chroot "$2" dpkg -i /client.deb >/dev/null
        mkfifo -m 666 "$1/tmp/go"
        chroot "$1" su - ann -c 'sh /story' >"$1/said" & story=$!
        while ! token=$(grep -E '^[A-Za-z0-9_-]{20,}$' "$1/said"); do kill -0 $story; sleep 0.2; done
        cat "$1/said"
        chroot "$2" su - ann -c "GPUQ_HOST=http://127.0.0.1:18780 GPUQ_TOKEN=$token gpuq run -- echo from the laptop"
        echo >"$1/tmp/go"
        wait $story
        chroot "$1" dpkg --remove gpuq >/dev/null
        test ! -e "$1/usr/bin/gpuq" && test ! -d "$1/opt/gpuq/lib"
        """,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "it runs as ann\n" in done.stdout
    assert "from the laptop\n" in done.stdout


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_tools_that_install_commands_install_one_that_runs_a_job(built: Path, tmp_path: Path, tool: str) -> None:
    (wheel,) = built.glob("gpuq_daemon-*.whl")
    program = shutil.which(tool)
    if program is None:
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "tool")], check=True)
        pip = [str(tmp_path / "tool" / "bin" / "pip"), "install", "--quiet", tool]
        if subprocess.run(pip, capture_output=True, check=False).returncode:
            pytest.skip(f"{tool} is not there and cannot be installed")
        program = str(tmp_path / "tool" / "bin" / tool)
    bin_folder = tmp_path / "bin"
    # A short home: the path of a Unix socket has at most 107 bytes.
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GPUQ_", "VIRTUAL_ENV"))},
        "HOME": str(tmp_path),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(bin_folder),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(bin_folder),
        "GPUQ_HOME": str(tmp_path / "g"),
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
    }
    words = [program, *(["tool"] if tool == "uv" else []), "install", str(wheel)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    story = subprocess.run(["sh", "-c", STORY.format(port=0)], env=env, capture_output=True, text=True, check=False)
    assert story.returncode == 0, (story.stdout, story.stderr)
    assert "it runs as " in story.stdout
