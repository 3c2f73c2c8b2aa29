"""The queue of task-spooler. Its list has no words and folders, but each waiting job is a process `ts`, which has both."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gpuq.cli.imports import ImportedJob
from gpuq.errors import BadInput, Failure

NAMES = ("tsp", "ts")
_ROW = re.compile(r"^(?P<id>[0-9]+)\s+queued\s+(?P<rest>\S.*)$")
_WAITS_FOR = re.compile(r"(?:^|\s|\])\[(?P<ids>[0-9]+(?:,[0-9]+)*)\]&& ")
_TIMEOUT_S = 10.0


def waiting() -> list[ImportedJob]:
    """The jobs that wait, in their order. Raises BadInput without task-spooler, Failure if it does not answer."""
    # Some systems have another `ts`, which puts times before lines.
    program = next((name for name in NAMES if shutil.which(name) and _is_task_spooler(name)), None)
    if program is None:
        raise BadInput("there is no task-spooler on PATH.", fix="Run this where its `tsp` or `ts` is.")
    if not _runs():  # to ask it would start its server
        return []
    clients = sorted(_clients())
    found = []
    for row in map(_ROW.match, _said(program).splitlines()):
        if row is None:
            continue
        mine = [one for one in clients if row["rest"].endswith(" ".join(one[2]))]
        client = max(mine, key=lambda one: len(" ".join(one[2])), default=None)
        if client is None:
            unknown = "its process, which has its words, is not one of yours"
            found.append(ImportedJob(row["id"], (row["rest"],), Path("/"), {}, stays=unknown))
            continue
        clients.remove(client)
        _, pid, words, options = client
        name = {} if options.L is None else {"name": options.L}
        gpus = {} if options.G is None or not options.G.isdecimal() or options.G == "0" else {"gpus": int(options.G)}
        after = _WAITS_FOR.search(row["rest"])
        stays = f"it waits for job {after['ids']} there" if after else None
        cwd, env = _place(pid)
        found.append(ImportedJob(row["id"], tuple(words), cwd, env, {**name, **gpus}, stays))
    return found


def _is_task_spooler(program: str) -> bool:
    done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    return "task spooler" in (done.stdout + done.stderr).lower()


def _runs() -> bool:
    """Whether its server runs, at the socket where its own clients look for one."""
    usual = f"{os.environ.get('TMPDIR') or '/tmp'}/socket-ts.{os.getuid()}"  # noqa: S108 -- read, not made
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.environ.get("TS_SOCKET") or usual)
        except OSError:
            return False
    return True


def _said(program: str) -> str:
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    except subprocess.SubprocessError as error:
        raise Failure(f"`{program}` does not list its jobs.", fix="Try it by hand.") from error
    return done.stdout


def _clients() -> Iterator[tuple[int, int, list[str], argparse.Namespace]]:
    """(start in ticks, pid, words of the job, options) of each process of this user that was started to queue a job."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != os.geteuid() or (entry / "comm").read_text().strip() not in NAMES:
                continue
            words = (entry / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")[1:-1]
            started = int((entry / "stat").read_text().rpartition(")")[2].split()[19])
        except (OSError, ValueError):
            continue
        options, command = _split(words)
        if command:
            yield started, int(entry.name), command, options


def _split(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """(its options, the command) as task-spooler divides them: its options end at the first word that is none."""
    options, index = argparse.Namespace(L=None, G=None), 0
    while index < len(words) and re.fullmatch(r"-[A-Za-z]+", words[index]):
        letter = words[index][-1]
        index += 1
        if letter in "LDNGgWa" and index < len(words):
            if letter in "LG":
                setattr(options, letter, words[index])
            if letter != "g" or re.fullmatch(r"[0-9,]+", words[index]):  # without GPUs, -g takes nothing
                index += 1
    return options, words[index:]


def _place(pid: int) -> tuple[Path, dict[str, str]]:
    process = Path(f"/proc/{pid}")
    texts = (process / "environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    return (process / "cwd").readlink(), dict(text.split("=", 1) for text in texts if "=" in text)
