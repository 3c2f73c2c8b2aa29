"""Jobs as users name them: `42`, `42-50`, `42,44`, `@` for the job submitted last, `@~1` for the one before, or a job's name.

`@-1` counts from the end, as Python does: it is the last one, as `@` is, and `@-2` the one before.
The id of an array means all its tasks; `42_3`, `42_3-7` and `42_[3,5-7]` are tasks of array 42.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpuq import array
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import parse_ranges, several_ids
from gpuq.errors import BadInput, NotFound

_PAGE = 1000
# `@~9999` is the oldest that can be named so.
_MOST_SEARCHED = 10_000
_LONGEST_PATTERN = 400
_TASKS = re.compile(r"([0-9]{1,18})_(?:([0-9][0-9:-]*)|\[([0-9][0-9,: -]*)\])")
_NUMBERS = re.compile(r"[0-9-]*")
_COMMA = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class Jobs:
    """The jobs that words name, as (first, last) ids. `arrays` are the arrays that were named, whole or in part, and `whole` the
    ids of those that were named as a whole."""

    ranges: list[tuple[int, int]]
    arrays: dict[int, Record]
    whole: frozenset[int]

    @property
    def ids(self) -> list[int]:
        """The ids in the given order and without repetitions. Raises BadInput for very many."""
        found: dict[int, None] = {}
        for first, last in self.ranges:
            if last - first >= 100_000:
                sentence = f"the range {first}-{last} names more than 100,000 jobs."
                raise BadInput(sentence, fix="Ask for fewer at a time.")
            found.update(dict.fromkeys(range(first, last + 1)))
        return list(found)

    @property
    def merged(self) -> list[int | list[int]]:
        """The same ids in ascending order and as few items as there can be: single ids, and ranges, as the API takes them."""
        return [first if first == last else [first, last] for first, last in array.merged(self.ranges)]

    @property
    def single_ids(self) -> list[int]:
        """Those ids that are not of an array that was named as a whole."""
        whole = [self.arrays[one] for one in self.whole]
        return [job for job in self.ids if not any(0 <= job - one["id"] < one["count"] for one in whole)]

    @property
    def array(self) -> Record | None:
        """The array, if nothing but a whole one was named."""
        return self.arrays[min(self.whole)] if len(self.whole) == len(self.ranges) == 1 else None

    @property
    def only(self) -> int:
        """The one job that was named. Raises BadInput for several."""
        ids = self.ids
        if len(ids) == 1:
            return ids[0]
        if self.array is None:
            raise several_ids(len(ids))
        raise BadInput(
            f"{self.array['id']} is an array of {len(ids):,} tasks, and this takes one job.",
            fix=f"Name a task: {self.label(ids[0])}.",
        )

    def label(self, job: int) -> str:
        """The id as it is shown: of a task of one of `arrays` as `42_3`."""
        for one in self.arrays.values():
            if 0 <= job - one["id"] < one["count"]:
                return f"{one['id']}_{array.numbers(one['tasks'])[job - one['id']]}"
        return str(job)


def one(client: HttpClient, word: str) -> int:
    """The job that `word` names; of several with that name the newest. Raises BadInput and NotFound."""
    return named(client, [word]).only


def several(client: HttpClient, words: Sequence[str]) -> list[int]:
    """The jobs that these words name, in the given order and without repetitions. Raises BadInput and NotFound."""
    return named(client, words).ids


def named(client: HttpClient, words: Sequence[str], *, only_one: bool = False) -> Jobs:
    """The jobs that these words name. Raises BadInput and NotFound.

    `client` may be None for words that are all numbers. `only_one`: a name that several unfinished jobs have is refused; for
    verbs that change jobs.
    """
    parts: list[Record | re.Match[str] | tuple[int, int]] = []
    for text in _texts(client, words):
        if _NUMBERS.fullmatch(text):
            parts += parse_ranges([text])
        elif tasks := _TASKS.fullmatch(text):
            parts.append(tasks)
        else:
            parts.append(_nth(client, text) if text.startswith("@") else _named(client, text, only_one=only_one))
    arrays = {part["id"]: part for part in parts if isinstance(part, dict) and "count" in part}
    arrays |= _arrays(client, {int(part[1]) for part in parts if isinstance(part, re.Match)} | _singles(parts))
    found: list[tuple[int, int]] = []
    whole: set[int] = set()
    for part in parts:
        if isinstance(part, re.Match):
            found += _tasks(part, arrays)
            continue
        first, last = part if isinstance(part, tuple) else (int(part["id"]), int(part["id"]))
        if first == last and first in arrays:
            whole.add(first)
            last = first + arrays[first]["count"] - 1
        found.append((first, last))
    return Jobs(found, arrays, frozenset(whole))


def _texts(client: HttpClient, words: Iterable[str]) -> Iterator[str]:
    """The parts of the words between commas; a word with commas that is the name of a job, as `lr=1,bs=2`, is one part. An empty
    part beside others is of a comma with a space behind it, as in `12, 13`."""
    for word in words:
        parts = [part.strip() for part in split(word)]
        several = [part for part in parts if part] or parts[:1]
        is_name = len(parts) > 1 and not all(map(reads_as_ids, several)) and _is_called(client, word.strip())
        yield from [word.strip()] if is_name else several


def split(word: str) -> list[str]:
    """The parts between commas; those in the brackets of `42_[3,5-7]` divide nothing."""
    return _COMMA.split(word)


def reads_as_ids(name: str) -> bool:
    """Whether verbs would take a job's name for ids. One with commas is accepted, since sweeps call their runs `lr=1,bs=2`."""
    text = name.strip()
    return bool(_NUMBERS.fullmatch(text) or _TASKS.fullmatch(text) or text.startswith("@"))


