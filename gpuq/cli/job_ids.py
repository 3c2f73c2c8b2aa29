"""Jobs as users name them: `42`, `42-50`, `42,44`, `@` for the job submitted last, `@~1` for the one before, or a job's name.

`@-1` counts from the end, as Python does: it is the last one, as `@` is, and `@-2` the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import parse_ranges
from gpuq.errors import BadInput, NotFound

_PAGE = 1000
# So many of the user's jobs are searched for a name, the newest first: a record of years would take minutes.
_MOST_SEARCHED = 10_000


def one(client: HttpClient, word: str) -> int:
    """The job that `word` names; of several with that name the newest. Raises BadInput and NotFound."""
    ids = several(client, [word])
    if len(ids) != 1:
        raise BadInput(f"`{word}` names {len(ids)} jobs, and this takes one.", fix="Give one id.")
    return ids[0]


def several(client: HttpClient, words: Sequence[str]) -> list[int]:
    """The jobs that these words name, in the given order and without repetitions. Raises BadInput and NotFound."""
    ids: dict[int, None] = {}
    for first, last in ranges(client, words):
        if last - first >= 100_000:
            raise BadInput(f"the range {first}-{last} names more than 100,000 jobs.", fix="Ask for fewer at a time.")
        ids.update(dict.fromkeys(range(first, last + 1)))
    return list(ids)


def ranges(client: HttpClient | None, words: Sequence[str], *, only_one: bool = False) -> list[tuple[int, int]]:
    """(first, last) id of each part of these words. Raises BadInput and NotFound.

    `client` may be None for words that are all numbers. `only_one`: a name that several unfinished jobs have is refused; for
    verbs that change jobs.
    """
    found = []
    for part in (part.strip() for word in words for part in word.split(",")):
        if re.fullmatch(r"[0-9-]*", part):
            found += parse_ranges([part])
        else:
            assert client is not None, "names of jobs are looked up"
            job = _nth(client, part) if part.startswith("@") else _named(client, part, only_one=only_one)
            found.append((job, job))
    return found


def _nth(client: HttpClient, text: str) -> int:
    match = re.fullmatch(r"@(?:~([0-9]{1,4})|-([1-9][0-9]{0,3}))?", text)
    if match is None:
        fix = "Write @ or @-1 for the job submitted last, and @~1 or @-2 for the one before it."
        raise BadInput(f"`{text}` is not a job id.", fix=fix)
    place = int(match[2]) - 1 if match[2] else int(match[1] or 0)
    for index, job in enumerate(_own(client, limit=min(_PAGE, place + 1))):
        if index == place:
            return int(job["id"])
    raise NotFound(f"You have not submitted {place + 1} {'job' if place == 0 else 'jobs'}.")


def _named(client: HttpClient, name: str, *, only_one: bool) -> int:
    """The newest job of this name; one that has not ended goes before those that have."""
    unfinished = [job for job in _own(client, state="waiting,active") if job["name"] == name]
    newest = next((job for job in chain(unfinished, _own(client, state="ended")) if job["name"] == name), None)
    if newest is None:
        raise NotFound(
            f"`{name}` is not a job id, and none of your jobs has this name.",
            fix="`gpuq queue --all` lists ids and names; ids are written as 42, or as a range, 42-50.",
        )
    if only_one and len(unfinished) > 1:
        ids = ", ".join(str(job["id"]) for job in unfinished[:5])
        raise BadInput(
            f"{len(unfinished)} of your jobs that have not ended are called `{name}`: {ids}{', …' * (len(unfinished) > 5)}.",
            fix=f"Give the id, or --name '{name}' to mean all of them.",
        )
    return int(newest["id"])


def _own(client: HttpClient, *, state: str | None = None, limit: int = _PAGE) -> Iterator[Record]:
    """The user's jobs, those in a group of states only if it is given, the newest first. Pages are of `limit` jobs."""
    after = None
    for _ in range(_MOST_SEARCHED // _PAGE):
        page = client.get("/api/v1/jobs", owner="me", state=state, limit=limit, after=after)
        yield from page["jobs"]
        after = page["next"]
        if after is None:
            return
