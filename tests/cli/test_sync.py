"""Which files `--sync` sends, and what it refuses; the files that `gpuq fetch` brings, and what it does not replace."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli import sync
from gpuq.errors import BadInput
from gpuq.files import SentFile, last_line, pieces_of
from tests.cli.conftest import Command, FakeApi, Reply
from tests.cli.test_snapshot import Git, git_in


@pytest.fixture
def tree(gpuq: Command) -> Path:
    top = gpuq.cwd / "project"
    (top / "src").mkdir(parents=True)
    git = git_in(top)
    git("init", "-q", "-b", "main")
    for name, text in {
        "train.py": "print('old')\n",
        "gone.py": "",
        "src/model.py": "W = 1\n",
        "weights.bin": "tracked, and large",
        ".gitignore": "data/\n*.ckpt\n",
        ".gpuqignore": "*.bin\nnotes/\n",
    }.items():
        (top / name).write_text(text)
    git("add", ".")
    git("commit", "-qm", "one")
    (top / "train.py").write_text("print('new')\n")
    (top / "gone.py").unlink()
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "alias.py").symlink_to("src/model.py")
    for name in ("data/train.csv", "best.ckpt", "notes/a.md", "src/__pycache__/model.pyc"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x")
    return top


def test_tracked_and_new_files_are_sent_as_they_are_on_the_disk(tree: Path) -> None:
    sent = sync.take(tree / "src")
    assert [file.name for file in sent.files] == [
        *(".gitignore", ".gpuqignore", "alias.py", "run.sh", "src/model.py", "train.py")
    ]
    assert sent.folder == tree
    found = {file.name: file for file in sent.files}
    assert found["alias.py"].sha256 == found["src/model.py"].sha256, "a link to a file of the tree is that file"
    assert [name for name, file in found.items() if file.executable] == ["run.sh"]


def test_a_folder_without_git_is_sent_whole_but_for_its_gpuqignore(gpuq: Command) -> None:
    top = gpuq.cwd / "plain"
    (top / "data").mkdir(parents=True)
    for name in ("a.py", "data/big", ".gitignore"):
        (top / name).write_text("a.py\n")
    (top / ".gpuqignore").write_text("data/\n")
    assert [file.name for file in sync.take(top).files] == [".gitignore", ".gpuqignore", "a.py"]
    assert not (top / ".git").exists()


def link_out(tree: Path, git: Git) -> None:
    (tree / "dataset").symlink_to("/usr")


def dangling(tree: Path, git: Git) -> None:
    (tree / "dataset").symlink_to("nowhere")


def submodule(tree: Path, git: Git) -> None:
    other = tree.parent / "other"
    other.mkdir()
    git_in(other)("init", "-q")
    git_in(other)("commit", "-qm", "one", "--allow-empty")
    git("submodule", "--quiet", "add", str(other), "library")


def strange_name(tree: Path, git: Git) -> None:
    (tree / "a\nb.py").write_text("")


@pytest.mark.parametrize(
    ("change", "sentence", "fix"),
    [
        (link_out, "dataset is a link to /usr, which is no file of the tree", "List it in .gpuqignore"),
        (dangling, "dataset is a link to nowhere", ".gpuqignore"),
        (submodule, "library is a repository of its own", ".gpuqignore"),
        (strange_name, r"has a name that cannot be sent", "Rename it"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_way_out(change: Any, sentence: str, fix: str, tree: Path) -> None:
    change(tree, git_in(tree))
    with pytest.raises(BadInput) as refused:
        sync.take(tree)
    assert sentence in refused.value.message
    assert fix in refused.value.fix
    (tree / ".gpuqignore").write_text("*.bin\ndataset\nlibrary\na?b.py\n")
    assert "train.py" in [file.name for file in sync.take(tree).files], "the fix works"


def test_the_home_and_too_many_files_are_refused(gpuq: Command, monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    monkeypatch.setenv("HOME", str(gpuq.cwd))
    with pytest.raises(BadInput, match="would send all of"):
        sync.take(gpuq.cwd)
    monkeypatch.setattr(sync, "MOST_FILES", 5)
    with pytest.raises(BadInput, match=r"8 files of .* would be sent; 5 is the limit"):
        sync.take(tree)


def takes(api: FakeApi, *missing: list[str]) -> None:
    api.on("POST", "/api/v1/trees", *({"tree": "0" * 64, "missing": one} for one in missing))
    api.on("POST", "/api/v1/trees/files", {"count": 1})
    api.on("POST", "/api/v1/jobs", Reply({"id": 7, "dispatcher": "alive"}, 201))


def test_the_submission_names_the_tree_and_takes_no_variable_along(gpuq: Command, api: FakeApi, tree: Path) -> None:
    takes(api, [])
    done = gpuq(
        "submit",
        "--sync",
        "-e",
        "SEED=1",
        "--python",
        "/opt/torch/bin/python",
        "../train.py",
        "--lr",
        "0.1",
        cwd=tree / "src",
    )
    assert (done.code, done.out, done.err) == (0, "7\n", "")
    (request,) = api.asked("POST", "/api/v1/jobs")
    body = request.body
    assert body["sync"] == {"tree": sync.take(tree).id, "folder": str(tree)}
    assert body["command"] == ["/opt/torch/bin/python", str(tree / "train.py"), "--lr", "0.1"]
    assert (body["cwd"], body["env"], body["script"]) == (str(tree / "src"), {"SEED": "1"}, str(tree / "train.py"))
    assert not api.asked("POST", "/api/v1/trees/files"), "nothing was missing"


def test_only_missing_contents_are_sent(gpuq: Command, api: FakeApi, tree: Path) -> None:
    wanted = next(file.sha256 for file in sync.take(tree).files if file.name == "train.py")
    takes(api, [wanted], [])
    assert gpuq("submit", "--sync", "train.py", cwd=tree).code == 0
    assert len(api.asked("POST", "/api/v1/trees")) == 2
    (request,) = api.asked("POST", "/api/v1/trees/files")
    assert (
        request.body
        == b'{"name": "train.py", "size": 13, "executable": false}\nprint(\'new\')\n{"end": 1, "left_out": []}\n'
    )


def test_a_file_that_is_missing_again_and_again_has_changed(gpuq: Command, api: FakeApi, tree: Path) -> None:
    takes(api, [sync.take(tree).files[0].sha256])
    done = gpuq("submit", "--sync", "train.py", cwd=tree)
    assert (done.code, "changed while it was sent" in done.err) == (6, True)
    assert not api.asked("POST", "/api/v1/jobs")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--snapshot", "train.py"), "goes with neither --snapshot"),
        (("data/train.py",), "is not sent: git or .gpuqignore ignores it"),
        (("train.py", "--data", "../../elsewhere"), "leads out of"),
        (("train.py", "--data=../up"), "leads out of"),
        (("--chdir", "/usr", "train.py"), "/usr is not below"),
        (("/usr/bin/env",), "is not sent: it is not below"),
    ],
)
def test_what_would_lead_elsewhere_on_the_host_is_refused(
    words: tuple[str, ...], sentence: str, gpuq: Command, api: FakeApi, tree: Path
) -> None:
    (tree / "data/train.py").write_text("")
    done = gpuq("submit", "--sync", *words, cwd=tree)
    assert (done.code, sentence in done.err) == (2, True), done.err
    assert not api.requests


def answer(*files: tuple[str, bytes], left_out: tuple[str, ...] = (), cut: int = 0) -> Reply:
    pieces = (pieces_of(SentFile(name, len(content)), io.BytesIO(content)) for name, content in files)
    raw = b"".join(piece for one in pieces for piece in one) + last_line(len(files), left_out)
    return Reply(raw=raw[: len(raw) - cut])


@pytest.fixture
def here(gpuq: Command) -> Path:
    (gpuq.cwd / "here").mkdir()
    return gpuq.cwd / "here"


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_files_are_brought_into_a_folder_of_their_own(gpuq: Command, api: FakeApi, here: Path) -> None:
    api.on("GET", "/api/v1/jobs/7/files", answer(("out/a.csv", b"1"), ("b", b"22"), left_out=("link",)))
    done = gpuq("fetch", "7", cwd=here)
    assert (done.code, done.out) == (0, "out/a.csv\nb\n")
    assert done.err == f"gpuq: 2 files, 3 bytes, in {here}/gpuq-7.\ngpuq: left out, as links or no plain files: link.\n"
    assert listed(here) == ["gpuq-7/.gitignore", "gpuq-7/b", "gpuq-7/out/a.csv"]
    again = gpuq("fetch", "7", "--json", "out", "*.csv", "--attempt", "2", cwd=here)
    assert again.json == {
        "to": f"{here}/gpuq-7",
        "files": [{"name": "out/a.csv", "size": 1}, {"name": "b", "size": 2}],
        "left_out": ["link"],
    }
    assert api.asked("GET", "/api/v1/jobs/7/files")[-1].query == {"match": "out,*.csv", "attempt": "2"}


def test_nothing_is_replaced_without_force_and_then_none_is_written(gpuq: Command, api: FakeApi, here: Path) -> None:
    api.on("GET", "/api/v1/jobs/7/files", answer(("new", b"1"), ("same", b"2"), ("other", b"3")))
    (here / "same").write_text("2")
    (here / "other").write_text("mine")
    done = gpuq("fetch", "7", "--to", ".", cwd=here)
    assert (done.code, "with the names other; nothing was written" in done.err) == (6, True)
    assert listed(here) == ["other", "same"]
    assert (here / "other").read_text() == "mine"
    assert gpuq("fetch", "7", "--to", ".", "--force", cwd=here).code == 0
    assert (here / "other").read_text() == "3"
    assert listed(here) == ["new", "other", "same"]


def test_nothing_is_written_over_a_link_even_with_force(gpuq: Command, api: FakeApi, here: Path) -> None:
    elsewhere = gpuq.cwd / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (here / "out").symlink_to(elsewhere)
    (here / "file").symlink_to(elsewhere / "file")
    for name in ("out/file", "file"):
        api.on("GET", "/api/v1/jobs/7/files", answer((name, b"theirs")))
        assert gpuq("fetch", "7", "--to", ".", "--force", cwd=here).code == 6
    assert [path.read_text() for path in elsewhere.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "reply",
    [
        answer(("a", b"1"), ("b", b"2"), cut=3),
        Reply(raw=b'{"name": "../up", "size": 1, "executable": true}\nx{"end": 1, "left_out": []}\n'),
        Reply(raw=b'{"name": ".git/hooks/pre-commit", "size": 1, "executable": true}\nx{"end": 1, "left_out": []}\n'),
        Reply(raw=b""),
    ],
)
def test_a_stream_that_is_broken_or_hostile_leaves_nothing(
    reply: Reply, gpuq: Command, api: FakeApi, here: Path
) -> None:
    api.on("GET", "/api/v1/jobs/7/files", reply)
    done = gpuq("fetch", "7", cwd=here)
    assert (done.code, "did not come whole" in done.err, "nothing was written" in done.err) == (4, True, True), done.err
    assert list(here.iterdir()) == []
    assert "Traceback" not in done.err
