"""`gpuq policy list|show`: the scheduling policies, the chosen one, and the one in use.

Asks a running gpuq. If none runs, a process of its own lists what is installed here and what this home's settings choose.
"""

from __future__ import annotations

import json
import os
import sys

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.errors import BadInput, Failure, NotFound, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

FAULT_FIX = "Correct it, or choose another under [scheduling], then restart the dispatcher; jobs run on."


def run(words: list[str]) -> int:
    """List the policies, or show one."""
    parser = Parser("policy", "The scheduling policies: `policy` under [scheduling] of the settings names one.")
    parser.add_argument("action", nargs="?", choices=["list", "show"], default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="show: which; default: the one in the settings")
    options = parser.parse_args(words)
    if options.action == "list" and options.name is not None:
        raise BadInput("`list` takes no name.", fix=f"`gpuq policy show {options.name}` shows one.")
    found = _fetch(options)
    chosen = found["chosen"]
    if options.action == "list":
        console.show(options, found, lambda shown, width, _: listing(shown, width))
    else:
        name = options.name or chosen
        policy = next((policy for policy in found["policies"] if policy["name"] == name), None)
        if policy is None:
            raise NotFound(f"There is no policy `{name}`.", fix="`gpuq policy list` names them.")
        console.show(options, policy, lambda shown, width, _: one(shown, found, width))
    if options.json:
        return 0
    if found["fault"]:
        console.note(f"gpuq: {fault(found)}\n  {FAULT_FIX}")
    elif chosen not in {policy["name"] for policy in found["policies"]}:
        console.note(f"gpuq: the settings name `{chosen}`, which is none of these; the default stands in for it.")
    return 0


def fault(found: Record) -> str:
    """Why the chosen policy is not in use, in the API's answer `found`: "`fair` is replaced by `packed`: it failed"."""
    chosen, serving = found["chosen"], found["serving"]
    what = "failed" if chosen == serving else f"is replaced by `{serving}`"
    return f"`{chosen}` {what}: {found['fault']['reason']}"


def _fetch(options: Namespace) -> Record:
    """The answer of the daemon, else what is installed here."""
    try:
        answer: Record = HttpClient.of(options).get("/api/v1/policies")
    except Unreachable:
        if options.host is not None or os.environ.get("GPUQ_HOST"):
            raise
        console.note("gpuq: no daemon answers; this is what is installed here.")
        return {"serving": None, "fault": None, **_installed()}
    return answer


def _installed() -> Record:
    """The policies as `python -m gpuq.policies` lists them, in a process that may import anything."""
    import subprocess

    argv = [sys.executable, "-P", "-m", "gpuq.policies"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message, _, fix = done.stderr.strip().partition("\n")
        kind = BadInput if done.returncode == BadInput.exit_code else Failure
        raise kind(message.removeprefix("gpuq: ") or "The policies cannot be listed.", fix=fix.strip() or None)
    answer: Record = json.loads(done.stdout.splitlines()[-1])
    return answer


def listing(found: Record, width: int) -> list[str]:
    """A table: the policy in use, marked `*`, the chosen one, then the others by name. Summaries are wrapped."""
    ordered = sorted(found["policies"], key=lambda p: (not _mark(p, found), p["name"] != found["chosen"]))
    heads = [("", "NAME", "STATE"), *((_mark(p, found), fmt.clean(p["name"]), _state(p, found)) for p in ordered)]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    texts = ["WHAT IT DOES", *(fmt.clean(policy["summary"] or "") for policy in ordered)]
    lines = []
    for head, text in zip(heads, texts, strict=True):
        left = " ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True))
        first, *more = console.wrapped(text, width - len(left) - 2)
        lines += [f"{left}  {first}".rstrip(), *(" " * (len(left) + 2) + line for line in more)]
    return lines


def one(policy: Record, found: Record, width: int) -> list[str]:
    """All facts about one policy."""
    settings = [f"{name} = {json.dumps(value)}" for name, value in (policy["settings"] or {}).items()]
    return console.facts(
        [
            ("policy", fmt.clean(policy["name"])),
            ("what it does", fmt.clean(policy["summary"]) if policy["summary"] else None),
            ("state", _state(policy, found)),
            (
                "work conserving",
                _claim(policy["work_conserving"], "leaves no device idle that a waiting job could have"),
            ),
            ("starvation free", _claim(policy["starvation_free"], "every job that fits starts some day")),
            ("needs", f"pip install 'gpuq-daemon[{fmt.clean(policy['extra'])}]'" if policy["extra"] else None),
            ("problem", fmt.clean(policy["problem"]) if policy["problem"] else None),
            ("settings", ", ".join(map(fmt.clean, settings)) or None),
            ("comes from", fmt.clean(policy["source"])),
        ],
        width,
    )


def _mark(policy: Record, found: Record) -> str:
    return "*" if policy["name"] == (found["serving"] or found["chosen"]) else ""


def _state(policy: Record, found: Record) -> str:
    if policy["name"] == found["chosen"] and found["fault"]:
        return "replaced" if found["serving"] != found["chosen"] else "failing"
    if policy["name"] == found["serving"] and found["fault"]:
        return "stands in"
    if policy["problem"]:
        return f"needs [{fmt.clean(policy['extra'])}]" if policy["extra"] else "broken"
    return "chosen" if policy["name"] == found["chosen"] else "ready"


def _claim(claimed: bool | None, meaning: str) -> str | None:
    return None if claimed is None else f"{'yes' if claimed else 'not claimed'}: {meaning}"
