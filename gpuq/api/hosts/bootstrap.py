"""Run by the command that `gpuq host add` printed, on the host that joins: install what the main host has, join, start the units.

The main host sends this file over the connection that the command has checked; A, F, N and S are the command's: the main host's
address, the SHA-256 of its certificate, the name of this host, and the secret. Standard library only, for Python 3.11 or newer.
"""

import hashlib
import http.client
import json
import os
import platform
import pwd
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.parse
import venv
from pathlib import Path
from typing import Any

ADDRESS, FINGERPRINT, NAME, SECRET = (globals()[name] for name in ("A", "F", "N", "S"))
AS_SERVICE = os.geteuid() == 0 and Path("/run/systemd/system").is_dir() and "GPUQ_HOME" not in os.environ
PREFIX = Path(os.environ.get("GPUQ_PREFIX", "/opt/gpuq" if os.geteuid() == 0 else Path.home() / ".local/share/gpuq"))
UNITS = PREFIX / "share" / "units"
SYSTEM = Path("/etc/systemd/system")
LOCAL = Path("/usr/local/lib")
PAM = Path("/etc/pam.d/gpuq")
BROKER_KEY = Path("/etc/gpuq/dispatcher.pub")


def main() -> None:
    """Each step is done once, so the command may be run again if it was interrupted before the host joined."""
    began = time.monotonic()
    invitation = json.loads(ask("/invitation").read())
    run_as = invitation["run_as"]
    if run_as == "submitter":
        check_for_submitters()
    if not (PREFIX / "bin" / "gpuq").exists():
        install()
    if AS_SERVICE:
        prepare_system()
    join(run_as)
    if AS_SERVICE:
        # By it the broker, which runs as root, knows the dispatcher. The user gpuq could change a file of the home.
        BROKER_KEY.write_text(invitation["dispatcher"])
        BROKER_KEY.chmod(0o644)
    if run_as == "submitter":
        run("systemctl", "enable", "--now", "gpuq-broker.socket")
    if AS_SERVICE:
        run("systemctl", "enable", "--now", "gpuq.target", "gpuq-worker")
    how = "" if AS_SERVICE else f" Start its worker service: {PREFIX}/bin/python -m gpuq_workers"
    print(f"Host {NAME} joined {ADDRESS} in {time.monotonic() - began:.0f} s.{how}")


def check_for_submitters() -> None:
    """End unless jobs can run here as their submitters: systemd starts them, and is asked to over its bus."""
    if not AS_SERVICE:
        sys.exit(
            "gpuq: jobs of that main host run as their submitters: run this as root, under systemd, without GPUQ_HOME."
        )
    if not Path("/run/dbus/system_bus_socket").exists():
        sys.exit("gpuq: jobs of that main host run as their submitters, which needs a system bus: apt-get install dbus")


def install() -> None:
    """A virtual environment with what is installed on the main host."""
    name = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]} {platform.machine()}"
    answer = ask("/package", platform=name)
    print(f"Installing gpuq of {ADDRESS} into {PREFIX}.", flush=True)
    venv.EnvBuilder(symlinks=True).create(PREFIX)
    site = next((PREFIX / "lib").glob("python3*")) / "site-packages"
    with tarfile.open(fileobj=answer, mode="r|") as tar:
        for member in tar:
            root, _, rest = member.name.partition("/")
            path = {"site-packages": site, "units": UNITS}[root] / rest
            if not member.isfile() or ".." in path.parts:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as target:
                shutil.copyfileobj(tar.extractfile(member), target)  # type: ignore[arg-type]  # None for what is no file
            path.chmod(member.mode)
    command = PREFIX / "bin" / "gpuq"
    command.write_text(f"#!{PREFIX}/bin/python\nimport sys\n\nfrom gpuq.cli.main import main\n\nsys.exit(main())\n")
    command.chmod(0o755)


def prepare_system() -> None:
    """The user gpuq, the home and the units."""
    if UNITS.exists():
        run(sys.executable, str(UNITS / "render.py"), "--prefix", str(PREFIX), "--out", str(SYSTEM))
    for kind in ("sysusers.d", "tmpfiles.d"):
        if (SYSTEM / kind).exists():  # the Debian package has them in their places
            # Where systemd looks at each boot, which leaves nothing of /run, and each day for logs that are old enough to go.
            (LOCAL / kind).mkdir(parents=True, exist_ok=True)
            shutil.copy(SYSTEM / kind / "gpuq.conf", LOCAL / kind)
    run("systemd-sysusers", "gpuq.conf")
    run("systemd-tmpfiles", "--create", "gpuq.conf")
    run("systemctl", "daemon-reload")
    if not PAM.exists():  # a site may have its own
        shutil.copy(SYSTEM / "pam.d" / "gpuq", PAM)
        PAM.chmod(0o644)


def join(run_as: str) -> None:
    """Make the key of this host, and get its certificate."""
    given = {"main": ADDRESS, "fingerprint": FINGERPRINT, "host": NAME, "secret": SECRET, "run_as": run_as}
    options: dict[str, Any] = {}
    environ = dict(os.environ)
    if AS_SERVICE:
        user = pwd.getpwnam("gpuq")
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        environ = {"GPUQ_HOME": "/var/lib/gpuq", "HOME": user.pw_dir, "PATH": "/usr/bin:/bin"}
    # The secret goes through a pipe: every user can read a command line.
    program = [str(PREFIX / "bin" / "python"), "-m", "gpuq_workers.join"]
    done = subprocess.run(program, input=json.dumps(given).encode(), env=environ, cwd="/", check=False, **options)
    if done.returncode:
        sys.exit(done.returncode)


def connect() -> http.client.HTTPSConnection:
    """A connection to the main host, and to no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(ADDRESS, timeout=120, context=context)
    connection.connect()
    certificate: bytes = connection.sock.getpeercert(True)  # type: ignore[assignment]
    if hashlib.sha256(certificate).hexdigest() != FINGERPRINT:
        sys.exit(f"gpuq: {ADDRESS} is not the main host that made this command.")
    return connection


def ask(path: str, **query: str) -> http.client.HTTPResponse:
    """What the main host has there for this invitation; ends with its sentence and fix if it refuses."""
    connection = connect()
    address = f"{path}?{urllib.parse.urlencode({'host': NAME, **query})}"
    connection.request("GET", address, headers={"Authorization": f"Bearer {SECRET}", "Connection": "close"})
    answer = connection.getresponse()
    if answer.status == 200:
        return answer
    try:
        body = json.loads(answer.read())
        sys.exit(f"gpuq: {body['detail']}\n  {body['hint']}")
    except (ValueError, KeyError):
        sys.exit(f"gpuq: {ADDRESS} did not answer as a main host does.")


def run(*command: str) -> None:
    """Run a command, and end with its message if it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"gpuq: `{' '.join(command)}` failed: {done.stdout.strip()}")


if __name__ == "__main__":
    main()
