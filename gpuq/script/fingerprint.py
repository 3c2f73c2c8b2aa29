"""What a program says of its work, as one digest: another one wherever two versions may need another amount of memory.

A version that differs only in comments, layout, messages, seeds, step sizes, places of results and names of runs has the same
digest. So has one that differs in a number which is compared as a setting, by its name. Any other difference counts: which of
them matter can only be seen by running both. Of Python the syntax tree is looked at, of shell code the words of its commands, of
configuration files the entries, of everything else the bytes.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpuq.script.configs import ConfigFile, is_config, read
from gpuq.script.declared import Declared
from gpuq.script.digests import short_digest
from gpuq.script.expressions import argument, dotted, keyword, text_of
from gpuq.script.inputs import NUMBER_IN_NAME
from gpuq.script.meaning import RESULTS, Meaning, meaning, names_size, plain
from gpuq.script.options import NUMBER, SETTING_OF, SPELLINGS, pairs
from gpuq.script.setting_value import hides_gpus, is_size
from gpuq.script.settings import OPTIMIZERS
from gpuq.script.source import SourceFile, is_file
from gpuq.script.survey import Guards, Survey

CODE = "program-code"
"""The name under which the digest is compared as a setting."""
# Numbers under names of these meanings are compared by their ratio.
_COMPARED = frozenset(
    {
        *(Meaning.LENGTH, Meaning.STEPS, Meaning.ACCUMULATION, Meaning.DEPTH, Meaning.BATCH, Meaning.SPACING),
        *(Meaning.VOLUME, Meaning.SIDE, Meaning.SEQUENCE, Meaning.WIDTH, Meaning.COUNT),
    }
)
# A job has room for some more settings than these; one without room would not be compared.
_MOST_COMPARED = 32
# Of other names of results some choose a network or a part of a data set.
_PLACE = re.compile(r"(?:dir|path|folder|file|filename|prefix|suffix|notes?|comments?|(?:run|job|wandb|study)-name)$")
# In the code of a network numbers of these names are sizes: `Block(inp=3, out=64, exp=4)`.
_OF_A_NETWORK = re.compile(r"o|out|outputs?|exp|results?|work|preds?|predictions?")
# Schedules of the learning rate, and limits of gradients.
_OF_RATES = re.compile(r"LR$|LRScheduler$|_schedule(?:_with_\w+)?$|^clip_grad_(?:norm|value)_?$|^EarlyStopping$")
_OF_CHANCE = re.compile(r"seed|dropout|default_rng|randomstate", re.IGNORECASE)
# fmt: off
_MESSAGES = frozenset({
    "print", "pprint", "info", "debug", "warning", "warn", "error", "exception", "critical", "log", "log_dict", "log_metric",
    "log_metrics", "log_params", "log_artifact", "add_scalar", "add_scalars", "add_image", "add_text", "add_histogram",
    "set_description", "set_postfix", "save", "savez", "savefig", "makedirs", "mkdir", "close", "flush",
})
_LOGS = frozenset({"wandb", "mlflow", "neptune", "logger", "logging", "plt"})
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time", "now"})
# What these start.
_STARTS = frozenset({"agent", "sweep", "run"})
# What a message may call without doing work: `print(fit(model))` trains.
_FORMATS = frozenset({
    "abs", "all", "any", "argmax", "basename", "bool", "count", "cpu", "current_device", "detach", "device_count",
    "dict", "dim", "enumerate", "exp", "float", "format", "get", "getLogger", "get_device_name", "get_last_lr",
    "getattr", "int", "isoformat", "item", "items", "join", "keys", "len", "list", "ljust", "log", "lower", "max",
    "max_memory_allocated", "mean", "memory_allocated", "memory_reserved", "min", "named_parameters", "next", "norm",
    "now", "numel", "numpy", "parameters", "perf_counter", "range", "replace", "repr", "rjust", "round", "set",
    "size", "sorted", "split", "sqrt", "squeeze", "state_dict", "std", "str", "strftime", "strip", "sum", "time", "timedelta",
    "tolist", "total_seconds", "tuple", "type", "upper", "values", "vars", "zip",
})
_MESSAGES_OF_SHELL = frozenset({
    "echo", "printf", "date", "mkdir", "sleep", "hostname", "pwd", "nvidia-smi", "whoami", "uname", "tee", "cat", "grep", "tail",
})
# These make a file of another one.
_COPIES = frozenset({"cp", "ln", "mv", "install", "cat", "sed", "awk", "envsubst", "jq", "yq", "m4", "jinja2"})
# fmt: on
_NO_WORK = frozenset({ast.Load, ast.Store, ast.Del, ast.Pass})
_SHELL = frozenset({".sh", ".bash", ".zsh", ".mk"})
_SHELL_LINE = re.compile(rb"#!.*\b(?:ba|z|da|k)?sh\b")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
# `${LR:-0.1}`.
_DEFAULT = re.compile(r"\$\{\w+:?[-=]([^{}]*)\}")
_DESCRIPTOR = re.compile(r"(?<=\s)\d(?=>)")
_OPERATOR = re.compile(r"[();&|]+")
_REDIRECTION = re.compile(r"[&<>]*>[&<>]*")


def fingerprint(files: Iterable[SourceFile], declared: Declared, cwd: Path, *, compared: bool) -> str | None:
    """Eight hexadecimal digits; None where there is no file. `declared`: by all surveyed files, whose numbers are compared as
    settings if `compared`. The order in which files are imported does not matter."""
    left_out = {number for one in declared.surveys for number in _harmless(one, declared)}
    if compared:
        left_out |= {id(node) for nodes in _compared(declared.surveys).values() for node in nodes}
    found = sorted(
        sha256("\n".join(_said(one, left_out, cwd)).encode("utf-8", "replace")).hexdigest()
        for one in files
        # Of many inputs with numbers in their names each has contents of its own, and they are one kind of work.
        if one.is_program or not NUMBER_IN_NAME.search(one.path.name)
    )
    return short_digest("".join(found)) if found else None


def written(surveys: Sequence[Survey]) -> dict[str, int | float]:
    """Setting -> the number that these files write out for it, apart from the defaults that a given one replaces."""
    defaults = {id(node) for one in surveys for _, node in _defaults(one)}
    found = {name: [node for node in nodes if id(node) not in defaults] for name, nodes in _compared(surveys).items()}
    return {name: number for name, nodes in found.items() if nodes and (number := _number(nodes[0])) is not None}


def config_digest(path: Path) -> str:
    """What a configuration file says of the work, as `fingerprint` has it of a program."""
    return sha256("\n".join(_of_config(read(path))).encode("utf-8", "replace")).hexdigest()


def _said(file: SourceFile, left_out: set[int], cwd: Path) -> Iterator[str]:
    if file.tree is not None:
        return _of_python(file.tree, left_out)
    if is_config(file.path):
        return _of_config(read(file.path))
    if is_shell(file.path, file.content) or file.path.name.lower().endswith("makefile"):
        return _of_shell(file.content.decode("utf-8", "replace"), (file.path.parent, cwd))
    return iter((repr(file.content),))


def is_shell(path: Path, content: bytes) -> bool:
    """Whether this is a file of shell code."""
    return path.suffix in _SHELL or _SHELL_LINE.match(content) is not None


def is_harmless(name: str | None, value: Any) -> bool:
    """Whether the value of this name can be replaced by any other one without another need of memory."""
    about = None if name is None else meaning(plain(name))
    number = NUMBER.match(value) if isinstance(value, str) else isinstance(value, int | float)
    if about is Meaning.PRIVATE:
        return True
    if name == "CUDA_VISIBLE_DEVICES":
        return not hides_gpus(str(value))
    if isinstance(value, bool):
        return False
    if about is Meaning.HARMLESS and is_size(name or "", value):
        return False
    if about is Meaning.HARMLESS:
        # Without momentum an optimiser has no buffer for it, and what is zero may be left out in other ways.
        return bool(number) and float(value) != 0
    if about is Meaning.OUTPUT and isinstance(value, str) and not number:
        is_place = _PLACE.search(plain(name or "")) or RESULTS.search(value)
        return bool(is_place) and not names_size(value)
    return about is Meaning.OUTPUT and bool(number) and not _OF_A_NETWORK.fullmatch(plain(name or ""))


def _harmless(survey: Survey, declared: Declared) -> set[int]:
    """The ids of the values in this file that change nothing: none that decides what is done."""
    found = {
        id(node)
        for name, node, _ in _named(survey)
        if not declared.decides(name) and all(is_harmless(name, one) for one in _constants(node))
    }
    for call in survey.calls:
        if _OF_CHANCE.search(call.last) or call.last.lower() in OPTIMIZERS:
            found |= {id(node) for node in call.node.args if _number(node) is not None}
        elif _OF_RATES.search(call.last):
            parts = (*call.node.args, *(one.value for one in call.node.keywords))
            found |= {id(node) for node in parts if _number(node) is not None}
    return found


def _compared(surveys: Sequence[Survey]) -> dict[str, list[ast.expr]]:
    """Setting -> the numbers in these files that are compared under this name. Of several with one name only one is compared, so
    they have to be equal."""
    numbers: dict[str, list[ast.expr]] = {}
    for name, node, guards in (named for one in surveys for named in _named(one)):
        if not guards and _number(node) is not None:
            numbers.setdefault(_key(name), []).append(node)
    for call in (call for one in surveys for call in one.calls):
        batch = argument(call.node, 1, "batch_size") if call.last == "DataLoader" else None
        if batch is not None and _number(batch) is not None:
            numbers.setdefault(_key("batch"), []).append(batch)
    # Of what is no option only names with a known meaning are compared.
    options = {_key(max(option.names, key=len)) for one in surveys for option in one.options}
    found = [
        (name, nodes)
        for name, nodes in numbers.items()
        if len({_number(node) for node in nodes}) == 1
        and (meaning(name) in _COMPARED or (name in options and meaning(name) is Meaning.OTHER))
    ]
    return dict(found[:_MOST_COMPARED])


def _key(name: str) -> str:
    setting = SETTING_OF.get(plain(name))
    return plain(name) if setting is None else SPELLINGS[setting][0]


def _named(survey: Survey) -> Iterator[tuple[str, ast.expr, Guards]]:
    """(name, value, conditions) of options, of what the script looks up, and of all else that has a name."""
    yield from ((name, node, ()) for name, node in _defaults(survey))
    for name, node, guards in survey.named:
        of_field = keyword(node, "default") if isinstance(node, ast.Call) and dotted(node.func, {}) == "field" else None
        yield name, of_field or node, guards


def _defaults(survey: Survey) -> Iterator[tuple[str, ast.expr]]:
    """(name, default) of options and of what the script looks up."""
    yield from ((max(one.names, key=len), one.default) for one in survey.options if one.default is not None)
    for call in survey.calls:
        if call.last in {"get", "getenv"} and len(call.node.args) == 2 and (name := text_of(call.node.args[0])):
            yield name, call.node.args[1]


def _constants(node: ast.expr) -> list[Any]:
    """The constants that an expression consists of; a None for anything else in it."""
    if isinstance(node, ast.Tuple | ast.List):
        return [value for one in node.elts for value in _constants(one)]
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return [node.value if isinstance(node, ast.Constant) else None]


def _number(node: ast.expr) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _of_python(tree: ast.Module, left_out: set[int]) -> Iterator[str]:
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, ast.AST):
            yield str(node)
        elif id(node) in left_out:
            yield "#"
        elif isinstance(node, ast.Constant):
            yield repr(node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Expr) and (configuration := _configuration(node.value)) is not None:
            stack.append(configuration)
        elif type(node) not in _NO_WORK and not _changes_nothing(node):
            yield type(node).__name__
            # What is empty is no part: newer versions of Python have more fields.
            parts = [getattr(node, name, None) for name in node._fields]
            stack.extend(reversed([*_flat(parts), ")"]))


def _flat(parts: Sequence[Any]) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, list) and part:
            yield from (one for one in part if one is not None)
            yield ","
        elif part is not None and part != []:
            yield part


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """What is imported that is not of Python itself."""
    module = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
    for one in node.names:
        if f"{module}{one.name}".partition(".")[0] not in sys.stdlib_module_names:
            yield f"import {module}{one.name} as {one.asname}"


def _changes_nothing(node: ast.AST) -> bool:
    """Whether a statement is a docstring, prints, logs or saves something, also only now and then, looks at the clock, or asserts
    what costs nothing."""
    if isinstance(node, ast.Assert):
        return all(map(_formats, _calls_in(node)))
    if isinstance(node, ast.If) and not node.orelse:
        assigns = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        return (
            not assigns
            and all(map(_formats, _all_calls(node.test)))
            and all(
                _changes_nothing(one) and not (isinstance(one, ast.Expr) and _configuration(one.value))
                for one in node.body
            )
        )
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.Call) and _called(node.value) in _CLOCKS and not node.value.args
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    return isinstance(node.value, ast.Call) and _reports(node.value) and all(map(_formats, _calls_in(node.value)))


def _configuration(node: ast.expr) -> ast.expr | None:
    """What a run is configured with, which the script may read from there: `wandb.config.arch`. None for all else."""
    if isinstance(node, ast.Call) and _reports(node) and _called(node) not in _MESSAGES:
        return keyword(node, "config")
    return None


def _reports(call: ast.Call) -> bool:
    function: ast.expr = call.func
    if _called(call) in _MESSAGES:
        return True
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in _LOGS and _called(call) not in _STARTS


def _all_calls(node: ast.AST) -> Iterator[ast.Call]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (call for call in _all_calls(node) if call is not node)


def _formats(call: ast.Call) -> bool:
    return _called(call) in _FORMATS


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _of_shell(text: str, folders: Sequence[Path]) -> Iterator[str]:
    """The words of the commands, and what the configuration files among them say."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            reader = shlex.shlex(_DESCRIPTOR.sub("", _COMMENT.sub("", line)), posix=True, punctuation_chars=True)
            reader.whitespace_split, reader.commenters = True, ""
            words = list(reader)
        except ValueError:  # a quote that goes on in the next line
            yield line.strip()
            continue
        for command, is_read in _commands(words):
            if command[0] in _MESSAGES_OF_SHELL and not is_read:
                continue
            if (
                command[0] == "for"
                and command[2:3] == ["in"]
                and all(is_harmless(command[1], one) for one in command[3:])
            ):
                yield f"for {command[1]} in {len(command) - 3}"
                continue
            for name, given in pairs(command):
                value = default[1] if (default := _DEFAULT.fullmatch(given or "")) else given
                yield f"{name} {'#' if is_harmless(name, value) else given}"
                path = _config_in(folders, name, value, is_copied=command[0] in _COPIES)
                yield from () if path is None else _of_config(read(path))


