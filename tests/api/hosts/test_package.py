"""The package for a host that joins: gpuq and what it needs to run, as it is installed here, and nothing else."""

from __future__ import annotations

import tarfile
from importlib import metadata
from pathlib import Path

import pytest

from gpuq.api.hosts import package
from gpuq.errors import Conflict


def test_it_has_gpuq_its_requirements_and_the_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "_closure", lambda _: [metadata.distribution("msgspec")])
    package.build(tmp_path / "package.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["package.tar"]
    with tarfile.open(tmp_path / "package.tar") as tar:
        members = {member.name: member for member in tar}
    packed = {"gpuq/home.py", "gpuq/api/page/page.css", "gpuq_workers/join.py", "msgspec/__init__.py"}
    assert {f"site-packages/{name}" for name in packed} | {"units/render.py", "units/gpuq-worker.service"} <= set(
        members
    )
    assert not [name for name in members if "__pycache__" in name or name.endswith(".pth")]
    assert {(member.uid, member.mode & 0o022) for member in members.values()} == {(0, 0)}


def test_requirements_of_requirements_belong_to_it_and_extras_do_not() -> None:
    names = {distribution.name.lower() for distribution in package._closure("aiohttp")}
    assert {"aiohttp", "yarl", "multidict"} <= names
    assert not {"pytest", "tensorflow"} & {one.name.lower() for one in package._closure(package.DISTRIBUTION)}


def test_another_python_is_refused() -> None:
    package.check_platform(package.platform_name())
    with pytest.raises(Conflict, match="cannot run"):
        package.check_platform(package.platform_name().replace("3.", "9."))
