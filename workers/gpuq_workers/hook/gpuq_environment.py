"""Run a job's command with modules loaded, in a container: `python3 -m gpuq_environment --module M --image I -- COMMAND`.

`gpuq submit --module M --image I COMMAND` submits this. It runs on the host, in the job, because only there it is known which
container program and which devices there are, and replaces itself by the command. Modules are loaded first: one may bring the
container program. Words are passed on as they are; no shell reads them. It imports the standard library only, and takes any
Python from 3.9 on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOOK_FOLDER = str(Path(__file__).resolve().parent)
NOT_FOUND = 127
_LOOK_EVERY_S = 0.25
_CLIENT_ENDS_WITHIN_S = 1.0
_LABEL = "gpuq=job"
# Only those that have ended, and long ago: one that was just made has not begun yet.
_REMOVE_OLD = ("podman", "container", "prune", "--force", f"--filter=label={_LABEL}", "--filter=until=1h")
# Its arguments are the names of modules, `--`, and the command.
_LOAD_MODULES = r"""
for file in "$LMOD_PKG/init/bash" "$MODULESHOME/init/bash" /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh \
    /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
    type module >/dev/null 2>&1 && break
    [ -r "$file" ] && . "$file"
done
if ! type module >/dev/null 2>&1; then
    echo "gpuq: this host has no command \`module\`. Install lmod or environment-modules, or leave --module out." >&2
    exit 127
fi
while [ "$1" != -- ]; do
    if ! module load "$1"; then
        echo "gpuq: the module $1 cannot be loaded. \`module avail\` on this host lists those that are there." >&2
        exit 127
    fi
    shift
done
shift
exec "$@"
"""
# Variables that are right on the host and wrong in the image.
_OF_THE_HOST = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "SHELL", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR", "PWD", "OLDPWD", "HOSTNAME", "_"}
)


class Unavailable(Exception):
    """The command cannot run here. The message is a sentence with its remedy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the command. Returns an exit code only if that cannot be."""
    parser = argparse.ArgumentParser(prog="python3 -m gpuq_environment")
    parser.add_argument("--module", action="append", default=[])
    parser.add_argument("--image")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        words = composed(options.module, options.image, options.command, os.environ, str(Path.cwd()))
    except Unavailable as error:
        sys.stderr.write(f"gpuq: {error}\n")
        return NOT_FOUND
    try:
        if words[:2] == ["podman", "run"]:
            return run_in_podman(words)
        os.execvp(words[0], words)  # noqa: S606  no shell is wanted
    except OSError as error:
        sys.stderr.write(f"gpuq: {words[0]} cannot be started: {error.strerror}.\n")
    return NOT_FOUND


def run_in_podman(words: Sequence[str]) -> int:
    """Run `podman run …` to its end; its exit code.

    A stop of the job signals all its processes, also podman's client and its monitor. The client may then wait for ever for a
    monitor that is gone; so this process outlasts the signal, and ends a client whose container has ended. Neither of them
    removes the container then: that is left to a later job.
    """
    stopped: list[int] = []
    with tempfile.TemporaryDirectory(prefix="gpuq-") as folder:
        pid_file = Path(folder, "pid")
        client = subprocess.Popen([*words[:2], f"--label={_LABEL}", f"--pidfile={pid_file}", *words[2:]])
        signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
        tidying = subprocess.Popen(_REMOVE_OLD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while (code := _ended(client, _LOOK_EVERY_S)) is None:
            if stopped and pid_file.exists() and not Path("/proc", pid_file.read_text().strip()).exists():
                code = _ended(client, _CLIENT_ENDS_WITHIN_S)
                if code is None:
                    client.kill()
                    client.wait()
                    code = 128 + stopped[0]
                break
        tidying.wait()
    return code if code >= 0 else 128 - code


def _ended(client: subprocess.Popen[bytes], within_s: float) -> int | None:
    """Its exit code; None if it has not ended within so many seconds."""
    try:
        return client.wait(within_s)
    except subprocess.TimeoutExpired:
        return None


def composed(
    modules: Sequence[str], image: str | None, command: Sequence[str], environ: Mapping[str, str], cwd: str
) -> list[str]:
    """The words to execute. Raises Unavailable."""
    if modules:
        if shutil.which("bash", path=environ.get("PATH")) is None:
            raise Unavailable("this host has no bash, which loads modules. Install it, or leave --module out.")
        inner = [sys.executable, "-m", "gpuq_environment", "--image", image, "--", *command] if image else command
        return ["bash", "-c", _LOAD_MODULES, "gpuq", *modules, "--", *inner]
    return in_container(image, command, environ, cwd) if image else list(command)


def in_container(image: str, command: Sequence[str], environ: Mapping[str, str], cwd: str) -> list[str]:
    """The words that run the command in the image, in the same folder, with the job's devices and its step counter."""
    found = next(
        (name for name in ("apptainer", "singularity", "podman") if shutil.which(name, path=environ.get("PATH"))), None
    )
    if found is None:
        raise Unavailable(
            "this host has neither apptainer nor podman, which run images. Install one (apt-get install podman), or leave "
            "--image out."
        )
    devices = [one for one in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.startswith(("GPU-", "MIG-"))]
    folders = dict.fromkeys([environ.get("HOME") or cwd, cwd])
    if environ.get("GPUQ_PROGRESS"):
        folders[str(Path(environ["GPUQ_PROGRESS"]).parent)] = None
    strange = next((path for path in folders if "," in path or ":" in path), None)
    if strange is not None:
        raise Unavailable(f"a container cannot be given {strange}: its name has `,` or `:`. Rename it.")
    is_file = image.endswith(".sif") or image.startswith("/")
    if found != "podman":
        words = [found, "exec", *(["--nv"] if devices else []), "--pwd", cwd]
        for path in folders:
            words += ["--bind", path]
        words += ["--bind", f"{HOOK_FOLDER}:{HOOK_FOLDER}:ro"]
        return [*words, image if is_file or "://" in image else f"docker://{image}", *command]
    if is_file:
        raise Unavailable(f"podman cannot run the file {image}. Install apptainer, or name an image of a registry.")
    # Processes see each other's shared memory, as data loaders want it, and the network of the host, as the ranks of a gang do.
    # As process 1 of a container of its own, a program without a handler would ignore SIGTERM.
    words = ["podman", "run", "--rm", "--interactive", "--network=host", "--ipc=host", "--pid=host", "--workdir", cwd]
    words += [] if os.geteuid() == 0 else ["--userns=keep-id"]
    words += [f"--device=nvidia.com/gpu={one}" for one in devices]
    words += [f"--mount=type=bind,source={path},destination={path}" for path in folders]
    words += [f"--mount=type=bind,source={HOOK_FOLDER},destination={HOOK_FOLDER},ro"]
    words += [f"--env={name}" for name in sorted(environ) if name not in _OF_THE_HOST]
    return [*words, image.removeprefix("docker://"), *command]


if __name__ == "__main__":
    sys.exit(main())
