"""`squeue`: waiting and running jobs in Slurm's columns, or those that `--format` names."""

from __future__ import annotations

import re
import time

from gpuq import format as fmt
from gpuq.cli import job_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.console import STATE_CODES
from gpuq.cli.slurm.arguments import SlurmParser, jobs_named
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.queue import LIVE, parse_states
from gpuq.errors import BadInput
from gpuq.states import ENDED

USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_CODES = {**STATE_CODES, "HELD": "PD"}
_NAMES = {"HELD": "PENDING", "STARTING": "CONFIGURING"}
_TITLES = {"i": "JOBID", "A": "JOBID", "P": "PARTITION", "j": "NAME", "u": "USER", "t": "ST", "T": "STATE", "M": "TIME"}
_TITLES |= {"D": "NODES", "R": "NODELIST(REASON)", "N": "NODELIST", "r": "REASON", "V": "SUBMIT_TIME", "Q": "PRIORITY"}
_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z])")


def run(words: list[str]) -> int:
    """List jobs. Raises BadInput, NotFound."""
    parser = SlurmParser("squeue")
    add = parser.add_argument
    add("-u", "--user")
    add("--me", action="store_true")
    add("-j", "--jobs")
    add("-t", "--states")
    add("-h", "--noheader", action="store_true")
    add("-o", "--format", default=USUAL)
    options = parser.parse_args(words)
    client = HttpClient()
    jobs = _jobs(client, options.jobs, options.states, "me" if options.me else options.user)
    if not options.noheader:
        print(line(options.format, _TITLES))
    for job in jobs:
        print(line(options.format, fields(job, time.time())))
    return 0


def _jobs(client: HttpClient, ids: str | None, states: str | None, user: str | None) -> list[Record]:
    wanted = ",".join(LIVE) if states is None else None if states.lower() == "all" else ",".join(parse_states(states))
    if ids:
        found = follow.jobs_of(client, jobs_named(client, job_ids.split(ids)).ids)
        return [job for job in found if states or job["state"] not in ENDED]
    jobs: list[Record] = []
    after = None
    while True:
        page = client.get("/api/v1/jobs", state=wanted, owner=user or "all", limit=1000, order="oldest", after=after)
        jobs += page["jobs"]
        after = page["next"]
        if after is None:
            return jobs


def fields(job: Record, now: float) -> dict[str, str]:
    """The value of each letter of a format."""
    host: str = fmt.clean(job.get("host") or "")
    reason: str = "JobHeldUser" if job["state"] == "HELD" else fmt.clean(job.get("reason") or "None")
    started, state = job.get("started_at_unix"), str(job["state"])
    seconds = 0 if started is None else max(0, int((job.get("ended_at_unix") or now) - started))
    values: dict[str, str] = {
        "i": str(job["id"]),
        "A": str(job["id"]),
        "P": "gpu",
        "j": fmt.clean(job.get("name") or "-"),
    }
    values |= {"u": fmt.clean(job["owner"]), "t": _CODES[state], "T": _NAMES.get(state, state)}
    values |= {"M": fmt.duration(seconds), "D": "1", "N": host, "r": reason, "R": host or f"({reason})"}
    return values | {"V": job["submitted_at"][:19], "Q": str(job["priority"])}


def line(pattern: str, values: dict[str, str]) -> str:
    """The pattern with `%[.][WIDTH]LETTER` replaced; a dot aligns to the right. Raises BadInput for an unknown letter."""

    def filled(match: re.Match[str]) -> str:
        dot, width, letter = match.groups()
        if letter not in values:
            raise BadInput(
                f"gpuq's squeue has no field `%{letter}`.", fix=f"There are: {' '.join(f'%{x}' for x in _TITLES)}"
            )
        text = values[letter][: int(width)] if width else values[letter]
        return f"{text:>{int(width or 0)}}" if dot else f"{text:<{int(width or 0)}}"

    return _FIELD.sub(filled, pattern).rstrip()
