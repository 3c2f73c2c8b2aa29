"""The package for a host that joins: the distributions that gpuq needs, as they are installed here, in one tar file.

So that host needs no registry, and runs what the main host runs. Compiled modules are for one version of Python, one kind of
machine and its C library, so only a host that has the same gets it.
"""

from __future__ import annotations

import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import gpuq
from gpuq.errors import Conflict

DISTRIBUTION = "gpuq-daemon"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OWN = ("gpuq", "gpuq_broker", "gpuq_workers")
_SKIPPED = ("__pycache__", ".pth", "direct_url.json")


def platform_name() -> str:
    """What compiled modules are for, as in `cpython-3.11 x86_64`."""
    return f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]} {platform.machine()}"


def check_platform(given: str) -> None:
    """Raise Conflict unless the package of this host can run there."""
    if given != platform_name():
        raise Conflict(
            f"That host has {given[:60]!r}, this one {platform_name()}: it cannot run what is installed here.",
            fix="Install the same Python there, or gpuq by pip into /opt/gpuq; then run the command again.",
        )


def build(target: Path) -> None:
    """Write the tar file: `site-packages/` as it is to be there, and `units/`. Replaces it whole; blocks for some seconds."""
    draft = target.with_name(f"{target.name}.draft")
    with tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in sorted(_files()):
            info = tar.gettarinfo(path, f"site-packages/{name}")
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mode = 0o755 if info.mode & 0o100 else 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
        for path in sorted(_units().rglob("*")):
            if path.is_file() and not _is_skipped(path.name):
                body = path.read_bytes()
                info = tarfile.TarInfo(f"units/{path.relative_to(_units())}")
                info.size = len(body)
                info.mode = 0o644
                tar.addfile(info, io.BytesIO(body))
    draft.replace(target)


def _files() -> Iterator[tuple[str, Path]]:
    """(path below `site-packages`, file) of all distributions, gpuq's own modules from where they are imported."""
    for module in _OWN:
        spec = find_spec(module)
        if spec is None:
            continue
        folder = Path(spec.origin or "").parent
        for path in folder.rglob("*"):
            if path.is_file() and not _is_skipped(str(path)):
                yield f"{folder.name}/{path.relative_to(folder)}", path
    for distribution in _closure(DISTRIBUTION):
        for entry in distribution.files or ():
            name = str(entry)
            path = Path(str(entry.locate()))
            if name.startswith(("..", *(f"{own}/" for own in _OWN))) or _is_skipped(name) or not path.is_file():
                continue
            yield name, path


def _closure(name: str) -> list[metadata.Distribution]:
    """The distribution and what it needs, as far as that is installed. Extras are left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop().lower().replace("_", "-")
        if one in found:
            continue
        try:
            found[one] = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        for requirement in found[one].requires or ():
            matched = _NAME.match(requirement)
            if matched and "extra ==" not in requirement:
                waiting.append(matched[0])
    return list(found.values())


def _units() -> Path:
    """The units: `systemd` in a checkout, `gpuq_units` where the wheel is installed."""
    beside = Path(gpuq.__file__).parent.parent
    return next(beside / name for name in ("systemd", "gpuq_units") if (beside / name / "render.py").exists())


def _is_skipped(name: str) -> bool:
    return any(part in name for part in _SKIPPED)
