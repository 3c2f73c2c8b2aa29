"""`gpuq up`: becomes the supervisor, or starts it in the background. Nothing of the daemon is imported here."""

from __future__ import annotations

import os
import sys

from gpuq.cli.arguments import Parser
from gpuq.cli.programs import become_module
from gpuq.errors import BadInput


def run(words: list[str]) -> int:
    """Become the supervisor; with `--detach`, start it and wait until it is ready."""
    parser = Parser(
        "up",
        "Run gpuq: Redis, dispatcher, worker, HTTP endpoint.\n"
        "Ctrl-C or `gpuq down` ends it and leaves jobs running; the next `gpuq up` goes\n"
        "on where it was. Closing the terminal ends it only with --stop-jobs.",
    )
    parser.add_argument("-d", "--detach", action="store_true", help="run in the background; return once it is ready")
    parser.add_argument("--port", metavar="N", help="TCP port of the HTTP endpoint on 127.0.0.1; 0 picks a free one")
    parser.add_argument("--stop-jobs", action="store_true", help="end all running jobs when this ends")
    parser.add_argument(
        "--in-slurm", action="store_true", help="run it in a Slurm job of its own; options behind `--` are for sbatch"
    )
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    if options.in_slurm:
        if options.port is not None or options.stop_jobs:
            raise BadInput(
                "--in-slurm goes without --port and --stop-jobs.", fix="`gpuq down --stop-jobs` ends the jobs too."
            )
        become_module(["gpuq.pools.main_job", "start", *words[cut + 1 :]])
    if cut < len(words):
        raise BadInput("Options behind `--` are for sbatch.", fix="Write `gpuq up --in-slurm -- OPTIONS`.")
    command = ["gpuq.programs.up"]
    if options.port is not None:
        if not options.port.isdecimal() or int(options.port) > 65535:
            raise BadInput(f"--port `{options.port}` is not a port.", fix="Use a number from 0 to 65535.")
        command += ["--port", options.port]
    if options.stop_jobs:
        command.append("--stop-jobs")
    if options.detach:
        return _in_background(command)
    become_module(command)
    return 1


def _in_background(arguments: list[str]) -> int:
    """Start the supervisor in a session of its own. Returns 0 once it is ready, else its exit code; it prints the reason."""
    import subprocess

    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", *arguments, "--ready-fd", str(writing)],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    try:
        ready = os.read(reading, 1)
        return 0 if ready else child.wait() or 1
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    finally:
        os.close(reading)
