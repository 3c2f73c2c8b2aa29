"""How the value of one setting is stored: as a number, a short word, or a digest of a longer text; None for what is left out.

Values of harmless and private names (see `meaning`) are left out, and most paths: a folder says nothing of the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpuq.script.digests import short_digest
from gpuq.script.meaning import (
    RESULTS,
    Meaning,
    leaves_out_at_zero,
    may_be_secret,
    may_be_size,
    meaning,
    names_file,
    names_size,
)
from gpuq.script.options import NUMBER

Value = float | str
_LARGEST = 1e15
LONGEST_NAME = 60
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST_NAME}}}")
WORD = re.compile(r"[a-z][a-z0-9_.+-]{0,31}")
# Letters and digits in no order, as keys have them whatever their option is called; words and names have signs between.
_MAY_BE_KEY = re.compile(r"(?=[a-z0-9]*\d[a-z]+\d)(?=[a-z0-9]*[a-z]\d+[a-z])[a-z0-9]{16,}")
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?)([kmgbt])(?:i?b)?", re.IGNORECASE)
_SIDES = re.compile(r"\d{1,5}(?:[x,]\d{1,5}){1,3}")
_LIST = re.compile(r"[\[(]?\s*-?\d+(?:\.\d+)?(?:\s*,\s*-?\d+(?:\.\d+)?)+\s*(?:,\s*)?[\])]?")
DATA = re.compile(r"(?:^|/)(?:data|datasets?|corpus|corpora)/", re.IGNORECASE)
PATH_LIKE = re.compile(r"[/\\~]|^\.|\.[A-Za-z]\w{0,5}$")
_NAMED_BY_PATH = re.compile(r"model|conf|cfg|preset|recipe|experiment|checkpoint|weights|pretrained|init|backbone")
# Parts of a path to data that say nothing of which data they are, and names that differ from run to run.
_COMMON_PARTS = re.compile(
    r"data|datasets?|train|training|val|valid|test|images?|imgs?|raw|processed|inputs?|files?|scratch|tmp|home"
    r"|(?:part|shard|split|chunk|fold)s?(?:[-_]?\d+)?(?:-of-\d+)?"
)
PER_RUN = re.compile(r"^\d+$|\d{4,}|^tmp|^[0-9a-f]{8,}$|^(?:run|job|exp|out|output|results?|version)[-_]?\d*$")
# A number of these names is no place: `-o 64` are outputs. `-v 768` is no verbosity.
_OUT, _MOST_VERBOSE = re.compile(r"o|out|outputs?"), 9
# What a number in a list of layers is rather their width than their count, and words that say what there is a list of.
_WIDTH_OF_LAYER, _STACK = 16, re.compile(r"layers?|depths?|(?:blocks?|stages|levels|stacks)$")
_RANGE = re.compile(r"(\d{1,9})(?:-|\.\.)(\d{1,9})")
# Names of runs that may name a network, unless they begin as names of results do.
_NAMES_RUN = re.compile(r"name|run|exp|experiment|tags?|(?:model|checkpoint|ckpt)-?dir")
_COMMON_RUNS = re.compile(r"out|run|exp|result|log|save|test|train")
# Of a whole number from here on that nothing else says to be a factor.
_LEAST_SIZE = 8
_GPU = re.compile(r"(?:cuda-)?(?:gpu|device)(?:-?ids?)?")
GPUS = re.compile(r"(?:cuda-)?(?:gpu|device)s?(?:-?ids?)?")
"""Which GPUs there are: only their number matters."""
_TRUE, _FALSE = frozenset({"true", "on", "yes"}), frozenset({"false", "off", "no"})


def kept(name: str, raw: Any) -> Iterator[tuple[str, Value]]:
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
    short = name[: LONGEST_NAME - 12]
    if are_equal:
        yield f"{short}-layers", float(len(sizes))
    elif sizes and (whole := sum(sizes)) and meaning(name) is not Meaning.LENGTH:
        yield f"{short}-proportions", digest(repr([round(size / whole, 3) for size in sizes]), "of")


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
    if may_be_secret(name) and not is_no_secret(about, raw):
        return None
    if about is Meaning.HARMLESS and name in ("v", "q") and NUMBER.match(str(raw)) and abs(float(raw)) > _MOST_VERBOSE:
        return _number(float(raw))
    if about is Meaning.HARMLESS and is_zero(raw) and leaves_out_at_zero(name):
        return 0.0
    if about is Meaning.HARMLESS:
        # Which GPU it is does not matter, but none at all does.
        return "cpu" if _GPU.fullmatch(name) and str(raw).lower() in ("cpu", "-1") else None
    if about is Meaning.OUTPUT and not (_OUT.fullmatch(name) and NUMBER.match(str(raw))):
        return _network_of_run(name, str(raw).strip().lower())
    if about is Meaning.RESUME:
        # `--resume auto` may find nothing to go on from, and counting may start at 1.
        text = str(raw)
        return "true" if (float(text) > 1 if NUMBER.match(text) else PATH_LIKE.search(text)) else None
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float):
        return _number(raw)
    if isinstance(raw, list | tuple):
        # A list of sizes is usually one per layer: compared by their sum.
        numbers = [one for one in raw if isinstance(one, int | float) and not isinstance(one, bool)]
        if len(numbers) < len(raw):
            return digest(repr(raw))
        return _number(sum(numbers)) if numbers else None
    return _of_text(name, about, "" if raw is None else str(raw).strip().lower())


def is_no_secret(about: Meaning, raw: Any) -> bool:
    """Whether this value of a setting whose words are those of secrets is a switch, or the number of a size: `--key-dim 64`."""
    is_number = isinstance(raw, int | float) or bool(NUMBER.match(str(raw)))
    return isinstance(raw, bool) or (about is not Meaning.PRIVATE and is_number)


def hides_gpus(visible: str) -> bool:
    """Whether no GPU is left by this value of `CUDA_VISIBLE_DEVICES`."""
    return visible.strip() in ("", "-1", "NoDevFiles")


def is_size(name: str, raw: Any) -> bool:
    """Whether the number of a setting with the name of a factor is rather a size: `clip: 16`, but not `clip: 16.0`."""
    is_whole = isinstance(raw, int | str) and not isinstance(raw, bool) and str(raw).strip().isdecimal()
    number = float(raw) if is_whole and isinstance(raw, str) else raw  # it may have thousands of digits
    return is_whole and number >= _LEAST_SIZE and may_be_size(name)


def is_zero(raw: Any) -> bool:
    """Whether this is the number zero; a switch is none."""
    return not isinstance(raw, bool) and bool(NUMBER.match(str(raw))) and float(raw) == 0


def _network_of_run(name: str, text: str) -> str | None:
    """What a run is called, where that says which network it trains: `--name yolox-s`, `--ckpt-dir llama-2-7b`; else None."""
    last = _last_part(text)
    says_it = _NAMES_RUN.fullmatch(name) and names_size(last) and not _COMMON_RUNS.match(last)
    return last if says_it and WORD.fullmatch(last) else None


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
    if PATH_LIKE.search(text) and " " not in text:
        if about is Meaning.CHOICE and not _NAMED_BY_PATH.search(name):
            return data_of(text)
        # A folder is irrelevant; the last part of the path may name the model or configuration. Of a setting with another name it
        # is kept where it is such a file, or data: most other paths are where results go.
        last = _last_part(text)
        names_it = names_size(last) or (names_file(last) and not PER_RUN.search(last.partition(".")[0]))
        if not names_it and about is Meaning.OTHER and DATA.search(text) and not RESULTS.search(text):
            return data_of(text)
        if not last or not (about is Meaning.CHOICE or names_it):
            return None
        return last if WORD.fullmatch(last) else digest(last, "file")
    if WORD.fullmatch(text) and not _MAY_BE_KEY.search(text):
        return text
    return digest(text) if text else None


def data_of(path: str) -> str | None:
    """What a path to data calls them: `cifar` of `/data/cifar/train.csv`. None where no part says it, or for a name that another
    run may have otherwise, as `/scratch/81642/data`."""
    for part in reversed(path.rstrip("/").split("/")):
        plainly = part.partition(".")[0]
        if plainly and not _COMMON_PARTS.fullmatch(plainly):
            if PER_RUN.search(plainly) or part.startswith("$"):
                return None
            return plainly if WORD.fullmatch(plainly) else digest(plainly)
    return None


def _number(value: float) -> float | None:
    return float(value) if abs(value) < _LARGEST else None


def _last_part(path: str) -> str:
    """The last part of a path; the last two where a number alone is the last: `vit-b/32`."""
    before, _, last = path.rstrip("/").rpartition("/")
    return f"{before.rpartition('/')[2]}/{last}" if before and last.isdigit() else last


def count_of(raw: Any) -> int | None:
    """How many values a list or a range has, as a text too; None for one value, and for none."""
    if isinstance(raw, list | tuple):
        return len(raw) if len(raw) > 1 else None
    text = str(raw)
    if found := _RANGE.fullmatch(text):
        return abs(int(found[2]) - int(found[1])) + 1
    return text.count(",") + 1 if _LIST.fullmatch(text) else None


def count_of_ids(raw: Any) -> int | None:
    """How many GPUs `0,1` or `[0]` lists; None for a number of GPUs."""
    is_list = isinstance(raw, list | tuple) or str(raw).startswith("[")
    return count_of(raw) or (1 if is_list else None)


def digest(text: str, of: str = "digest") -> str:
    """What stands for a text that is not stored itself; `of` says what it is."""
    return f"{of}-{short_digest(text)}"
