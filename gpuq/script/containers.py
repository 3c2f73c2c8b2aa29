"""What containers are started from and which folders of the host they see, by the options of the programs that start them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuq.script.meaning import Meaning, meaning
from gpuq.script.shell import ASSIGNMENT, absolute


@dataclass(frozen=True)
class _Engine:
    """A program that starts containers."""

    switches: frozenset[str]
    """Options without a value; all others have one. Letters may be joined."""
    mounts: frozenset[str]
    folder: frozenset[str]
    """Options that give the folder in the container."""
    starts: frozenset[str] = frozenset({"run", "exec"})
    """Words before its options; none where it takes none."""
    sees_host: bool = False
    """Whether it starts in the folder of the host, whose paths hold in the container too."""


# fmt: off
_DOCKER = _Engine(
    frozenset({
        "-d", "-i", "-t", "-P", "-q", "--detach", "--disable-content-trust", "--env-host", "--http-proxy", "--init",
        "--interactive", "--no-healthcheck", "--no-hosts", "--oom-kill-disable", "--privileged", "--publish-all", "--quiet",
        "--read-only", "--replace", "--rm", "--rmi", "--sig-proxy", "--tls-verify", "--tty",
    }),
    mounts=frozenset({"-v", "--volume", "--mount"}),
    folder=frozenset({"-w", "--workdir"}),
)
_APPTAINER = _Engine(
    frozenset({
        "-c", "-C", "-e", "-f", "-i", "-p", "-u", "-w", "--cleanenv", "--compat", "--contain", "--containall", "--disable-cache",
        "--fakeroot", "--ipc", "--keep-privs", "--net", "--no-compat", "--no-eval", "--no-home", "--no-https", "--no-init",
        "--no-privs", "--no-umask", "--nv", "--nvccli", "--oci", "--pid", "--rocm", "--sharens", "--underlay", "--unsquash",
        "--userns", "--uts", "--vm", "--writable", "--writable-tmpfs",
    }),
    mounts=frozenset({"-B", "--bind", "--mount"}),
    folder=frozenset({"--pwd", "--cwd"}),
    sees_host=True,
)
# fmt: on
_ENROOT = _Engine(
    frozenset({"-r", "-w", "--root", "--rw"}),
    mounts=frozenset({"-m", "--mount"}),
    folder=frozenset(),
    starts=frozenset({"start"}),
)
_CHARLIECLOUD = _Engine(
    frozenset(
        {"-w", "-W", "-v", "-q", "--write", "--write-fake", "--no-passwd", "--private-tmp", "--unset-env", "--verbose"}
    ),
    mounts=frozenset({"-b", "--bind"}),
    folder=frozenset({"-c", "--cd"}),
    starts=frozenset(),
)
_ENGINES = {
    "enroot": _ENROOT,
    "ch-run": _CHARLIECLOUD,
    **dict.fromkeys(("docker", "podman", "nerdctl"), _DOCKER),
    **dict.fromkeys(("apptainer", "singularity"), _APPTAINER),
}
# Launchers that put what they start into a container if they are given these options: image, mounts. gpuq's own, which mounts the
# folder and the home, is the module behind `gpuq submit --image`.
ENVIRONMENT = "gpuq_environment"
_BY_OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "srun": (("--container-image",), ("--container-mounts",)),
    "shifter": (("--image",), ("--volume", "-V")),
    ENVIRONMENT: (("--image",), ()),
}
# What an engine that shows the host's folders shows by default, beside the working folder.
_SEEN = ("~", "/home", "/tmp")  # noqa: S108 - only compared with


_ODD = re.compile(r"[^\w]+")


class Container(NamedTuple):
    """A container that a command starts."""

    image: str
    words: tuple[str, ...]
    start: int
    """Where what it runs begins in `words`."""
    cwd: str
    """The folder in the container; empty where the image says it."""
    mounts: tuple[tuple[str, str], ...]
    """(folder in the container, folder of the host)."""
    env: Mapping[str, str]
    sees_host: bool
    given: tuple[tuple[str, str], ...] = ()
    """Those of `mounts` that the command names."""
    env_files: tuple[str, ...] = ()

    def settings(self, program: str) -> tuple[str, ...]:
        """What it says of the data and variables of `program`, a path in it, as words `--name=value`. The folder of the program
        is none of its data, nor is one for results."""
        others = [
            (inside, host) for inside, host in self.given if not f"{program}/".startswith(f"{inside.rstrip('/')}/")
        ]
        data = (
            f"--data-at{_ODD.sub('-', inside)}={host}"
            for inside, host in others
            if meaning(f"{posixpath.basename(inside)}-dir") is not Meaning.OUTPUT
        )
        return (*(f"--env-file={path}" for path in self.env_files), *data)

    def outside(self, path: str) -> str | None:
        """The path on the host; None for one of the image, or of a volume."""
        around = [pair for pair in self.mounts if f"{path}/".startswith(f"{pair[0].rstrip('/')}/")]
        if not around:
            return None
        inside, host = max(reversed(around), key=lambda pair: len(pair[0]))
        return absolute(path[len(inside.rstrip("/")) :].lstrip("/"), host)


def container(name: str, words: tuple[str, ...], start: int, cwd: str) -> Container | None:
    """The container that the program `name` starts, whose options begin at `start`; None where it starts none."""
    engine = _ENGINES.get(name)
    if engine is None:
        return None
    begins = (place + 1 for place in range(start, len(words)) if words[place] in engine.starts)
    place = next(begins, len(words)) if engine.starts else start
    inside = cwd if engine.sees_host else ""
    seen = [(path, path) for path in (cwd, *_SEEN)] if engine.sees_host else []
    given: list[tuple[str, str]] = []
    env: dict[str, str] = {}
    env_files: list[str] = []
    entry = ""
    while place < len(words) and words[place].startswith("-"):
        option, value, place = _option(engine, words, place)
        if option in engine.folder:
            inside = absolute(value, inside or "/")
        elif option in engine.mounts:
            given += _mounts(value, cwd)
        elif option == "--env-file":
            env_files.append(absolute(value, cwd))
        elif option in ("-e", "--env"):
            env |= {one[1]: one[2] for part in value.split(",") if (one := ASSIGNMENT.fullmatch(part))}
        elif option == "--entrypoint":
            entry = value
    if place >= len(words):
        return None
    image, start = words[place], place + 1
    start += words[start : start + 1] == ("--",)
    if entry:
        # This program takes what follows the image as its arguments.
        words, start = (*words[:place], entry, *words[place + 1 :]), place
    mounts = (*seen, *given)
    return Container(image, words, start, inside, mounts, env, engine.sees_host, tuple(given), tuple(env_files))


def container_by_options(name: str, options: tuple[str, ...], cwd: str) -> Container | None:
    """The container that the launcher `name` puts its program into, by its own `options`; None for none."""
    of_image, of_mounts = _BY_OPTIONS.get(name, ((), ()))
    image = first_value(of_image, options)
    if image is None:
        return None
    values = (value_of(of_mounts, options, place) for place in range(len(options)))
    mounts = tuple(pair for value in values if value for pair in _mounts(value.replace(";", ","), cwd))
    sees_host = name == ENVIRONMENT
    inside, seen = (cwd, tuple((path, path) for path in (cwd, *_SEEN))) if sees_host else ("", ())
    return Container(image, options, len(options), inside, (*seen, *mounts), {}, sees_host, given=mounts)


def value_of(options: Sequence[str], words: Sequence[str], place: int) -> str | None:
    """The value of the option at `place`, if it is one of these: `-C x`, `-Cx`, `--chdir x` or `--chdir=x`."""
    word = words[place]
    for option in options:
        if word == option:
            return words[place + 1] if place + 1 < len(words) else None
        rest = word[len(option) :] if word.startswith(option) else ""
        if rest.startswith("=") or (rest and len(option) == 2):
            return rest.removeprefix("=")
    return None


def first_value(options: Sequence[str], words: Sequence[str]) -> str | None:
    """The first value of one of these options, None for none."""
    values = (value_of(options, words, place) for place in range(len(words)))
    return next((value for value in values if value), None)


def _option(engine: _Engine, words: Sequence[str], place: int) -> tuple[str, str, int]:
    """(name, value, where the next one begins) of the option at `place`."""
    word = words[place]
    if word.startswith("--"):
        name, equals, value = word.partition("=")
    else:
        joined = next((at for at in range(1, len(word)) if f"-{word[at]}" not in engine.switches), None)
        if joined is None:
            return word, "", place + 1
        name, value = f"-{word[joined]}", word[joined + 1 :].removeprefix("=")
        equals = value
    if equals or name in engine.switches:
        return name, value, place + 1
    return name, words[place + 1] if place + 1 < len(words) else "", place + 2


def _mounts(text: str, cwd: str) -> list[tuple[str, str]]:
    """(folder in the container, folder of the host) of `/host:/inside:ro` or `type=bind,source=/host,target=/inside`."""
    if "=" in text:
        named = dict(part.partition("=")[::2] for part in text.split(","))
        host = named.get("source") or named.get("src")
        inside = named.get("target") or named.get("destination") or named.get("dst") or host
        pairs = [(inside, host)]
    else:
        pairs = [
            (parts[1] if len(parts) > 1 else parts[0], parts[0])
            for part in text.split(",")
            if (parts := part.split(":"))
        ]
    # A name without a slash is a volume, whose files only the engine knows.
    return [
        (inside, absolute(host, cwd)) for inside, host in pairs if inside and host and host.startswith(("/", ".", "~"))
    ]
