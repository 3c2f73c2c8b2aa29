"""The runs of TensorBoard, Weights & Biases and MLflow that a job wrote, for `gpuq show`.

They are found in two ways. What the tools print names a run for certain (`found_in` is `output`). Folders below the job's own say
when the run in them began; one that began while the job ran is shown too (`found_in` is `time`), and may belong to another job
that ran there at that moment. Nothing is imported from these tools, and the job's files are not trusted: links are not followed,
only regular files are read, and folders, bytes and time are bounded.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpuq.cli.client import HttpClient, Record
from gpuq.errors import GpuqError
from gpuq.home import open_regular

_MOST_ENTRIES, _DEEPEST, _MOST_RUNS, _WITHIN_S = 5000, 5, 20, 1.0
_READ_BYTES, _OUTPUT_BYTES = 16 * 1024, 128 * 1024
_SLACK_S = 2.0
_TEXT = r"[^\s\x00-\x1f\x7f]{1,500}"
# As they print them: W&B `View run NAME at: URL` and `Run data is saved locally in FOLDER`, MLflow `View run NAME at: URL`.
_WANDB_URL = re.compile(rf"wandb: .{{0,40}}View run .{{0,200}}?at:? (https?://{_TEXT}/runs/([A-Za-z0-9_-]{{1,64}}))")
_WANDB_FOLDER = re.compile(rf"(/{_TEXT}/((?:offline-)?run-[0-9]{{8}}_[0-9]{{6}}-([A-Za-z0-9_-]{{1,64}})))")
_MLFLOW_URL = re.compile(rf"View run .{{0,200}}?at: (https?://{_TEXT}/runs/([0-9a-f]{{32}}))")
_WANDB_NAME = re.compile(r"(offline-)?run-([0-9]{8}_[0-9]{6})-([A-Za-z0-9_-]{1,64})")
_EVENTS_NAME = re.compile(r"events\.out\.tfevents\.([0-9]{9,11})\.")
_MLFLOW_ID = re.compile(r"[0-9a-f]{32}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def runs_of(client: HttpClient, job: Record) -> list[Record]:
    """The runs of a job of this user: `tool`, `id`, `folder`, `url`, `offline` and `found_in`; None for what is not known."""
    began, ended = job.get("started_at_unix"), job.get("ended_at_unix")
    if began is None or not _is_mine(job):
        return []
    found: dict[tuple[str, str], Record] = {}
    with suppress(GpuqError):
        for run in in_output(_output(client, job["id"])):
            _add(found, run)
    if job.get("cwd"):
        for run in in_folder(Path(job["cwd"]), began - _SLACK_S, (ended or time.time()) + _SLACK_S):
            _add(found, run)
    return list(found.values())[:_MOST_RUNS]


def _is_mine(job: Record) -> bool:
    import pwd

    try:
        return bool(job.get("owner") == pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return False


def _output(client: HttpClient, job: int) -> str:
    """The beginning and the end of what the job printed."""
    path = f"/api/v1/jobs/{job}/logs"
    first, _ = client.piece(path, offset=0, limit=_OUTPUT_BYTES)
    last = client.piece(path, offset=-_OUTPUT_BYTES, limit=_OUTPUT_BYTES)[0] if len(first) == _OUTPUT_BYTES else b""
    return _COLOUR.sub("", (first + b"\n" + last).decode("utf-8", "replace"))


def _add(found: dict[tuple[str, str], Record], run: Record) -> None:
    """Add a run, or what is new about one that is known: the output has its address, the folder where it is."""
    known = found.setdefault((run["tool"], run["id"] or run["folder"]), run)
    for name, value in run.items():
        if known[name] is None:
            known[name] = value


def _run(tool: str, found_in: str, **known: object) -> Record:
    return {"tool": tool, "id": None, "folder": None, "url": None, "offline": None, "found_in": found_in, **known}


def in_output(text: str) -> Iterator[Record]:
    """The runs that the tools name in what they print."""
    for line in text.splitlines():
        if "wandb" in line:
            if match := _WANDB_URL.search(line):
                yield _run("wandb", "output", id=match[2], url=match[1], offline=False)
            elif match := _WANDB_FOLDER.search(line):
                offline = match[2].startswith("offline-")
                yield _run("wandb", "output", id=match[3], folder=match[1], offline=offline)
        elif match := _MLFLOW_URL.search(line):
            yield _run("mlflow", "output", id=match[2], url=match[1])


def in_folder(folder: Path, since: float, until: float) -> Iterator[Record]:
    """The runs in folders below this one that began between these moments (Unix seconds)."""
    for path, name, is_folder in _entries(folder):
        if is_folder and (match := _WANDB_NAME.fullmatch(name)):
            if since <= _local(match[2]) <= until:
                yield _run("wandb", "time", id=match[3], folder=str(path), offline=match[1] is not None)
        elif is_folder and _MLFLOW_ID.fullmatch(name):
            began = _mlflow_start(path / "meta.yaml")
            if began is not None and since <= began <= until:
                yield _run("mlflow", "time", id=name, folder=str(path))
        elif not is_folder and (match := _EVENTS_NAME.match(name)) and since <= int(match[1]) <= until:
            yield _run("tensorboard", "time", folder=str(path.parent))


def _entries(folder: Path) -> Iterator[tuple[Path, str, bool]]:
    """(path, name, whether it is a folder) of files and folders below, the shallow ones first; links are left out."""
    waiting, seen, deadline = [(folder, 0)], 0, time.monotonic() + _WITHIN_S
    while waiting:
        place, depth = waiting.pop(0)
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_ENTRIES or time.monotonic() > deadline:
                        return
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not is_folder and not entry.is_file(follow_symlinks=False):
                        continue
                    yield Path(entry.path), entry.name, is_folder
                    if is_folder and depth < _DEEPEST and not entry.name.startswith("."):
                        waiting.append((Path(entry.path), depth + 1))
        except OSError:
            continue


def _local(stamp: str) -> float:
    """Unix seconds of `20261120_235901` in this machine's time; -inf for no moment."""
    try:
        return time.mktime(time.strptime(stamp, "%Y%m%d_%H%M%S"))
    except (ValueError, OverflowError):
        return float("-inf")


def _mlflow_start(meta: Path) -> float | None:
    """Unix seconds at which the run of this `meta.yaml` began; None where that cannot be read."""
    try:
        with os.fdopen(open_regular(meta), "rb") as file:
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    match = re.search(r"^start_time: ([0-9]{12,14})$", text, re.MULTILINE)
    return None if match is None else int(match[1]) / 1000
