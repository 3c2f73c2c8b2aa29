"""`--snapshot`: a copy of the git work tree as it is now, for the job to run in, so that later edits do not change what it runs.

A copy is a folder `snapshots/KEY/NAME` in the user's home of gpuq (`GPUQ_SNAPSHOTS` names another place): the commit, the changes
that are not committed, and untracked files. Files that git ignores (data, results, environments) are links to the real ones.
KEY is the start of the id of a commit that is made of these files, so the same files are one copy. It is a repository at the same
commit with the same changes, and shares the objects of the user's, which is left as it is. See docs/snapshot.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gpuq.cli.capture import Command
from gpuq.cli.client import HttpClient
from gpuq.cli.git import git, lines, nested
from gpuq.errors import BadInput, GpuqError
from gpuq.home import Home

KEEP_DAYS = 30
"""A copy is removed this long after the last submission that used it, unless one of its jobs still waits or runs."""
MOST_UNTRACKED_BYTES = 256 * 2**20
_KEY_LETTERS = 16
_FACTS = "snapshot.json"
# A link would have Python write the compiled modules of the copy among those of the work tree.
_NOT_LINKED = re.compile(r"(^|/)__pycache__/?$|\.pyc$")
# The same files have to give the same commit whoever commits them, and whenever.
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "gpuq"), ("EMAIL", "gpuq@localhost"), ("DATE", "1000000000 +0000"))
}


class WorkTreeCopy:
    """A copy that is there. `folder` is its top, `taken_from` the top of the work tree that it is a copy of."""

    def __init__(self, place: Path, facts: Mapping[str, str]) -> None:
        self.place = place
        self.key = place.name
        self.taken_from = Path(facts["taken_from"])
        self.folder = place / self.taken_from.name
        self.commit = facts["commit"]
        self.changed = facts["tree"] != facts["committed_tree"]

    def moved(self, path: Path) -> Path:
        """The path in the copy; a path outside the work tree stays as it is."""
        real = path.parent.resolve() / path.name
        return self.folder / real.relative_to(self.taken_from) if real.is_relative_to(self.taken_from) else path

    def original(self, path: Path) -> Path:
        """The path in the work tree of a path in the copy."""
        return self.taken_from / path.relative_to(self.folder) if path.is_relative_to(self.folder) else path

    def entered(self, folder: Path) -> Path:
        """The folder in the copy, made if git left it out because it is empty."""
        moved = self.moved(folder)
        if moved.is_relative_to(self.folder):
            moved.mkdir(parents=True, exist_ok=True)
        return moved

    def check_words(self, words: Sequence[str], folder: Path) -> None:
        """Raises BadInput for words that, from `folder`, lead out of the work tree: from the copy they would lead elsewhere."""
        for word in words:
            value = word.partition("=")[2] or word
            path = Path(os.path.normpath(folder / value))
            if value.startswith("../") and not path.is_relative_to(self.taken_from) and path.exists():
                raise BadInput(
                    f"`{word}` leads out of the repository {self.taken_from}; the job runs in a copy of it, elsewhere.",
                    fix=f"Write it as {word.replace(value, str(path))}",
                )

    def command(self, command: Command) -> Command:
        """The command with its script in the copy. Raises BadInput if the copy does not have it."""
        if command.script is None:
            return command
        script = self.moved(command.script)
        if not script.is_relative_to(self.folder):
            if str(script.parent) in os.environ.get("PATH", "").split(":"):
                return command  # a program, as `/bin/sh`
            raise BadInput(
                f"{script} is not in the repository {self.taken_from}, so that a snapshot of this does not have it.",
                fix="cd to the repository of the script, or leave --snapshot out.",
            )
        if not script.exists():
            raise BadInput(f"the snapshot has no {script.relative_to(self.folder)}.", fix="Check its path.")
        if script.resolve().is_relative_to(self.taken_from):
            raise BadInput(
                f"git ignores {self.original(script)}, so that it is not in the snapshot.",
                fix="Take it out of .gitignore, or `git add -f` it.",
            )
        words = tuple(str(script) if word == str(command.script) else word for word in command.words)
        return replace(command, words=words, script=script)

    def environment(self, env: Mapping[str, str], interpreter: str, submitted_in: Path) -> dict[str, str]:
        """The job's variables: modules are imported from the copy also where PYTHONPATH or an editable install names the tree."""
        given = [Path(entry) for entry in env.get("PYTHONPATH", "").split(":") if entry]
        ours = [self.moved(path) if path.is_absolute() else path for path in given]
        ours += [path for path in map(self.moved, _editable(interpreter, self.taken_from)) if path not in ours]
        paths = {"PYTHONPATH": ":".join(map(str, ours))} if ours else {}
        return {**env, **paths, "GPUQ_SUBMIT_DIR": str(submitted_in)}

    def facts(self) -> dict[str, str]:
        """The field `snapshot` of a submission."""
        return {"key": self.key, "folder": str(self.folder), "taken_from": str(self.taken_from)}


