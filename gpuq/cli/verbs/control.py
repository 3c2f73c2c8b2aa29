"""What `cancel`, `hold` and `release` share: selecting jobs, one request for all of them, and printing the outcome."""

from __future__ import annotations

import argparse
from collections.abc import Sized

from gpuq.cli import console, job_ids
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.errors import BadInput, Conflict, NotFound

# Up to this many jobs get a line each. For more, a summary lists at most this many ids.
_LINES = 10
# The API takes so many ids and ranges in one request.
MOST_IDS = 10_000
_STATES = {"RUNNING": "running", "PENDING": "waiting", "HELD": "held", "STARTING": "starting", "COMPLETING": "stopping"}


def control(verb: str, done: str, summary: str, words: list[str]) -> int:
    """Request `verb` for the jobs that `words` select. `done` is its participle, as in `cancelled`.

    Returns 0, or the largest exit code of a failure: 3 for an id without a job, 6 for a job that is past that point.
    """
    parser = Parser(verb, summary)
    add = parser.add_argument
    add_ids(parser, optional=True)
    add("-a", "--all", action="store_true", help=f"all your jobs that can be {done}")
    add("-s", "--state", metavar="STATE", help="only jobs in these states, by word or code: PENDING,R")
    add("--name", metavar="NAME", help="only jobs of this name; `*` stands for any letters: 'sweep-*'")
    add("-u", "--user", metavar="WHO", help="only jobs of me, of all, or of this user (without an ID: me)")
    add("--kind", metavar="KIND", help="only jobs of this kind, as `gpuq show` has it; `*` as for --name")
    add("--project", metavar="NAME", help="only jobs of this project; `*` as for --name")
    add("--dry-run", action="store_true", help="only say which jobs would be meant")
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    jobs = job_ids.named(client, options.ids, only_one=True)
    body = {"where": _where(verb, options, jobs), "dry_run": options.dry_run}
    answer = requested(client, verb, body)
    drop_refused_tasks(answer, jobs)
    missing = sum(last - first + 1 for first, last in answer["missing"])
    refused = sum(len(one["ids"]) for one in answer["refused"])
    if options.json:
        console.print_json(answer)
    else:
        if sum(map(len, answer["jobs"].values())) + refused + missing > _LINES or options.dry_run:
            _summarize(verb, done, answer, missing)
        else:
            _list(verb, done, answer, jobs)
        if refused:
            console.note(f"  {Conflict.fix}")
        if missing:
            console.note(f"  {NotFound.fix}")
    return max(Conflict.exit_code if refused else 0, NotFound.exit_code if missing else 0)


def requested(client: HttpClient, verb: str, body: Record) -> Record:
    """The answer to this request about many jobs; of more ids than one takes, the answers to several together."""
    where = body["where"]
    ids = where.get("ids", ())
    parts = [ids[start : start + MOST_IDS] for start in range(0, len(ids), MOST_IDS)]
    wheres = [{**where, "ids": part} for part in parts] or [where]
    first, *others = (client.post(f"/api/v1/jobs/{verb}", {**body, "where": one}) for one in wheres)
    answer: Record = first
    for other in others:
        for states in ("jobs", "now"):
            for state, jobs in other[states].items():
                answer[states].setdefault(state, []).extend(jobs)
        for refused in other["refused"]:
            same = next((one for one in answer["refused"] if one["state"] == refused["state"]), None)
            if same is None:
                answer["refused"].append(refused)
            else:
                same["ids"] += refused["ids"]
        answer["missing"] += other["missing"]
    return answer


def check_one_request(ids: Sized) -> None:
    """Raises BadInput for more ids and ranges than a request takes that is carried out for all of them or none."""
    if len(ids) > MOST_IDS:
        raise BadInput(
            f"{len(ids):,} separate ids are named, and {MOST_IDS:,} is the limit for a change of all or none.",
            fix="Name ranges, as 42-50, or change them in several parts.",
        )


