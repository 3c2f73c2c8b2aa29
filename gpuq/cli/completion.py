"""Completion of the command line in a shell, by argcomplete: the shell starts `gpuq` with the variable `_ARGCOMPLETE` set.

Options come from the verb's own parser: `Parser` hands itself over instead of parsing. Ids and names of jobs, devices, hosts and
policies come from the daemon, if one answers.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from argcomplete import autocomplete
from argcomplete.lexers import split_line

from gpuq.cli.client import HttpClient
from gpuq.cli.console import STATE_CODES
from gpuq.errors import GpuqError

VARIABLE = "_ARGCOMPLETE"
_MOST_JOBS = 50
# Which jobs each verb is for; the others take any.
_STATES = {
    "cancel": ("waiting", "active"),
    "edit": ("waiting", "RUNNING"),
    "hold": ("PENDING",),
    "release": ("HELD",),
    "wait": ("waiting", "active"),
}


def complete(verbs: dict[str, tuple[str, str]], aliases: dict[str, str], options: dict[str, bool]) -> int:
    """Write the completions of the line that the shell names in `COMP_LINE`; does not return if there are any."""
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    place = 1
    while place < len(words) and words[place].startswith("-"):
        place += 2 if options.get(words[place]) else 1
    # argcomplete takes the word with this number, from 1, for the program; to our parsers that is the verb.
    os.environ[VARIABLE] = str(place + 1 if place < len(words) else place)
    if place >= len(words):
        _offer_verbs({name: summary for name, (_, summary) in verbs.items()})
    name = aliases.get(words[place], words[place])
    if name in verbs:
        import_module(f"gpuq.cli.verbs.{verbs[name][0]}").run([])
    return 0


def offer_options(parser: argparse.ArgumentParser) -> None:
    """Write the completions of one verb, and end the process."""
    verb = parser.prog.split()[-1]
    for action in parser._actions:
        if action.dest in {"id", "ids"}:
            action.completer = lambda prefix, **_: _jobs(verb, prefix)  # type: ignore[attr-defined]
        elif action.dest == "device":
            action.completer = lambda prefix, **_: _listed(prefix, _devices("name", "kind"))  # type: ignore[attr-defined]
        elif action.dest == "gpu_type":
            action.completer = lambda **_: _devices("kind", "host")  # type: ignore[attr-defined]
        elif action.dest == "state":
            action.completer = lambda prefix, **_: _listed(prefix.upper(), STATE_CODES)  # type: ignore[attr-defined]
        elif verb == "policy" and action.dest == "name":
            action.completer = lambda **_: _policies()  # type: ignore[attr-defined]
        elif action.dest in {"nodelist", "exclude"} or (verb == "host" and action.dest == "name"):
            action.completer = lambda prefix, **_: _listed(prefix, _hosts())  # type: ignore[attr-defined]
    autocomplete(parser, always_complete_options=False)


def _offer_verbs(summaries: dict[str, str]) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("verb").completer = lambda **_: summaries  # type: ignore[attr-defined]
    autocomplete(parser, always_complete_options=False)


def _jobs(verb: str, prefix: str) -> dict[str, str]:
    """Ids, the newest first, with name and state; names with ids where a word begins as no id does."""
    try:
        found = HttpClient(away_s=0).get(
            "/api/v1/jobs", state=",".join(_STATES.get(verb, ())) or None, limit=_MOST_JOBS
        )["jobs"]
    except GpuqError:
        return {}
    if prefix[:1].isdecimal() or not prefix:
        return {str(job["id"]): f"{job['name']} {job['state'].lower()}" for job in found}
    # Of several with a name the newest counts.
    return {job["name"]: f"{job['id']} {job['state'].lower()}" for job in reversed(found)}


def _listed(prefix: str, names: dict[str, str]) -> dict[str, str]:
    """The names, behind those that a list with commas already has."""
    before = prefix[: prefix.rfind(",") + 1]
    return {before + name: about for name, about in names.items()}


def _devices(name: str, about: str) -> dict[str, str]:
    try:
        return {device[name]: device[about] for device in HttpClient(away_s=0).get("/api/v1/gpus")}
    except GpuqError:
        return {}


def _policies() -> dict[str, str]:
    try:
        found = HttpClient(away_s=0).get("/api/v1/policies")["policies"]
    except GpuqError:
        return {}
    return {policy["name"]: policy["summary"] for policy in found}


def _hosts() -> dict[str, str]:
    try:
        return {host["name"]: host["state"] for host in HttpClient(away_s=0).get("/api/v1/hosts")}
    except GpuqError:
        return {}
