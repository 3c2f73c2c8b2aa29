"""The settings that a command runs its script with, whatever way they reach it: plain names with a number or a short word.

They come from the words after the script, variables of the job, configuration files, and the script's own defaults, in this
order. Two jobs of one script are compared by them, so a larger `--hidden` is seen as a larger model. Values of harmless and
private names (see `meaning`) are left out; of a text that is no short word only a digest is kept.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuq.script.configs import ConfigFile, entries
from gpuq.script.declared import Declared
from gpuq.script.expressions import argument, text_of
from gpuq.script.meaning import CHOSEN, Meaning, leaves_out_at_zero, may_be_secret, meaning, plain
from gpuq.script.operations import UNKNOWN
from gpuq.script.options import NUMBER, SETTING_OF, SPELLINGS, SWITCHES, pairs
from gpuq.script.setting_value import (
    DATA,
    GPUS,
    LONGEST_NAME,
    PATH_LIKE,
    PER_RUN,
    WORD,
    Value,
    count_of,
    count_of_ids,
    digest,
    hides_gpus,
    is_no_secret,
    is_size,
    is_zero,
    kept,
    value,
)
from gpuq.script.survey import Survey
from gpuq.script.values import Values

MOST = 64
WRITTEN = "script."
"""Before the name of a setting that is given, where the script writes out another number under this name."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_CONFIG = re.compile(r"\.(json|toml|ya?ml|ini|cfg|py|conf|gin)$", re.IGNORECASE)
# What stands before words `key=value`, which have names of their own.
_INTRODUCE = frozenset({"set", "opts", "options", "override", "overrides", "cfg-options", "cfg_options", "o", "D"})
# `papermill in.ipynb out.ipynb -p NAME VALUE`.
_OF_PAPERMILL = frozenset({"p", "parameters", "r", "parameters-raw"})
# Keys of yacs, whose value is the next word: `SOLVER.IMS_PER_BATCH 16`, and beside such a one `OUTPUT_DIR x`.
_KEY, _TOP_KEY = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)+"), re.compile(r"[A-Z][A-Z0-9_]+")
# Variables of the shell, of libraries and of gpuq that are no settings of the job.
_SYSTEM = re.compile(
    r"^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|PWD|HOSTNAME|DISPLAY|VIRTUAL_ENV|EDITOR|_)$"
    r"|^(LC_|CONDA|XDG_|OMP_|MKL_|OPENBLAS_|NUMEXPR_|NCCL_|CUDA|PYTHON|LD_|WANDB_|GPUQ_|TOKENIZERS_|HYDRA_|RAY_|MPL|SSH_|SLURM_|MASTER_|NVIDIA_|GIT_|UV_|PIP_|POETRY_|PIXI_|MAMBA_|DOCKER_"
    r"|APPTAINER|SINGULARITY|JUPYTER|VSCODE_|DEBIAN_|OLDPWD|SHLVL)"
    r"|^(LOCAL_RANK|RANK|WORLD_SIZE)$"
    # Of a library what is about the machine; which backend it has and how much memory it takes is a setting.
    r"|^(KERAS|TF|JAX|XLA|PYTORCH|TORCH|HF|TRANSFORMERS)_\w*(HOME|CACHE|DIR|PATH|LOG|VERBOS|PROGRESS|DEBUG|OFFLINE|ENDPOINT|TELEMETRY"
    r"|TRANSFER|CLI_|NCCL|NUM_\w*THREADS|ARCH_LIST|EXTENSIONS)"
)


@dataclass
class EffectiveSettings:
    """Effective values by plain name; `given` names those that do not come from the script itself, also factors of which only
    zero is kept."""

    values: dict[str, Value] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    left_out: dict[str, Value] = field(default_factory=dict)
    """Values for which there is no room."""

    def give(self, name: str, raw: Any, *, whole: bool = False) -> None:
        """Set what the command or a file gives; under its whole dotted name if `whole`, or if that name is in use."""
        if plain(name).endswith(("seed", "seeds")) and (count := count_of(raw)):
            name, raw = "seeds", count
        elif GPUS.fullmatch(plain(name)) and (count := count_of_ids(raw)):
            name, raw = "gpus", count
        dotted, short = _dotted(name), _key(name)
        about = meaning(dotted)
        # A secret, or what saves memory, may be so by what it belongs to.
        key = dotted if whole or dotted in self.values or about is not meaning(short) else short
        if not may_be_secret(dotted) or is_no_secret(about, raw):
            self._give(_ODD.sub("-", key)[-LONGEST_NAME:], raw)

    def _give(self, key: str, raw: Any) -> None:
        if meaning(key) is Meaning.HARMLESS and leaves_out_at_zero(key) and not is_zero(raw):
            self.values.pop(key, None)
            self.given.add(key)
        for name, found in kept(key, raw):
            if name in self.values or len(self.values) < MOST - 1:
                self.values[name] = found
                self.given.add(name)
            else:
                self.left_out[name] = found

    def default(self, name: str, raw: Any, *, instead: bool = False, whole: bool = False) -> None:
        """Set a default of the script, unless something else set that name; `instead` of another default of that name, and under
        its whole name if `whole`."""
        for key, found in kept(_dotted(name) if whole else _key(name), raw):
            if key not in self.given and (instead or key not in self.values):
                self._default(key, found)

    def written(self, name: str, number: float) -> None:
        """Note a number that the script writes out under a given name: it may be another thing than what is given."""
        if name in self.given and self.values[name] != number:
            self._default(f"{WRITTEN}{name}", float(number))
            self.given.add(f"{WRITTEN}{name}")

    def _default(self, key: str, found: Value) -> None:
        if key in self.values or len(self.values) < MOST - 1:
            self.values[key] = found
        else:
            self.left_out.setdefault(f"{WRITTEN}{key}", found)


