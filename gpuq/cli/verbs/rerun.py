"""`gpuq rerun ID`: submit a job that ended again, with its command, folder and options, and with variables of this shell."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator

from gpuq.cli import again, console, job_body, job_ids, job_options
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
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
    parser = Parser("rerun", "Submit a job that ended again.", usage="gpuq rerun ID [OPTIONS]", epilog=_EPILOG)
    parser.add_argument(
        "id", metavar="ID", help="the job, before all options of a job: its id, its name, @ (your last)"
    )
    job_options.add_job_options(parser, named=True)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job: Record = client.get(f"/api/v1/jobs/{job_ids.named(client, [options.id]).only}")
    body = _submission(job, words[: words.index(options.id)] + words[words.index(options.id) + 1 :])
    new = submit_one(client, body)
    if options.json:
        console.print_json({"id": new})
    elif sys.stdout.isatty():
        console.note(
            f"Submitted job {new} ({clean(body['name'])}), as job {job['id']} was. `gpuq logs -f {new}` follows it."
        )
    else:
        print(new, flush=True)
    return 0


def _submission(job: Record, typed: list[str]) -> Record:
    """What is submitted for this job with these options on top."""
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
    own = job_options.job_parser("rerun", "")
    job_options.add_job_options(own)
    had = {name for name in job.get("environment") or () if not _OF_THE_JOB.match(name)}
    set_here = {setting.partition("=")[0] for setting in own.parse_args(typed).env}
    if missed := sorted(had - set_here - os.environ.keys()):
        what = f"job {job['id']} had {', '.join(missed[:4])}, and not set here"
        console.note(f"gpuq: warning: {what}; -e {missed[0]}=VALUE sets {'it' if len(missed) == 1 else 'one'}.")
    passed = [f"--env={name}" for name in sorted(had & os.environ.keys())]
    # An option that may be given several times would add to the job's own.
    kept = _without(found.options, {word.partition("=")[0] for word in typed})
    options, verbatim = own.parse_args([*passed, *kept, *typed]), found.words[0] == "--"
    return job_body.submission(options, found.words[1:] if verbatim else found.words, verbatim)


def _without(options: list[str], names: set[str]) -> Iterator[str]:
    """The words of these options but for those of these names."""
    left_out = False
    for word in options:
        if word.startswith("--"):
            left_out = word in names
        if not left_out:
            yield word
