"""Hosts on one machine, each with systemd as PID 1 and an address of its own: a wrapper of the lab's command.

The lab is not part of this repository: `GPUQ_LAB` names its script, by default `../shared/lab/lab` beside the checkout. It needs
root on Debian 12. Each lab has a mount namespace of its own, where the names of network namespaces and the disks of its hosts
live. So several labs run side by side with the same addresses, and a lab is gone with its last process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.patience import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
_UNPACKED = Path(tempfile.gettempdir()) / "gpuq-lab-packages"
# A mount namespace that nothing leaves: the lab's mounts, and `ip netns`, whose names are mounts in /run/netns.
_HOLD = "mkdir -p /run/netns && mount -t tmpfs lab /run/netns && echo held && exec sleep infinity"

_PYTHON_311 = "lib/python3.11/site-packages"
# What an install by hand does beyond the lab's: the package of the workers, and servers on other hosts.
_COMPLETE = """
paths=/opt/gpuq/lib/python3.11/site-packages/gpuq.pth
grep -q workers$ $paths || echo /opt/gpuq-src/workers >>$paths
for service in /etc/systemd/system/gpuq*.service; do printf '[Service]\\nIPAddressAllow=any\\n' >$service.d/network.conf; done
systemctl daemon-reload
"""


def script() -> Path:
    """The lab's script, which may be missing."""
    return Path(os.environ.get("GPUQ_LAB") or CHECKOUT.parent / "shared" / "lab" / "lab").resolve()


def why_not() -> str | None:
    """Why no lab can be started here; None if one can."""
    if not script().is_file():
        return f"{script()} is not there; set GPUQ_LAB to the lab's script"
    if os.geteuid() != 0:
        return "the lab needs root"
    if not Path("/usr/lib/postgresql/15/bin/postgres").exists():
        return "the lab needs Debian's package postgresql-15"
    missing = [name for name in ("ip", "nsenter", "unshare", "dpkg", "apt-get") if shutil.which(name) is None]
    if missing:
        return f"the lab needs {', '.join(missing)}"
    if not (CHECKOUT / ".venv" / _PYTHON_311).is_dir() or not Path("/usr/bin/python3.11").exists():
        return "the lab's hosts need Python 3.11, as the environment's and as /usr/bin/python3.11"
    return None


class LabError(AssertionError):
    """A command of the lab, or within one of its hosts, failed."""


class Lab:
    """`with Lab() as lab: lab.up("one", "two")`. Hosts have the addresses 10.77.0.1, .2, ... in that order."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpuq-lab-"))
        self.hosts: tuple[str, ...] = ()
        self._environ: dict[str, str] = {}
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", _HOLD],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        with self._holder.stdout as said:
            if said.readline() != b"held\n":
                raise LabError("no mount namespace for the lab")

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def up(self, *hosts: str, controllers: bool = False) -> None:
        """Boot hosts with this checkout installed as /opt/gpuq; with `controllers` as the lab's LAB_BOOT=controllers has them."""
        self.hosts = hosts
        self._environ = {"LAB_BOOT": "controllers" if controllers else "container"}
        _UNPACKED.mkdir(exist_ok=True)
        (self.folder / "unpacked").symlink_to(_UNPACKED)
        with (_UNPACKED / ".lock").open("w") as lock:
            if not (_UNPACKED / ".done").exists():  # the first lab of this machine downloads packages
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.command("up", str(CHECKOUT), *hosts)

    def servers(self, host: str) -> None:
        """PostgreSQL and Redis in the first host; on all hosts, the settings that name them. Starts no unit of gpuq."""
        self.command("servers", host)
        for each in self.hosts:
            self.run(each, "bash", "-c", _COMPLETE)

    def command(self, *words: str, within_s: float = 300) -> str:
        """What a command of the lab prints. Raises LabError."""
        return self._checked([str(script()), *words], None, within_s).stdout

    def run(
        self, host: str, *command: str, stdin: str | None = None, within_s: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a host, as root. Raises LabError if it fails, unless `check` is false."""
        words = [str(script()), "in", host, *command]
        return self._checked(words, stdin, within_s) if check else self._run(words, stdin, within_s)

    def cut(self, host: str, *rules: str) -> None:
        """Drop all packets of a host, or only those that its nft rules name, silently."""
        for rule in rules or (None,):
            self.command("cut", host, *([] if rule is None else [rule]))

    def heal(self, host: str) -> None:
        """End the cuts of a host, if there are any."""
        words = [str(script()), "heal", host]
        done = self._run(words, None, 60)
        if done.returncode and "No such file" not in done.stderr:
            raise LabError(f"{words}: {done.stderr}")

    def kill(self, host: str) -> None:
        """Switch a host off as if its power failed."""
        self.command("kill", host)

    def shut_down(self, host: str) -> None:
        """Switch a host off in order: systemd ends its units and then all processes."""
        self.run(host, "systemctl", "poweroff", "--no-block")
        wait_for(lambda: not self.is_up(host), 120)

    def boot(self, host: str) -> None:
        """Start a host that was switched off: a new boot."""
        self.command("boot", host)

    def is_up(self, host: str) -> bool:
        """Whether the host is switched on."""
        return self._init(host).exists()

    def path(self, host: str, path: str) -> Path:
        """A file on the disk of a host, on or off, as this process can open it."""
        inside = self.folder / "hosts" / host / "m" / path.lstrip("/")
        return Path(f"/proc/{self._holder.pid}/root{inside}")

    def live_path(self, host: str, path: str) -> Path:
        """A file of a host that is on, also where it has mounted something, such as /tmp and /run."""
        return self._init(host) / "root" / path.lstrip("/")

    def address(self, host: str) -> str:
        """The IPv4 address of a host."""
        return f"10.77.0.{self.hosts.index(host) + 1}"

    def close(self) -> None:
        """End all hosts, and leave nothing."""
        try:
            if self.hosts:
                self.command("down")
        finally:
            self._holder.kill()
            self._holder.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _init(self, host: str) -> Path:
        return Path("/proc") / (self.folder / f"{host}.leader").read_text().strip()

    def _run(self, words: Sequence[str], stdin: str | None, within_s: float) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--mount", "--target", str(self._holder.pid), "--"]
        environ = {**os.environ, "LAB": str(self.folder), **self._environ}
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        # Into files: what a host runs on inherits them, and a pipe would be waited for.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            done = subprocess.run(
                [*enter, *words], env=environ, stdout=out, stderr=err, text=True, timeout=within_s, check=False, **given  # type: ignore[call-overload]
            )  # fmt: skip
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())

    def _checked(self, words: Sequence[str], stdin: str | None, within_s: float) -> subprocess.CompletedProcess[str]:
        done = self._run(words, stdin, within_s)
        if done.returncode:
            raise LabError(
                f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
            )
        return done