def take(here: Path, home: Home | None = None) -> WorkTreeCopy:
    """A copy of the work tree around `here`, made or found. Raises BadInput where there is none, or it cannot be copied whole."""
    top = _work_tree(here)
    store = _store(home)
    if store.is_relative_to(top) and _said_no(top, "check-ignore", "--quiet", str(store)):
        raise BadInput(
            f"snapshots would lie in {store}, which belongs to the tree {top} that they are copies of.",
            fix="Name a folder elsewhere: export GPUQ_SNAPSHOTS=/path/to/folder",
        )
    with _locked(store):
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=store))
        try:
            made = _copied(top, new)
            place = store / made.pop("key")
            if not (place / _FACTS).exists():
                (new / _FACTS).write_text(json.dumps(made), encoding="utf-8")
                new.rename(place)
            return _used(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def find(key: str, home: Home | None = None) -> WorkTreeCopy:
    """The copy with this key, or the only one whose key begins so. Raises BadInput."""
    store = _store(home)
    with _locked(store):
        found = sorted(store.glob(f"{key}*/{_FACTS}")) if re.fullmatch(r"[0-9a-f]{4,64}", key) else []
        if len(found) != 1:
            many = "more than one snapshot begins with" if found else "there is no snapshot"
            raise BadInput(
                f"{many} `{key}` in {store}.",
                fix=f"`gpuq show ID` prints the key of a job's; they are removed {KEEP_DAYS} days after their last use, and "
                "--snapshot makes a new one.",
            )
        return _used(found[0].parent)


def note_address(key: str, address: str, home: Home | None = None) -> None:
    """Remember which gpuq has jobs with this copy: only that one can say whether they have ended."""
    file = _store(home) / key / "addresses"
    known = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if address not in known:
        file.write_text("".join(f"{line}\n" for line in [*known, address]), encoding="utf-8")


def remove_old(client: HttpClient, now: float, home: Home | None = None) -> list[str]:
    """Remove the copies that were last used more than `KEEP_DAYS` ago and whose jobs have all ended; their keys.

    Those with jobs in a gpuq that `client` does not reach are kept. Never raises.
    """
    store = _store(home)
    try:
        old = [facts.parent for facts in store.glob(f"*/{_FACTS}") if facts.stat().st_mtime < now - KEEP_DAYS * 86_400]
        if not old:
            return []
        kept = set(_keys_in_use(client))
        with _locked(store):
            gone = [
                place
                for place in old
                if place.name not in kept
                and (place / _FACTS).stat().st_mtime < now - KEEP_DAYS * 86_400
                and (place / "addresses").read_text(encoding="utf-8").splitlines() == [client.address]
            ]
            for place in gone:
                shutil.rmtree(place, ignore_errors=True)
    except (OSError, GpuqError):
        return []
    return [place.name for place in gone]


def _keys_in_use(client: HttpClient) -> Iterator[str]:
    after = None
    while True:
        page = client.get("/api/v1/jobs", state="waiting,active", limit=1000, order="oldest", after=after)
        yield from (job["snapshot"] for job in page["jobs"] if job.get("snapshot"))
        after = page["next"]
        if after is None:
            return


def _store(home: Home | None) -> Path:
    named = os.environ.get("GPUQ_SNAPSHOTS")
    return (Path(named).expanduser() if named else (home or Home.from_environment()).root / "snapshots").absolute()


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """One process at a time makes, uses or removes copies."""
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(store / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _used(place: Path) -> WorkTreeCopy:
    facts = place / _FACTS
    os.utime(facts, (now := time.time(), now))
    return WorkTreeCopy(place, json.loads(facts.read_text(encoding="utf-8")))


def _work_tree(here: Path) -> Path:
    if shutil.which("git") is None:
        raise BadInput("--snapshot needs git, which is not on PATH.", fix="Install git, or leave --snapshot out.")
    try:
        top = Path(os.fsdecode(git(here, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except BadInput as error:
        reason = "" if "not a git repository" in error.message else f" ({error.message})"
        raise BadInput(
            f"{here} is not in the work tree of a git repository{reason}; --snapshot copies one.",
            fix="cd to one, make one (git init, git add, git commit), or leave --snapshot out.",
        ) from None
    try:
        git(top, "rev-parse", "--verify", "HEAD")
    except BadInput:
        fix = 'Make one: git commit --allow-empty -m "Start"'
        raise BadInput(f"the repository {top} has no commit yet.", fix=fix) from None
    return top


def _copied(top: Path, new: Path) -> dict[str, str]:
    """Copy the work tree into `new`; the facts of the copy, with its key. Only `new` is written. Raises BadInput."""
    folder, index = new / top.name, new / "index"
    git_dir, objects, form = (
        os.fsdecode(line)
        for line in git(
            top, "rev-parse", "--path-format=absolute", "--git-dir", "--git-path", "objects", "--show-object-format"
        ).splitlines()
    )
    git(new, "init", "--quiet", "--template=", f"--object-format={form}", str(folder))
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    (folder / ".git/objects/info/alternates").write_bytes(os.fsencode(objects) + b"\n")
    # The index, as a copy, spares git reading the files that have not changed. Its own time goes with it: git compares a file
    # that is no older than the index by content.
    copied = {"GIT_DIR": git_dir, "GIT_INDEX_FILE": str(index), "GIT_OBJECT_DIRECTORY": str(folder / ".git/objects")}
    env = {**copied, **_IDENTITY, "GIT_WORK_TREE": str(top)}
    if (Path(git_dir) / "index").exists():
        shutil.copy2(Path(git_dir) / "index", index)
    else:
        git(top, "read-tree", "HEAD", env=env)
    _check_whole(top, env)
    git(top, "add", "--all", env=env)
    _check_files(top, env)
    tree = git(top, "write-tree", env=env).decode().strip()
    message = b"Snapshot of " + os.fsencode(top)
    commit = git(top, "commit-tree", tree, "-p", "HEAD", env=env, stdin=message).decode().strip()
    head, committed = git(top, "rev-parse", "HEAD", "HEAD^{tree}").decode().split()
    facts = {"key": commit[:_KEY_LETTERS], "commit": head, "tree": tree, "committed_tree": committed}
    existing = new.parent / facts["key"]
    if (existing / _FACTS).exists():
        _link_uncopied(top, existing / top.name, env)  # there may be more of these by now
    else:
        git(folder, "checkout-index", "--all", "--quiet", env={**env, "GIT_WORK_TREE": str(folder)})
        git(folder, "update-ref", "refs/gpuq/snapshot", commit)
        git(folder, "update-ref", "--no-deref", "HEAD", head)
        git(folder, "reset", "--quiet")
        _link_outwards(top, folder)
        _link_uncopied(top, folder, env)
        index.unlink()
    return {**facts, "taken_from": str(top)}


def _check_whole(top: Path, env: Mapping[str, str]) -> None:
    """Raises BadInput for files that git would leave out of the copy, or whose size is a mistake."""
    hidden = [line[2:] for line in lines(git(top, "ls-files", "-v", "-z", env=env)) if line[:1].islower()]
    if hidden:
        name = hidden[0]
        raise BadInput(
            f"git assumes that {name} is unchanged, so that a snapshot might have an old version of it.",
            fix=f"git update-index --no-assume-unchanged {name}",
        )
    size = 0
    for name in lines(git(top, "ls-files", "--others", "--exclude-standard", "-z", env=env)):
        if name.endswith("/"):
            raise nested(name)
        size += (top / name).lstat().st_size
    if size > MOST_UNTRACKED_BYTES:
        raise BadInput(
            f"untracked files of {size / 2**20:,.0f} MiB would be copied; {MOST_UNTRACKED_BYTES // 2**20} MiB is the limit.",
            fix="List data and results in .gitignore: the job then gets links to them. `git status` shows the files.",
        )


def _check_files(top: Path, env: Mapping[str, str]) -> None:
    """Raises BadInput for what the objects of the repository do not hold: other repositories, and files kept by a filter."""
    listed = lines(git(top, "ls-files", "--stage", "-z", env=env))
    for line in listed:
        if line.startswith("160000 "):
            raise nested(line.partition("\t")[2])
    configured = git(top, "config", "--get-regexp", r"^filter\..*\.(smudge|process)$", no=b"")
    filters = {line.split(".")[1] for line in configured.decode().splitlines()}
    if not filters:
        return
    names = "".join(line.partition("\t")[2] + "\0" for line in listed)
    attributes = lines(git(top, "check-attr", "--stdin", "-z", "filter", env=env, stdin=os.fsencode(names)))
    for name, value in zip(attributes[::3], attributes[2::3], strict=True):
        if value in filters:
            raise BadInput(
                f"git keeps {name} elsewhere (filter `{value}`), so that a snapshot would not have its content.",
                fix="List such files in .gitignore, or leave --snapshot out.",
            )


def _link_outwards(top: Path, folder: Path) -> None:
    """Let relative links that lead out of the tree lead to the same place from the copy. Git in the copy sees no change."""
    moved = []
    for line in lines(git(folder, "ls-files", "--stage", "--others", "-z")):
        link = folder / line.rpartition("\t")[2]
        if link.is_symlink() and not (target := link.readlink()).is_absolute():
            meant = Path(os.path.normpath(top / link.parent.relative_to(folder) / target))
            if not meant.is_relative_to(top):
                link.unlink()
                link.symlink_to(meant)
                moved += [f"{link.relative_to(folder)}\0"] if "\t" in line else []
    if moved:
        git(folder, "update-index", "--skip-worktree", "-z", "--stdin", stdin=os.fsencode("".join(moved)))


def _link_uncopied(top: Path, folder: Path, env: Mapping[str, str]) -> None:
    """Link what git ignores, and folders without files, of which it knows nothing: results are to go there."""
    others = ("ls-files", "--others", "--exclude-standard", "--directory", "-z")
    ignored = lines(git(top, *others, "--ignored", env=env))
    empty = [name for name in lines(git(top, *others, env=env)) if name.endswith("/")]
    for name in (*ignored, *empty):
        link = folder / name.rstrip("/")
        if not _NOT_LINKED.search(name) and not link.is_symlink() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(top / name.rstrip("/"))


def _editable(interpreter: str, top: Path) -> Iterator[Path]:
    """Folders below `top` whose modules an editable install (PEP 660) lets this Python import, by the record of PEP 610."""
    for record in Path(interpreter).parent.parent.glob("lib/python3*/site-packages/*.dist-info/direct_url.json"):
        try:
            facts = json.loads(record.read_bytes())
            if not facts.get("dir_info", {}).get("editable"):
                continue
            from urllib.parse import unquote, urlsplit

            project = Path(unquote(urlsplit(facts["url"]).path)).resolve()
        except (OSError, ValueError, KeyError, AttributeError):
            continue
        if project.is_relative_to(top):
            yield from (path for path in (project / "src", project) if path.is_dir())


def _said_no(folder: Path, *arguments: str) -> bool:
    return git(folder, *arguments, no=b"no") == b"no"
