"""List the packages that gpuq and its trainings need and this machine lacks, for a machine without a network.

The requirements are read from the project's own metadata. The result is names with versions, and the commands that download
the wheels on another machine and install them on this one.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
# Beside the daemon's own: Keras' trainings on PyTorch, and the learner that reads what was measured.
ALSO = ("keras>=3", "scikit-learn>=1.5,<2", "scipy>=1.13,<2")


def missing(wanted: Iterable[str] | None = None) -> list[str]:
    """Requirements that this Python does not meet, with what those that are there need in their turn."""
    found: dict[str, str] = {}
    _visit([*_own(), *ALSO] if wanted is None else list(wanted), found, set())
    return sorted(found.values())


def commands(requirements: Iterable[str]) -> list[str]:
    """Two for a checkout on a machine that has a network, which leave the folder `wheels`; two for here, with that folder.

    A virtual environment over the machine's own packages: what is there, PyTorch above all, is used as it is.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = " ".join(f"'{one}'" for one in requirements)
    return [
        f"pip download --only-binary=:all: --python-version {version} --dest wheels {words}",
        "pip wheel --no-deps --wheel-dir wheels .",
        f"{sys.executable} -m venv --system-site-packages gpu-venv",
        f"gpu-venv/bin/pip install --no-index --find-links wheels gpuq-daemon {words}",
    ]


def _own() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["project"]["dependencies"])


def _visit(requirements: Iterable[str], found: dict[str, str], seen: set[str]) -> None:
    for requirement in map(Requirement, requirements):
        if requirement.name in seen or (
            requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        seen.add(requirement.name)
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            installed = None
        if installed is None or not requirement.specifier.contains(installed, prereleases=True):
            found[requirement.name] = f"{requirement.name}{requirement.specifier}"
        else:
            _visit(_needs(requirement.name), found, seen)


def _needs(name: str) -> Iterator[str]:
    yield from metadata.requires(name) or ()
