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
from gpuq.script.digests import short_digest
from gpuq.script.meaning import RESULTS, Meaning, may_be_secret, meaning, names_file, names_size, plain
from gpuq.script.operations import UNKNOWN
from gpuq.script.options import NUMBER, SETTING_OF, SPELLINGS, SWITCHES, pairs
from gpuq.script.survey import Survey, argument, text_of
from gpuq.script.values import Values

Value = float | str
MOST = 64
WRITTEN = "script."
"""Before the name of a setting that is given, where the script writes out another number under this name."""
_LARGEST = 1e15
_LONGEST_NAME = 60
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{_LONGEST_NAME}}}")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_WORD = re.compile(r"[a-z][a-z0-9_.+-]{0,31}")
# Letters and digits in no order, as keys have them whatever their option is called; words and names have signs between.
_MAY_BE_KEY = re.compile(r"(?=[a-z0-9]*\d[a-z]+\d)(?=[a-z0-9]*[a-z]\d+[a-z])[a-z0-9]{16,}")
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?)([kmgbt])(?:i?b)?", re.IGNORECASE)
_SIDES = re.compile(r"\d{1,5}(?:[x,]\d{1,5}){1,3}")
_LIST = re.compile(r"[\[(]?\s*-?\d+(?:\.\d+)?(?:\s*,\s*-?\d+(?:\.\d+)?)+\s*,?\s*[\])]?")
_DATA = re.compile(r"(?:^|/)(?:data|datasets?|corpus|corpora)/", re.IGNORECASE)
_CONFIG = re.compile(r"\.(json|toml|ya?ml|ini|cfg|py|conf|gin)$", re.IGNORECASE)
_PATH = re.compile(r"[/\\~]|^\.|\.[A-Za-z]\w{0,5}$")
_NAMED_BY_PATH = re.compile(r"model|conf|cfg|preset|recipe|experiment|checkpoint|weights|pretrained|init|backbone")
# Parts of a path to data that say nothing of which data they are, and names that differ from run to run.
_COMMON_PARTS = re.compile(
    r"data|datasets?|train|training|val|valid|test|images?|imgs?|raw|processed|inputs?|files?|scratch|tmp|home"
    r"|(?:part|shard|split|chunk|fold)s?(?:[-_]?\d+)?(?:-of-\d+)?"
)
_PER_RUN = re.compile(r"^\d+$|\d{4,}|^tmp|^[0-9a-f]{8,}$|^(?:run|job|exp|out|output|results?|version)[-_]?\d*$")
# A number of these names is no place: `-o 64` are outputs. `-v 768` is no verbosity.
_OUT, _MOST_VERBOSE = re.compile(r"o|out|outputs?"), 9
# What a number in a list of layers is rather their width than their count, and words that say what there is a list of.
_WIDTH_OF_LAYER, _STACK = 16, re.compile(r"layers?|depths?|(?:blocks?|stages|levels|stacks)$")
# What stands before words `key=value`, which have names of their own.
_INTRODUCE = frozenset({"set", "opts", "options", "override", "overrides", "cfg-options", "cfg_options", "o", "D"})
# `papermill in.ipynb out.ipynb -p NAME VALUE`.
_OF_PAPERMILL = frozenset({"p", "parameters", "r", "parameters-raw"})
# A key of yacs, whose value is the next word: `SOLVER.IMS_PER_BATCH 16`.
_KEY = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)+")
_RANGE = re.compile(r"(\d{1,9})(?:-|\.\.)(\d{1,9})")
# Names of runs that may name a network, unless they begin as names of results do.
_NAMES_RUN = re.compile(r"name|run|exp|experiment|tags?|(?:model|checkpoint|ckpt)-?dir")
_COMMON_RUNS = re.compile(r"out|run|exp|result|log|save|test|train")
_TRUE, _FALSE = frozenset({"true", "on", "yes"}), frozenset({"false", "off", "no"})
# Variables of the shell, of libraries and of gpuq that are no settings of the job.
_SYSTEM = re.compile(
    r"^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|PWD|HOSTNAME|DISPLAY|VIRTUAL_ENV|EDITOR|_)$"
    r"|^(LC_|CONDA|XDG_|OMP_|MKL_|OPENBLAS_|NUMEXPR_|NCCL_|CUDA|PYTHON|LD_|WANDB_|GPUQ_|TOKENIZERS_|HYDRA_|RAY_|MPL|SSH_|SLURM_|MASTER_|NVIDIA_|GIT_|UV_|PIP_|POETRY_|PIXI_|MAMBA_|DOCKER_"
    r"|APPTAINER|SINGULARITY|JUPYTER|VSCODE_|DEBIAN_|OLDPWD|SHLVL)"
    r"|^(LOCAL_RANK|RANK|WORLD_SIZE)$"
    # Of a library what is about the machine; which backend it has and how much memory it takes is a setting.
    r"|^(KERAS|TF|JAX|XLA|PYTORCH|TORCH|HF|TRANSFORMERS)_\w*(HOME|CACHE|DIR|PATH|LOG|VERBOS|PROGRESS|DEBUG|OFFLINE|ENDPOINT|TELEMETRY"
    r"|TRANSFER|CLI_|NCCL|NUM_\w*THREADS|ARCH_LIST|EXTENSIONS|PLATFORM)"
)


