"""What a job is to wait for of other jobs: `--after ok:12,any:@-1`, and Slurm's `--dependency=afterok:12:13`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing

from gpuq.cli import job_ids
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput

_TYPES = {"ok", "any", "fail", "start", "corr"}
_OF_SLURM = {"afterok": "ok", "afterany": "any", "afternotok": "fail", "after": "start", "aftercorr": "corr"}
# What stands before the first colon is a type only if it is a word: `ok:12_0-8:2`.
_PART = re.compile(r"(?:([a-z]*):)?(?![a-z]*:)(.+)")
_MOST = 100
_FIX = (
    "gpuq has after (without minutes), afterok, afterany, afternotok, aftercorr and singleton, all of which have to hold; or "
    "submit with Slurm."
)


def parse(words: Sequence[str], client: Callable[[], HttpClient]) -> list[str]:
    """The dependencies that these values of --after name, as the API takes them: `ok:12`, `any:14-17`, `start:12`.

    The id of an array means all its tasks. Raises BadInput and NotFound.
    """
    if not words:
        return []
    with closing(client()) as connection:
        return _parse(words, connection)


def _parse(words: Sequence[str], client: HttpClient) -> list[str]:
    found: dict[str, None] = {}
    for part in (part.strip() for word in words for part in job_ids.split(word)):
        match = _PART.fullmatch(part)
        if match is None or match[1] not in {None, *_TYPES}:
            raise BadInput(
                f"--after `{part}` does not say which end of which job is waited for.",
                fix="Write ok:12 (it succeeded; 12 alone means this), any:12 (it ended), fail:12 (it did not succeed), "
                "start:12 (it began), or for an array corr:12 (each task after the one of its number).",
            )
        type_, jobs = match[1] or "ok", job_ids.named(client, [match[2]])
        # The id of an array is that of its first task, too, which `40-40` means alone.
        ranges = [
            f"{first}-{last}" if last != first or first in jobs.arrays else str(first) for first, last in jobs.ranges
        ]
        # Each job that is named so is for the task of its number, and for no other.
        parts = [",".join(ranges)] if type_ == "corr" else ranges
        found |= {f"{type_}:{of}": None for of in parts}
    if len(found) > _MOST:
        raise BadInput(f"--after names {len(found)} dependencies; {_MOST} is the limit.", fix="Name ranges: ok:12-300.")
    return list(found)


def of_slurm(text: str) -> list[str]:
    """The words of gpuq for the value of Slurm's --dependency. Raises BadInput for what gpuq does not have."""
    if "?" in text:
        raise BadInput("`--dependency` with `?` waits for any one of several jobs.", fix=_FIX)
    words = []
    for part in text.split(","):
        if part == "singleton":
            words.append("--singleton")
            continue
        type_, *jobs = part.split(":")
        if type_ not in _OF_SLURM or not all(jobs) or not jobs or "+" in part:
            raise BadInput(f"`--dependency={part}` is more than gpuq can do.", fix=_FIX)
        words += [f"--after={_OF_SLURM[type_]}:{job}" for job in jobs]
    return words
