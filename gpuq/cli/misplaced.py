"""A warning where an option of gpuq stands behind the script, which gets it there, and the script does not define it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gpuq.cli import console

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast

    from gpuq.cli.client import Record

# What scripts call their parsed options; `time.time` and `self.name` are none.
_PARSED = frozenset({"args", "arg", "opt", "opts", "options", "cfg", "conf", "config", "flags", "hparams", "params"})


def warn_misplaced(options: Iterable[str], body: Record) -> None:
    """Warn about gpuq's `options` that were typed after a script which does not define them: the script gets them there.

    Python scripts only: a shell script may pass its arguments on to anything.
    """
    found = misplaced(options, body)
    if found:
        script = Path(body["script"]).name
        names = " and ".join(f"`{option}`" for option in found)
        go, them = ("goes", "it") if len(found) == 1 else ("go", "them")
        console.warn(f"{names} after {script} {go} to the script, which does not seem to define {them}")
        console.note(f"  If gpuq is meant, put {them} before {script}.")


def misplaced(options: Iterable[str], body: Record) -> list[str]:
    """Those of `options` among the script's arguments that neither the script nor a module beside it mentions, as typed."""
    known, command, script = set(options), list(body["command"]), Path(body.get("script") or "").name
    place = next((i for i, word in enumerate(command) if script and Path(word).name == script), len(command))
    typed = dict.fromkeys(option for word in command[place + 1 :] if (option := word.partition("=")[0]) in known)
    if not typed:
        return []
    from gpuq.script.source import contents, sources

    scripts = [Path(body["script"])]
    read = sources(contents(scripts, Path(body["cwd"])), scripts)
    found = [one.tree for one in read if one.tree is not None]
    return [option for option in typed if found and not any(_mentions(tree, option) for tree in found)]


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
            case ast.Module(body=body) | ast.ClassDef(body=body):
                targets = [target for line in body if isinstance(line, ast.Assign) for target in line.targets]
                targets += [line.target for line in body if isinstance(line, ast.AnnAssign)]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    return True
    return False