@dataclass(frozen=True)
class ScriptSettings:
    """What the script itself says of its settings."""

    declared: Declared = field(default_factory=Declared)
    values: Values | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Those that are written out in it, by their usual names."""
    written: Mapping[str, float] = field(default_factory=dict)
    """Its numbers that are compared, by name."""


def effective_settings(
    words: Sequence[str],
    env: Mapping[str, str],
    files: Sequence[ConfigFile] = (),
    script: ScriptSettings | None = None,
    read: Container[str] = (),
) -> EffectiveSettings:
    """The settings of one job: the command goes before variables, those before files, those before the script.

    `read` are the words that name the files. What of these was not understood counts by its digest, together with the values
    for which there is no room.
    """
    found = EffectiveSettings()
    script = script or ScriptSettings()
    declared = script.declared
    _take_files(found, files)
    for variable, text in env.items():
        if (chosen := declared.chosen(variable, text)) is not None:
            found.give(*chosen)
        elif variable == "CUDA_VISIBLE_DEVICES" and hides_gpus(text):
            found.give("device", "cpu")
        elif not _SYSTEM.match(variable):
            found.give(variable, text)
    _take_words(found, words, declared, read, files)
    if (count := runs_of_a_sweep(words)) > 1:
        found.give("multirun", count)
    several = _of_several((), declared, files)
    for name, raw in _defaults(declared.surveys, script.values):
        found.default(*(declared.chosen(name, str(raw)) or (name, raw)), whole=_key(name) in several)
    for name, raw in script.sizes.items():
        found.default(name, raw, instead=True)
    for name, number in script.written.items():
        found.written(name, number)
    rest = [*(one.rest for one in files if one.rest), *_overridden(files)]
    if rest or found.left_out:
        found.values["configuration"] = digest(f"{rest} {sorted(found.left_out.items())}")
        found.given.add("configuration")
    return found


def _take_words(
    found: EffectiveSettings,
    words: Sequence[str],
    declared: Declared,
    read: Container[str],
    files: Sequence[ConfigFile],
) -> None:
    place = 0
    given: dict[str, list[str]] = {}
    looked_up = {variable for variable, _ in _looked_up(declared.surveys)}
    # Where the places of words have names, no word names the next one.
    named = _joined(
        pairs(words, declared.switches) if declared.positional else _named(words, looked_up, declared.switches),
        declared,
    )
    several = _of_several(
        [declared.name_of(option) for option, word in named if option and word is not None], declared, files
    )
    for option, word in named:
        if option is None:
            place += 1
            _take_positional(found, place, word or "", declared, read)
            continue
        name = declared.name_of(option)
        if word is None:
            if name not in _INTRODUCE:
                # `--no-bias` and `--bias` are the two values of one switch.
                off = name.startswith(("no-", "no_"))
                found.give(name[3:] if off else name, not off)
        elif word not in read:
            given.setdefault(_dotted(name), []).append(word)
            found.give(*(declared.chosen(name, word) or (name, word)), whole=_key(name) in several)
    for name, texts in given.items():
        # It may count them all, or the last one only.
        if len(texts) > 1 and value(_key(name), texts[-1]) is not None:
            found.give(f"{name}-repeated", f"{len(texts)}: {' '.join(texts)}")


def _joined(named: Iterable[tuple[str | None, str | None]], declared: Declared) -> list[tuple[str | None, str | None]]:
    """Of an option that takes several words all of them, `64,128` of `--layers 64 128`."""
    found: list[tuple[str | None, str | None]] = []
    for name, word in named:
        before, words = found[-1] if found else (None, None)
        if name is None and before is not None and words is not None and declared.name_of(before) in declared.several:
            found[-1] = before, f"{words},{word}"
        else:
            found.append((name, word))
    return found


def _of_several(names: Iterable[str], declared: Declared, files: Sequence[ConfigFile]) -> set[str]:
    """The keys under which several of these options would be compared: `width` of `enc.width=64 dec.width=32`, also where one of
    them is only declared, or an entry of a file."""
    found: dict[str, set[str]] = {}
    for name in (*names, *declared.names.values()):
        found.setdefault(_key(name), set()).add(_dotted(name))
    dotted = {key for key, its in found.items() if any("." in name for name in its)}
    for keys, _ in entries(files):
        if (key := _key(keys[-1])) in dotted:
            found[key].add(_dotted(".".join(keys)))
    return {key for key, its in found.items() if len(its) > 1}


def _take_positional(found: EffectiveSettings, place: int, text: str, declared: Declared, read: Container[str]) -> None:
    if text in read:
        return
    if place in declared.positional and not _CONFIG.search(text):
        name = declared.positional[place]
        found.give(*(declared.chosen(name, text) or (name, text)))
    elif _CONFIG.search(text):
        found.give("config", text)
    elif "command" not in found.values and _says_what_to_do(text):
        found.give("command", text)
    else:
        found.give(f"{'data' if DATA.search(text) and ' ' not in text else 'argument'}-{place}", text)


def _dotted(name: str) -> str:
    return ".".join(plain(part) for part in name.split("."))


def _key(name: str) -> str:
    short = plain(name)
    setting = SETTING_OF.get(short)
    # `model-path` and `--amp` keep their own names; a batch is a batch by any of its names.
    return SPELLINGS[setting][0] if setting is not None and short not in SWITCHES else short


def _named(
    words: Sequence[str], looked_up: Container[str], switches: Container[str]
) -> Iterator[tuple[str | None, str | None]]:
    """The arguments, where a bare word may name the next one: `capacity 4000`, or any that the script looks up by that name."""
    names_next = _OF_PAPERMILL if any(word.endswith(".ipynb") for word in words) else ()
    keys = (_KEY, _TOP_KEY) if any(map(_KEY.fullmatch, words)) else ()
    waiting: str | None = None
    is_name = False
    for name, word in pairs(words, switches):
        bare = name is None and word is not None
        if waiting is not None:
            if bare and (is_name or NUMBER.match(word or "")):
                yield waiting, word
                waiting = None
                continue
            yield None, waiting
            waiting = None
        if bare and WORD.fullmatch(word or ""):
            waiting, is_name = word, word in looked_up
        elif word and (name in names_next or (bare and any(key.fullmatch(word) for key in keys))):
            waiting, is_name = word, True
        else:
            yield name, word
    if waiting is not None:
        yield None, waiting


def _says_what_to_do(text: str) -> bool:
    """Whether the first bare word may be a command, as in `main.py train`: no number, no path, and not the name of a run."""
    return not (NUMBER.match(text) or PATH_LIKE.search(text) or PER_RUN.search(text))


def runs_of_a_sweep(words: Sequence[str]) -> int:
    """How many runs Hydra makes one after the other: `--multirun lr=0.1,0.01 seed=1,2,3` makes six."""
    if {"-m", "--multirun"}.isdisjoint(words):
        return 1
    return math.prod(
        word.count(",") + 1 for word in words if "=" in word and not word.startswith("-") and "[" not in word
    )


def _take_files(found: EffectiveSettings, files: Iterable[ConfigFile]) -> None:
    """Entries by the last part of their key; by the whole key where two entries with the same last part differ."""
    all_entries = entries(files)
    seen: dict[str, set[str]] = {}
    for keys, raw in all_entries:
        seen.setdefault(_key(keys[-1]), set()).add(repr(raw))
    for keys, raw in all_entries:
        name = ".".join(keys)
        found.give(f"{CHOSEN}{name}" if is_size(keys[-1], raw) else name, raw, whole=len(seen[_key(keys[-1])]) > 1)


def _overridden(files: Sequence[ConfigFile]) -> list[str]:
    """What earlier files say otherwise than later ones, which need not replace them: `--model a.yaml --data b.yaml`."""
    last = dict(entries(files))
    return sorted(
        f"{keys} {raw!r}"
        for one in files
        for keys, raw in one.entries
        if last[keys] != raw and value(_key(keys[-1]), raw) is not None
    )


def _defaults(surveys: Sequence[Survey], values: Values | None) -> Iterator[tuple[str, Any]]:
    """(name, value) of what the script itself says, declared options first."""
    if values is None:
        return
    for one in surveys:
        yield from ((max(option.names, key=len), _known(values, option.default)) for option in one.options)
    yield from ((name, _known(values, default)) for name, default in _looked_up(surveys))
    for one in surveys:
        for name, node, guards in one.named:
            # Only names with a known meaning: a script has hundreds of others.
            if not guards and _is_literal(node) and meaning(_key(name)) not in (Meaning.OTHER, Meaning.CHOICE):
                found = _known(values, node)
                yield name, found if isinstance(found, int | float) else None


def _looked_up(surveys: Sequence[Survey]) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, default) of what the script looks up: `os.getenv("DEPTH", 4)`, `given.get("capacity", 4000)`."""
    for call in (call for one in surveys for call in one.calls):
        if call.last in {"get", "getenv"} and call.node.args and (name := text_of(call.node.args[0])):
            yield name, argument(call.node, 1, "default")


def _known(values: Values, node: ast.expr | None) -> Any:
    found = None if node is None else values.of(node)
    return None if found is UNKNOWN else found


def _is_literal(node: ast.expr) -> bool:
    """Whether an expression is written out: one computed from options would count their change twice."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) == "field"
    return not any(isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Subscript) for part in ast.walk(node))
