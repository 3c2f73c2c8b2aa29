"""Combines what a script says of its job, in the form that goes with a submission.

Plain and bounded as `gpuq.messages.submission.Hints` requires; None where nothing was read. What the command itself says by a
usual name is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuq.script.configs import ConfigFile, configs_of_models, configured, named_files, read, with_named
from gpuq.script.declared import Declared
from gpuq.script.digests import short_digest
from gpuq.script.fingerprint import CODE, config_digest, fingerprint, is_shell, written
from gpuq.script.frameworks import framework
from gpuq.script.inputs import inputs, resumed_bytes
from gpuq.script.meaning import Meaning, meaning, plain
from gpuq.script.network import network
from gpuq.script.options import SPELLINGS, pairs, parsed
from gpuq.script.own_configs import OwnConfigs, own_configs
from gpuq.script.path_texts import PathTexts
from gpuq.script.settings import settings
from gpuq.script.shell import named_positions
from gpuq.script.source import LARGEST_BYTES, contents, modules_named, python_path, sources, text
from gpuq.script.survey import survey
from gpuq.script.tunables import MOST, EffectiveSettings, ScriptSettings, effective_settings
from gpuq.script.values import Values

# As `gpuq.messages.submission.Word` requires it.
_LONGEST_WORD = 100


def hints(
    script: Path | None,
    words: Sequence[str],
    cwd: Path,
    files: Sequence[Path] = (),
    env: Mapping[str, str] = MappingProxyType({}),
    around: Sequence[str] = (),
) -> dict[str, Any] | None:
    """What `script`, called with `words` and the variables `env` in `cwd`, says of its job, and what `files` and the launchers
    `around` it say. None for nothing. Never raises."""
    try:
        return _said_by(_read(script, words, cwd, files, env, around), cwd, env, around)
    except Exception:  # noqa: BLE001 - a script may be anything, and a hint is never worth a submission
        return None


class _Program(NamedTuple):
    """A program and its command, with the configuration files that either of them names."""

    declared: Declared
    code: str | None
    """The digest of the program."""
    numbers: Mapping[str, float]
    """Those of the program that are compared as settings."""
    words: Sequence[str]
    """What the program is given, by name where it is a shell script that names its words."""
    own: OwnConfigs
    named: Mapping[str, Path]
    """Word of the command -> the file that it names."""
    files: Sequence[ConfigFile]


def _read(
    script: Path | None,
    given: Sequence[str],
    cwd: Path,
    files: Sequence[Path],
    env: Mapping[str, str],
    around: Sequence[str],
) -> _Program:
    programs = (*files,) if script is None else (script, *files)
    known, declared, code, numbers = _surveys(programs, cwd, python_path(env, cwd))
    surveys, words = declared.surveys, given
    if script is not None and is_shell(script, content := text(script, LARGEST_BYTES) or b""):
        words = named_positions(content.decode("utf-8", "replace"), given)
    all_words = (*around, *words)
    named = named_files(all_words, cwd)
    of_variables = named_files([f"{name}={value}" for name, value in env.items()], cwd)
    own = OwnConfigs([], [])
    if surveys:
        values = Values(surveys, _options(words, declared), {})
        own = own_configs(surveys, programs[0], words, cwd, PathTexts(values, programs[0], words, env), env)
    of_models = configs_of_models(all_words, cwd)
    all_files = [*own.files, *of_models, *of_variables.values(), *named.values()]
    read_files = [read(path) for path in with_named(all_files, cwd)]
    # `_target_: nets.resnet.ResNet`: the module is as much of the program as those that it imports.
    words_of_files = [value for one in read_files for _, value in one.entries if isinstance(value, str)]
    imported = [name for one in read_files for name in one.modules]
    modules = modules_named([*words_of_files, *imported], programs[0], cwd) if surveys else []
    if further := set(modules).difference(programs, (path for path, _ in known)):
        return _read(script, given, cwd, (*files, *sorted(further)), env, around)
    return _Program(declared, code, numbers, words, own, named, read_files)


def _options(words: Sequence[str], declared: Declared) -> dict[str, str | None]:
    return {name: value for name, value in pairs(words, declared.switches) if name is not None}


def _said_by(program: _Program, cwd: Path, env: Mapping[str, str], around: Sequence[str]) -> dict[str, Any] | None:
    """The hints; `around`: what its launchers are given."""
    declared, code, numbers, words, own, named, read_files = program
    surveys, all_words = declared.surveys, (*around, *words)
    all_options = _options(all_words, declared)
    in_files = configured(read_files)
    # A script does not see what its launcher is given, which may have options of the same names.
    values = Values(surveys, _options(words, declared), in_files, env)
    built, read_settings = network(surveys, values), settings(surveys, values, all_options, in_files)
    # What is written out in the script is compared too, as the same command may run an edited script.
    sizes = {
        SPELLINGS[name][0]: parsed(setting["value"])
        for name, setting in read_settings.items()
        if setting["origin"] == "script"
    }
    # Of the job's variables the API takes care, which knows all of them, but not what the script does with them.
    choosing = {name: value for name, value in env.items() if declared.chosen(name, value) is not None}
    ours = effective_settings(all_words, choosing, read_files, ScriptSettings(declared, values, sizes, numbers), named)
    of_inputs = inputs(all_words, cwd, ours.values, named, declared.switches)
    if code is None and not of_inputs and not around and not any(one.entries or one.rest for one in read_files):
        return None
    for name, called in of_inputs.items():
        _note(ours, name, called)
    _note_resumed(ours, all_options, cwd)
    if code is not None:
        # A further file that says the same is one more name of it.
        unsure = sorted({config_digest(path) for path in own.unsure})
        code = short_digest(f"{code}{unsure}") if unsure else code
        _note(ours, CODE, f"file-{code}", is_given=False)
    found = {
        "framework": framework(surveys),
        **built,
        "settings": read_settings,
        "values": ours.values,
        # Factors of which nothing is kept have the room that is left.
        "given": [*sorted(ours.given & ours.values.keys()), *sorted(ours.given - ours.values.keys())][:MOST],
    }
    return {name: value for name, value in found.items() if value} or None


def _note_resumed(ours: EffectiveSettings, arguments: Mapping[str, str | None], cwd: Path) -> None:
    """Let what a run goes on from count by its size: of another network, which only the checkpoint may say, it is another one."""
    for name, given in arguments.items():
        key = plain(name)
        if given and meaning(key) is Meaning.RESUME and ours.values.get(key) == "true":
            ours.values[key] = resumed_bytes(cwd / given) or "true"


def _note(ours: EffectiveSettings, name: str, digest: str, *, is_given: bool = True) -> None:
    """Let a digest count under this name, as what says which work is done. Where there is no room, it counts with what else had
    none."""
    if len(ours.values) >= MOST - is_given:
        name, digest = "configuration", f"{ours.values.get('configuration', '')}-{digest}"[-_LONGEST_WORD:]
    ours.values[name] = digest
    if is_given:
        ours.given.add(name)


def variables(script: Path, cwd: Path) -> frozenset[str]:
    """The variables of the environment that the script reads, as far as their names are written out in it. Never raises."""
    return frozenset(name for one in _surveys((script,), cwd).declared.surveys for name in one.variables)


def forget() -> None:
    """Read everything again: files may have changed."""
    _surveys.cache_clear()


def program_files(
    programs: tuple[Path, ...], cwd: Path, env: Mapping[str, str] = MappingProxyType({})
) -> Sequence[tuple[Path, bytes]]:
    """(path, content) of these files and of what they use, as `source.contents` has them. Never raises."""
    return _surveys(programs, cwd, python_path(env, cwd)).files


class _Surveyed(NamedTuple):
    """What was read of a program, once for all that is asked about it."""

    files: Sequence[tuple[Path, bytes]]
    declared: Declared
    """By its own code and its modules, if it is one of Python."""
    code: str | None
    """The digest of all its files."""
    written: Mapping[str, float] = MappingProxyType({})
    """Its numbers that are compared as settings."""


@lru_cache(maxsize=16)
def _surveys(programs: tuple[Path, ...], cwd: Path, folders: tuple[Path, ...] = ()) -> _Surveyed:
    files = list(contents(programs, cwd, folders))
    try:
        found = sources(files, programs)
        surveys = {one.path: survey(one.tree) for one in found if one.tree is not None}
        is_python = bool(found) and found[0].path in surveys
        declared = Declared.of(tuple(surveys.values()))
        code = fingerprint(found, declared, cwd, compared=is_python)
        ours = declared if is_python else Declared()
        return _Surveyed(files, ours, code, written(ours.surveys))
    except Exception:  # noqa: BLE001 - as above
        return _Surveyed(files, Declared(), short_digest(repr(files)))
