"""`gpuq host add|list|drain|resume|lost|forget|rotate`: the hosts that jobs run on."""

from __future__ import annotations

from urllib.parse import quote

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.console import Column
from gpuq.errors import BadInput

_DONE = {
    "drain": "No new jobs start on {host}. What runs there goes on: {jobs}.",
    "resume": "Jobs start on {host} again.",
    "lost": "What ran on {host} ends as NODE_FAIL, with --requeue once its lease is over: {jobs}.",
    "forget": "{host} and its devices are removed; its certificate has ended.",
    "rotate": "{host} makes a new key and gets a new certificate within seconds; then the former ones end.",
}


def run(words: list[str]) -> int:
    """List hosts, add one, or change the state of one."""
    parser = Parser(
        "host",
        "The hosts that jobs run on. Operators may drain and resume, admins all of it.\n"
        "`add` prints a command for the new host, to be run as root once, within an hour.\n"
        "`lost` ends what ran on a host that is off for good, `forget` removes one, and\n"
        "`rotate` gives one a new key and certificate.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "add", *_DONE], default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which host")
    parser.add_argument("--why", metavar="TEXT", help="drain: the reason, for users whose jobs wait")
    options = parser.parse_args(words)
    if (options.name is None) is not (options.action == "list"):
        raise BadInput(
            f"`{options.action}` does not go with " + ("a name." if options.name else "no name."),
            fix="All but `list` need the name of one host; `gpuq host list` names them.",
        )
    if (options.why is not None) and options.action != "drain":
        raise BadInput("`--why` goes with `drain`.", fix="Leave it out.")
    client = HttpClient.of(options)
    if options.action == "list":
        console.show(options, client.get("/api/v1/hosts"), lambda found, width, _: listing(found, width))
        return 0
    body = {"why": options.why or "maintenance"} if options.action == "drain" else None
    path = f"/api/v1/hosts/{quote(options.name, safe='')}/{options.action}"
    if options.action == "add":
        added = client.post(path)
        console.show(options, added, lambda found, *_: [found["command"]])
        if not options.json:
            console.note(f"Run this on {options.name} as root, once, before {fmt.local_time(added['expires_at'])}.")
        return 0
    console.show(options, client.post(path, body), lambda answer, *_: [sentence(answer)])
    return 0


def sentence(answer: Record) -> str:
    """What was asked, and about how many jobs."""
    jobs = len(answer["jobs"])
    return _DONE[answer["asked"]].format(host=fmt.clean(answer["host"]), jobs=f"{jobs} job{'' if jobs == 1 else 's'}")


def no_starts(host: Record) -> str | None:
    """Why a host starts no job for now; None where it does."""
    found = host.get("no_starts")
    if found is None:
        return None
    again = f"; it tries again at {fmt.local_time(found['again_at'])}" if found["again_at"] else ""
    return f"starts no job since {fmt.local_time(found['since_at'])}: {str(found['why']).rstrip('.')}{again}"


def _failing(host: Record) -> str:
    """The same for a narrow column, whose end may be cut: the cause first."""
    found = host.get("no_starts")
    return "" if found is None else f"{str(found['why']).rstrip('.')}, since {fmt.local_time(found['since_at'])}"


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
            fmt.local_time(host["reported_at"]) if host["reported_at"] else "not yet",
            fmt.clean(host["drained"] or _failing(host)),
        )
        for host in hosts
    ]
    return console.table(columns, rows, width) if rows else ["No host has reported yet."]
