"""The files that say what a job does: its script, what this imports or names from beside it, and their syntax trees.

At most `MOST_FILES` trees, the script's own first. What is no regular file or too large is ignored: a job may be anything.
"""

from __future__ import annotations

import ast
import hashlib
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST_BYTES = 512 * 1024
"""Of one file."""
LARGEST_NOTEBOOK_BYTES = 8 * 2**20
"""Most of which are pictures."""
LARGEST_PARSED_BYTES = 128 * 1024
"""A training script of a hundred lines has four KiB; to survey this much takes half a second where it is nothing but layers."""
MOST_FILES = 6
# Of all trees together: modules that build models are small, and submitting must stay quick.
_MOST_PARSED = 192 * 1024
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
SCRIPTS = (
    ".py", ".ipynb", ".sh", ".bash", ".zsh", ".R", ".r", ".Rmd", ".jl", ".js", ".lua", ".pl", ".rb", ".smk", ".nf", ".mk",
)
# fmt: on
_KERNELS = (".cu", ".cpp", ".cc", ".c", ".cl")
_OF_PROGRAMS = (*SCRIPTS, *_KERNELS, "")
_MAGIC = re.compile(rb"^([ \t]*)([%!?].*)$", re.MULTILINE)
_MODULE = re.compile(r"-m[ \t]+([A-Za-z_][\w.]*)|[\"']([A-Za-z_][\w.]*):[A-Za-z_]\w*[\"']")
_MOST_DIGESTED = 2**20
# In Python: text that may name a script, `module.Class`, or what `import_module(f"models.{name}")` chooses from; and the folders
# from which modules are imported besides.
_STRING = re.compile(r"""[\"']([^\"'\n]{1,200})[\"']""")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CHOSEN = re.compile(r"([A-Za-z_][\w.]*)\.(?:\{.*)?")
_IMPORTS_BY_NAME = re.compile(
    r"\b(?:import_module|__import__|run_module|locate|instantiate|get_class|get_obj_from_str)\(|_target_|class_path"
)
_RUNS_SCRIPTS = re.compile(
    r"\b(?:cpp_extension|subprocess|Popen|run_path|execfile|os\.system|os\.exec\w+|exec|spawn\w*|check_call)\b"
)
_ADDS_FOLDER = re.compile(r"\bsys\.path\.(?:append|insert|extend)\((.*)")
_MOST_CHOSEN = 64
_OF_SYSTEM = re.compile(r"/(?:usr|opt|lib\w*)(?:/|$)")


@dataclass(frozen=True)
class SourceFile:
    """One file. Of a notebook the content is its code."""

    path: Path
    content: bytes
    tree: ast.Module | None
    """None for other languages, and for what is not surveyed."""
    is_program: bool
    """Whether it is one that is run, or that one of these uses; else it is input that the command names."""


def sources(read: Iterable[tuple[Path, bytes]], programs: Sequence[Path]) -> list[SourceFile]:
    """The `contents` of these programs, with the trees of the first. Of a program that is too large to be read its digest."""
    found, left, count = [], _MOST_PARSED, MOST_FILES
    for path, content in read:
        is_python = path.suffix in (".py", ".ipynb") or (path in programs and _OF_PYTHON.match(_decoded(content[:256])))
        tree = None
        if is_python and count and len(content) <= min(left, LARGEST_PARSED_BYTES):
            tree = parse(_without_magics(content) if path.suffix == ".ipynb" else content)
            left, count = left - len(content), count - 1
        found.append(SourceFile(path, content, tree, path not in programs or path.suffix in _OF_PROGRAMS))
    known = {one.path for one in found}
    large = ((path, digest(path)) for path in programs if path not in known)
    return found + [
        SourceFile(path, of.encode(), None, path.suffix in _OF_PROGRAMS) for path, of in large if of is not None
    ]


def contents(files: Iterable[Path], cwd: Path, python_path: Sequence[Path] = ()) -> Iterator[tuple[Path, bytes]]:
    """(path, content) of these files, and of those beside them, in the folders of `python_path` or in `cwd` that they import or
    name, directly or through others.

    Of a notebook the code. Files that cannot be read, and more than some megabytes in all, are left out.
    """
    waiting, finder = list(dict.fromkeys(files)), _Finder()
    roots, known, left = [path.parent for path in waiting], set(waiting), _MOST_READ_BYTES
    for path in waiting:  # which grows
        is_notebook = path.suffix == ".ipynb"
        content = text(path, LARGEST_NOTEBOOK_BYTES if is_notebook else min(LARGEST_BYTES, left))
        content = _code(content) if content is not None and is_notebook else content
        if content is None or len(content) > left:
            continue
        left -= len(content)
        yield path, content
        if b"\0" in content:
            continue
        source = _decoded(content)
        roots += _added_folders(source, path.parent)
        for used in finder.used(source, path, (path.parent, *roots, *python_path, *_usual_folders(path, cwd))):
            if used not in known and len(waiting) < _MOST_READ:
                known.add(used)
                waiting.append(used)