@dataclass
class EffectiveSettings:
    """Effective values by plain name; `given` names those that do not come from the script itself."""

    values: dict[str, Value] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    left_out: dict[str, Value] = field(default_factory=dict)
    """Values for which there is no room."""

    def give(self, name: str, raw: Any, *, whole: bool = False) -> None:
        """Set what the command or a file gives; under its whole dotted name if `whole`, or if that name is in use."""
        if plain(name).endswith(("seed", "seeds")) and (count := _several(raw)):
            name, raw = "seeds", count
        dotted, short = _dotted(name), _key(name)
        about = meaning(dotted)
        # A secret, or what saves memory, may be so by what it belongs to.
        key = dotted if whole or dotted in self.values or about is not meaning(short) else short
        if not may_be_secret(dotted) or _is_no_secret(about, raw):
            self._give(_ODD.sub("-", key)[-_LONGEST_NAME:], raw)

    def _give(self, key: str, raw: Any) -> None:
        for name, found in _kept(key, raw):
            if name in self.values or len(self.values) < MOST - 1:
                self.values[name] = found
                self.given.add(name)
            else:
                self.left_out[name] = found

    def default(self, name: str, raw: Any, *, instead: bool = False, whole: bool = False) -> None:
        """Set a default of the script, unless something else set that name; `instead` of another default of that name, and under
        its whole name if `whole`."""
        for key, found in _kept(_dotted(name) if whole else _key(name), raw):
            if key not in (self.given if instead else self.values):
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

    surveys: Sequence[Survey] = ()
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
    surveys = script.surveys
    declared = Declared.of(surveys)
    _take_files(found, files)
    for variable, text in env.items():
        if (chosen := declared.chosen(variable, text)) is not None:
            found.give(*chosen)
        elif not _SYSTEM.match(variable):
            found.give(variable, text)
    _take_words(found, words, declared, read, files)
    if (count := _swept(words)) > 1:
        found.give("multirun", count)
    several = _of_several((), declared, files)
    for name, raw in _defaults(surveys, script.values):
        found.default(*(declared.chosen(name, str(raw)) or (name, raw)), whole=_key(name) in several)
    for name, raw in script.sizes.items():
        found.default(name, raw, instead=True)
    for name, number in script.written.items():
        found.written(name, number)
    rest = [*(one.rest for one in files if one.rest), *_overridden(files)]
    if rest or found.left_out:
        found.values["configuration"] = _digest(f"{rest} {sorted(found.left_out.items())}")
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
    named = list(_named(words, looked_up, declared.switches))
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
        found.give(f"{'data' if _DATA.search(text) and ' ' not in text else 'argument'}-{place}", text)


