"""gpuq from Python: `from gpuq import Client`. A client of the HTTP API, as the command is.

    with Client() as client:
        job = client.submit("train.py", "--lr", "0.1", gpus=1, time="2h")
        print(client.wait([job])[0].state, client.logs(job))

A script is found, and its environment is taken along, as `gpuq submit` does it, from the current folder and `os.environ`. Errors
are those of `gpuq.errors`, each with a sentence in `message` and the remedy in `fix`. A client may be used by several threads
and after a fork.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from math import inf
from operator import index
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, SupportsIndex, TypedDict, TypeVar, Unpack
from weakref import WeakSet

from gpuq.array import numbers as array_numbers
from gpuq.array import ranges
from gpuq.cli import client as http
from gpuq.cli import edits, job_body, job_options, results
from gpuq.cli.sweep import grid_array
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.control import check_one_request, requested
from gpuq.cli.verbs.logs import Log
from gpuq.cli.verbs.queue import in_order, newest
from gpuq.cli.verbs.submit import batches, send_files, submit_one, tidy_snapshots
from gpuq.errors import BadInput, Conflict, GpuqError, NotFound
from gpuq.states import ENDED, JobState

Word = str | os.PathLike[str] | float
"""A word of a command. Numbers are written as Python writes them."""


class EditOptions(TypedDict, total=False):
    """The options of `gpuq edit` as keywords."""

    name: str
    priority: int | str
    share: Literal["auto", "never"]
    max_slowdown: float | str
    gpu_mem: str
    time: int | str
    begin: str
    deadline: str
    notify: str | list[str]


class JobOptions(TypedDict, total=False):
    """The options of `gpuq submit` as keywords: names without dashes, values as typed there (`time="2h30m"`, `gpu_mem="10G"`)."""

    name: str
    project: str
    kind: str
    priority: int | str
    share: Literal["auto", "never"]
    exclusive: bool
    max_slowdown: float | str
    gpu_mem: str
    dry_run_memory: bool
    gpus: int | str
    hosts: int
    gpu_type: str
    gpu_mem_min: str
    nodelist: str
    exclude: str
    device: str
    constraint: str
    time: int | str
    after: JobInfo | str | int | Sequence[JobInfo | str | int]
    begin: str
    singleton: bool
    retry: str | int | Sequence[str]
    requeue_on_timeout: bool
    hold: bool
    requeue: bool
    deadline: str
    preemptible: bool
    signal: str
    blink: bool
    idle_ok: bool
    no_pause: bool
    lend_cores: int
    notify: str | Sequence[str]
    chdir: str | os.PathLike[str]
    python: str | os.PathLike[str]
    env: Mapping[str, str]
    pass_env: Sequence[str]
    slurm_env: bool
    image: str
    module: str | Sequence[str]
    snapshot: bool
    from_snapshot: str
    sync: bool


@dataclass(frozen=True)
class JobInfo:
    """A job as it was when it was read.

    `exit_code` is None until its command has ended, and 128 + N if signal N ended it. `record` is the API's whole
    answer: what is predicted and measured, attempts, times.
    """

    id: int
    name: str
    state: JobState
    exit_code: int | None
    reason: str | None
    record: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether it has ended. In the states of `gpuq.states.MAY_REQUEUE` it may yet be queued again."""
        return self.state in ENDED


Job = JobInfo | int
"""A job, or its id."""
Jobs = Job | Iterable[Job]


