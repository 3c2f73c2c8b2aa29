"""`python -m gpuq_workers.sync_in_unit TREE CWD -- COMMAND`: what `sync` does, for a job that runs as its submitter.

The first process of such a job, with the rights of its user: it asks the worker service for the files (`trees`), makes them in
the job's own folder, and checks them against the name of the tree, which the dispatcher has signed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuq.errors import Unreachable
from gpuq.files import PIECE
from gpuq.messages.launch import JOB_FOLDER, TREES_SOCKET
from gpuq_workers.sync import serve

_STALLED_S = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the command. Returns an exit code only if that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m gpuq_workers.sync_in_unit")
    for name in ("tree", "cwd"):
        parser.add_argument(name)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    return serve(Path(JOB_FOLDER), pieces, options.tree, options.cwd, options.command, for_services=True)


def pieces(path: str = TREES_SOCKET) -> Iterator[bytes]:
    """The stream of this attempt's files. Raises Unreachable."""
    asked = {"job": int(os.environ["GPUQ_JOB_ID"]), "attempt": int(os.environ["GPUQ_ATTEMPT"])}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_STALLED_S)
            connection.connect(path)
            connection.sendall(json.dumps(asked).encode() + b"\n")
            while piece := connection.recv(PIECE):
                yield piece
    except OSError as error:
        raise Unreachable(f"The worker service of this host gives no files: {error}.") from error


if __name__ == "__main__":
    sys.exit(main())
