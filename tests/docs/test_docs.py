"""What the documents name exists, and what exists is documented."""

import importlib
import os
import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import MISSING
from functools import cache
from io import StringIO
from pathlib import Path
from typing import get_type_hints

import pytest

from gpuq.cli.main import ALIASES, COMMON_OPTIONS, VERBS, main
from gpuq.client import Client
from gpuq.core.state.verdict import Rule
from gpuq.errors import GpuqError
from gpuq.home import Home
from gpuq.settings import GROUPS, expected, setting_fields

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
]
DOCUMENTS = [path for path in FILES if path.suffix == ".md" and path.exists()]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\bGPUQ_[A-Z][A-Z_]*[A-Z]\b")


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the command sqlite3")
def test_a_backup_as_documented_is_closed_to_others(tmp_path: Path) -> None:
    """Run under the usual umask, with `/backup` elsewhere."""
    home, backup = tmp_path / "home", tmp_path / "backup"
    (home / "models").mkdir(parents=True)
    backup.mkdir()
    for name in ("gpuq.db", "order.key", "token", "models/card.json"):
        (home / name).touch(mode=0o600)
    section = OPERATIONS.split("## Backup and restore")[1]
    commands = next(body for _, body in BLOCK.findall(section)).replace("/backup/", f"{backup}/")
    subprocess.run(["sh", "-ec", commands], env={**os.environ, "GPUQ_HOME": str(home)}, umask=0o022, check=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in backup.rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(("gpuq.db", "order.key", "token", "card.json"), 0o600)


def test_every_file_of_the_home_is_listed() -> None:
    section = OPERATIONS.split("## Files")[1].split("\n## ")[0]
    listed = set(re.findall(r"`([a-z.]+)/?", section))
    home = Home(Path("/home"))
    paths = [getattr(home, name) for name, value in vars(Home).items() if isinstance(value, property)]
    inside = {
        path.relative_to(home.root).parts[0]
        for path in paths
        if isinstance(path, Path) and path.is_relative_to(home.root)
    }
    assert len(inside) > 20
    assert inside <= listed


def test_every_method_of_the_client_is_named() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    methods = {name for name in vars(Client) if not name.startswith("_")} - {"close", "submit_all"}
    assert {"submit", "fetch"} <= methods
    assert methods <= set(re.findall(r"`(\w+)`", text)) | set(re.findall(r"client\.(\w+)\(", text))


def test_every_part_that_doctor_checks_is_explained() -> None:
    cli = ROOT / "gpuq" / "cli"
    sources = ((cli / name).read_text() for name in ("verbs/doctor.py", "daemon_checks.py"))
    parts = {part for source in sources for part in re.findall(r'Check\("(\w+)"', source)}
    section = OPERATIONS.split("## What `gpuq doctor` says")[1].split("\n## ")[0]
    assert len(parts) > 10
    assert parts <= set(re.findall(r"`(\w+)`", section))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- settings and environment --------------------------------------------------------------------------------------


def documented_settings(group: str) -> dict[str, tuple[str, str]]:
    """name -> (default, what it must be), as the table of one group has it."""
    section = re.search(rf"^## `\[{group}\]`.*?\n(.*?)(?=^##)", SETTINGS, re.MULTILINE | re.DOTALL)
    assert section, f"docs/settings.md has no section [{group}]"
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| .+ \|$", section[1], re.MULTILINE)
    return {name: (default, allowed) for name, default, allowed in rows}


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_is_documented_with_its_default_and_no_other_is(group):
    written, hints = documented_settings(group), get_type_hints(GROUPS[group], include_extras=True)
    real = {field.name: field.default for field in setting_fields(group).values()}
    assert set(written) == set(real)
    for name, default in real.items():
        said, allowed = written[name]
        assert allowed == expected(hints[name]), name
        if default is MISSING:
            assert "`" not in said, f"{name} has no fixed default"
            continue
        value = tomllib.loads(f"x = {said.strip('`')}")["x"]
        assert (type(value), value) == (
            (list, list(default)) if isinstance(default, tuple) else (type(default), default)
        ), name


def variables_of_settings() -> set[str]:
    return {f"GPUQ_{group}_{field.name}".upper() for group in GROUPS for field in setting_fields(group).values()}


@cache
def variables_in_code() -> set[str]:
    """Every variable that the program, not its comments, names."""
    sources = [
        path
        for path in FILES
        if (path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("gpuq", "workers", "workloads"))
        or path == ROOT / "tests" / "support" / "lab.py"
    ]
    quoted = re.compile(r"""["'](GPUQ_[A-Z_]+)["']|\b(GPUQ_[A-Z_]+)=""")
    return {name for path in sources for pair in quoted.findall(path.read_text()) for name in pair if name} - {"GPUQ_"}


def test_every_variable_that_the_program_reads_or_sets_is_in_settings():
    assert {"GPUQ_HOME", "GPUQ_JOB_ID"} <= variables_in_code()
    missing = variables_in_code() - variables_of_settings() - set(VARIABLE.findall(SETTINGS))
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_variable_that_a_document_names_exists(document):
    known = variables_in_code() | variables_of_settings() | {"GPUQ_GROUP_FIELD"}
    assert not set(VARIABLE.findall(document.read_text())) - known


# --- commands ------------------------------------------------------------------------------------------------------


def commands_in(text: str) -> Iterator[list[str]]:
    """The words behind `gpuq` wherever it stands as a command: at the start of a span, in a block at that of a command."""
    for kind, block in BLOCK.findall(text):
        if kind in ("", "sh", "console", "bash", "text"):
            for part in re.split(r"\n|\||&&|;|\$\(", block.replace("\\\n", " ")):
                words = part.partition("  #")[0].removeprefix("$ ").split()
                if words[:2] == ["sudo", "-u"]:
                    words = words[3:]
                while words and "=" in words[0]:  # variables before a command
                    words = words[1:]
                if words and words[0].rpartition("/")[2] == "gpuq" and "─" not in part:
                    yield words[1:]
    for span in re.findall(r"`(gpuq [^`]+)`", BLOCK.sub("", text)):
        yield span.split()[1:]


def verb_of(words: list[str]) -> str | None:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if COMMON_OPTIONS.get(rest[0]) else rest[1:]
    return rest[0] if rest else None


def own_options(words: list[str]) -> list[str]:
    """Options of ours: those before the script."""
    own = []
    for word in words:
        if word == "--" or word.endswith(".py"):
            break
        if word.startswith("-"):
            own.append(word.partition("=")[0].strip("[],"))
    return own


@cache
def help_of(verb: str | None) -> str:
    words = [verb] if verb in {*VERBS, *ALIASES} else []
    with redirect_stdout(StringIO()) as printed:
        try:
            code: object = main([*words, "--help"])
        except SystemExit as ended:
            code = ended.code
    assert code in (0, None), verb
    return printed.getvalue()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_verb_and_option_that_a_document_names_exists(document):
    for words in commands_in(document.read_text()):
        verb = verb_of(words)
        if verb is not None and verb.isupper():
            continue  # `gpuq VERB --help`
        assert verb in {None, "help", *VERBS, *ALIASES}, f"gpuq {' '.join(words)}"
        for option in own_options(words):
            text = help_of(verb) + " --help --version"
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"gpuq {' '.join(words)}: {option}"


def test_the_search_for_commands_finds_them():
    text = """
`gpuq frobnicate 1` and
```sh
sudo -u gpuq GPUQ_HOME=/x /opt/gpuq/bin/gpuq doctor
chown gpuq file && gpuq submit --bad t.py --own
```
"""
    assert sorted(commands_in(text)) == [["doctor"], ["frobnicate", "1"], ["submit", "--bad", "t.py", "--own"]]
    assert own_options(["submit", "--bad", "t.py", "--own"]) == ["--bad"]


# --- rules, errors, codes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_explained(rule):
    text = (ROOT / "docs" / "how-sharing-decides.md").read_text()
    assert re.search(rf"`{rule}`[^\n]{{20,}}", text), f"{rule} is not explained"


def test_no_rule_is_explained_that_does_not_exist():
    text = (ROOT / "docs" / "how-sharing-decides.md").read_text()
    rows = re.findall(r"^\| `([A-Z][a-z]+(?:[A-Z][a-z]+)*)` ", text, re.MULTILINE)
    assert set(rows) <= set(Rule)


def test_every_exit_code_of_an_error_is_in_operations():
    table = OPERATIONS[OPERATIONS.index("## Exit codes") :]
    for cls in error_classes():
        assert f"\n| {cls.exit_code} |" in table, f"{cls.__name__} ends with {cls.exit_code}"


def error_classes() -> list[type[GpuqError]]:
    for module in ("gpuq.api.contract.problem", "gpuq.learn.serving.shelf", "gpuq.cli.client"):
        importlib.import_module(module)
    found, waiting = [], [GpuqError]
    while waiting:
        cls = waiting.pop()
        if cls.__module__.startswith("gpuq."):
            found.append(cls)
        waiting += cls.__subclasses__()
    return found


# --- links and places ----------------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", document.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        assert place.exists(), f"{document.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", place.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{document.name} links to {target}"


def test_every_document_that_the_code_names_exists():
    named = {
        (name_of(path), document)
        for path in FILES
        if path.suffix in {".py", ".toml", ".service"} and path.exists() and "scripts" not in path.parts
        for document in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    assert [pair for pair in sorted(named) if not (ROOT / pair[1]).exists()] == []


def test_no_file_names_a_place_of_the_machine_it_was_built_on():
    """Folders of builders and of people; those of the examples have made-up names."""
    folders = re.compile(r"/(?:work|workspace|builds|codebuild|__w)/")
    homes = re.compile(r"/(?:home|Users)/([a-z]\w*)")
    made_up = {"ann", "ana", "ada", "alice", "bob"}
    for path in FILES:
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        assert not folders.search(text), f"{name_of(path)}: {folders.search(text)}"
        assert set(homes.findall(text)) <= made_up, f"{name_of(path)}: {homes.findall(text)}"
