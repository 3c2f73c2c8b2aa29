"""`gpuq ssh-config`: print what lets `ssh`, and editors that work through it, come into a job that was started with `--pty`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from gpuq.cli import job_ids, ssh_key
from gpuq.cli.arguments import Parser, add_id
from gpuq.cli.client import HttpClient
from gpuq.errors import Conflict

EPILOG = """\
gpuq ssh-config 12 >> ~/.ssh/config, then: ssh gpuq-12; in VS Code choose
gpuq-12 under Remote-SSH. The job's host needs openssh-server installed; it
need not run. Sessions see the job's devices and end with the job.
"""


def run(words: list[str]) -> int:
    """Print a Host block. Returns 0."""
    parser = Parser("ssh-config", "Print a Host block for ~/.ssh/config, to come into a job by ssh.", epilog=EPILOG)
    add_id(parser)
    user = "as whom the job runs. Default: its owner; where all jobs run as one account, that account."
    parser.add_argument("--user", metavar="NAME", help=user)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job_id = job_ids.one(client, options.id)
    job = client.get(f"/api/v1/jobs/{job_id}")
    if job["interactive"] is None:
        raise Conflict(f"Job {job_id} is a batch job.", fix="Start one with --pty: gpuq submit --pty -- sleep infinity")
    there = ["--host", options.host] if options.host else []
    program = shlex.join([str(Path(sys.argv[0]).absolute()), "proxy", *there, str(job_id)])
    print(
        f"Host gpuq-{job_id}\n"
        f"    User {options.user or job['owner']}\n"
        f"    ProxyCommand {program.replace('%', '%%')}\n"
        f"    IdentityFile {ssh_key.path()}\n"
        "    IdentitiesOnly yes\n"
        "    # gpuq has identified both sides already; each job has a key of its own.\n"
        "    StrictHostKeyChecking no\n"
        "    UserKnownHostsFile /dev/null\n"
        "    LogLevel ERROR"
    )
    return 0
