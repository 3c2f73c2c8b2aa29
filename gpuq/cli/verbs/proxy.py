"""`gpuq proxy`: connect standard input and output with an SSH server inside a job, as `ssh` wants it of a ProxyCommand."""

from __future__ import annotations

import sys

from gpuq.cli import job_ids, ssh_key
from gpuq.cli.arguments import Parser, add_id
from gpuq.cli.channel import Channel, copy, write_all
from gpuq.cli.client import HttpClient
from gpuq.cli.terminal import framed, frames
from gpuq.errors import Conflict


def run(words: list[str]) -> int:
    """Copy until one side ends the connection. Returns 0."""
    parser = Parser("proxy", "For ssh: connect to an SSH server inside a job. `gpuq ssh-config` prints how.")
    add_id(parser)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job_id = job_ids.one(client, options.id)
    channel = Channel(client, job_id, "terminal")
    channel.send(framed(b"S", ssh_key.public()))
    received, answer = bytearray(), None
    while answer is None:
        data = channel.receive()
        if data is None:
            raise Conflict(f"Job {job_id} has ended.", fix="`gpuq queue` shows which run.")
        received += data
        answer = next(frames(received), None)
    letter, sentence = answer
    if letter != b"K":
        raise Conflict(f"Job {job_id} takes no SSH: {sentence.decode(errors='replace')}", fix="docs/interactive.md")
    write_all(sys.stdout.fileno(), bytes(received))
    copy(channel, sys.stdin.fileno(), sys.stdout.fileno())
    return 0