class Client:
    """One gpuq: this user's own, or the one at `host` (`unix:///PATH`, `http://127.0.0.1:PORT`, `https://HOST`).

    Over TCP it sends the token in `GPUQ_TOKEN`. A call raises `Unreachable` where no gpuq answers.
    """

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._of_thread = threading.local()
        self._connections: WeakSet[_Connection] = WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections; the next call opens one again."""
        for connection in list(self._connections):
            connection.http.close()

    def submit(self, *command: Word, **options: Unpack[JobOptions]) -> JobInfo:
        """Queue a script or a command, as `gpuq submit`. Raises BadInput, NeverFits."""
        return self.job(self.submit_for_id(*command, **options))

    def submit_for_id(self, *command: Word, **options: Unpack[JobOptions]) -> int:
        """As `submit`, but gives the id and asks for nothing else. Raises `Lost` where it is unknown whether it was queued."""
        return submit_one(self._http, submission(command, options, self._host))

    def map(
        self,
        *command: Word,
        grid: Mapping[str, Iterable[object]],
        at_once: int | None = None,
        **options: Unpack[JobOptions],
    ) -> list[JobInfo]:
        """An array with a task for each combination of the grid's values, which take the place of `{key}` in the command's words,
        or of its name. The tasks in the order of the combinations.

        The last key of the grid changes fastest, and at most `at_once` tasks run at a time. A command without any placeholder
        finds the values in its environment. All are queued or none. Raises BadInput also for a key that is in no word where
        others are.
        """
        array = grid_array({name: [str(value) for value in values] for name, values in grid.items()})
        if at_once is not None:
            array["at_once"] = at_once
        first = submit_one(self._http, submission(command, options, self._host, array))
        return self.jobs(range(first, first + len(array_numbers(array["tasks"]))))

    def submit_all(self, bodies: Sequence[dict[str, Any]]) -> list[int]:
        """The ids of these submissions, made by `submission`. All are queued or none: after an error, those of earlier requests
        are cancelled."""
        ids: list[int] = []
        for body in bodies[:1]:
            send_files(self._http, body)
        try:
            for batch in batches(bodies):
                ids += self._http.post("/api/v1/jobs", batch, key=http.new_key())["ids"]
        except BaseException:
            with suppress(GpuqError):  # one that has ended is cancelled no more
                self.cancel(ids)
            raise
        for body in bodies[:1]:
            tidy_snapshots(self._http, body)
        return ids

    def predict(self, *command: Word, **options: Unpack[JobOptions]) -> dict[str, Any]:
        """What gpuq expects of such a job, as `gpuq predict --json`, without queueing it."""
        answer: dict[str, Any] = self._http.post("/api/v1/predict", submission(command, options, self._host))
        return answer

    def job(self, job: Job) -> JobInfo:
        """The job as it is now, with its whole record. Raises NotFound."""
        return _job(self._http.get(f"/api/v1/jobs/{_id(job)}"))

    def jobs(self, jobs: Jobs) -> list[JobInfo]:
        """These jobs as they are now, with the records of the API's lists. Raises NotFound."""
        return [_job(record) for record in follow.jobs_of(self._http, _ids(jobs))]

    def find(
        self,
        *,
        state: str | Sequence[str] | None = None,
        owner: str = "me",
        name: str | None = None,
        kind: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> list[JobInfo]:
        """The newest `limit` jobs that meet all of these conditions, by id; None: all of them. `state` is a state or several, or
        `waiting`, `active` or `ended`; `owner` a user, or `all`; name, kind and project are shell patterns, as in `sweep-*`."""
        states = state if state is None or isinstance(state, str) else ",".join(state)
        where = {"owner": owner, "name": name, "kind": kind, "project": project}
        return [_job(record) for record in newest(self._http, states, where, limit)]

    def queue(self) -> list[JobInfo]:
        """The jobs of all users that run, by id, and those that wait, in the order of their start, with the records of the API's
        lists."""
        return [_job(record) for record in in_order(newest(self._http, "waiting,active", {"owner": "all"}, None))]

    def explain(self, job: Job) -> dict[str, Any]:
        """Why it waits, or why it is where it is, as `gpuq explain --json`. Raises NotFound."""
        found: dict[str, Any] = self._http.get(f"/api/v1/jobs/{_id(job)}/explanation")
        return found

    def wait(self, jobs: Jobs, timeout_s: float | None = None) -> list[JobInfo]:
        """The jobs, one or many, in this order, once all have ended. Raises TimeoutError; they go on then."""
        ended = self._ended(follow.Waiting(_ids(jobs)), timeout_s)
        if ended is None:
            raise _late(timeout_s)
        return ended

    def logs(self, job: Job, *, lines: int | None = None, attempt: int | None = None, search: str | None = None) -> str:
        """The output so far of the last attempt, or of attempt number `attempt`; with `search` only lines that contain this
        text, with `lines` only that many at its end."""
        return b"".join(Log(self._http, _id(job), attempt, search).pieces(lines)).decode("utf-8", "replace")

    def stream(self, job: Job) -> Iterator[bytes]:
        """The output as it comes, through all attempts, until the job has ended."""
        connection = http.HttpClient(self._host)  # the thread's own stays free for other calls in between
        try:
            yield from follow.output(connection, _id(job))
        finally:
            connection.close()

    def fetch(
        self,
        job: Job,
        *patterns: str,
        to: str | os.PathLike[str] | None = None,
        attempt: int | None = None,
        force: bool = False,
    ) -> list[Path]:
        """The files that a job submitted with `sync` made or changed, brought into the folder `to`, as `gpuq fetch`. Raises
        Conflict for one that is there with another content, unless `force`."""
        place = None if to is None else Path(to)
        found = results.fetch(self._http, _id(job), patterns, to=place, attempt=attempt, force=force)
        return [found.to / file.name for file in found.files]

    def cancel(self, jobs: Jobs) -> None:
        """End the jobs, waiting or running. Raises Conflict if one has ended; the others are ended all the same."""
        self._control("cancel", jobs)

    def hold(self, jobs: Jobs) -> None:
        """Keep waiting jobs from starting. Raises Conflict if one does not wait; the others are held all the same."""
        self._control("hold", jobs)

    def release(self, jobs: Jobs) -> None:
        """Let held jobs start. Raises Conflict if one is not held; the others are released all the same."""
        self._control("release", jobs)

    def edit(self, jobs: Jobs, **new: Unpack[EditOptions]) -> None:
        """Change what waiting jobs ask for, and the name, a shorter time limit or the notifications of running ones, with the
        values of `gpuq edit`: `client.edit(job, priority=5, time="4h")`; "default" takes a value back. All of the jobs or none.
        Raises Conflict for one that is too far; for one that started or ended in this moment the others are changed."""
        if unknown := new.keys() - EditOptions.__annotations__.keys():
            fix = f"The options are {', '.join(EditOptions.__annotations__)}."
            raise BadInput(f"`{min(unknown)}` cannot be changed of a job.", fix=fix)
        values = {name: value if isinstance(value, list) else str(value) for name, value in new.items()}
        if ids := ranges(sorted(set(_ids(jobs)))):
            check_one_request(ids)
            answer = self._http.post("/api/v1/jobs/edit", {"where": {"ids": ids}, "edit": edits.fields(values)})
            for job in answer["unchanged"]:
                raise Conflict(f"Job {job} had started or ended before, and stays as it was.")

    def devices(self) -> list[dict[str, Any]]:
        """All devices with their readings and who is on them, as `gpuq gpus --json`."""
        found: list[dict[str, Any]] = self._http.get("/api/v1/gpus")
        return found

    def reserve(
        self,
        start: float,
        end: float,
        *,
        gpus: int = 1,
        user: str | None = None,
        constraints: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Reserve devices from one moment to another, in Unix seconds; operators for any `user`. `constraints` are as in the JSON
        of a submission. Raises Conflict, which names the reservations in the way."""
        asked = {"from_at": start, "until_at": end, "gpus": gpus, "user": user, "constraints": constraints}
        body = {name: value for name, value in asked.items() if value is not None}
        made: dict[str, Any] = self._http.post("/api/v1/bookings", body)
        return made

    def reservations(self) -> list[dict[str, Any]]:
        """What is reserved now and later, as `gpuq reservations --json`."""
        found: list[dict[str, Any]] = self._http.get("/api/v1/bookings")
        return found

    def cancel_reservation(self, number: int) -> None:
        """End a reservation now. Raises NotFound if it is over."""
        self._http.post(f"/api/v1/bookings/{number}/cancel", {})

    def _control(self, verb: str, jobs: Jobs) -> None:
        ids = ranges(sorted(set(_ids(jobs))))
        if not ids:
            return
        answer = requested(self._http, verb, {"where": {"ids": ids}})
        for first, _ in answer["missing"]:
            raise NotFound(f"There is no job {first}.")
        for refused in answer["refused"]:
            raise Conflict(f"Job {refused['ids'][0]} {refused['why']}.")

    def _ended(self, waiting: follow.Waiting, timeout_s: float | None) -> list[JobInfo] | None:
        ended = waiting(self._http, timeout_s)
        return None if ended is None else [_job(record) for record in ended]

    @property
    def _http(self) -> http.HttpClient:
        """The connection of this thread of this process: one carries one request at a time. It ends with the thread."""
        mine: _Connection | None = getattr(self._of_thread, "connection", None)
        if mine is None or mine.process != os.getpid():
            mine = self._of_thread.connection = _Connection(self._host)
            self._connections.add(mine)
        return mine.http


class _Connection:
    """That of one thread, which is closed when the thread or the client is gone."""

    def __init__(self, host: str | None) -> None:
        self.http = http.HttpClient(host)
        self.process = os.getpid()

    def __del__(self) -> None:
        if hasattr(self, "http"):  # else its address was refused
            self.http.close()


_WAIT_STEP_S = 1.0

T = TypeVar("T")
P = ParamSpec("P")


async def _in_thread(call: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
    """What the call returns. A cancellation takes effect once the call has ended, because it uses a connection of ours."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments, **keywords))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise


def _awaitable(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method of `Client` as one of `AsyncClient`, with the same parameters and words."""

    @wraps(method)
    async def call(self: AsyncClient, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return await _in_thread(method, self._client, *arguments, **keywords)

    return call


class AsyncClient:
    """The same for asyncio: each call runs in a thread, so the event loop goes on."""

    def __init__(self, host: str | None = None) -> None:
        self._client = Client(host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As `Client.close`."""
        self._client.close()

    submit = _awaitable(Client.submit)
    submit_for_id = _awaitable(Client.submit_for_id)
    submit_all = _awaitable(Client.submit_all)
    map = _awaitable(Client.map)
    predict = _awaitable(Client.predict)
    job = _awaitable(Client.job)
    jobs = _awaitable(Client.jobs)
    find = _awaitable(Client.find)
    queue = _awaitable(Client.queue)
    explain = _awaitable(Client.explain)
    logs = _awaitable(Client.logs)
    fetch = _awaitable(Client.fetch)
    cancel = _awaitable(Client.cancel)
    edit = _awaitable(Client.edit)
    hold = _awaitable(Client.hold)
    release = _awaitable(Client.release)
    devices = _awaitable(Client.devices)
    reserve = _awaitable(Client.reserve)
    reservations = _awaitable(Client.reservations)
    cancel_reservation = _awaitable(Client.cancel_reservation)

    async def wait(self, jobs: Jobs, timeout_s: float | None = None) -> list[JobInfo]:
        """As `Client.wait`. Cancelled, it ends within a second; the jobs go on."""
        waiting, now = follow.Waiting(_ids(jobs)), asyncio.get_running_loop().time
        deadline = inf if timeout_s is None else now() + timeout_s
        while True:
            # In steps, because a thread cannot be cancelled.
            step = max(0.0, min(_WAIT_STEP_S, deadline - now()))
            ended = await _in_thread(self._client._ended, waiting, step)
            if ended is not None:
                return ended
            if now() >= deadline:
                raise _late(timeout_s)

    async def stream(self, job: Job) -> AsyncIterator[bytes]:
        """As `Client.stream`. Once cancelled, its thread ends with the next output."""
        pieces = self._client.stream(job)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


def submission(
    command: Sequence[Word], options: JobOptions, host: str | None = None, array: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The body of `POST /api/v1/jobs` for these words and keywords, as this array if one is given; jobs that `after` names are
    looked up at `host`. Raises BadInput, also for a keyword that is no option."""
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    words = [_word(word) for word in command]
    own = ["--chdir", str(options["chdir"])] if options.get("chdir") else []
    values, read = job_body.options_of(parser, own, words, verbatim=False)
    values.host = host
    given: dict[str, object] = dict(options)
    if (exclusive := given.pop("exclusive", None)) is not None:
        given.setdefault("share", "never" if exclusive else "auto")
    for name, value in given.items():
        if name in {"json", "host", "no_color"} or not hasattr(values, name):
            raise BadInput(
                f"`{name}` is no option of a job.", fix=f"There are: {', '.join(JobOptions.__annotations__)}."
            )
        setattr(values, name, _as_typed(name, value))
    return job_body.submission(values, words, verbatim=False, read=read, array=array)


def _as_typed(name: str, value: object) -> object:
    """The value as the parser has it: text, except for switches and for options that may be given several times."""
    if name == "env" and isinstance(value, Mapping):
        return [f"{variable}={text}" for variable, text in value.items()]
    if value is None or isinstance(value, bool):
        return value
    if name == "after":
        many = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
        return [one if isinstance(one, str) else str(_id(one)) for one in many]
    if name in {"notify", "module", "retry"} and isinstance(value, str | int):
        return [str(value)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(one) for one in value]
    return str(value)


def _word(word: object) -> str:
    if isinstance(word, os.PathLike):
        return str(os.fspath(word))
    if isinstance(word, str | int | float):
        return str(word)
    raise BadInput(
        f"{word!r} is no word of a command.", fix='Give each word by itself: client.submit("train.py", "--lr", 0.1).'
    )


def _job(record: Mapping[str, Any]) -> JobInfo:
    state = JobState(record["state"])
    return JobInfo(record["id"], record["name"], state, record.get("exit_code"), record.get("reason"), record)


def _id(job: object) -> int:
    if isinstance(job, JobInfo):
        return job.id
    if isinstance(job, SupportsIndex) and not isinstance(job, bool):  # an int, also of NumPy
        return index(job)
    raise BadInput(
        f"{job!r} is no job.", fix="Give the id, a whole number, or what `submit`, `job` or `queue` returned."
    )


def _ids(jobs: Jobs) -> list[int]:
    many = jobs if isinstance(jobs, Iterable) and not isinstance(jobs, str | bytes) else [jobs]
    return [_id(job) for job in many]


def _late(timeout_s: float | None) -> TimeoutError:
    return TimeoutError(f"Not all jobs had ended after {timeout_s:g} s; they go on.")
