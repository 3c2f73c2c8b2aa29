"""The laboratory's verbs: found by entry point, and refused with the command that installs them."""

from __future__ import annotations

import importlib.util
from importlib.metadata import EntryPoints

import pytest

from gpuq.cli import programs
from gpuq.cli.main import main
from gpuq.errors import BadInput

VERBS = [("characterize", "list.toml"), ("model", "characterize"), ("model", "evaluate")]


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What this process was to be replaced by."""
    found: list[list[str]] = []
    monkeypatch.setattr(programs, "become_module", found.append)
    return found


@pytest.mark.parametrize("words", VERBS)
def test_without_a_library_of_the_extra_one_sentence_says_how_to_install_it(
    words: tuple[str, ...], became: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "scipy" else found(name))
    assert main(list(words)) == BadInput.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert "is part of gpuq's laboratory, which is not installed (scipy not found)." in err
    assert "pip install 'gpuq-daemon[lab]'" in err
    assert len(err.splitlines()) == 2
    assert became == []


def test_plots_need_matplotlib_and_nothing_else_does(
    became: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    main(["model", "characterize", "--data=here"])
    assert became == [["gpuq.lab.characterize.command", "--data=here"]]
    assert main(["model", "characterize", "--out=there"]) == BadInput.exit_code
    assert "(matplotlib not found)" in capsys.readouterr().err


def test_without_the_laboratory_its_verbs_say_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints(()))
    assert main(["characterize", "list.toml"]) == BadInput.exit_code
    assert "pip install 'gpuq-daemon[lab]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (("characterize", "list.toml"), "gpuq.lab.campaign"),
        (("model", "characterize"), "gpuq.lab.characterize.command"),
        (("model", "evaluate"), "gpuq.lab.evaluate"),
    ],
)
def test_each_verb_becomes_the_module_of_its_entry_point(
    words: tuple[str, ...], module: str, became: list[list[str]]
) -> None:
    main(list(words))
    assert [arguments[0] for arguments in became] == [module]