def drop_refused_tasks(answer: Record, jobs: job_ids.Jobs) -> None:
    """Take out of `refused` the tasks of whole arrays of which others were not: who names an array means the rest of it."""
    done = {job for ids in answer["jobs"].values() for job in ids}
    tasks = [range(one, one + jobs.arrays[one]["count"]) for one in jobs.whole]
    dropped = {job for one in tasks if not done.isdisjoint(one) for job in one}
    for refused in answer["refused"] if dropped else ():
        refused["ids"] = [job for job in refused["ids"] if job not in dropped]
    answer["refused"] = [refused for refused in answer["refused"] if refused["ids"]]


def _where(verb: str, options: argparse.Namespace, jobs: job_ids.Jobs) -> Record:
    """The conditions for the API. Raises BadInput if there are none."""
    where: Record = {}
    if options.ids:
        where["ids"] = jobs.merged
    if options.state:
        from gpuq.cli.verbs.queue import parse_states

        where["state"] = parse_states(options.state)
    for name in ("name", "kind", "project"):
        if getattr(options, name) is not None:
            where[name] = getattr(options, name)
    if not where and not options.all and options.user is None:
        raise BadInput(
            f"no jobs to {verb} are named.", fix="Give job ids, or choose by --all, --state, --name or --user."
        )
    if options.all and options.ids:
        raise BadInput("--all and job ids exclude each other.", fix="Leave one of them out.")
    if options.user is not None or not options.ids:
        where["owner"] = options.user or "me"
    return where


def _list(verb: str, done: str, answer: Record, jobs: job_ids.Jobs) -> None:
    """A line for each job."""
    after = {job: state for state, ids in answer["now"].items() for job in ids}
    for state, ids in answer["jobs"].items():
        for job in ids:
            if after.get(job, state) == state:
                console.note(f"Job {jobs.label(job)} will be {done} in a moment.")
            elif after[job] == "COMPLETING":
                console.note(f"Job {jobs.label(job)} is being stopped.")
            else:
                console.note(f"Job {jobs.label(job)} is {done}.")
    for refused in answer["refused"]:
        for job in refused["ids"]:
            console.note(f"gpuq: Job {jobs.label(job)} {refused['why']}.")
    for first, last in answer["missing"]:
        for job in range(first, last + 1):
            console.note(f"gpuq: There is no job {job}.")
    if not any((answer["jobs"], answer["refused"], answer["missing"])):
        console.note(f"No jobs to {verb}.")


def _summarize(verb: str, done: str, answer: Record, missing: int) -> None:
    """The numbers by state, and the first ids of the jobs for which it was not possible."""
    size = sum(map(len, answer["jobs"].values()))
    states = ", ".join(f"{len(ids):,} {_STATES.get(state, state)}" for state, ids in answer["jobs"].items())
    unchanged = any(set(ids) & set(answer["now"].get(state, ())) for state, ids in answer["jobs"].items())
    number = f"{size:,} job{'' if size == 1 else 's'}"
    if answer["dry_run"]:
        console.note(f"Would {verb} {number}{f': {states}' if states else ''}.")
    elif answer["now"] and unchanged:
        console.note(f"{number} will be {done} in a moment: {states}.")
    elif size:
        console.note(f"{done.capitalize()} {number}: {states}.")
    if refused := [job for one in answer["refused"] for job in one["ids"]]:
        by_state = ", ".join(f"{len(one['ids']):,} {one['state']}" for one in answer["refused"])
        console.note(f"gpuq: {len(refused):,} could not be {done}: {by_state} ({_few(sorted(refused))}).")
    if missing:
        spans = [str(first) if first == last else f"{first}-{last}" for first, last in answer["missing"]]
        console.note(f"gpuq: of {missing:,} of the ids there is no job ({_few(spans)}).")


def _few(items: list[int] | list[str]) -> str:
    shown = ", ".join(map(str, items[:_LINES]))
    return f"{shown}, …" if len(items) > _LINES else shown
