"""The script and what it imports from beside it: as syntax trees, and as the files that say what a job does.

At most `MOST_FILES` trees, the script's own first. What is no regular file, too large or not Python is ignored: a job may be
anything.
"""

from __future__ import annotations

import ast
import hashlib
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

LARGEST_BYTES = 512 * 1024
"""Of one file; a training script of a hundred lines has four KiB. Reading this much takes a fifth of a second."""
MOST_FILES = 6
# Of all the modules beside it together: those that build models are small, and submitting must stay quick.
_MOST_BESIDE = 192 * 1024
# Of files that are only compared with those of another time.
_MOST_READ, _MOST_READ_BYTES = 300, 4 * 2**20
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]+)|import[ \t]+([^\n#;]+))", re.MULTILINE
)
_OF_PYTHON = re.compile(r"#!.*python")
_COMMENT = re.compile(r"#.*|\\\n")
# In files of other languages: a script's name, `-m module`, and `module:function` of a project's entry points.
_PATH = re.compile(r"[\w./~-]+")
# fmt: off
_SCRIPTS = (
    ".py", ".ipynb", ".sh", ".bash", ".zsh", ".R", ".r", ".Rmd", ".jl", ".js", ".lua", ".pl", ".rb", ".smk", ".nf", ".mk",
)
# fmt: on
_MODULE = re.compile(r"-m[ \t]+([A-Za-z_][\w.]*)|[\"']([A-Za-z_][\w.]*):[A-Za-z_]\w*[\"']")
_MOST_DIGESTED = 2**20


def trees(script: Path, cwd: Path) -> list[ast.Module]:
    """The script's tree, then those of modules beside it that it imports, one level deep. Empty if it is not Python."""
    source = text(script, LARGEST_BYTES)
    first = None if source is None else parse(source)
    if source is None or first is None:
        return []
    found, left = [first], _MOST_BESIDE
    folders = (script.parent, cwd, script.parent.parent, cwd / "src")
    for path in _Finder().imported(_decoded(source), script, folders):
        if len(found) >= MOST_FILES:
            break
        beside = text(path, left) if path != script else None
        tree = None if beside is None else parse(beside)
        if beside is not None and tree is not None:
            found.append(tree)
            left -= len(beside)
    return found


def contents(files: Iterable[Path], cwd: Path) -> Iterator[tuple[Path, bytes]]:
    """(path, content) of these files, and of those beside them or in `cwd` that they import or name, directly or through others.

    Of a notebook the code. Files that cannot be read, and more than some megabytes in all, are left out.
    """
    waiting, finder = list(dict.fromkeys(files)), _Finder()
    roots, known, left = [path.parent for path in waiting], set(waiting), _MOST_READ_BYTES
    for path in waiting:  # which grows
        content = text(path, min(LARGEST_BYTES, left))
        if content is None:
            continue
        content = _code(content) if path.suffix == ".ipynb" else content
        left -= len(content)
        yield path, content
        if b"\0" in content:
            continue
        folders = (path.parent, *roots, cwd, path.parent.parent, cwd / "src")
        for used in finder.used(_decoded(content), path, folders):
            if used not in known and len(waiting) < _MOST_READ:
                known.add(used)
                waiting.append(used)


def text(path: Path, largest: int) -> bytes | None:
    """A regular file's bytes; None for anything else, and for larger files. Reading a pipe would wait for its writer."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > largest:
            return None
        return path.read_bytes()[:largest]
    except (OSError, ValueError):
        return None


def digest(path: Path) -> str | None:
    """SHA-256 of a regular file's size and first MiB; None for anything else."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        with path.open("rb") as file:
            return hashlib.sha256(b"%d " % facts.st_size + file.read(_MOST_DIGESTED)).hexdigest()
    except (OSError, ValueError):
        return None


def parse(source: bytes) -> ast.Module | None:
    """The tree of a source; None where Python itself would reject it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError):
        return None


def _decoded(source: bytes) -> str:
    return source.decode("utf-8", "replace")


def _code(notebook: bytes) -> bytes:
    """The code of a notebook, whose results change with each run."""
    import json

    try:
        cells = json.loads(notebook)["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        return "\n".join("".join(source) for source in sources).encode("utf-8", "replace")
    except (ValueError, KeyError, TypeError, RecursionError):
        return notebook


class _Finder:
    """Finds files by what a source says of them; what was asked of the file system once is not asked again."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Path | None] = {}

    def used(self, source: str, path: Path, folders: Iterable[Path]) -> Iterator[Path]:
        """What a file of any language uses: Python imports, another one names scripts and modules."""
        if path.suffix in (".py", ".ipynb") or _OF_PYTHON.match(source):
            yield from self.imported(source, path, folders)
            return
        folders = list(dict.fromkeys(folders))
        for name in dict.fromkeys(one for one in _PATH.findall(source) if one.endswith(_SCRIPTS)):
            # `$FOLDER/train.py` may be beside it.
            places = (folder / one for folder in folders for one in (name, Path(name).name))
            yield from [place for place in places if is_file(place)][:1]
        for found in _MODULE.finditer(source):
            yield from self._module(found[1] or found[2], folders)

    def imported(self, source: str, path: Path, folders: Iterable[Path]) -> Iterator[Path]:
        """The files that Python's imports may mean, each once."""
        folders = list(dict.fromkeys(folders))
        found = (
            one
            for name, level in dict.fromkeys(_names(source))
            for one in self._module(name, path.parents[level - 1 : level] if level else folders)
        )
        yield from dict.fromkeys(found)

    def _module(self, name: str, folders: Iterable[Path]) -> Iterator[Path]:
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return
        for folder in folders:
            # Most imports are of installed packages, of which there is no beginning here.
            if len(parts) == 1 or self._begins(folder, parts[0]):
                found = self._file(folder, name)
                if found is not None:
                    yield found
                    return

    def _begins(self, folder: Path, package: str) -> bool:
        key = str(folder), f"{package}/"
        if key not in self._found:
            self._found[key] = folder if (folder / package).is_dir() else None
        return self._found[key] is not None

    def _file(self, folder: Path, name: str) -> Path | None:
        key = str(folder), name
        if key not in self._found:
            path = folder.joinpath(*name.split("."))
            candidates = (path.with_suffix(".py"), path / "__init__.py")
            self._found[key] = next((one for one in candidates if is_file(one)), None)
        return self._found[key]


def _names(source: str) -> Iterator[tuple[str, int]]:
    """(dotted name, level) of everything that lines of the source import; `from a import b` may mean `a` or `a.b`."""
    for dots, module, names, plain in _IMPORT.findall(source):
        words = [
            part.split()[0] for part in _COMMENT.sub("", names or plain).strip("() \t\n").split(",") if part.split()
        ]
        yield from ((f"{module}.{word}".strip(".") if not plain else word, len(dots)) for word in words)
        if module:
            yield module, len(dots)


def is_file(path: Path) -> bool:
    """Whether it is a regular file; False where that cannot be known."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
