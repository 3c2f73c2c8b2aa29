"""`scancel`: ends jobs by id, user, name or state; silent about those that have ended, as Slurm's."""

from __future__ import annotations

from gpuq.cli.client import HttpClient, Record
from gpuq.cli.slurm.arguments import SlurmParser, jobs_named
from gpuq.cli.verbs.queue import parse_states
from gpuq.errors import BadInput, NotFound


def run(words: list[str]) -> int:
    """Cancel. Raises BadInput, NotFound."""
    parser = SlurmParser("scancel")
    add = parser.add_argument
    add("ids", nargs="*")
    add("-u", "--user")
    add("--me", action="store_true")
    add("-n", "--name", "--jobname")
    add("-t", "--state")
    options = parser.parse_args(words)
    where: Record = {}
    client = HttpClient()
    if options.ids:
        where["ids"] = jobs_named(client, options.ids).merged
    if options.name:
        where["name"] = options.name
    if options.state:
        where["state"] = parse_states(options.state)
    if options.me or options.user:
        where["owner"] = "me" if options.me else options.user
    if not where:
        raise BadInput("there is nothing to cancel.", fix="Give job ids, or choose by --me, --name or --state.")
    answer = client.post("/api/v1/jobs/cancel", {"where": where, "dry_run": False})
    if answer["missing"]:
        raise NotFound(f"There is no job {answer['missing'][0][0]}.")
    return 0