def _commands(words: Iterable[str]) -> Iterator[tuple[list[str], bool]]:
    """The commands of one line, without the files that their output goes to, and whether another command, or a configuration
    file, takes that output."""
    command: list[str] = []
    to_file = False
    written: list[str] = []
    parts: list[tuple[list[str], list[str], str]] = []
    for word in (*words, ";"):
        if to_file:
            to_file = False
            written.append(word)
        elif _REDIRECTION.fullmatch(word):
            to_file = True
        elif not _OPERATOR.fullmatch(word):
            command.append(word)
        elif command:
            parts.append((command, written, word))
            command, written = [], []
    # From the last one on: what `echo` is read by may be `tee`.
    found: list[tuple[list[str], bool]] = []
    is_read = False
    for command, written, operator in reversed(parts):
        of_tee = command[1:] if command[0] == "tee" else []
        into_config = any(is_config(Path(word)) for word in (*written, *of_tee))
        is_piped = operator.startswith("|") and operator != "||"
        # What reads it may be in the next line.
        is_read = into_config or (is_piped and (is_read or not found or found[-1][0][0] not in _MESSAGES_OF_SHELL))
        found.append((command, is_read))
    return reversed(found)


def _config_in(folders: Sequence[Path], name: str | None, value: str | None, *, is_copied: bool) -> Path | None:
    """The configuration file that an argument names. A positional one counts in a folder for such files only, unless it is
    copied."""
    if not value or not is_config(Path(value)) or (name and meaning(plain(name)) is Meaning.OUTPUT):
        return None
    if name is None and not is_copied and not re.search(r"conf|cfg|\.env$", value):
        return None
    return next((folder / value for folder in folders if is_file(folder / value)), None)


def _of_config(found: ConfigFile) -> Iterator[str]:
    yield from (f"{keys} {value!r}" for keys, value in found.entries if not is_harmless(keys[-1], value))
    yield found.rest