def _kept(name: str, raw: Any) -> Iterator[tuple[str, Value]]:
    """(name, value) of what is stored of a setting of this plain name. Of a list of equal sizes one and their count; of another
    one the sum and, apart from it, the proportions, since 16, 1008 need another amount than 512, 512."""
    sizes = _sizes(raw)
    # `layers=[64, 64]` are widths, `layers=[3, 4, 6, 3]` are depths.
    if sizes and meaning(name) is Meaning.DEPTH and sum(sizes) >= _WIDTH_OF_LAYER * len(sizes):
        name = _STACK.sub("widths", name)
    are_equal = len(set(sizes)) == 1
    found = value(name, sizes[0] if are_equal else raw)
    if found is None:
        return
    yield name, found
    short = name[: _LONGEST_NAME - 12]
    if are_equal:
        yield f"{short}-layers", float(len(sizes))
    elif sizes and (whole := sum(sizes)):
        yield f"{short}-proportions", _digest(repr([round(size / whole, 3) for size in sizes]), "of")


def _sizes(raw: Any) -> list[float]:
    """The numbers of a list, or of a text that is one; empty for what is none, and for one number. 224x448 is a picture."""
    if isinstance(raw, str):
        text = raw.strip()
        is_list = _LIST.fullmatch(text) or (_SIDES.fullmatch(text) and text.count("x") != 1)
        raw = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)] if is_list else ()
    if not isinstance(raw, list | tuple) or len(raw) < 2:
        return []
    is_of_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in raw)
    return [float(one) for one in raw] if is_of_numbers else []


def value(name: str, raw: Any) -> Value | None:
    """The stored form of a setting of this plain name; None where it is not stored."""
    about = meaning(name)
    if not _NAME.fullmatch(name):
        return None
    if may_be_secret(name) and not _is_no_secret(about, raw):
        return None
    if about is Meaning.HARMLESS and name in ("v", "q") and NUMBER.match(str(raw)) and abs(float(raw)) > _MOST_VERBOSE:
        return _number(float(raw))
    if about is Meaning.HARMLESS:
        # Which GPU it is does not matter, but none at all does.
        return "cpu" if name == "device" and str(raw).lower() == "cpu" else None
    if about is Meaning.OUTPUT and not (_OUT.fullmatch(name) and NUMBER.match(str(raw))):
        return _network_of_run(name, str(raw).strip().lower())
    if about is Meaning.RESUME:
        # `--resume auto` may find nothing to go on from, and counting may start at 1.
        text = str(raw)
        return "true" if (float(text) > 1 if NUMBER.match(text) else _PATH.search(text)) else None
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float):
        return _number(raw)
    if isinstance(raw, list | tuple):
        # A list of sizes is usually one per layer: compared by their sum.
        numbers = [one for one in raw if isinstance(one, int | float) and not isinstance(one, bool)]
        if len(numbers) < len(raw):
            return _digest(repr(raw))
        return _number(sum(numbers)) if numbers else None
    return _of_text(name, about, "" if raw is None else str(raw).strip().lower())


def _is_no_secret(about: Meaning, raw: Any) -> bool:
    """Whether this value of a setting whose words are those of secrets is a switch, or the number of a size: `--key-dim 64`."""
    is_number = isinstance(raw, int | float) or bool(NUMBER.match(str(raw)))
    return isinstance(raw, bool) or (about is not Meaning.PRIVATE and is_number)


def _network_of_run(name: str, text: str) -> str | None:
    """What a run is called, where that says which network it trains: `--name yolox-s`, `--ckpt-dir llama-2-7b`; else None."""
    last = _last_part(text)
    says_it = _NAMES_RUN.fullmatch(name) and names_size(last) and not _COMMON_RUNS.match(last)
    return last if says_it and _WORD.fullmatch(last) else None


