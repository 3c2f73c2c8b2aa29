"""The state of a work tree, as git says it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpuq.cli import capture
from gpuq.cli import git as git_module


def test_git_state_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "_QUICK_S", 10.0)
    assert git_module.state(tmp_path) == (None, None)
    work = tmp_path / "work"
    work.mkdir()

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, "-C", str(work), *words], capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git_module.state.cache_clear()
    assert git_module.state(work) == (None, None)
    (work / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "one")
    git_module.state.cache_clear()
    commit = git("rev-parse", "HEAD").strip()
    assert git_module.state(work) == (commit, False)
    (work / "train.py").write_text("2")
    (work / "untracked").write_text("")
    git_module.state.cache_clear()
    assert git_module.state(work) == (commit, True)
    monkeypatch.setenv("PATH", "/nonexistent")
    git_module.state.cache_clear()
    assert git_module.state(work) == (None, None)
    git_module.state.cache_clear()


def test_the_state_of_a_repository_starts_none_of_its_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives away a repository could otherwise run programs as those who submit in it."""
    monkeypatch.setattr(git_module, "_QUICK_S", 10.0)
    work, started = tmp_path / "work", tmp_path / "started"
    work.mkdir()

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, "-C", str(work), *words], check=True)

    git("init", "-q")
    (work / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "one")
    (work / ".gitattributes").write_text("*.py filter=a=b\n*.sh filter=long\n")
    git("config", "filter.a=b.clean", f"touch {started}; cat")
    git("config", "filter.a=b.required", "true")
    git("config", "filter.long.process", f"touch {started}")
    (work / "train.py").write_text("2")
    git_module.state.cache_clear()
    assert git_module.state(work)[1] is True
    (work / "run.sh").write_text("true")
    git_module.git(work, "add", "--all")
    assert not started.exists()
    git_module.state.cache_clear()


def test_an_edit_between_two_submissions_of_one_process_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "_QUICK_S", 10.0)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "train.py").write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", *who, "-C", str(tmp_path), *words], check=True)
    assert git_module.state(tmp_path)[1] is False

    (tmp_path / "train.py").write_text("2")
    capture.forget()

    assert git_module.state(tmp_path)[1] is True
