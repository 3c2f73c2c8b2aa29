"""Options of gpuq that stand after the script, where the script gets them.

Arrives: the options of a verb and a submission's body. Leaves: a warning on stderr. Python scripts only: a shell script may hand
its arguments on to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gpuq.cli.client import Record, talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast


def warn(options: Iterable[str], body: Record) -> None:
    """Warn on stderr of those of `options` that are among the script's arguments although the script does not define them."""
    found = misplaced(options, body)
    if found:
        script = Path(body["script"]).name
        names, them = " and ".join(f"`{option}`" for option in found), "it" if len(found) == 1 else "them"
        goes = "goes" if len(found) == 1 else "go"
        talk(f"gpuq: warning: {names} after {script} {goes} to the script, which does not seem to define {them}.")
        talk(f"  If gpuq is meant, put {them} before {script}.")


def misplaced(options: Iterable[str], body: Record) -> list[str]:
    """Those of `options` among the script's arguments that neither the script nor a module imported from beside it
    mentions, in the order typed."""
    known = set(options)
    typed = dict.fromkeys(option for word in _arguments(body) if (option := word.partition("=")[0]) in known)
    if not typed:
        return []
    from gpuq.script.source import trees

    found = trees(Path(body["script"]), Path(body["cwd"]))
    return [option for option in typed if found and not any(_mentions(tree, option) for tree in found)]


def _arguments(body: Record) -> list[str]:
    """The words of the command after its script."""
    command, name = list(body["command"]), Path(body.get("script") or "").name
    place = next((i for i, word in enumerate(command) if name and Path(word).name == name), len(command))
    return command[place + 1 :]


def _mentions(tree: ast.Module, option: str) -> bool:
    """Whether the source holds `--gpu-mem` in a text or, as a field that a library makes an option of, the name `gpu_mem`."""
    import ast

    name = option.removeprefix("--").replace("-", "_")
    spelt = re.compile(rf"(?<![\w-])(--)?{name.replace('_', '[-_]')}(?![\w-])")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and spelt.search(node.value):
            return True
        if name in (getattr(node, field, None) for field in ("id", "arg", "attr")):
            return True
    return False
