"""The script and what it imports from beside it, as syntax trees.

At most `MOST_FILES` trees, the script's own first. What is no regular file, too large or not Python is ignored: a job may be
anything.
"""

from __future__ import annotations

import ast
import hashlib
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

LARGEST_BYTES = 512 * 1024
"""Of one file; a training script of a hundred lines has four KiB. Reading this much takes a fifth of a second."""
MOST_FILES = 6
# Of all the modules beside it together: those that build models are small, and submitting must stay quick.
_MOST_BESIDE = 192 * 1024
_MOST_DIGESTED = 2**20


def trees(script: Path, cwd: Path) -> list[ast.Module]:
    """The script's tree, then those of modules beside it that it imports, one level deep. Empty if it is not Python."""
    first = _parsed(script, LARGEST_BYTES)
    if first is None:
        return []
    found, left = [first], _MOST_BESIDE
    seen = {script}
    for path in _imported(first, script, cwd):
        if len(found) >= MOST_FILES:
            break
        if path not in seen:
            seen.add(path)
            tree = _parsed(path, left)
            if tree is not None:
                found.append(tree)
                left -= path.stat().st_size
    return found


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


def _parsed(path: Path, largest: int) -> ast.Module | None:
    source = text(path, largest)
    return None if source is None else parse(source)


def _imported(tree: ast.Module, script: Path, cwd: Path) -> Iterator[Path]:
    """The files that the script's imports may mean: beside it, in the working folder, or in its own package."""
    folders = dict.fromkeys((script.parent, cwd, script.parent.parent))
    for name, level in _names(tree):
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            continue
        for folder in (script.parent,) if level else folders:
            path = folder.joinpath(*parts)
            candidates = (path.with_suffix(".py"), path / "__init__.py")
            one = next((candidate for candidate in candidates if is_file(candidate)), None)
            if one is not None:
                yield one
                break


def _names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(dotted name, level) of everything imported anywhere in the script; `from a import b` may mean `a` or `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for alias in node.names:
                yield (f"{module}.{alias.name}".strip("."), node.level)
            if module:
                yield (module, node.level)


def is_file(path: Path) -> bool:
    """Whether it is a regular file; False where that cannot be known."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
