"""Which jobs are the same work again, and what is known of a job before it runs.

From a submission and its owner come the kind (a readable template of the command), the signature (the kind and all that
forecasts depend on) and the features, which include what the client read from the script. Values of arguments are left out of
the kind, except batch, image and sequence size, model and precision; so are options that only say where results go. What may
change a job's needs is kept in the features as `values`, together with variables of the job and entries of configuration
files: runs with other values are compared by `growth`. Training and serving use what was stored at launch; it is never
recomputed. Odd commands never raise.
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from msgspec import structs

from gpuq.array import TASK, TASK_VARIABLES, filled, placeholders
from gpuq.errors import BadInput
from gpuq.learn.features.arguments import kept, parse
from gpuq.learn.features.families import family, parameters
from gpuq.messages.job_record import JobRecord, TaskVariant
from gpuq.messages.submission import ArrayTasks, Hints, Submission, in_work_tree
from gpuq.script.meaning import CHOSEN, NUMBERED, Meaning, meaning, plain
from gpuq.script.options import pairs
from gpuq.script.program import SCRIPT, Program, ProgramKind, program
from gpuq.script.setting_value import value as stored
from gpuq.script.shell import absolute
from gpuq.script.tunables import EffectiveSettings, effective_settings

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
Describe = Callable[[Submission, str], tuple[str, str, dict[str, Any]]]
"""(submission, owner) -> (kind, signature, features). A pure function, as `describe` is."""
LONGEST_KIND = 400
_LONGEST_NAME = 200
MOST_TOKENS = 128
_MOST_READ, _BYTES_OF_WORD = 12_000_000, 256
"""So many words and variables of all tasks of an array are read, a long one as several: a minute's work or more. 10,000 tasks
with 200 variables have 5 million."""

# Names that very many scripts give their model say nothing about it.
_COMMON_NAMES = frozenset(
    {"net", "model", "build", "build_model", "create_model", "get_model", "make_model", "mymodel"}
)
_HOME = re.compile(r"^/(home|Users)/[^/]+/|^/root/")
_ODD = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]+")
_NOT_IN_NAMES = re.compile(r"[\x00-\x20:%\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class _Template:
    """A command with its values masked: what it starts, its options in a fixed order, its positional values."""

    target: str
    options: dict[str, str | None] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    sizes: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        options = (
            f"--{name}" if value is None else f"--{name}={value}" for name, value in sorted(self.options.items())
        )
        return " ".join((self.target, *options, *self.positional))


def describe(submission: Submission, owner: str) -> tuple[str, str, dict[str, Json]]:
    """(kind, signature, features) of a submission. Never raises.

    `--kind` overrides the kind; two users who name the same kind share its history, for the same number of devices. So do the
    members of a project. A changed script keeps the kind and changes the signature. A snapshot changes neither.
    """
    submission = in_work_tree(submission)
    found = _program(submission)
    template = _template(found)
    if submission.kind is not None:
        kind = _named(submission.kind)
    else:
        who = _of_project(submission.project) if submission.project else of_owner(owner)
        kind = who + template.text()
    # On several devices the same work takes another time, and each device does another part of it.
    if submission.most_gpus is not None and submission.most_gpus > submission.gpus:
        kind += f" x{submission.gpus}-{submission.most_gpus}"
    elif submission.gpus > 1:
        kind += f" x{submission.gpus}"
    if submission.hosts > 1:
        kind += f" on {submission.hosts} hosts"
    kind = _short(kind)
    features = _features(submission, owner, template, found)
    # Where a value was read changes nothing that depends on it.
    telling = {name: value for name, value in features.items() if name != "origins"}
    digest = hashlib.sha256(json.dumps(telling, sort_keys=True).encode("utf-8", "replace")).hexdigest()
    return kind, f"{kind}#{digest[:16]}", features


# Whoever submits chooses the names of kinds and projects, and what is known of a kind decides what its jobs are promised. So the
# three sorts of kinds never meet: an owner's begin with a name without space and colon, a project's with "project" and a space,
# and a named one has no colon, or begins with one.


def of_owner(owner: str) -> str:
    """How the kinds of an owner begin, those of projects and named ones apart."""
    return f"{_name(owner)}:"


def _of_project(project: str) -> str:
    return f"project {_name(project)}:"


def _named(kind: str) -> str:
    return f":{kind}" if ":" in kind else kind


def _name(text: str) -> str:
    """The name of an owner or a project, so that different ones stay different and none looks like anything else."""
    return _short(_NOT_IN_NAMES.sub(lambda odd: quote(odd[0], safe="", errors="surrogatepass"), text), _LONGEST_NAME)


def describe_tasks(of: JobRecord, describe: Describe) -> JobRecord:
    """The record of an array with what is known of its tasks: those whose parameters matter differently are variants. Raises
    BadInput for so many tasks with so many words and variables that it would take too long.

    The number of a task says nothing of its needs, unless the script takes something from a list by it: otherwise the tasks are
    described as if all had the number of the first one. A parameter is a setting that was given, by the name of the option that
    it stands behind, or by its own where it is a variable only.
    """
    submission, wanted = of.submission, of.submission.array
    assert wanted is not None, "the submission is no array"
    swept = _SweptArguments(submission, wanted)
    kind, signature, features = describe(swept.task(0), of.owner)
    of = structs.replace(of, kind=kind, signature=signature, features=features)
    if not (wanted.params or swept.chooses):
        return of
    if _length(submission) * wanted.count > _MOST_READ:
        most = max(1, _MOST_READ // _length(submission))
        raise BadInput(
            f"The words and variables of the array's {wanted.count:,} tasks are too many to read.",
            fix=f"Submit at most {most:,} such tasks at a time, or fewer variables with them.",
        )
    numbers = {signature: 0}
    number_of: dict[Hashable, int] = {}
    variants: list[TaskVariant] = []
    variant_of: list[int] = []
    for place in range(len(wanted.numbers)):
        telling = swept.telling(place)
        if telling not in number_of:
            other_kind, other, its_features = describe(swept.task(place), of.owner)
            if other not in numbers:
                changes = _changes(features, its_features)
                variants.append(TaskVariant(kind=other_kind, signature=other, features=changes))
                numbers[other] = len(variants)
            number_of[telling] = numbers[other]
        variant_of.append(number_of[telling])
    return structs.replace(of, variants=tuple(variants), variant_of=tuple(variant_of)) if variants else of


def _length(submission: Submission) -> int:
    texts = (*submission.command, *submission.env, *submission.env.values())
    return len(texts) + sum(map(len, texts)) // _BYTES_OF_WORD


class _SweptArguments:
    """The arguments of an array's command that its parameters fill."""

    def __init__(self, submission: Submission, wanted: ArrayTasks) -> None:
        self._submission, self._wanted = submission, wanted
        self._in_words = not wanted.params.keys().isdisjoint(placeholders(submission.command))
        first = _program(submission).first
        self._first_argument = len(submission.command) if first is None else first
        self._pairs = [
            pair for pair in pairs(submission.command[self._first_argument :]) if placeholders(map(str, pair))
        ]
        self._before = submission.command[: self._first_argument]
        self._settings = effective_settings(submission.command[self._first_argument :], {}).values
        self._choices = dict(self._swept_choices())

    @property
    def chooses(self) -> bool:
        """Whether the script chooses by something that differs between the tasks."""
        return bool(self._choices)

    def _swept_choices(self) -> Iterator[tuple[str, str]]:
        """Setting by which the script chooses -> what its value is filled from, where that is not the same for all tasks."""
        hints = self._submission.hints
        named = {plain(name): text for name, text in self._pairs if name and text}
        variables = {plain(name): f"{{{name}}}" for name in self._wanted.params}
        variables |= dict.fromkeys(map(plain, TASK_VARIABLES), f"{{{TASK}}}")
        for key, first in (hints.values if hints is not None else {}).items():
            short = key.removeprefix(CHOSEN)
            if short != key and (text := named.get(short) or variables.get(short)):
                yield key, f"{NUMBERED}{text}" if str(first).startswith(NUMBERED) else text

    def _chosen(self, place: int) -> dict[str, float | str]:
        values = {**self._params(place), TASK: str(self._wanted.numbers[place])}
        found = ((key, stored(key, filled(text, values))) for key, text in self._choices.items())
        return {key: chosen for key, chosen in found if chosen is not None}

    def task(self, place: int) -> Submission:
        """The submission that this task is. What its parameters set is a given setting."""
        submission, values = self._submission, self._values(place)
        command = tuple(filled(word, values) for word in submission.command)
        hints = submission.hints
        if hints is not None and hints.values:
            ours = effective_settings(command[self._first_argument :], {})
            swept = {name: value for name, value in ours.values.items() if self._settings.get(name) != value}
            swept |= self._chosen(place)
            # The first task may have zero for what this one has a factor for.
            read = {
                name: value for name, value in hints.values.items() if name not in ours.given or name in ours.values
            }
            hints = structs.replace(
                hints, values={**read, **swept}, given=tuple(dict.fromkeys((*hints.given, *ours.given, *swept)))
            )
        return structs.replace(submission, array=None, command=command, env=self._env(place), hints=hints)

    def telling(self, place: int) -> Hashable:
        """What the parameters of this task say of its needs: tasks for which this is equal are described alike."""
        values = self._values(place)
        arguments = []
        for name, text in self._pairs:
            option, shown = filled(name or "argument", values), filled(text or "", values)
            words = [shown] if name is None else [f"--{option}={shown}"]
            arguments.append((*parse(words), *effective_settings(words, {}).values.items()))
        variables = () if self._in_words else effective_settings((), self._params(place)).values.items()
        chosen = self._chosen(place).items()
        return *(filled(word, values) for word in self._before), *arguments, *variables, *chosen

    def _params(self, place: int) -> dict[str, str]:
        return {name: values[place] for name, values in self._wanted.params.items()}

    def _values(self, place: int) -> dict[str, str]:
        return {**self._params(place), TASK: str(self._wanted.numbers[0])}

    def _env(self, place: int) -> dict[str, str]:
        return self._submission.env if self._in_words else {**self._submission.env, **self._params(place)}


