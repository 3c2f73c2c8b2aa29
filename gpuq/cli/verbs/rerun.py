"""`gpuq rerun ID`: submit a job or tasks of an array again, with its command, folder and options, and this shell's variables."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator

from gpuq import array as array_words
from gpuq.cli import again, arrays, console, job_body, job_ids, job_options
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.queue import parse_states
from gpuq.cli.verbs.submit import submit_one
from gpuq.errors import BadInput, Conflict
from gpuq.format import clean
from gpuq.states import ENDED, JobState

_EPILOG = """\
Options that are given take the place of the job's own. The record has only the
names of a job's variables, so their values are those of this shell; those that
are not set here are named.
"""
# The new job gets its own.
_OF_THE_JOB = re.compile(r"GPUQ_|SLURM_")


def run(words: list[str]) -> int:
    """Submit it. Raises BadInput, Conflict for a job that has not ended."""
    parser = _parser("Submit a job, an array or tasks of it again.")
    parser.add_argument(
        "id", metavar="ID", help="what ended, before all options of a job: an id, 42_3-7, a name, @ (your last)"
    )
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    typed = words[: words.index(options.id)] + words[words.index(options.id) + 1 :]
    job, array = _meant(client, options.id, options.state)
    what, more = "job {}", "`gpuq logs -f {}` follows it."
    if array is not None:
        size = len(array_words.numbers(array["tasks"]))
        what = f"array {{}} of {size:,} task{'' if size == 1 else 's'}"
        more = "`gpuq queue {}` shows how far it is."
    body = _submission(job, typed, array)
    new = submit_one(client, body)
    if options.json:
        console.print_json({"id": new})
    elif sys.stdout.isatty():
        was = f"as {clean(options.id)} was"
        console.note(f"Submitted {what.format(new)} ({clean(body['name'])}), {was}. {more.format(new)}")
    else:
        print(new, flush=True)
    return 0


def _meant(client: HttpClient, word: str, state: str | None) -> tuple[Record, Record | None]:
    """(the job that is meant, None), or what `_tasks` gives of the tasks: also of one, which may read its number and values in
    its environment."""
    jobs = job_ids.named(client, [word])
    if not _is_of_one_array(jobs):
        job: Record = client.get(f"/api/v1/jobs/{jobs.only}")
        if job.get("array") is None:
            if state is not None:
                raise BadInput("--state chooses tasks of an array, and one job is named.", fix="Leave it out.")
            return job, None
        jobs = job_ids.named(client, [f"{job['array']}_{job['task']}"])
    return _tasks(client, jobs, state)


def _is_of_one_array(jobs: job_ids.Jobs) -> bool:
    """Whether one array was named, or tasks of one."""
    arrays = list(jobs.arrays.values())
    return len(arrays) == 1 and all(0 <= job - arrays[0]["id"] < arrays[0]["count"] for job in jobs.ids)


def _parser(summary: str) -> Parser:
    parser = Parser("rerun", summary, usage="gpuq rerun ID [OPTIONS]", epilog=_EPILOG)
    parser.add_argument("--state", metavar="STATE", help="of an array only the tasks in these states: FAILED,TIMEOUT")
    job_options.add_job_options(parser, named=True)
    return parser


def _tasks(client: HttpClient, jobs: job_ids.Jobs, state: str | None) -> tuple[Record, Record]:
    """(the first of the tasks that are meant, with the words of the array; the field `array` of a submission of all of them)."""
    (whole,) = jobs.arrays.values()
    named = set(jobs.ids)
    states = parse_states(state) if state is not None else list(whole["states"])
    found = [task for task in arrays.tasks(client, whole["id"], states) if task["id"] in named]
    if not found:
        raise BadInput(f"none of these tasks is {state}: {arrays.summary(whole)}.", fix="Choose by another --state.")
    if going := [task for task in found if JobState(task["state"]) not in ENDED]:
        raise Conflict(
            f"{len(going):,} of these {len(found):,} tasks have not ended: {jobs.label(going[0]['id'])} is {going[0]['state']}.",
            fix="Choose tasks that have by their numbers or by --state FAILED.",
        )
    params = {name: [task["params"][name] for task in found] for name in whole["params"] or ()}
    array = {
        "tasks": array_words.text_of([task["task"] for task in found]),
        **({"params": params} if params else {}),
        **({} if whole["at_once"] is None else {"at_once": whole["at_once"]}),
    }
    first = client.get(f"/api/v1/jobs/{found[0]['id']}")
    return {**first, "command": whole["command"], "name": whole["name"]}, array


def _submission(job: Record, typed: list[str], array: Record | None) -> Record:
    """What is submitted for this job, as this array if it is one, with these options on top."""
    if JobState(job["state"]) not in ENDED:
        raise Conflict(
            f"Job {job['id']} has not ended: it is {job['state']}.", fix="`gpuq edit` changes a job that waits."
        )
    found = again.of_job(job, time.time())
    if found is None:
        why = "it is another user's, a notebook, or ran files that --sync had sent"
        raise BadInput(
            f"job {job['id']} cannot be submitted again from here: {why}.", fix="Submit it as it was submitted."
        )
    try:
        os.chdir(found.folder)
    except OSError as error:
        raise BadInput(
            f"{found.folder} cannot be entered: {error.strerror}.", fix="Submit it from another folder."
        ) from error
    own = _parser("")
    swept = array.get("params", {}) if array else {}
    had = {name for name in job.get("environment") or () if not _OF_THE_JOB.match(name) and name not in swept}
    set_here = {setting.partition("=")[0] for setting in own.parse_args(typed).env}
    if missed := sorted(had - set_here - os.environ.keys()):
        what = f"job {job['id']} had {', '.join(missed[:4])}, and not set here"
        console.warn(f"{what}; -e {missed[0]}=VALUE sets {'it' if len(missed) == 1 else 'one'}")
    passed = [f"--env={name}" for name in sorted(had & os.environ.keys())]
    # An option that may be given several times would add to the job's own; a new copy of the files takes the place of the old.
    names = {word.partition("=")[0] for word in typed}
    kept = _without(found.options, names | ({"--from-snapshot"} if names & {"--snapshot", "--sync"} else set()))
    options, verbatim = own.parse_args([*passed, *kept, *typed]), found.words[0] == "--"
    return job_body.submission(options, found.words[1:] if verbatim else found.words, verbatim, array=array)


def _without(options: list[str], names: set[str]) -> Iterator[str]:
    """The words of these options but for those of these names."""
    left_out = False
    for word in options:
        if word.startswith("--"):
            left_out = word.partition("=")[0] in names
        if not left_out:
            yield word
