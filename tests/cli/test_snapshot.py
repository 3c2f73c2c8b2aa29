"""The copy of a git work tree that `--snapshot` makes: what it holds, what it refuses, when it is removed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuq.cli import snapshot
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput
from gpuq.home import Home
from gpuq.learn.features.kind import describe
from gpuq.messages.submission import Submission
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply

Git = Callable[..., str]
DAY = 86_400


def git_in(folder: Path) -> Git:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")

    def git(*words: str) -> str:
        command = ["git", *who, "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return git


@pytest.fixture
def tree(gpuq: Command) -> Path:
    """A work tree with a commit, a change, a new file, a removed one, and files that git ignores."""
    top = gpuq.cwd / "project"
    (top / "src" / "deep").mkdir(parents=True)
    git = git_in(top.parent)
    git("init", "-q", "-b", "main", str(top))
    git = git_in(top)
    (top / "train.py").write_text("print('old')\n")
    (top / "removed.py").write_text("")
    (top / "src" / "model.py").write_text("WIDTH = 1\n")
    (top / "src" / "deep" / "__init__.py").write_text("")
    (top / ".gitignore").write_text("data/\n*.ckpt\n__pycache__/\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (top / "train.py").write_text("print('new')\n")
    (top / "removed.py").unlink()
    (top / "extra file.py").write_text("")
    (top / "run.sh").write_text("#!/bin/sh\necho run\n")
    (top / "run.sh").chmod(0o755)
    for name in ("data/train.csv", "src/best.ckpt", "src/__pycache__/model.pyc"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x")
    return top


@pytest.fixture
def store(home: Path) -> Home:
    return Home(home)


def test_a_copy_has_the_commit_the_changes_and_new_files_and_links_to_what_git_ignores(tree: Path, store: Home) -> None:
    before = git_in(tree)("status", "--porcelain"), sorted((tree / ".git").rglob("*"))
    taken = snapshot.take(tree / "src", store)
    assert (git_in(tree)("status", "--porcelain"), sorted((tree / ".git").rglob("*"))) == before, (
        "the tree is left as it is"
    )
    copy = taken.folder
    assert (copy / "train.py").read_text() == "print('new')\n"
    assert (copy / "extra file.py").exists()
    assert os.access(copy / "run.sh", os.X_OK)
    assert not (copy / "removed.py").exists()
    assert (copy / "data").readlink() == tree / "data"
    assert (copy / "src" / "best.ckpt").readlink() == tree / "src" / "best.ckpt"
    assert not (copy / "src" / "__pycache__").exists()
    assert (taken.commit, taken.changed) == (git_in(tree)("rev-parse", "HEAD"), True)
    assert not copy.is_relative_to(tree)


def test_links_lead_where_they_lead_in_the_tree_and_git_sees_no_change(tree: Path, store: Home) -> None:
    outside = tree.parent / "datasets"
    outside.mkdir()
    (outside / "train.csv").write_text("1")
    for name, target in {"data_of_all": "../datasets", "src/new": "../../datasets", "src/own": "../train.py"}.items():
        (tree / name).symlink_to(target)
    git_in(tree)("add", "data_of_all")
    git_in(tree)("commit", "-qm", "two")
    copy = snapshot.take(tree, store).folder
    assert (copy / "data_of_all" / "train.csv").read_text() == (copy / "src/new/train.csv").read_text() == "1"
    assert (copy / "src/own").resolve() == (copy / "train.py").resolve()
    assert "data_of_all" not in git_in(copy)("status", "--porcelain")


def test_folders_for_results_are_links_though_they_are_empty_and_made_later(tree: Path, store: Home) -> None:
    (tree / "checkpoints" / "first").mkdir(parents=True)
    copy = snapshot.take(tree, store).folder
    (copy / "checkpoints" / "first" / "net.pt").write_text("weights")
    assert (tree / "checkpoints" / "first" / "net.pt").read_text() == "weights"
    (tree / "checkpoints" / "first" / "net.pt").unlink()
    (tree / "src" / "figures").mkdir()
    (tree / "later.ckpt").write_text("weights")
    assert snapshot.take(tree, store).folder == copy
    assert (copy / "src" / "figures").is_dir()
    assert (copy / "later.ckpt").read_text() == "weights"


def test_tools_that_ask_git_in_a_copy_learn_the_commit_and_the_changes(tree: Path, store: Home) -> None:
    git, own = git_in(snapshot.take(tree, store).folder), git_in(tree)
    assert git("rev-parse", "HEAD") == own("rev-parse", "HEAD")
    assert git("diff", "HEAD") == own("diff", "HEAD")
    assert git("log", "--format=%s") == "one"


def test_the_same_files_are_one_copy_and_an_edit_makes_another(tree: Path, store: Home) -> None:
    first = snapshot.take(tree, store)
    (tree / "train.py").touch()
    assert snapshot.take(tree, store).key == first.key
    (tree / "train.py").write_text("print('newer')\n")
    second = snapshot.take(tree, store)
    assert second.key != first.key
    assert (first.folder / "train.py").read_text() == "print('new')\n"
    assert [p.name for p in (store.root / "snapshots").glob("[!.]*")] != [], "made outside the tree"
    assert not list((store.root / "snapshots").glob(".new-*"))


def test_a_tree_without_changes_is_its_commit(tree: Path, store: Home) -> None:
    git_in(tree)("add", ".")
    git_in(tree)("commit", "-qm", "two")
    assert not snapshot.take(tree, store).changed


def no_git(tree: Path) -> Path:
    return tree.parent


def no_commit(tree: Path) -> Path:
    git_in(tree.parent)("init", "-q", "fresh")
    return tree.parent / "fresh"


def submodule(tree: Path) -> Path:
    git_in(tree.parent)("clone", "-q", str(tree), "library")
    git_in(tree)("submodule", "add", "-q", str(tree.parent / "library"), "library")
    return tree


def nested(tree: Path) -> Path:
    git_in(tree)("clone", "-q", str(tree), "library")
    return tree


def large_files(tree: Path) -> Path:
    git_in(tree)("config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    (tree / ".gitattributes").write_text("*.bin filter=lfs\n")
    (tree / "weights.bin").write_text("x")
    return tree


def untracked_data(tree: Path) -> Path:
    with (tree / "big.npy").open("wb") as file:
        file.truncate(snapshot.MOST_UNTRACKED_BYTES + 1)
    return tree


def hidden_change(tree: Path) -> Path:
    git_in(tree)("update-index", "--assume-unchanged", "src/model.py")
    return tree


@pytest.mark.parametrize(
    ("spoilt", "sentence", "fix"),
    [
        (no_git, "not in the work tree of a git repository", "git init"),
        (no_commit, "no commit yet", "git commit"),
        (submodule, "library is a repository of its own", "cd into it"),
        (nested, "library/ is a repository of its own", "cd into it"),
        (large_files, "keeps weights.bin elsewhere (filter `lfs`)", ".gitignore"),
        (untracked_data, "untracked files of 256 MiB", ".gitignore"),
        (hidden_change, "git assumes that src/model.py is unchanged", "--no-assume-unchanged"),
    ],
)
def test_what_cannot_be_copied_whole_is_refused(
    tree: Path, store: Home, spoilt: Callable[[Path], Path], sentence: str, fix: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        snapshot.take(spoilt(tree), store)
    assert sentence in refusal.value.message
    assert fix in refusal.value.fix
    assert not list((store.root / "snapshots").glob("*/snapshot.json"))
    assert not list((store.root / "snapshots").glob(".new-*"))


def test_copies_are_not_made_in_the_tree_itself(tree: Path) -> None:
    with pytest.raises(BadInput, match="belongs to the tree"):
        snapshot.take(tree, Home(tree / "state"))
    assert snapshot.take(tree, Home(tree / "data")).folder.exists(), "git ignores that folder"


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def taken(api: FakeApi) -> Callable[[], dict[str, Any]]:
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    return lambda: api.asked("POST", "/api/v1/jobs")[-1].body


def test_a_job_runs_in_the_copy_and_stays_the_same_kind_of_work(
    gpuq: Command, tree: Path, taken: Callable[[], dict[str, Any]], home: Path
) -> None:
    done = gpuq("submit", "--snapshot", "train.py", "--lr", "0.1", cwd=tree, PYTHONPATH=f"{tree}/src:/opt/lib")
    assert (done.code, done.err) == (0, "")
    body = taken()
    copy = Path(body["snapshot"]["folder"])
    assert copy == home / "snapshots" / body["snapshot"]["key"] / "project"
    assert body["command"][1:] == [f"{copy}/train.py", "--lr", "0.1"]
    assert (body["cwd"], body["script"]) == (str(copy), str(tree / "train.py"))
    assert body["env"]["PYTHONPATH"] == f"{copy}/src:/opt/lib"
    assert body["env"]["GPUQ_SUBMIT_DIR"] == str(tree)
    assert body["git_dirty"] is True

    gpuq("submit", "train.py", "--lr", "0.1", cwd=tree, PYTHONPATH=f"{tree}/src:/opt/lib")
    assert described(body) == described(taken())


def described(body: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return describe(msgspec.convert(body, Submission), "ann")


def test_the_copy_of_an_earlier_job_runs_again_after_edits(
    gpuq: Command, tree: Path, taken: Callable[[], dict[str, Any]]
) -> None:
    gpuq("submit", "--snapshot", "train.py", cwd=tree)
    first = taken()["snapshot"]
    (tree / "train.py").unlink()
    assert gpuq("submit", "--from-snapshot", first["key"][:6], "train.py", cwd=tree).code == 0
    assert taken()["snapshot"] == first
    assert Path(taken()["command"][1]).read_text() == "print('new')\n"


@pytest.mark.parametrize("words", [["train.py"], ["--", "/bin/sh", "-e", "{tree}/train.py"]])
def test_a_job_is_submitted_again_with_the_same_files_or_those_of_now(
    gpuq: Command, tree: Path, api: FakeApi, taken: Callable[[], dict[str, Any]], words: list[str]
) -> None:
    gpuq("submit", "--snapshot", *(word.format(tree=tree) for word in words), cwd=tree)
    body = taken()
    copy = body["snapshot"]
    facts = {"snapshot": copy["key"], "snapshot_folder": copy["folder"], "snapshot_taken_from": copy["taken_from"]}
    asked = {name: body[name] for name in ("command", "cwd", "script", "name")}
    api.on("GET", "/api/v1/jobs/42", {**samples.ended(42, "FAILED", 1), **asked, **facts})
    (tree / "train.py").write_text("print('later')\n")

    def script() -> Path:
        return next(Path(word) for word in taken()["command"] if word.endswith("train.py"))

    for options, content in (([], "print('new')\n"), (["--snapshot"], "print('later')\n")):
        assert gpuq("rerun", "42", *options).code == 0
        assert Path(taken()["cwd"], script()).read_text() == content, options
        assert taken()["script"] == str(tree / "train.py")
    shutil.rmtree(Path(copy["folder"]).parent)
    done = gpuq("rerun", "42")
    assert (done.code, "--snapshot makes a new one" in done.err) == (2, True), done.err
    assert gpuq("rerun", "42", "--snapshot").code == 0


def test_scripts_in_folders_and_absolute_paths_are_those_of_the_copy(
    gpuq: Command, tree: Path, taken: Callable[[], dict[str, Any]]
) -> None:
    gpuq("submit", "--snapshot", str(tree / "train.py"), cwd=tree / "src")
    copy = Path(taken()["snapshot"]["folder"])
    assert taken()["command"][1] == str(copy / "train.py")
    assert taken()["cwd"] == str(copy / "src")
    gpuq("submit", "--snapshot", "-C", str(tree.parent), "../run.sh", cwd=tree / "src")
    assert taken()["cwd"] == str(tree.parent), "a folder outside the repository stays"
    assert str(copy / "run.sh") in taken()["command"]


def test_all_commands_of_one_request_are_the_same_files(gpuq: Command, tree: Path, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"ids": [1, 2]}, 201))
    assert gpuq("submit", "--snapshot", "--stdin", stdin="train.py 1\ntrain.py 2\n", cwd=tree).code == 0
    (request,) = api.asked("POST", "/api/v1/jobs")
    assert request.body[0]["snapshot"] == request.body[1]["snapshot"]


def test_an_editable_install_is_imported_from_the_copy(
    gpuq: Command, tree: Path, taken: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    record = tmp_path / "venv/lib/python3.11/site-packages/project-1.dist-info/direct_url.json"
    record.parent.mkdir(parents=True)
    record.write_text(f'{{"url": "file://{tree}", "dir_info": {{"editable": true}}}}')
    python.parent.mkdir()
    python.symlink_to("/bin/sh")
    gpuq("submit", "--snapshot", "--python", str(python), "train.py", cwd=tree)
    copy = taken()["snapshot"]["folder"]
    assert taken()["env"]["PYTHONPATH"] == f"{copy}/src:{copy}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--snapshot", "data/train.py"), "git ignores"),
        (("--snapshot", "../elsewhere.py"), "leads out of the repository"),
        (("--snapshot", "train.py", "--data=../elsewhere.py"), "`--data=../elsewhere.py` leads out of the repository"),
        (("--from-snapshot", "beef", "train.py"), "there is no snapshot `beef`"),
        (("--from-snapshot", "../..", "train.py"), "there is no snapshot"),
    ],
)
def test_a_script_that_a_copy_does_not_have_is_refused(
    gpuq: Command, tree: Path, api: FakeApi, words: tuple[str, ...], sentence: str
) -> None:
    (tree / "data" / "train.py").write_text("")
    (tree.parent / "elsewhere.py").write_text("")
    done = gpuq("submit", *words, cwd=tree)
    assert done.code == 2
    assert sentence in done.err
    assert len(done.err.splitlines()) == 2
    assert not api.requests


# --- removal ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def connect() -> Iterator[Callable[[str], HttpClient]]:
    with ExitStack() as stack:
        yield lambda address: stack.enter_context(closing(HttpClient(address)))


def test_copies_are_removed_when_they_are_old_and_their_jobs_have_ended(
    tree: Path, store: Home, api: FakeApi, connect: Callable[[str], HttpClient]
) -> None:
    client = connect(f"unix://{store.root}/run/api.sock")
    keys = []
    for number in range(4):
        (tree / "train.py").write_text(str(number))
        keys.append(snapshot.take(tree, store).key)
        snapshot.note_address(keys[-1], client.address, store)
    ended, waiting, elsewhere, fresh = keys
    snapshot.note_address(elsewhere, "https://other.example.org", store)
    now = (store.root / "snapshots" / fresh / "snapshot.json").stat().st_mtime
    for key in (ended, waiting, elsewhere):
        os.utime(store.root / "snapshots" / key / "snapshot.json", (now - 31 * DAY, now - 31 * DAY))
    api.on("GET", "/api/v1/jobs", Reply({"jobs": [{"id": 1, "snapshot": waiting}], "next": None}))
    assert snapshot.remove_old(client, now, store) == [ended]
    assert not (store.root / "snapshots" / ended).exists()
    assert all(
        (store.root / "snapshots" / key / "project" / "train.py").exists() for key in (waiting, elsewhere, fresh)
    )


def test_nothing_is_removed_while_the_gpuq_does_not_answer(
    tree: Path, store: Home, connect: Callable[[str], HttpClient]
) -> None:
    client = connect(f"unix://{store.root}/run/api.sock")
    key = snapshot.take(tree, store).key
    snapshot.note_address(key, client.address, store)
    assert snapshot.remove_old(client, 4e9, store) == []
    assert (store.root / "snapshots" / key).exists()