def _changes(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What is different in the other features, as `TaskVariant.features` has it."""
    changed = {name: value for name, value in other.items() if first.get(name) != value}
    ours, theirs = first.get("values"), changed.get("values")
    if isinstance(ours, dict) and isinstance(theirs, dict):
        changed["values"] = {
            name: theirs.get(name) for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)
        }
    return changed


def _template(found: Program) -> _Template:
    options: dict[str, str | None] = {}
    positional: list[str] = []
    sizes: dict[str, str] = {}
    for argument in parse(_arguments(found)):
        if argument.name is None:
            shape = argument.shown or ""
            # Several values of one shape in a row become one: the number of files makes no other kind.
            if positional and shape.startswith("<") and positional[-1].removesuffix("…") == shape:
                positional[-1] = f"{shape}…"
            else:
                positional.append(shape)
        elif meaning(plain(argument.name)) is not Meaning.OUTPUT:
            options[argument.name] = argument.shown
        if argument.setting is not None and argument.value is not None:
            sizes[argument.setting] = argument.value
    return _Template(_shown(found), options, tuple(positional), sizes)


def _program(submission: Submission) -> Program:
    found = program(submission.command, submission.cwd, stdin=submission.stdin)
    if submission.script is None:
        return found
    # What the client found: it sees the files, so it knows of a module whose it is.
    # Such a module is a script of its owner's, whose arguments are settings.
    of = "" if found.kind is ProgramKind.MODULE else found.of
    return replace(found, kind=ProgramKind.SCRIPT, name=absolute(submission.script, submission.cwd), of=of)


def _shown(found: Program) -> str:
    marks = {ProgramKind.MODULE: f"-m {_plain(found.name)}", ProgramKind.CODE: found.name}
    name = marks.get(found.kind) or _readable(found.name)
    return f"{name} {_readable(found.of)}" if found.of else name


def _arguments(found: Program) -> list[str]:
    """The program's arguments, after those of its launchers that change the work."""
    return [*(f"--{name}={value}" for name, value in found.launched), *found.arguments]


def _readable(path: str) -> str:
    return _plain(_HOME.sub("~/", path))


def _plain(text: str) -> str:
    return _ODD.sub("_", text)


def _short(text: str, most: int = LONGEST_KIND) -> str:
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{text[: most - 14]}… {digest}"


def _features(submission: Submission, owner: str, template: _Template, found: Program) -> dict[str, Json]:
    """What forecasts may rest on. None for what neither command nor script shows. Values masked in the kind do not appear,
    except optimiser and epochs."""
    hints = submission.hints or Hints()
    # Setting -> (value, where it was read). An option with a usual name goes before what the script says.
    settings: dict[str, tuple[str, str]] = {}
    for read, setting in hints.settings.items():
        if (value := kept(read, setting.value)) is not None:
            settings[read] = (value, setting.origin)
    settings |= {name: (value, "argument") for name, value in template.sizes.items()}
    sizes = {name: value for name, (value, _) in settings.items()}
    names = [*filter(None, [sizes.get("model")]), *hints.constructors]
    model = sizes.get("model") or next((_named_model(name) for name in hints.constructors if _named_model(name)), None)
    made_of = {"model": model, "model_family": family(names, hints.layers), "optimizer": sizes.get("optimizer")}
    tokens = {*_tokens(submission, owner, template), *_made_of_tokens(hints, made_of, sizes)}
    batch = _number(sizes.get("batch"))
    effective = _effective(submission, hints, found)
    return {
        "owner": _name(owner),
        "project": _name(submission.project) if submission.project else None,
        "script": template.target,
        "script_sha256": submission.script_sha256,
        "tokens": [*sorted(tokens)[:MOST_TOKENS]],
        "batch_size": batch,
        "batch_log2": None if batch is None else round(math.log2(batch), 6),
        "image_size": _number(sizes.get("image")),
        "sequence_length": _number(sizes.get("sequence")),
        "precision": sizes.get("precision"),
        "epochs": _number(sizes.get("epochs")),
        "gpus": submission.gpus,
        "framework": hints.framework,
        **({"traced": structs.asdict(hints.traced)} if hints.traced else {}),
        "constructors": list(hints.constructors),
        "layers": dict(sorted(hints.layers.items())),
        "parameters": hints.parameters or parameters(names),
        **made_of,
        "values": dict(sorted(effective.values.items())),
        "given": [*sorted(effective.given)],
        "origins": {name: origin for name, (_, origin) in sorted(settings.items())},
    }


def _effective(submission: Submission, hints: Hints, runs: Program) -> EffectiveSettings:
    """The settings by which this job is compared with others. Where the script was read, the job's variables add to it."""
    env = {**submission.env, **runs.env}
    if not hints.values:
        return effective_settings(_arguments(runs), env)
    found = EffectiveSettings(dict(hints.values), set(hints.given))
    of_launchers = effective_settings(_arguments(replace(runs, arguments=())), env).values
    for name, text in of_launchers.items():
        if name in found.given and found.values.get(name) != text:
            # The script may read the variable for another thing than the option of its name.
            found.give(f"variable-{name}", text)
        elif name not in found.given:
            of_script = found.values.get(name)
            found.give(name, text)
            if isinstance(of_script, float):
                found.written(name, of_script)
    return found


def _named_model(constructor: str) -> str | None:
    """The model's name in `AutoModel.from_pretrained:bert-base-uncased`, or a constructor that is one (`resnet50`)."""
    _, colon, name = constructor.partition(":")
    if colon:
        return name
    return constructor if parameters([constructor]) is not None else None


def _tokens(submission: Submission, owner: str, template: _Template) -> Iterator[str]:
    """Words that similar jobs have in common, each marked with where it stood; `clusters.WEIGHTS` weighs them."""
    yield f"owner:{_name(owner)}"
    if submission.project:
        yield f"project:{_name(submission.project)}"
    folder, _, name = template.target.rpartition("/")
    yield from (f"script:{word}" for word in _words(SCRIPT.sub("", name)))
    yield from (f"folder:{word}" for word in _words(posixpath.basename(folder)))
    yield from (f"option:{name}" for name in template.options)
    yield from (f"word:{word.lower()}" for word in template.positional if not word.startswith("<"))
    if submission.kind is not None:
        yield from (f"kind:{word}" for word in _words(submission.kind))


def _made_of_tokens(hints: Hints, made_of: dict[str, str | None], sizes: dict[str, str]) -> Iterator[str]:
    """Tokens of what the job is made of, as far as command and script show it."""
    if made_of["model"] is not None:
        yield f"model:{made_of['model'].lower()}"
        yield from (f"family:{word}" for word in _words(made_of["model"]))
    if made_of["model_family"] is not None:
        yield f"family:{made_of['model_family']}"
    if made_of["optimizer"] is not None:
        yield f"optimizer:{made_of['optimizer']}"
    if "precision" in sizes:
        yield f"precision:{sizes['precision'].lower()}"
    if hints.framework is not None:
        yield f"framework:{hints.framework}"
    yield from (f"constructor:{name.lower()}" for name in hints.constructors if name.lower() not in _COMMON_NAMES)
    yield from (f"layer:{name.lower()}" for name in hints.layers)


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W\d_]{2,}", text)]


def _number(shown: str | None) -> float | None:
    """The size that a shown value stands for; of several, as in 224x224, their geometric mean. None for none."""
    if shown is None:
        return None
    values = [float(part) for part in re.findall(r"\d+(?:\.\d+)?", shown)]
    if not values or any(value <= 0 for value in values):
        return None
    return round(math.exp(sum(map(math.log, values)) / len(values)), 6)
