"""The SSH server inside a job: what it is configured with, and a real `ssh` through the shim's socket."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_workers.shim import ssh

from tests.workers.conftest import Attempt, wait_for
from tests.workers.shim.test_terminal import Client, framed

KEY = b"ssh-ed25519 " + b"A" * 68
# What `gpuq proxy` does, without the API between.
_PROXY = """
import os, select, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
key = open(sys.argv[2], "rb").read().rsplit(b" ", 1)[0]
connection.sendall(b"S" + len(key).to_bytes(2, "big") + key)
assert connection.recv(3) == b"K\\0\\0"
while True:
    for ready in select.select([0, connection], [], [])[0]:
        data = os.read(0, 65536) if ready == 0 else connection.recv(65536)
        if not data:
            sys.exit()
        connection.sendall(data) if ready == 0 else os.write(1, data)
"""


def test_the_variables_of_the_job_are_those_of_each_session() -> None:
    text = ssh.config({"A": 'x "y" \\z', "B": "two\nlines", "C D": "1", "CUDA_VISIBLE_DEVICES": "3"}, "/f/keys")
    assert text.splitlines()[0] == "AuthorizedKeysFile /f/keys"
    assert [line for line in text.splitlines() if line.startswith("SetEnv")] == [
        'SetEnv "A=x \\"y\\" \\\\z" "CUDA_VISIBLE_DEVICES=3"',
    ]


@pytest.mark.parametrize("key", [b"", b"ssh-ed25519 short", b'command="x" ' + KEY, KEY + b"\nssh-rsa x", b"\xff" * 80])
def test_what_is_no_public_key_is_refused(attempt: Attempt, key: bytes) -> None:
    assert ssh.why_not(key) == "this is no public key of OpenSSH."


def test_a_host_without_a_server_is_named(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "FOLDERS", ())
    assert "install openssh-server" in str(ssh.why_not(KEY))


@pytest.mark.skipif(ssh._program() is None, reason="openssh-server is not installed")
def test_ssh_comes_into_the_job(attempt: Attempt, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(key)], check=True)
    env = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "GPU-7", "HOME": str(tmp_path)}
    attempt.order("sh", "-c", "read word", interactive="terminal", env=env).start()
    wait_for((attempt.folder / "started.json").exists, what="started.json")
    proxy = tmp_path / "proxy.py"
    proxy.write_text(_PROXY)
    through = f"{sys.executable} {proxy} {attempt.folder / 'terminal'} {key}.pub"
    options = ["-F", "none", "-i", str(key), "-o", f"ProxyCommand={through}", "-o", "StrictHostKeyChecking=no"]
    options += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"]
    asked = ["ssh", *options, "job", 'echo "$CUDA_VISIBLE_DEVICES"; exit 5']
    done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == ("GPU-7\n", 5), done.stderr
    # Its sessions end with the job.
    with subprocess.Popen(["ssh", *options, "job", "sleep 60"], stderr=subprocess.DEVNULL) as session:
        client = Client(attempt).attach()
        client.type("x\r")
        assert session.wait(60) != 0
    assert attempt.end()["exit_code"] == 0


def test_a_bad_key_ends_the_connection_with_a_sentence(attempt: Attempt) -> None:
    attempt.order("sh", "-c", "read word", interactive="terminal").start()
    client = Client(attempt)
    client.socket.sendall(framed(b"S", b"no key"))
    client.to_the_end()
    assert client.refused == b"this is no public key of OpenSSH."
    Client(attempt).attach().type("x\r")
    attempt.end()
