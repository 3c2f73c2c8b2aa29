"""Work in a job from a real terminal: `gpuq run --pty`, `gpuq attach`, and what survives whom."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.patience import Stopwatch
from tests.support.site import Site, wait_for


class Window:
    """A terminal in which the `gpuq` command runs."""

    def __init__(self, site: Site, *words: str) -> None:
        self.pid, self.keyboard = pty.fork()
        if self.pid == 0:
            os.chdir(site.home)
            os.execve(forked.PROGRAM, ["gpuq", *words], {**site.env, "TERM": "xterm"})
        self.shown = b""

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def until(self, text: str, within_s: float = 60) -> None:
        """Wait until this was shown after the last wait."""
        deadline = time.monotonic() + within_s
        while text.encode() not in self.shown:
            assert self._read(deadline), (text, self.shown)
        self.shown = self.shown.partition(text.encode())[2]

    def end(self, within_s: float = 60) -> int:
        """The exit code of the command, once it has ended; it is killed if it does not."""
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        if time.monotonic() >= deadline:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.keyboard)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, deadline: float) -> bool:
        """Take what is shown; whether something was, and before the deadline."""
        if not select.select([self.keyboard], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            part = os.read(self.keyboard, 65536)
        except OSError:  # the command has ended
            return False
        self.shown += part
        return bool(part)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    # What else this machine does must not decide whether a job starts.
    with Site(
        devices_cpu_count=2,
        devices_cpu_cores=1,
        worker_grace_s=5,
        admission_utilization_pct=400,
        admission_memory_headroom=0.95,
        api_interactive_time_limit_s=3600,
    ) as site:
        yield site


def gpuq(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuq(*words, env=site.env, cwd=site.home, text=True)


def test_a_shell_survives_the_api_and_the_worker_service_and_is_gone_back_to(site: Site) -> None:
    window = Window(site, "run", "--pty", "--name", "shell", "bash", "--norc")
    window.until("is queued. Enter, ~, d leaves its terminal")
    window.type("echo began-$((40 + 2))\r")
    window.until("began-42")
    job = site.get("/api/v1/jobs")[1]["jobs"][0]["id"]
    assert site.job(job)["interactive"] == "terminal"
    assert site.job(job)["time_limit_s"] == 3600, "the site's limit, because it names none"

    site.kill("api")
    site.kill("worker")
    window.type("echo after-$((40 + 3))\r")
    window.until("after-43")

    window.type("\r~d")
    window.until(f"job {job} goes on")
    assert window.end() == 0
    assert site.job(job)["state"] == "RUNNING"

    again = Window(site, "attach", "shell")
    again.until("after-43")  # what was shown last is shown again
    again.type("exit 7\r")
    assert again.end() == 7
    log = gpuq(site, "logs", str(job)).stdout
    assert "began-42" in log
    assert "after-43" in log


def test_closing_the_window_detaches(site: Site) -> None:
    window = Window(site, "run", "--pty", "bash", "--norc")
    window.type("echo ready-$((1 + 1))\r")
    window.until("ready-2")
    job = site.get("/api/v1/jobs")[1]["jobs"][0]["id"]
    os.kill(window.pid, signal.SIGKILL)
    window.end()
    assert site.job(job)["state"] == "RUNNING"
    site.request("POST", f"/api/v1/jobs/{job}/cancel")
    watch = Stopwatch()
    assert site.wait(job)["state"] == "CANCELLED"
    assert watch.seconds < 4, "it hangs up, which ends a shell, and does not wait for the grace"


def test_a_short_command_shows_its_output_and_gives_its_exit_code(site: Site) -> None:
    window = Window(site, "run", "--pty", "--", "sh", "-c", "echo all-of-it; exit 3")
    assert window.end() == 3
    assert b"all-of-it" in window.shown


def test_a_batch_job_is_not_attached_to(site: Site) -> None:
    job = site.submit("sleep", "60")
    done = gpuq(site, "attach", str(job))
    assert (done.returncode, done.stderr) == (
        6,
        f"gpuq: Job {job} has no terminal.\n  `gpuq logs -f {job}` follows its output; --pty gives a job one.\n",
    )
    status, answer = site.get(f"/api/v1/jobs/{job}/channels/terminal")
    assert (status, answer["detail"]) == (409, f"Job {job} is a batch job: it has no terminal.")
    site.request("POST", f"/api/v1/jobs/{job}/cancel")


def run(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=site.env, cwd=site.home, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="openssh-server is not installed")
def test_ssh_comes_into_a_job_with_the_printed_host_block(site: Site) -> None:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    job = site.submit("sleep", "100", interactive="terminal", env={"PATH": os.environ["PATH"], "MARK": "of the job"})
    site.wait(job, "RUNNING")
    done = gpuq(site, "ssh-config", str(job))
    assert done.returncode == 0, done.stderr
    config = site.home / "ssh_config"
    config.write_text(done.stdout)
    came = run(site, "ssh", "-F", str(config), f"gpuq-{job}", "echo $MARK on job $GPUQ_JOB_ID")
    assert came.stdout == f"of the job on job {job}\n", came.stderr
    # Files, and the ports through which editors talk to what they start there.
    (site.home / "sent").write_text("weights")
    for source, target in (("sent", f"gpuq-{job}:{site.home}/there"), (f"gpuq-{job}:{site.home}/there", "back")):
        copied = run(site, "scp", "-F", str(config), source, target)
        assert copied.returncode == 0, copied.stderr
    assert (site.home / "back").read_text() == "weights"
    with socket.create_server(("127.0.0.1", 0)) as server:
        forward = ["ssh", "-F", str(config), "-W", f"127.0.0.1:{server.getsockname()[1]}", f"gpuq-{job}"]
        with subprocess.Popen(forward, env=site.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as through:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello from the port")
            assert through.communicate(timeout=60)[0] == b"hello from the port"
    site.request("POST", f"/api/v1/jobs/{job}/cancel")
    batch = gpuq(site, "ssh-config", str(site.submit("sleep", "1")))
    assert (batch.returncode, "is a batch job" in batch.stderr) == (6, True)


# Stands for JupyterLab: answers each connection with its token, from the socket that it is given.
JUPYTER = """
import os, socket, sys
path = next(word.partition("=")[2] for word in sys.argv if word.startswith("--ServerApp.sock="))
listener = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(path))
listener.bind("notebook")
listener.listen()
while True:
    connection, _ = listener.accept()
    if connection.recv(4096):
        connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + os.environ["JUPYTER_TOKEN"].encode())
    connection.close()