def _singles(parts: Iterable[object]) -> set[int]:
    """The numbers that stand alone: each may be the id of an array."""
    return {part[0] for part in parts if isinstance(part, tuple) and part[0] == part[1]}


def _arrays(client: HttpClient, ids: set[int]) -> dict[int, Record]:
    """Those of these ids that are arrays."""
    wanted = sorted(ids)
    found: dict[int, Record] = {}
    for start in range(0, len(wanted), _PAGE):
        some = ",".join(map(str, wanted[start : start + _PAGE]))
        try:
            found |= {one["id"]: one for one in client.get("/api/v1/arrays", ids=some)["arrays"]}
        except NotFound:  # a gpuq of the previous release
            return {}
    return found


def _tasks(part: re.Match[str], arrays: dict[int, Record]) -> Iterator[tuple[int, int]]:
    """The jobs of `42_3-7`; of a range those tasks that there are. Raises BadInput and NotFound."""
    found = arrays.get(int(part[1]))
    if found is None:
        raise NotFound(
            f"Job {part[1]} is no array.", fix="`gpuq queue` lists ids; a task of an array is written as 42_3."
        )
    wanted = set(array.numbers(part[2] or part[3]))
    places = [place for place, number in enumerate(array.numbers(found["tasks"])) if number in wanted]
    if not places:
        fix = f"Its tasks are {found['tasks']}."
        raise NotFound(f"Array {part[1]} has no task {part[2] or part[3]}.", fix=fix)
    first = before = places[0]
    for place in places[1:]:
        if place > before + 1:
            yield found["id"] + first, found["id"] + before
            first = place
        before = place
    yield found["id"] + first, found["id"] + before


def _nth(client: HttpClient, text: str) -> Record:
    match = re.fullmatch(r"@(?:~([0-9]{1,4})|-([1-9][0-9]{0,3}))?", text)
    if match is None:
        fix = "Write @ or @-1 for the job submitted last, and @~1 or @-2 for the one before it."
        raise BadInput(f"`{text}` is not a job id.", fix=fix)
    place = int(match[2]) - 1 if match[2] else int(match[1] or 0)
    for index, job in enumerate(_own(client, limit=min(_PAGE, place + 1))):
        if index == place:
            return job
    if place == 0:
        raise NotFound("You have not submitted a job yet.", fix="`gpuq submit train.py` queues one.")
    raise NotFound(f"You have submitted fewer than {place + 1:,} jobs.")


def _named(client: HttpClient, name: str, *, only_one: bool) -> Record:
    """The newest job or array of this name; one that has not ended goes before those that have."""
    unfinished = _called(client, name, "waiting,active")
    found = unfinished or _called(client, name, "ended")
    if not found:
        raise NotFound(f"`{name}` is not a job id, and none of your jobs has this name.", fix=_no_such_name(name))
    if only_one and len(unfinished) > 1:
        ids = ", ".join(str(job["id"]) for job in unfinished[:5])
        raise BadInput(
            f"{len(unfinished)} of your jobs that have not ended are called `{name}`: {ids}{', …' * (len(unfinished) > 5)}.",
            fix=f"Give the id, or --name '{name}' to mean all of them.",
        )
    return found[0]


def _is_called(client: HttpClient, name: str) -> bool:
    """Whether the user has a job of this name."""
    return bool(_called(client, name, "waiting,active") or _called(client, name, "ended"))


def _no_such_name(name: str) -> str:
    if name == "all":
        return "`gpuq queue --all` lists all; cancel, hold and release take --all, too, for all of your jobs."
    if any(sign in name for sign in "*?["):
        return f"`gpuq queue --name '{name}'` lists those that match; cancel, hold and release take --name, too."
    return "`gpuq queue --all` lists ids and names; ids are written as 42, or as a range, 42-50."


def _called(client: HttpClient, name: str, state: str) -> list[Record]:
    """The user's jobs and arrays of this name, in a group of states, the newest first. Of an array that has another name those
    tasks that have this one."""
    pattern = re.sub(r"([*?[])", r"[\1]", name)
    if len(pattern) > _LONGEST_PATTERN:
        return []
    own = partial(client.get, "/api/v1/jobs", owner="me", state=state, name=pattern, limit=_PAGE)
    page: Record = own(tasks="together")
    found: list[Record] = page["jobs"]
    for one in page.get("arrays", ()):
        found += [one] if one["name"] == name else own(array=one["id"])["jobs"]
    # A gpuq of the previous release ignores `name`.
    named = [one for one in found if one["name"] == name]
    return sorted(named, key=lambda one: int(one["id"]), reverse=True)


def _own(client: HttpClient, *, limit: int = _PAGE) -> Iterator[Record]:
    """The user's jobs and arrays, the newest first. Pages are of `limit`."""
    after = None
    for _ in range(_MOST_SEARCHED // _PAGE):
        page = client.get("/api/v1/jobs", owner="me", tasks="together", limit=limit, after=after)
        yield from sorted([*page["jobs"], *page.get("arrays", [])], key=lambda one: int(one["id"]), reverse=True)
        after = page["next"]
        if after is None:
            return
