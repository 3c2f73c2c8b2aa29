"""`gpuq host add|list|drain|resume|lost`: the hosts that jobs run on."""

from __future__ import annotations

import re
from urllib.parse import quote

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Client, Record
from gpuq.cli.console import Column
from gpuq.errors import BadInput, NotFound, NotPermitted
from gpuq.home import Home, host_key

_DONE = {
    "drain": "No new jobs start on {host}. What runs there goes on: {jobs}.",
    "resume": "Jobs start on {host} again.",
    "lost": "What ran on {host} ends as NODE_FAIL: {jobs}.",
}
# As `[worker] host` in the settings.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def run(words: list[str]) -> int:
    """List hosts, add one, or change the state of one."""
    parser = Parser(
        "host",
        "The hosts that jobs run on. Operators may drain and resume, admins report a host\n"
        "as lost. `add` prints the lines to run on a new host as root, its key included;\n"
        "only the user who runs gpuq on the main host may.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "add", *_DONE], default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which host")
    parser.add_argument("--why", metavar="TEXT", help="drain: the reason, for users whose jobs wait")
    options = parser.parse_args(words)
    if (options.name is None) is not (options.action == "list"):
        raise BadInput(
            "`add`, `drain`, `resume` and `lost` need the name of a host.", fix="`gpuq host list` names them."
        )
    if (options.why is not None) and options.action != "drain":
        raise BadInput("`--why` goes with `drain`.", fix="Leave it out.")
    if options.action == "add":
        key = new_key(options.name)
        console.show(options, {"host": options.name, "key": key}, lambda added, *_: to_run(added["host"], added["key"]))
        return 0
    client = Client.of(options)
    if options.action == "list":
        console.show(options, client.get("/api/v1/hosts"), lambda found, width, _: listing(found, width))
        return 0
    body = {"why": options.why or "maintenance"} if options.action == "drain" else None
    path = f"/api/v1/hosts/{quote(options.name, safe='')}/{options.action}"
    console.show(options, client.post(path, body), lambda answer, *_: [said(answer)])
    return 0


def new_key(name: str) -> str:
    """The key of a host with this name, from the dispatcher's. Raises BadInput, NotFound, NotPermitted."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"`{name}` is no name for a host.", fix="Use 1 to 64 letters, digits, `.`, `_` and `-`.")
    file = Home.from_environment().order_key_file
    try:
        return host_key(file.read_text().strip(), name)
    except PermissionError:
        raise NotPermitted(f"{file} is for the user who runs gpuq.", fix="Run this as that user.") from None
    except FileNotFoundError:
        raise NotFound(
            f"{file} is not there.", fix="Set GPUQ_HOME to the home of the dispatcher, and start it there once."
        ) from None


def to_run(name: str, key: str) -> list[str]:
    """What to run on the new host. Whoever has the key can act as that host, and as no other."""
    return [
        f"# On {name}, as root; do not pass the key on:",
        f"echo {key} | install -m 600 -o gpuq -g gpuq /dev/stdin /var/lib/gpuq/host.key",
        "# /etc/gpuq/environment needs GPUQ_REDIS_URL and GPUQ_DATABASE_URL, both by address, and where",
        f"# `hostname` is not {name}: GPUQ_WORKER_HOST={name}",
        "systemctl enable --now gpuq-worker",
    ]


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
