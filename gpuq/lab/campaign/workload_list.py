"""The list of a campaign: workloads, and the batch sizes that each is measured at.

The list is a TOML file (docs/characterize.md). `{python}` and `{batch_size}` in a command are replaced; no shell is involved.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gpuq.errors import BadInput

_FIX = "docs/characterize.md has an example; workloads/campaign.toml is one."
_NAME = re.compile(r"[\w.+-]{1,80}")


class _Workload(msgspec.Struct, forbid_unknown_fields=True):
    """A `[[workload]]` table of the file."""

    name: str
    command: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    family: str = ""
    env: dict[str, str] = {}


class _List(msgspec.Struct, forbid_unknown_fields=True):
    workload: tuple[_Workload, ...]


@dataclass(frozen=True)
class WorkloadJob:
    """A workload at one batch size. `command` still contains `{python}`, so that it is the same on every machine."""

    model: str
    batch_size: int
    command: tuple[str, ...]
    family: str = ""
    env: tuple[tuple[str, str], ...] = field(default=())

    @property
    def name(self) -> str:
        """The job's name in all tables."""
        return f"{self.model} {self.batch_size}"

    @property
    def digest(self) -> str:
        """A hash of command and environment: runs with another digest measured other work."""
        words = (self.model, str(self.batch_size), *self.command, *(part for pair in self.env for part in pair))
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command as it is started on this machine."""
        return tuple(word.replace("{python}", sys.executable) for word in self.command)


def read_list(path: Path) -> tuple[WorkloadJob, ...]:
    """The jobs of this file, in its order. Raises BadInput that says what to write instead."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        listed = msgspec.convert(table, _List)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.", fix=_FIX) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not valid TOML: {error}.", fix=_FIX) from error
    except msgspec.ValidationError as error:
        raise BadInput(f"{path}: {error}.", fix=_FIX) from error
    jobs = tuple(job for workload in listed.workload for job in _jobs(path, workload))
    names = [workload.name for workload in listed.workload]
    odd = next((name for name in names if not _NAME.fullmatch(name)), None)
    if odd is not None:
        raise BadInput(
            f"{path}: `{odd}` is not a name of a workload.", fix="Use letters, digits, `_`, `.`, `+` and `-`."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{path} lists `{twice}` twice.", fix="Give each workload a name of its own.")
    if not jobs:
        raise BadInput(f"{path} lists no workload.", fix=_FIX)
    return jobs


def _jobs(path: Path, workload: _Workload) -> list[WorkloadJob]:
    """One job for each batch size. Raises BadInput."""
    if not workload.command:
        raise BadInput(f"{path}: `{workload.name}` has an empty command.", fix=_FIX)
    if not workload.batch_sizes or min(workload.batch_sizes) < 1:
        raise BadInput(f"{path}: `{workload.name}` needs batch sizes, whole numbers from 1 on.", fix=_FIX)
    if len(workload.batch_sizes) > 1 and not any("{batch_size}" in word for word in workload.command):
        raise BadInput(
            f"{path}: the command of `{workload.name}` does not say where its {{batch_size}} goes.", fix=_FIX
        )
    jobs = []
    for size in dict.fromkeys(workload.batch_sizes):
        command = tuple(word.replace("{batch_size}", str(size)) for word in workload.command)
        env = tuple(sorted(workload.env.items()))
        jobs.append(WorkloadJob(workload.name, size, command, workload.family, env))
    return jobs
