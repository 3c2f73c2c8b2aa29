"""`gpuq down`: end the `gpuq up` of this home, and say which jobs still run."""

from __future__ import annotations

import json
import os
import select
import signal

from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Record, is_held
from gpuq.cli.programs import become_module
from gpuq.errors import Unreachable
from gpuq.home import Home

_NOTE_AFTER_S = 10.0


def run(words: list[str]) -> int:
    """End it and wait for its end. Raises Unreachable if none runs."""
    parser = Parser(
        "down",
        "End the `gpuq up` of this home. Jobs go on, and the next `gpuq up` takes them\n"
        "up again; waiting jobs start then. Exit code 4 if none runs.",
    )
    parser.add_argument("--stop-jobs", action="store_true", help="end the running jobs too")
    options = parser.parse_args(words)
    home = Home.from_environment()
    if home.main_job_file.exists():
        become_module(["gpuq.pools.main_job", "stop", *(["--stop-jobs"] if options.stop_jobs else [])])
    supervisor = _supervisor(home)
    if supervisor is None:
        raise Unreachable(
            f"No `gpuq up` runs in {home.root}.",
            fix="Set GPUQ_HOME to the home of the one you mean; one under systemd ends with `systemctl stop`.",
        )
    try:
        signal.pidfd_send_signal(supervisor, signal.SIGUSR1 if options.stop_jobs else signal.SIGTERM)
        # One that was stopped takes the other signal only once it goes on.
        signal.pidfd_send_signal(supervisor, signal.SIGCONT)
        # A pidfd becomes readable when its process ends.
        ended, _, _ = select.select([supervisor], [], [], _NOTE_AFTER_S)
        if not ended:
            console.note(f"Still ending; {home.logs / 'up.log'} may say why it takes long.")
            select.select([supervisor], [], [])
    except ProcessLookupError:  # it has just ended by itself
        pass
    finally:
        os.close(supervisor)
    left: Record = _note(home).get("left") or {"running": [], "waiting": 0}
    if options.json:
        console.print_json(left)
        return 0
    print("gpuq has ended.")
    if left["running"]:
        print(f"Still running, and taken up again by the next `gpuq up`: {', '.join(map(str, left['running']))}")
    if left["waiting"]:
        print(f"Jobs that wait for the next `gpuq up`: {left['waiting']}")
    return 0


def _supervisor(home: Home) -> int | None:
    """A pidfd of the `gpuq up` of this home; None if none runs.

    It holds the lock as long as it runs. So if the lock is held after the pidfd was opened, the pid in its note is still that
    of the process which wrote the note.
    """
    pid = _note(home).get("pid")
    try:
        found = os.pidfd_open(pid) if isinstance(pid, int) else None
    except ProcessLookupError:
        return None
    if found is not None and not is_held(home.run / "up.lock"):
        os.close(found)
        return None
    return found


def _note(home: Home) -> Record:
    try:
        found: Record = json.loads((home.run / "up.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found
