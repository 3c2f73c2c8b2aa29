"""Combines what a script says of its job, in the form that goes with a submission.

Plain and bounded as `gpuq.messages.submission.Hints` requires; None where nothing was read. What the command itself says by a
usual name is not repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuq.script.configs import configured, named_files, read, with_parents
from gpuq.script.frameworks import framework
from gpuq.script.network import network, written
from gpuq.script.options import SPELLINGS, pairs, parsed
from gpuq.script.own_configs import own_configs
from gpuq.script.settings import settings
from gpuq.script.source import trees
from gpuq.script.survey import Survey, survey
from gpuq.script.tunables import effective_settings
from gpuq.script.values import Values


def hints(script: Path | None, words: Sequence[str], cwd: Path) -> dict[str, Any] | None:
    """What `script`, called with `words` in `cwd`, says of its job; None for nothing. Never raises."""
    try:
        return _read(script, words, cwd)
    except Exception:  # noqa: BLE001 - a script may be anything, and a hint is never worth a submission
        return None


def _read(script: Path | None, words: Sequence[str], cwd: Path) -> dict[str, Any] | None:
    surveys = _surveys(script, cwd) if script else ()
    named = named_files(words, cwd)
    own = own_configs(surveys, script, words, cwd) if script else ()
    files = [read(path) for path in with_parents([*own, *named.values()])]
    in_files = configured(files)
    if not surveys and not any(one.entries or one.rest for one in files):
        return None
    arguments = {name: value for name, value in pairs(words) if name is not None}
    values = Values(surveys, arguments, in_files)
    ours = effective_settings(words, {}, files, surveys, values, read=named)
    built, read_settings = network(surveys, values), settings(surveys, values, arguments, in_files)
    # What is written out in the script is compared too, as the same command may run an edited script.
    for name, setting in read_settings.items():
        if setting["origin"] == "script":
            ours.default(SPELLINGS[name][0], parsed(setting["value"]), instead=True)
    if code := [*built["constructors"], *written(surveys, values)]:
        ours.default("network-code", f"code-{hashlib.sha256(repr(code).encode()).hexdigest()[:8]}")
    found = {
        "framework": framework(surveys),
        **built,
        "settings": read_settings,
        "values": ours.values,
        "given": sorted(ours.given),
    }
    return {name: value for name, value in found.items() if value} or None


def variables(script: Path, cwd: Path) -> frozenset[str]:
    """The variables of the environment that the script reads, as far as their names are written out in it. Never raises."""
    try:
        return frozenset(name for one in _surveys(script, cwd) for name in one.variables)
    except Exception:  # noqa: BLE001 - as above
        return frozenset()


@lru_cache(maxsize=16)
def _surveys(script: Path, cwd: Path) -> tuple[Survey, ...]:
    return tuple(survey(tree) for tree in trees(script, cwd))
