"""The wheel: what it puts into a site's Python, and what its extras bring."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_every_top_level_name_is_gpuqs_own(files: list[str]) -> None:
    top = {name.split("/")[0] for name in files if ".dist-info/" not in name}
    assert {name.removesuffix(".py") for name in top} == {
        "gpuq",
        "gpuq_broker",
        "gpuq_migrations",
        "gpuq_units",
        "gpuq_workers",
    }


def test_files_that_are_no_python_are_in_it(files: list[str]) -> None:
    assert {"gpuq/sim/report/page.css", "gpuq_migrations/env.py", "gpuq/lab/rivals/__init__.py"} <= set(files)


def test_the_extra_train_has_what_the_laboratory_needs() -> None:
    """`make setup` installs `train`, and with it the laboratory."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(extras["lab"]) <= set(extras["train"])