def _of_text(name: str, about: Meaning, text: str) -> Value | None:
    alone = text.strip("[(,)] ")  # `(400,)` is a list of one
    if NUMBER.match(alone):
        return _number(float(alone.replace("_", "")))
    if text in _TRUE or text in _FALSE:
        return "true" if text in _TRUE else "false"
    if found := _WITH_UNIT.fullmatch(text):
        return _number(float(found[1]) * _UNITS[found[2].lower()])
    if _SIDES.fullmatch(text) or _LIST.fullmatch(text):
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]
        # 224x224 is a side of 224; [512, 256] are layers of 768 in all.
        return _number((numbers[0] * numbers[1]) ** 0.5 if "x" in text and len(numbers) == 2 else sum(numbers))
    # What has spaces is rather a command or a sentence.
    if _PATH.search(text) and " " not in text:
        if about is Meaning.CHOICE and not _NAMED_BY_PATH.search(name):
            return data_of(text)
        # A folder is irrelevant; the last part of the path may name the model or configuration. Of a setting with another name it
        # is kept where it is such a file, or data: most other paths are where results go.
        last = _last_part(text)
        names_it = names_size(last) or (names_file(last) and not _PER_RUN.search(last.partition(".")[0]))
        if not names_it and about is Meaning.OTHER and _DATA.search(text) and not RESULTS.search(text):
            return data_of(text)
        if not last or not (about is Meaning.CHOICE or names_it):
            return None
        return last if _WORD.fullmatch(last) else _digest(last, "file")
    if _WORD.fullmatch(text) and not _MAY_BE_KEY.search(text):
        return text
    return _digest(text) if text else None


def data_of(path: str) -> str | None:
    """What a path to data calls them: `cifar` of `/data/cifar/train.csv`. None where no part says it, or for a name that another
    run may have otherwise, as `/scratch/81642/data`."""
    for part in reversed(path.rstrip("/").split("/")):
        plainly = part.partition(".")[0]
        if plainly and not _COMMON_PARTS.fullmatch(plainly):
            if _PER_RUN.search(plainly) or part.startswith("$"):
                return None
            return plainly if _WORD.fullmatch(plainly) else _digest(plainly)
    return None


def _number(value: float) -> float | None:
    return float(value) if abs(value) < _LARGEST else None


def _last_part(path: str) -> str:
    """The last part of a path; the last two where a number alone is the last: `vit-b/32`."""
    before, _, last = path.rstrip("/").rpartition("/")
    return f"{before.rpartition('/')[2]}/{last}" if before and last.isdigit() else last


def _several(raw: Any) -> int | None:
    """How many values a list or a range has, as a text too; None for one value, and for none."""
    if isinstance(raw, list | tuple):
        return len(raw) if len(raw) > 1 else None
    text = str(raw)
    if found := _RANGE.fullmatch(text):
        return abs(int(found[2]) - int(found[1])) + 1
    return text.count(",") + 1 if _LIST.fullmatch(text) else None


def _digest(text: str, of: str = "digest") -> str:
    return f"{of}-{short_digest(text)}"


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
        if bare and _WORD.fullmatch(word or ""):
            waiting, is_name = word, word in looked_up
        elif word and (name in names_next or (bare and _KEY.fullmatch(word))):
            waiting, is_name = word, True
        else:
            yield name, word
    if waiting is not None:
        yield None, waiting


def _says_what_to_do(text: str) -> bool:
    """Whether the first bare word may be a command, as in `main.py train`: no number, no path, and not the name of a run."""
    return not (NUMBER.match(text) or _PATH.search(text) or _PER_RUN.search(text))


def _swept(words: Sequence[str]) -> int:
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
        found.give(".".join(keys), raw, whole=len(seen[_key(keys[-1])]) > 1)


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