"""


def test_a_notebook_is_reached_at_an_address_of_this_machine(site: Site) -> None:
    (site.home / "lab" / "jupyterlab").mkdir(parents=True)
    (site.home / "lab" / "jupyterlab" / "__main__.py").write_text(JUPYTER)
    (site.home / "lab" / "jupyterlab" / "__init__.py").write_text("")
    env = {**site.env, "PYTHONPATH": f"{site.home}/lab"}
    # A shell starts what runs in the background with SIGINT ignored.
    words = ["env", "--default-signal=INT", forked.PROGRAM, "notebook", "--python", sys.executable]
    with subprocess.Popen(words, env=env, cwd=site.home, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        address = command.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert address.endswith(f"/lab?token={answer.read().decode()}")
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
    job = site.get("/api/v1/jobs")[1]["jobs"][0]
    assert (job["name"], job["state"]) == ("notebook", "RUNNING")
    site.request("POST", f"/api/v1/jobs/{job['id']}/cancel")


def test_a_notebook_without_jupyterlab_is_refused_before_it_waits(site: Site) -> None:
    done = gpuq(site, "notebook", "--python", "/usr/bin/env")
    assert (done.returncode, "has no JupyterLab" in done.stderr, "pip install jupyterlab" in done.stderr) == (
        2,
        True,
        True,
    )


def test_no_key_and_no_output_is_in_redis(site: Site) -> None:
    window = Window(site, "run", "--pty", "--", "sh", "-c", "echo ready; cat")
    window.until("ready")
    window.type("a-secret-word\r")
    window.until("a-secret-word\r\na-secret-word")
    kept = wait_for(lambda: [path for path in (site.home / "redis").rglob("*") if path.is_file()], 5)
    assert kept
    assert not any(b"a-secret-word" in path.read_bytes() for path in kept)
    assert b"a-secret-word" not in b"".join(
        path.read_bytes() for path in (site.home / "logs").iterdir() if path.is_file()
    )
    window.type("\x04")
    assert window.end() == 0
