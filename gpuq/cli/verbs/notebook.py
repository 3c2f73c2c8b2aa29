"""`gpuq notebook`: JupyterLab as a job, reached at an address of this machine through the API.

Jupyter listens on a Unix socket in the attempt's folder and asks for a token, which is in the job's environment and nowhere else.
This command listens on loopback and passes each connection on. The notebook has an origin of its own in the browser: under
gpuq's, a notebook's scripts could act as the page.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gpuq.cli import capture, console, job_body, job_ids, job_options
from gpuq.cli.arguments import Parser
from gpuq.cli.channel import Channel, copy
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.terminal import wait_until_it_runs
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.submit import submit_one
from gpuq.errors import BadInput, Conflict, GpuqError

_PROGRAM = (
    'exec "$0" -m jupyterlab --no-browser --ServerApp.allow_root=True '
    '--ServerApp.sock="${GPUQ_PROGRESS%/*}/notebook" --ServerApp.sock_mode=0666'
)
_HAS_JUPYTER = "import importlib.util as u; raise SystemExit(u.find_spec('jupyterlab') is None)"
_LOOK_EVERY_S = 0.3
_EPILOG = """\
Ctrl-C leaves the notebook running; `gpuq notebook ID` gives its address again.
"""


def run(words: list[str]) -> int:
    """Start a notebook, or go back to one; pass its connections on until Ctrl-C (0) or until it has ended (the job's code)."""
    parser = Parser("notebook", "Start JupyterLab as a job, and print its address on this machine.", epilog=_EPILOG)
    parser.add_argument("id", nargs="?", metavar="ID", help="a notebook that runs already")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on this machine. Default: a free one.")
    job_options.add_job_options(parser, named=True)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job_id = submit_one(client, _submission(options)) if options.id is None else job_ids.one(client, options.id)
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        try:
            return _serve(partial(HttpClient.of, options), job_id, listener)
        except KeyboardInterrupt:
            console.note(f"\ngpuq: job {job_id} goes on. `gpuq notebook {job_id}` gives its address again.")
            return 0


def _submission(options: argparse.Namespace) -> Record:
    here = capture.current_folder()
    python = capture.interpreter(options.python, here / "-", os.environ, here)
    if subprocess.run([python, "-c", _HAS_JUPYTER], check=False, capture_output=True).returncode:
        raise BadInput(
            f"{python} has no JupyterLab.", fix=f"{python} -m pip install jupyterlab, or name another with --python."
        )
    body = job_body.submission(options, ["sh", "-c", _PROGRAM, python], verbatim=True)
    body["name"] = options.name or "notebook"
    body["env"] = {**body["env"], "JUPYTER_TOKEN": secrets.token_hex(24)}
    return {**body, "interactive": "notebook"}


def _serve(connect: Callable[[], HttpClient], job_id: int, listener: socket.socket) -> int:
    client = connect()
    job = wait_until_it_runs(client, job_id)
    listener.settimeout(_LOOK_EVERY_S)
    known = False
    while job["state"] == "RUNNING":
        if not known and (known := _answers(connect, job_id)):
            token = client.get(f"/api/v1/jobs/{job_id}/notebook")["token"]
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/lab?token={token}", flush=True)
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            threading.Thread(target=_pass_on, args=(connect, job_id, connection), daemon=True).start()
            continue
        job = client.get(f"/api/v1/jobs/{job_id}")
    follow.note_end(job)
    return follow.exit_code(job)


def _answers(connect: Callable[[], HttpClient], job_id: int) -> bool:
    with suppress(Conflict):
        Channel(connect(), job_id, "notebook").close()
        return True
    return False


def _pass_on(connect: Callable[[], HttpClient], job_id: int, connection: socket.socket) -> None:
    with connection, suppress(GpuqError, OSError):
        channel = Channel(connect(), job_id, "notebook")
        copy(channel, connection.fileno(), connection.fileno())
        channel.close()
