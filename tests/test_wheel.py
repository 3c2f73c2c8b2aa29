"""The wheel: what it puts into a site's Python, and what its extras bring."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from gpuq.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def files(wheel: zipfile.ZipFile) -> list[str]:
    return wheel.namelist()


def test_every_top_level_name_is_gpuqs_own(files: list[str]) -> None:
    top = {name.split("/")[0] for name in files if ".dist-info/" not in name and ".data/data/share/man/" not in name}
    assert {name.removesuffix(".py") for name in top} == {
        "gpuq",
        "gpuq_broker",
        "gpuq_migrations",
        "gpuq_units",
        "gpuq_workers",
    }


def test_files_that_are_no_python_are_in_it(files: list[str]) -> None:
    templates = {"gpuq/document/document.html", "gpuq/sim/report/page.html", "gpuq/sim/report/page.css"}
    assert templates | {"gpuq_migrations/env.py", "gpuq/lab/rivals/__init__.py"} <= set(files)


def test_the_extra_train_has_what_the_laboratory_needs() -> None:
    """`make setup` installs `train`, and with it the laboratory."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(extras["lab"]) <= set(extras["train"])


def test_every_verb_has_a_manual_page_with_all_its_options(wheel: zipfile.ZipFile, files: list[str]) -> None:
    pages = {Path(name).stem: name for name in files if name.endswith(".1")}
    assert set(pages) == {"gpuq", *(f"gpuq-{verb}" for verb in VERBS)}
    text = wheel.read(pages["gpuq-submit"]).decode()
    assert r"\-\-max\-slowdown X" in text
    assert "Jobs of a kind share what is learned." in text, "rare options too"


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_manual_pages_are_clean_for_groff(wheel: zipfile.ZipFile, files: list[str]) -> None:
    pages = b"".join(wheel.read(name) for name in files if name.endswith(".1"))
    done = subprocess.run(["groff", "-man", "-ww", "-z"], input=pages, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
