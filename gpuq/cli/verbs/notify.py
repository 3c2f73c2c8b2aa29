"""`gpuq notify run|test|list`: messages about your jobs by mail, Slack, ntfy, webhook and more."""

from __future__ import annotations

import os
from importlib.util import find_spec

from gpuq import notify_file
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Record, sends_notifications
from gpuq.cli.programs import become_module
from gpuq.errors import BadInput, Failure


def run(words: list[str]) -> int:
    """List the targets, try them, or become the process that sends."""
    parser = Parser(
        "notify",
        "Messages about your jobs: `gpuq submit --notify end,fail:NAME`.\n"
        "Targets are in ~/.config/gpuq/notify.toml (mode 0600), a line each:\n\n"
        '  default = "fail:mail"        # for jobs without --notify\n'
        "  [targets]\n"
        '  mail = "mailtos://USER:PASSWORD@example.org"\n'
        '  slack = "slack://TOKEN_A/TOKEN_B/TOKEN_C"',
        epilog="Addresses are apprise's: https://appriseit.com/services. `gpuq up` sends by\n"
        "itself; on a shared gpuq each user runs `gpuq notify run`.\n",
    )
    parser.add_argument(
        "action", choices=["list", "test", "run"], help="list the targets; send a test; send until it is stopped"
    )
    parser.add_argument("targets", nargs="*", default=[], metavar="NAME", help="test: which targets; default: all")
    options = parser.parse_args(words)
    if options.targets and options.action != "test":
        raise BadInput(f"`gpuq notify {options.action}` takes no names.", fix="Leave them out.")
    if options.action != "list" and find_spec("apprise") is None:
        raise BadInput("notifications need the package apprise.", fix="Install it: pip install 'gpuq-daemon[notify]'")
    path = notify_file.path(os.environ)
    file = notify_file.load(path)
    if options.action == "run":
        become_module(["gpuq.notifier", *([f"--host={options.host}"] if options.host else [])])
    if options.action == "list":
        answer: Record = {
            "file": str(path),
            "targets": sorted(file.targets),
            "default": file.default,
            "sending": sends_notifications(os.environ),
        }
        console.show(options, answer, lambda found, *_: _listing(found))
        return 0
    return _test(options.targets or sorted(file.targets), file)


def _listing(found: Record) -> list[str]:
    sends = "a process of yours sends" if found["sending"] else "nothing sends now: `gpuq up`, or `gpuq notify run`"
    return [
        *console.facts(
            [
                ("file", found["file"]),
                ("targets", ", ".join(found["targets"])),
                ("default", " and ".join(found["default"]) or "none"),
                ("state", sends),
            ],
            console.terminal_width(),
        )
    ]


def _test(names: list[str], file: notify_file.NotifyFile) -> int:
    """Send a message to each target from a process of its own. Returns 0; raises Failure if one did not take it."""
    import subprocess
    import sys

    for name in names:
        file.check(f"end:{name}")
    # The names go along, not the addresses: any user may read the arguments of a process.
    command = [sys.executable, "-P", "-m", "gpuq.notifier.trial", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = done.stdout.split()
    for name in names:
        console.note(f"{name}: {'did not take the message' if name in failed else 'took the message'}")
    if failed or done.returncode:
        raise Failure(
            f"{', '.join(failed) or 'no target'} could not be reached.",
            fix="Check the address against https://appriseit.com/services.",
        )
    return 0
