"""NVIDIA's MPS through a stand-in for its control program: started, used, disconnected from, and ended without clients.

The stand-in keeps in its folder of pipes: `daemon` while it runs, `clients` (`SERVER CLIENT` lines), and `reported`, every
command.
"""

from __future__ import annotations

import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gpuq_workers import mps
from gpuq_workers.order_file import environment
from gpuq_workers.shim import mps as shim_mps

from gpuq.adapters.devices import Placement
from gpuq.errors import Unreachable
from gpuq.settings import Devices, Settings, load
from tests.workers.conftest import Attempt, wait_for
from tests.workers.twins import spec

CONTROL = """#!{python} -IS
import os, sys
from pathlib import Path
pipes = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
if sys.argv[1:] == ["-d"]:
    assert Path(os.environ["CUDA_MPS_LOG_DIRECTORY"]).is_dir() and "CUDA_VISIBLE_DEVICES" not in os.environ
    (pipes / "daemon").touch()
    sys.exit()
if not (pipes / "daemon").exists():
    sys.exit("Cannot find MPS control daemon process")
command = sys.stdin.read().split()
with (pipes / "reported").open("a") as file:
    print(*command, file=file)
pairs = [line.split() for line in (pipes / "clients").read_text().splitlines()] if (pipes / "clients").exists() else []
if command == ["get_server_list"]:
    print(*sorted({{server for server, _ in pairs}}), sep="\\n")
elif command[0] == "get_client_list":
    print(*[client for server, client in pairs if server == command[1]], sep="\\n")
elif command[0] == "terminate_client":
    os.kill(int(command[2]), 0)  # it must be there still
elif command == ["quit"]:
    (pipes / "daemon").unlink()
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With the stand-in as the only control program to be found."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / shim_mps.PROGRAM).write_text(CONTROL.format(python=sys.executable))
    (programs / shim_mps.PROGRAM).chmod(0o700)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    home = tmp_path / "home"
    return replace(load({"GPUQ_HOME": str(home)}), devices=Devices(mps=True, mps_limit_memory=True))


def reported(settings: Settings) -> list[str]:
    return (settings.home.mps_pipes / "reported").read_text().splitlines()


def client_environment(settings: Settings) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], shim_mps.PIPES: str(settings.home.mps_pipes)}


def test_the_mps_daemon_is_started_once_and_ended_without_clients(settings: Settings):
    mps.start(settings)
    mps.start(settings)
    assert (settings.home.mps_pipes / "daemon").exists()
    (settings.home.mps_pipes / "clients").write_text("70 4242\n")
    assert not mps.stop(settings)
    assert (settings.home.mps_pipes / "daemon").exists()
    assert "quit" not in reported(settings)
    assert reported(settings).count(f"start_server -uid {os.getuid()}") == 1
    (settings.home.mps_pipes / "clients").write_text("")
    assert mps.stop(settings)
    assert not (settings.home.mps_pipes / "daemon").exists()
    assert mps.stop(settings), "twice is no harm"


def test_a_missing_or_failing_mps_program_has_a_fix(settings: Settings, tmp_path: Path):
    program = tmp_path / "bin" / shim_mps.PROGRAM
    program.write_text(f"#!{sys.executable}\nraise SystemExit('An instance of this daemon is already running')\n")
    with pytest.raises(Unreachable, match="already running") as caught:
        mps.start(settings)
    assert "mps = false" in caught.value.fix
    program.unlink()
    with pytest.raises(Unreachable, match="not found"):
        mps.start(settings)


def test_only_our_own_clients_are_disconnected(settings: Settings):
    mps.start(settings)
    (settings.home.mps_pipes / "clients").write_text("70 11\n70 12\n71 13\n")
    shim_mps.disconnect(client_environment(settings), [12, 13, 99])
    assert [line for line in reported(settings) if line.startswith("terminate")] == [
        "terminate_client 70 12",
        "terminate_client 71 13",
    ]


def test_disconnect_does_nothing_without_mps_or_daemon(settings: Settings):
    shim_mps.disconnect({"PATH": os.environ["PATH"]}, [1])
    shim_mps.disconnect(client_environment(settings), [1])
    assert not settings.home.mps_pipes.exists()


def test_mps_memory_limits_are_set_only_if_configured(settings: Settings):
    placement = Placement({shim_mps.PIPES: "/pipes"}, None)
    attempt = replace(spec(["true"])[1], promised=(3 * 2**30, 2**30))
    ann, folder = pwd.getpwuid(os.getuid()), settings.home.attempt(1, 1)
    env = environment(settings, {}, attempt, placement, ann, folder)
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=3072M,1=1024M"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in environment(
        settings, {}, attempt, Placement({}, None), ann, folder
    )
    unlimited = replace(settings, devices=Devices(mps=True))
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in environment(unlimited, {}, attempt, placement, ann, folder)


HANDLES = "import signal, time; signal.signal(15, lambda *_: open({reported!r}, 'a').write('heard\\n'))\n"
WAITS = "print('ready', flush=True)\nwhile True: time.sleep(0.05)"


@pytest.mark.parametrize(
    ("handles", "order"), [(False, ["terminate_client 70 {pid}"]), (True, ["heard", "terminate_client 70 {pid}"])]
)
def test_a_client_is_disconnected_before_its_final_signal(
    settings: Settings, attempt: Attempt, handles: bool, order: list[str]
):
    mps.start(settings)
    code = (HANDLES.format(reported=str(settings.home.mps_pipes / "reported")) if handles else "import time\n") + WAITS
    attempt.order(sys.executable, "-c", code, env=client_environment(settings)).start()
    pid = attempt.started()["pid"]
    log = attempt.folder / "output.log"
    wait_for(lambda: log.exists() and b"ready" in log.read_bytes(), what="the first line of the job")
    (settings.home.mps_pipes / "clients").write_text(f"70 {pid}\n70 1\n")
    attempt.stop()
    assert attempt.end()["ending"] == "stopped"
    found = [line for line in reported(settings) if line.startswith(("heard", "terminate"))]
    assert found == [line.format(pid=pid) for line in order]
