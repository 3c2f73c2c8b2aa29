"""`gpuq quota list|set|remove`: how much users and projects may have, and what they use."""

from __future__ import annotations

import argparse
from typing import Any

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.console import Column
from gpuq.cli.quantities import parse_duration, whole
from gpuq.errors import BadInput

_DONE = {"quota": "The quota of {} is set.", "remove_quota": "{} has no quota of its own any more."}
_MANY = 10**9


def run(words: list[str]) -> int:
    """List quotas, set one, or remove one."""
    parser = Parser(
        "quota",
        "How much users and projects may have, and what they use: a job beyond it\n"
        "waits, and jobs of others pass it. Admins set and remove quotas. The name `*`\n"
        "stands for everyone without a quota of their own. `set` replaces the whole\n"
        "quota: what is not named has no limit.",
    )
    add = parser.add_argument
    add("action", nargs="?", choices=["list", "set", "remove"], default="list", help="default: list")
    add("--user", metavar="NAME", help="set, remove: of this user, or of `*`")
    add("--project", metavar="NAME", help="set, remove: of this project, or of `*`")
    add("--devices", metavar="N", help="set: devices that its jobs have at a time")
    add("--waiting", metavar="N", help="set: jobs that wait; more are refused")
    add("--device-hours", metavar="N", help="set: device-hours within a window of time")
    add("--per", metavar="TIME", help="set: the window, as in 1d or 30d; default 7d, at most 92d")
    options = parser.parse_args(words)
    account, limits = _account(options), _limits(options)
    if (account is None) is not (options.action == "list"):
        raise BadInput(
            f"`{options.action}` is of one user or one project.", fix="Name it: `--user NAME` or `--project NAME`."
        )
    if limits and options.action != "set":
        raise BadInput("Limits go with `set`.", fix="As in `gpuq quota set --user ann --devices 4`.")
    client = HttpClient.of(options)
    if options.action == "list":
        console.show(options, client.get("/api/v1/quotas"), lambda found, width, _: listing(found, width))
        return 0
    path = "/api/v1/quotas" if options.action == "set" else "/api/v1/quotas/remove"
    answer = client.post(path, {**(account or {}), **limits})
    console.show(options, answer, lambda done, *_: [_DONE[done["asked"]].format(_name(done))])
    return 0


def _account(options: argparse.Namespace) -> dict[str, str] | None:
    if options.user is not None and options.project is not None:
        raise BadInput("A quota is of a user or of a project, not of both.", fix="Give one of --user and --project.")
    for scope in ("user", "project"):
        if (name := getattr(options, scope)) is not None:
            return {"scope": scope, "name": name}
    return None


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    if options.per is not None and options.device_hours is None:
        raise BadInput("`--per` goes with `--device-hours`.", fix="Give both, or leave `--per` out.")
    limits = {
        "running_devices": whole("--devices", options.devices, 0, _MANY),
        "waiting_jobs": whole("--waiting", options.waiting, 0, _MANY),
        "device_hours": whole("--device-hours", options.device_hours, 0, _MANY),
        "window_s": None if options.per is None else parse_duration(options.per),
    }
    return {name: value for name, value in limits.items() if value is not None}


def listing(quotas: list[Record], width: int) -> list[str]:
    """A table, one line for each user and project: use / limit."""
    columns = [Column("WHO"), Column("DEVICES", right=True), Column("WAITING", right=True)]
    columns += [Column("DEVICE-HOURS", right=True), Column("PER", right=True, give_up=1)]
    rows = []
    for quota in quotas:
        pairs = [_pair(quota, name) for name in ("running_devices", "waiting_jobs", "device_hours")]
        window = "-" if quota["device_hours_limit"] is None else fmt.about(quota["window_s"]).removesuffix("0h")
        rows.append((_name(quota), *pairs, window))
    return console.table(columns, rows, width)


def _pair(quota: Record, name: str) -> str:
    used, most = quota[name], quota[f"{name}_limit"]
    return "/".join("-" if value is None else f"{value:g}" for value in (used, most))


def _name(quota: Record) -> str:
    return fmt.clean(f"{quota['scope']} {quota['name']}")
