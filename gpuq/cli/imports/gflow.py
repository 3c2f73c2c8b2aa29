"""The queue of gflow, which its daemon gives as JSON at `/jobs`."""

from __future__ import annotations

import json
import tomllib
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from gpuq.cli.imports import ImportedJob
from gpuq.errors import BadInput, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_USUAL_PRIORITY = 10
_TIMEOUT_S = 10.0


def waiting(file: Path | None, environ: Mapping[str, str]) -> list[ImportedJob]:
    """Its waiting jobs, by id; `file` holds what the daemon said, for when it is gone. Raises BadInput, Unreachable."""
    content = _ask(_address(environ)) if file is None else file.read_bytes()
    try:
        found = json.loads(content)
        jobs = found["jobs"] if isinstance(found, dict) else found
        user = environ.get("USER") or environ.get("LOGNAME")
        mine = [job for job in jobs if job["state"] in {"Queued", "Hold"} and job.get("submitted_by") in {user, None}]
        return [_job(job, environ) for job in sorted(mine, key=lambda job: int(job["id"]))]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            "this is no list of gflow's jobs.", fix="curl http://localhost:59000/jobs prints one."
        ) from error


def _job(job: Mapping[str, Any], environ: Mapping[str, str]) -> ImportedJob:
    words: list[str] = ["bash", "-c", job["command"]] if job.get("command") else ["bash", job["script"]]
    if job.get("conda_env"):
        words = ["conda", "run", "--no-capture-output", "--name", job["conda_env"], *words]
    limit, memory = job.get("time_limit"), job.get("gpu_memory_limit_mb")
    fields = {
        "name": job.get("run_name"),
        "project": job.get("project"),
        "gpus": max(1, job.get("gpus") or 1),
        "priority": int(job.get("priority", _USUAL_PRIORITY)) - _USUAL_PRIORITY,
        "time_limit_s": limit["secs"] + limit.get("nanos", 0) / 1e9 if limit else None,
        "gpu_memory": memory * 2**20 if memory else None,
        "hold": job["state"] == "Hold" or None,
    }
    waits_for = job.get("depends_on_ids") or ([job["depends_on"]] if job.get("depends_on") else [])
    stays = None if job.get("task_id") is None else "it is a task of an array there"
    if waits_for:
        stays = f"it waits for job {', '.join(map(str, waits_for))} there"
    given = {name: value for name, value in fields.items() if value is not None}
    return ImportedJob(str(job["id"]), tuple(words), Path(job["run_dir"]), environ, given, stays)


def _address(environ: Mapping[str, str]) -> str:
    config = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    try:
        settings = tomllib.loads(Path(config, "gflow", "gflow.toml").read_text(encoding="utf-8")).get("daemon", {})
    except (OSError, ValueError):
        settings = {}
    return f"http://{settings.get('host', 'localhost')}:{settings.get('port', 59000)}"


def _ask(address: str) -> bytes:
    try:
        with urllib.request.urlopen(f"{address}/jobs", timeout=_TIMEOUT_S) as answer:  # noqa: S310  http only, from its settings
            return bytes(answer.read())
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"gflow's daemon does not answer at {address}.",
            fix="Start it (gflowd up), or name a saved list with --file.",
        ) from error
