"""`gpuq pool add|list|remove`: GPUs that gpuq requests from Slurm or Kubernetes when jobs wait."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import Record
from gpuq.cli.console import Column
from gpuq.cli.programs import become_module
from gpuq.cli.quantities import parse_duration, whole
from gpuq.errors import BadInput, BadSettings
from gpuq.home import Home

_EPILOG = """\
  gpuq pool add slurm --gpus 2 --max 4 --time 8h -- --partition=gpu
  gpuq submit train.py

Options behind `--` are for sbatch. A pilot is one Slurm job. gpuq requests one
when jobs wait, shares its GPUs among them, and gives it back when it is idle.
docs/slurm-pools.md says what gpuq needs of the cluster. On Kubernetes a pilot
is a pod, and the options behind `--` say of what it is made:
  gpuq pool add kubernetes -- --image=IMAGE --volume=CLAIM:/home/ada --cpu=8
"""
_LEAST_TIME_S = 300
# Of a pod: option, what stands for its value, default, help.
_OF_PODS: dict[str, tuple[str, str | None, str]] = {
    "--image": ("IMAGE", None, "the container's image"),
    "--volume": ("CLAIM:PATH", None, "the volume claim that has gpuq's home, and where it is mounted, here too"),
    "--python": ("FILE", sys.executable, "the Python of gpuq in the pod; default the one here"),
    "--namespace": ("NAME", None, "default that of kubectl's context"),
    "--context": ("NAME", None, "of kubectl; default the current one"),
    "--cpu": ("N", None, "cores that each pod requests"),
    "--memory": ("SIZE", None, "memory that each pod requests, as in 32Gi"),
    "--resource": ("NAME", "nvidia.com/gpu", "what the cluster calls a GPU"),
}


def run(words: list[str]) -> int:
    """List the pools, or become the process that adds or removes one."""
    parser = Parser("pool", "GPUs that gpuq requests from Slurm when jobs wait, as many as you allow.", epilog=_EPILOG)
    add = parser.add_argument
    add("action", nargs="?", choices=["list", "add", "remove"], default="list", help="default: list")
    add("name", nargs="?", metavar="slurm|kubernetes|NAME", help="add: whom to ask; remove: which pool")
    add("--name", dest="called", metavar="NAME", help="add: a name for the pool; default slurm, kubernetes")
    add("--gpus", metavar="N", help="add: of each pilot at most; 0 for its cores only; default 1")
    add("--max", metavar="N", help="add: pilots at once; default 1")
    add("-t", "--time", metavar="TIME", default="4h", help="add: time limit of each pilot; default 4h")
    add("--idle", metavar="TIME", default="10m", help="add: a pilot without a job for so long ends; default 10m")
    add(
        "--scaling",
        choices=["steady", "eager", "thrifty"],
        default="steady",
        help="add: request pilots for as much work as fills them, for every job, or as few as the longest job allows",
    )
    add("--max-hours", metavar="N", help="add: GPU-hours that all its pilots may take; default no limit")
    cut = words.index("--") if "--" in words else len(words)
    try:
        options = parser.parse_args(words[:cut])
    except BadInput as error:
        if "slurm" in words and "unrecognized arguments" in error.message:
            raise BadInput(
                error.message, fix="Write options for sbatch behind `--`: `... -- --partition=gpu`."
            ) from None
        raise
    if options.action == "list":
        home = Home.from_environment()
        found = {"pools": _read(home), "problem": _json(home.pilots / "all pools.problem")}
        console.show(options, found, lambda shown, width, _: _listing(shown["pools"], shown["problem"], width))
        return 0
    if options.action == "remove":
        if not options.name:
            raise BadInput("`remove` needs the name of a pool.", fix="`gpuq pool list` names them.")
        become_module(["gpuq.pools.change", "remove", options.name])
    if options.name not in {"slurm", "kubernetes"}:
        raise BadInput(
            "gpuq requests hosts from Slurm and Kubernetes only.",
            fix="Write `gpuq pool add slurm` or `gpuq pool add kubernetes`.",
        )
    name: str = options.called or options.name
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", name):
        raise BadInput(f"`{name}` is no name for a pool.", fix="Use up to 32 of a-z, 0-9 and -.")
    time_limit_s = parse_duration(options.time)
    if time_limit_s < _LEAST_TIME_S:
        raise BadInput("In less than 5 minutes a pilot would hardly run a job.", fix="Give --time 5m or more.")
    pool = {
        "name": name,
        "gpus": whole("--gpus", options.gpus or "1", 0, 64),
        "most": whole("--max", options.max or "1", 1, 1000),
        "time_limit_s": time_limit_s,
        "idle_s": parse_duration(options.idle),
        "most_hours": None if options.max_hours is None else whole("--max-hours", options.max_hours, 1, 10**6),
        "scaling": options.scaling,
        "sbatch": words[cut + 1 :] if options.name == "slurm" else [],
        "pod": _pod(words[cut + 1 :]) if options.name == "kubernetes" else None,
    }
    become_module(["gpuq.pools.change", "add", json.dumps(pool)])
    return 1


def _pod(words: list[str]) -> Record:
    """Of what a pod is made, by the options behind `--`. Raises BadInput."""
    parser = Parser("pool", "Behind `gpuq pool add kubernetes --`: of what each pod is made.")
    for option, (metavar, default, text) in _OF_PODS.items():
        parser.add_argument(option, metavar=metavar, default=default, help=text)
    parser.add_argument("--node-selector", metavar="LABEL=VALUE", action="append", default=[], help="nodes with this")
    options = parser.parse_args(words)
    claim, _, mount = (options.volume or "").partition(":")
    if not options.image or not claim or not mount.startswith("/"):
        raise BadInput(
            "A pod needs an image, and the volume with gpuq's home.",
            fix="Write behind `--`: --image=IMAGE --volume=CLAIM:/PATH, where PATH is the same here and in the pod.",
        )
    selector = dict(word.partition("=")[::2] for word in options.node_selector)
    given = {
        name: getattr(options, name)
        for name in ("image", "python", "namespace", "context", "cpu", "memory", "resource")
    }
    return {**given, "claim": claim, "mount": mount, "node_selector": selector}


def _read(home: Home) -> list[Record]:
    """The pools, each with its pilots. Raises BadSettings."""
    try:
        pools: list[Record] = json.loads(home.pools_file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BadSettings(
            f"the pools in {home.root} cannot be read: {error}.", fix="Look at its pools.json."
        ) from error
    pilots = [pilot for file in sorted(home.pilots.glob("*/pilot.json")) if (pilot := _json(file)) is not None]
    return [
        {
            **pool,
            "pilots": [pilot for pilot in pilots if pilot["pool"] == pool["name"]],
            "problem": _json(home.pilots / f"{pool['name']}.problem"),
        }
        for pool in pools
    ]


def _json(file: Path) -> Record | None:
    """What is in a file; None if it was removed meanwhile, as that of a pilot which has ended is, or cannot be read."""
    try:
        found: Record = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _listing(pools: list[Record], of_all: Record | None, width: int) -> list[str]:
    columns = [Column("POOL"), Column("PILOTS", right=True), Column("MAX", right=True), Column("GPUS", right=True)]
    columns += [Column("TIME", right=True), Column("SLURM JOBS, PODS", least=10, give_up=1)]
    rows = [
        (
            fmt.clean(pool["name"]),
            str(len(pool["pilots"])),
            str(pool["most"]),
            str(pool["gpus"]),
            fmt.duration(pool["time_limit_s"]),
            ", ".join(_pilot(pilot) for pilot in pool["pilots"]),
        )
        for pool in pools
    ]
    if not rows:
        return ["There is no pool. `gpuq pool add slurm` makes one."]
    said = [*((f"{pool['name']}: ", pool["problem"]) for pool in pools), ("", of_all)]
    problems = [f"{whose}{fmt.clean(one['problem'])} {fmt.clean(one['fix'])}" for whose, one in said if one is not None]
    return [*console.table(columns, rows, width), *problems]


def _pilot(pilot: Record) -> str:
    """Its Slurm job, and why that waits."""
    if pilot["slurm_job"] is None:
        return "being submitted"
    waits = pilot["joined_at"] is None and pilot["slurm_says"] not in {None, "None"}
    return f"{pilot['slurm_job']} ({fmt.clean(pilot['slurm_says'])})" if waits else str(pilot["slurm_job"])