def modules_named(names: Iterable[str], script: Path, cwd: Path) -> list[Path]:
    """The modules beside a script, or in `cwd`, that names such as `nets.resnet.ResNet` are of."""
    folders, finder = (script.parent, *_usual_folders(script, cwd)), _Finder()
    return list(dict.fromkeys(path for name in names for path in finder.module_of(name, folders)))


def _usual_folders(path: Path, cwd: Path) -> tuple[Path, ...]:
    return cwd, path.parent.parent, cwd / "src"


def _added_folders(source: str, folder: Path) -> list[Path]:
    """The folders of this source's own that it adds to those from which it imports: `"lib"`, the `..` and `lib` that it joins, or
    the `lib` of a folder above it (`Path(__file__).parents[1] / "lib"`)."""
    found: list[Path] = []
    for line in _ADDS_FOLDER.findall(source):
        names = _STRING.findall(line)
        paths = dict.fromkeys((*names, "/".join(names)))
        found += [above / path for above in (folder, *folder.parents[:2]) for path in paths if not path.startswith("/")]
        found += [Path(path) for path in paths if path.startswith("/") and not _OF_SYSTEM.match(path)]
    return list(dict.fromkeys(found))


def python_path(env: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """The folders that `PYTHONPATH` names."""
    named = (Path(name) for name in env.get("PYTHONPATH", "").split(":") if name)
    return tuple(cwd / name for name in named)


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


def _without_magics(code: bytes) -> bytes:
    """The code of a notebook as Python: lines for IPython and the shell, `%time` and `!pip`, as calls of nothing."""
    return _MAGIC.sub(lambda line: line[1] + b"_magic_(" + repr(line[2]).encode() + b")", code)


class _Finder:
    """Finds files by what a source says of them; what was asked of the file system once is not asked again."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Path | None] = {}

    def used(self, source: str, path: Path, folders: Iterable[Path]) -> Iterator[Path]:
        """What a file of any language uses: Python imports, another one names scripts and modules."""
        if path.suffix in (".py", ".ipynb") or _OF_PYTHON.match(source):
            yield from self.imported(source, path, folders)
            yield from self._in_strings(source, folders)
            if path.suffix == ".ipynb":
                magics = b"\n".join(line for _, line in _MAGIC.findall(source.encode("utf-8", "replace")))
                yield from self._named(_decoded(magics), list(dict.fromkeys(folders)))
            return
        yield from self._named(source, list(dict.fromkeys(folders)))

    def _named(self, text: str, folders: Sequence[Path]) -> Iterator[Path]:
        """The scripts and modules that commands in a text run."""
        yield from self._scripts(text, folders)
        for found in _MODULE.finditer(text):
            yield from self._module(found[1] or found[2], folders)

    def _scripts(self, text: str, folders: Sequence[Path]) -> Iterator[Path]:
        """The scripts that a text names by their paths."""
        for name in dict.fromkeys(one for one in _PATH.findall(text) if one.endswith((*SCRIPTS, *_KERNELS))):
            # `$FOLDER/train.py` may be beside it.
            places = (folder / one for folder in folders for one in (name, Path(name).name))
            yield from [place for place in places if is_file(place)][:1]

    def _in_strings(self, source: str, folders: Iterable[Path]) -> Iterator[Path]:
        """What a source in Python names in its texts: scripts that it runs, and modules that it imports by their names."""
        imports, runs = _IMPORTS_BY_NAME.search(source), _RUNS_SCRIPTS.search(source)
        folders = list(dict.fromkeys(folders))
        for string in dict.fromkeys(_STRING.findall(source)) if imports or runs else ():
            if runs:
                yield from self._scripts(string, folders)
            if imports:
                yield from self.module_of(string, folders)
                chosen = _CHOSEN.fullmatch(string)
                package = None if chosen is None else self._folder(chosen[1], folders)
                yield from () if package is None else sorted(package.glob("*.py"))[:_MOST_CHOSEN]

    def module_of(self, name: str, folders: Iterable[Path]) -> Iterator[Path]:
        """The module that this dotted name is, or is of: `nets.resnet` of `nets.resnet.ResNet`."""
        if _DOTTED.fullmatch(name):
            found = next(self._module(name, folders), None) or next(
                self._module(name.rpartition(".")[0], folders), None
            )
            yield from () if found is None else (found,)

    def _folder(self, package: str, folders: Iterable[Path]) -> Path | None:
        places = (folder.joinpath(*package.split(".")) for folder in folders)
        return next(filter(_is_folder, places), None)

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
            self._found[key] = folder if _is_folder(folder / package) else None
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


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether it is a regular file; False where that cannot be known."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
