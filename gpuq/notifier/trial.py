"""`python -m gpuq.notifier.trial NAME…`: send a test message to these targets; writes the names of those that did not take it."""

from __future__ import annotations

import os
import socket
import sys

from gpuq import notify_file
from gpuq.notifier.outbox import send


def main(names: list[str]) -> int:
    """The exit code: 0, whoever took it."""
    targets = notify_file.load(notify_file.path(os.environ)).targets
    where = socket.gethostname()
    for name in names:
        said = f"`gpuq notify test` on {where} reached the target {name}."
        took = [send(address, "gpuq: a test", said) for address in targets[name]]
        if not all(took):
            sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
