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

# What scripts call their parsed options; `time.time` and `self.name` are none.
_PARSED = frozenset({"args", "arg", "opt", "opts", "options", "cfg", "conf", "config", "flags", "hparams", "params"})


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
    """Whether the source defines or reads the option: as a text `--gpu-mem` or `gpu_mem`, a parameter, a field, a setting of the
    module, or `args.gpu_mem`. Libraries make options of all of them."""
    import ast

    name = option.removeprefix("--").replace("-", "_")
    spelt = re.compile(rf"(?<![\w-])--{name.replace('_', '[-_]')}(?![\w-])")
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text == name or spelt.search(text):
                return True
            case ast.arg(arg=parameter) if parameter == name:
                return True
            case ast.Attribute(attr=read, value=ast.Name(id=holder)) if read == name and holder.lower() in _PARSED:
                return True
            case ast.Module(body=body) | ast.ClassDef(body=body) if name in _assigned(body):
                return True
    return False


def _assigned(body: Iterable[ast.stmt]) -> set[str]:
    """The names that the statements of a module or a class set."""
    import ast

    found: set[str] = set()
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found
