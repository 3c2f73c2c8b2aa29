"""What can be changed of a job after its submission: as options of `gpuq edit`, as text for an editor, as fields of the API."""

from __future__ import annotations

import json
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuq import notify_file
from gpuq.cli.job_fields import label
from gpuq.cli.quantities import parse_begin, parse_duration, parse_moment, parse_size, parse_slowdown, whole
from gpuq.errors import BadInput
from gpuq.messages.submit_options import option_words, size_of, time_of

DEFAULT = "default"
"""The value that takes a field back to what a submission without it has."""
Text = str | list[str]


@dataclass(frozen=True)
class Field:
    """A field under the name of its option. `show` writes a value so that `read` gives it again; `sample` is for the editor's
    text."""

    option: str
    name: str
    read: Callable[[Any], Any]
    show: Callable[[Any], Text]
    sample: str
    help: str
    while_running: bool = False

    def value(self, text: Text) -> Any:
        """The API's value, None for the default. Raises BadInput with the option's name."""
        if text == DEFAULT and self.option not in {"name", "priority", "share"}:
            return None
        try:
            return self.read(text)
        except BadInput as error:
            named = error.message if error.message.startswith("--") else f"--{self.option}: {error.message}"
            raise BadInput(named, fix=error.fix) from error


def _share(text: str) -> str:
    if text not in ("auto", "never"):
        raise BadInput(f"`{text}` is no way of sharing.", fix="Write auto or never.")
    return text


def _moment(unix: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(unix).astimezone().isoformat(timespec="seconds")


def _from_now(parse: Callable[[str, float], float]) -> Callable[[str], float]:
    return lambda text: parse(text, time.time())


def _rules(rules: list[str]) -> Text:
    return rules or ["none"]


def _notify(rules: Text) -> list[str] | None:
    return notify_file.option([rules] if isinstance(rules, str) else rules, os.environ)


_priority = partial(whole, "--priority", low=-1000, high=1000)
FIELDS = (
    Field("name", "name", partial(label, "name"), str, "train", "a name to show", while_running=True),
    Field("priority", "priority", _priority, str, "5", "-1000 to 1000, higher goes first"),
    Field("share", "share", _share, str, "auto", "auto or never: may it share a device?"),
    Field("max-slowdown", "max_slowdown", parse_slowdown, str, "15%", "budget: 15%% or 1.15"),
    Field("gpu-mem", "gpu_memory", parse_size, size_of, "10G", "memory it needs at most: 10G, 512MiB"),
    Field("time", "time_limit_s", parse_duration, time_of, "4h", "time limit: 30 (minutes), 2h30m", while_running=True),
    Field("begin", "begin_at", _from_now(parse_begin), _moment, "22:00", "not before: 22:00, now+1hour"),
    Field(
        "deadline", "deadline_at", _from_now(parse_moment), _moment, "8h", "wanted by then: 8h from now, or a moment"
    ),
    Field("notify", "notify", _notify, _rules, "end,fail", "send messages: end,fail:NAME; or none", while_running=True),
)


def fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The API's fields for these options, named with hyphens or underscores; None is an option that was not given. Raises
    BadInput."""
    named = {name.replace("_", "-"): text for name, text in given.items() if text is not None}
    return {one.name: one.value(named[one.option]) for one in FIELDS if one.option in named}


def values_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a job has now, from the API's view of it."""
    other_names = {
        "gpu_memory": "declared_memory_bytes",
        "deadline_at": "deadline_at_unix",
        "begin_at": "begin_at_unix",
    }
    waits = job["state"] in ("PENDING", "HELD")
    return {one.name: job[other_names.get(one.name, one.name)] for one in FIELDS if waits or one.while_running}


def as_options(edit: Mapping[str, Any]) -> list[str]:
    """The words of the options that give a job these values."""
    words: list[str] = []
    for one in FIELDS:
        if one.name in edit:
            text = DEFAULT if edit[one.name] is None else one.show(edit[one.name])
            words += option_words(f"--{one.option}", text if isinstance(text, str) else ",".join(text))
    return words


def as_text(values: Mapping[str, Any], title: str) -> str:
    """TOML with these values, for an editor."""
    lines = [f"# {title}", "# A line that you take out, or begin with #, takes its value back to the default.", ""]
    for one in FIELDS:
        if one.name in values:
            value = values[one.name]
            shown = one.sample if value is None else value if one.option == "priority" else one.show(value)
            lines.append(f"{'# ' * (value is None)}{one.option} = {json.dumps(shown, ensure_ascii=False)}")
    return "\n".join([*lines, ""])


def from_text(text: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ in an edited text from the values it was made of. Raises BadInput."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"the text is not TOML: {error}.", fix='Write each line as name = "value".') from error
    known = {one.option: one for one in FIELDS if one.name in before}
    if unknown := sorted(found.keys() - known.keys()):
        raise BadInput(f"`{unknown[0]}` cannot be changed.", fix=f"The names are {', '.join(known)}.")
    changed: dict[str, Any] = {}
    for option, one in known.items():
        was = None if before[one.name] is None else one.show(before[one.name])
        now = _plain(found.get(option, {"priority": 0, "share": "auto"}.get(option)))
        if now != was:
            changed[one.name] = None if now is None else one.value(now)
    return changed


def _plain(value: Any) -> Text | None:
    """A value of the text as the option would have it: TOML has numbers and dates too."""
    if value is None or isinstance(value, list):
        return value
    return value if isinstance(value, str) else str(value)
