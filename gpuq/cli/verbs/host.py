"""`gpuq host list|drain|resume|lost`: the hosts that jobs run on."""

from __future__ import annotations

from urllib.parse import quote

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Client, Record
from gpuq.cli.console import Column
from gpuq.errors import BadInput

_DONE = {
    "drain": "No new jobs start on {host}. What runs there goes on: {jobs}.",
    "resume": "Jobs start on {host} again.",
    "lost": "What ran on {host} ends as NODE_FAIL: {jobs}.",
}


def run(words: list[str]) -> int:
    """List hosts, or change the state of one."""
    parser = Parser("host", "The hosts that jobs run on. Operators may drain and resume, admins report a host as lost.")
    parser.add_argument("action", nargs="?", choices=["list", *_DONE], default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which host")
    parser.add_argument("--why", metavar="TEXT", help="drain: the reason, for users whose jobs wait")
    options = parser.parse_args(words)
    if (options.name is None) is not (options.action == "list"):
        raise BadInput("`drain`, `resume` and `lost` need the name of a host.", fix="`gpuq host list` names them.")
    if (options.why is not None) and options.action != "drain":
        raise BadInput("`--why` goes with `drain`.", fix="Leave it out.")
    client = Client.of(options)
    if options.action == "list":
        console.show(options, client.get("/api/v1/hosts"), lambda found, width, _: listing(found, width))
        return 0
    body = {"why": options.why or "maintenance"} if options.action == "drain" else None
    path = f"/api/v1/hosts/{quote(options.name, safe='')}/{options.action}"
    console.show(options, client.post(path, body), lambda answer, *_: [said(answer)])
    return 0


def said(answer: Record) -> str:
    """What was asked, and about how many jobs."""
    jobs = len(answer["jobs"])
    return _DONE[answer["asked"]].format(host=fmt.clean(answer["host"]), jobs=f"{jobs} job{'' if jobs == 1 else 's'}")


def listing(hosts: list[Record], width: int) -> list[str]:
    """A table of hosts, one line each."""
    columns = [Column("HOST"), Column("STATE"), Column("DEVICES", right=True), Column("JOBS", right=True)]
    columns += [Column("REPORTED", give_up=1), Column("WHY", least=10, give_up=2)]
    rows = [
        (
            fmt.clean(host["name"]),
            host["state"],
            str(host["devices"]),
            str(len(host["jobs"])),
            host["reported_at"] or "not yet",
            fmt.clean(host["drained"] or ""),
        )
        for host in hosts
    ]
    return console.table(columns, rows, width) if rows else ["No host has reported yet."]
