"""`POST /api/v1/jobs`: commit submissions and return their ids.

The script and the directory are not checked here: the command checks them on the user's machine, the worker where the job runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from aiohttp import web
from msgspec.structs import asdict, replace

from gpuq.adapters.store.contract import ArrayRow, Selection, Store
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema_jobs import SubmittedJob, SubmittedJobs
from gpuq.api.handlers import files
from gpuq.api.identity import Caller, caller_of
from gpuq.array import text_of
from gpuq.core.scheduling.admit import fits_ever
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.dependency import Dependency, left_of
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.errors import BadInput, Conflict, NeverFits, NotFound, NotPermitted
from gpuq.format import gib
from gpuq.learn.features.kind import describe_tasks
from gpuq.messages import dependency
from gpuq.messages.dependency import TaskByTask
from gpuq.messages.job_record import JobRecord, constraints_of
from gpuq.messages.launch import LEAST_UID
from gpuq.messages.submission import Constraints, Submission
from gpuq.messages.verdicts import constraint

# Describing more submissions than this would block the event loop for too long.
_INLINE = 100
# What waits for so many jobs is looked up at each end of one of them.
MOST_IN_RANGE = 100_000
_LOOK_WITHIN_S = 0.25


async def submit(request: web.Request) -> web.Response:
    """Queue one job or array, or up to 10,000 jobs in one transaction. Answered after the commit."""
    context = context_of(request)
    caller = caller_of(request)
    wanted, raw = await bodies.submissions(request)
    wanted = [limited(one, context.settings.api.interactive_time_limit_s) for one in wanted]
    if context.settings.worker.run_as == "submitter":
        check_account(caller)
    # Any other job fits every device, so the devices need not be read.
    if any(one.gpu_memory is not None or max(one.gpus, one.hosts) > 1 or one.constraints for one in wanted):
        names = DeviceNames()
        if any(one.constraints for one in wanted):
            names = await names_now(context, await context.read(context.devices))
        wanted = [with_device_ids(one, names) for one in wanted]
        bounds = await context.read(context.devices_to_fit)
        for one in wanted:
            check_fits(one, bounds, names)
    wanted = await with_arrays(context, wanted)
    await check_dependencies(request, wanted)
    await files.note_use(context, caller, wanted)
    key = params.given(params.headers(request, params.SubmitHeaders).key)
    count = sum(one.array.count if one.array else 1 for one in wanted)
    if count > params.MAX_BATCH:
        raise BadInput(f"The list holds {count:,} jobs with all tasks; {params.MAX_BATCH:,} are taken at once.")
    if count <= _INLINE and len(raw) <= bodies.INLINE_BYTES:
        made = records(context, caller, wanted)
    else:
        made = await context.for_user(records, context, caller, wanted)
    if key is not None:
        made = with_key(made, key, hashlib.sha256(raw).hexdigest())
    ids = await context.committer.add(made)
    # None if Redis does not answer at once, because the answer must not wait for it.
    dispatcher = None
    with suppress(TimeoutError):
        dispatcher = (await asyncio.wait_for(context.live.read(), _LOOK_WITHIN_S)).dispatcher
    if bodies.is_list(raw):
        return reply(SubmittedJobs(ids=[int(one) for one in ids], dispatcher=dispatcher), 201)
    answer = reply(SubmittedJob(id=ids[0], dispatcher=dispatcher), 201)
    answer.headers["Location"] = f"/api/v1/jobs/{ids[0]}"
    return answer


async def with_arrays(context: ApiContext, wanted: Sequence[Submission]) -> list[Submission]:
    """The submissions, with the tasks of an array in place of its id where they wait for one. Raises Conflict and NotFound for
    corresponding tasks that there are not."""
    after = {text: dependency.parse(text) for one in wanted for text in one.after}
    if not after:
        return list(wanted)
    arrays = await context.read(_arrays_of, context.store, after.values())
    for text, one in after.items():
        job = _first(one)
        if re.fullmatch(r"[a-z]+:[0-9]+", text) and job in arrays and arrays[job].id == job:
            last = job + arrays[job].record.job_count - 1
            whole = (
                Dependency(one.type, job, last) if isinstance(one, Dependency) else TaskByTask((*range(job, last + 1),))
            )
            after[text] = whole
    return [
        replace(one, after=tuple(str(_of_tasks(text, after[text], one, arrays)) for text in one.after))
        for one in wanted
    ]


def _first(one: Dependency | TaskByTask) -> int:
    return one.first if isinstance(one, Dependency) else one.jobs[0]


def _short(text: str) -> str:
    """A dependency for an error message: one on tasks with numbers of any kind is long."""
    return text if len(text) <= 60 else f"{text[:60]}…"


def _arrays_of(store: Store, after: Collection[Dependency | TaskByTask]) -> dict[int, ArrayRow]:
    """By the first job of each dependency the array that it is, or that it is a task of where corresponding ones are meant."""
    in_array = {job: job for job in map(JobId, map(_first, after))}
    corresponding = [JobId(one.jobs[0]) for one in after if isinstance(one, TaskByTask)]
    for row in store.lines(ids=corresponding) if corresponding else ():
        if row.record.task is not None:
            in_array[row.id] = row.record.task.array
    rows = {row.id: row for row in store.arrays(ids=sorted(set(in_array.values())))}
    return {job: rows[array] for job, array in in_array.items() if array in rows}


def _of_tasks(
    text: str, wait: Dependency | TaskByTask, submission: Submission, arrays: Mapping[int, ArrayRow]
) -> Dependency | TaskByTask:
    """What is waited for; of corresponding tasks those that have the numbers of the submission's."""
    if isinstance(wait, Dependency):
        return wait
    text = _short(text)
    if submission.array is None:
        fix = "Wait for one task with ok:12_3, or for all with ok:12; or make this an array too, with --array."
        raise Conflict(f"`{text}` is for the tasks of an array, and this is one job.", fix=fix)
    first = wait.jobs[0]
    if first not in arrays:
        fix = f"Wait for it with ok:{first}."
        raise NotFound(f"Job {first} is no array, so `{text}` names no corresponding tasks.", fix=fix)
    row = arrays[first]
    other = row.record.submission.array
    assert other is not None, f"{row.id} is no array"
    named = set(wait.jobs)
    job_of = {number: job for job, number in enumerate(other.numbers, start=row.id) if job in named}
    missing = [number for number in submission.array.numbers if number not in job_of]
    if missing:
        raise NotFound(
            f"Array {row.id} has no task {missing[0]} among those of `{text}`, so task {missing[0]} would wait for ever.",
            fix=f"Its tasks are {text_of(tuple(job_of))}; submit the array with these.",
        )
    return TaskByTask(tuple(job_of[number] for number in submission.array.numbers))


async def check_dependencies(request: web.Request, wanted: Sequence[Submission]) -> None:
    """Raises NotFound, NotPermitted or Conflict for a dependency on a job that does not exist or that the caller is not shown,
    for one that can never hold, and for one on too many jobs. So no two jobs ever wait for each other: each can name earlier ones
    only."""
    after = {text: dependency.parse(text) for one in wanted for text in one.after}
    if not after:
        return
    context, caller = context_of(request), caller_of(request)
    if any(len(one.jobs) > MOST_IN_RANGE for one in after.values()):
        # No schema can say this of two numbers in a text.
        raise Conflict(f"A dependency is on more than {MOST_IN_RANGE:,} jobs.", fix="Name a shorter range.")
    selection = Selection(ids=tuple(sorted({(_first(one), one.jobs[-1]) for one in after.values()})))
    states = await context.read(context.store.select, selection)
    shown = states
    if not visibility.sees_all(request):
        shown = await context.read(context.store.select, replace(selection, owner=caller.user))
    for whole_text, wait in after.items():
        text = _short(whole_text)
        for job in map(JobId, wait.jobs):
            if job not in states:
                raise NotFound(f"There is no job {job}, which `{text}` waits for.")
            if job not in shown:
                raise NotPermitted(
                    f"Job {job}, which `{text}` waits for, belongs to another user.",
                    fix="Wait for jobs of your own; `others_jobs` under [api] decides this.",
                )
        ended: dict[int, JobState] = {job: states[JobId(job)] for job in wait.jobs if states[JobId(job)] in ENDED}
        parts = [wait] if isinstance(wait, Dependency) else map(wait.of_task, range(len(wait.jobs)))
        left = next((one for one in left_of(parts, ended) if all(job in ended for job in one.jobs)), None)
        if left is not None:
            first = left.first
            raise Conflict(
                f"Job {first} has ended as {ended[first]}, so `{text}` can never hold.",
                fix=f"Leave it out, or wait for another end: any:{first} holds.",
            )


def records(context: ApiContext, caller: Caller, wanted: Sequence[Submission]) -> list[JobRecord]:
    """The records to be stored for these submissions."""
    now = context.now()
    made = []
    for one in wanted:
        kind, signature, features = context.describe(one, caller.user)
        record = JobRecord(
            submission=one,
            owner=caller.user,
            uid=caller.uid,
            kind=kind,
            signature=signature,
            features=features,
            submitted_at=now,
        )
        made.append(describe_tasks(record, context.describe) if record.is_array else record)
    return made


def with_key(made: Sequence[JobRecord], key: str, body_sha256: str) -> list[JobRecord]:
    """The records of a request with this idempotency key. Each job of a batch needs a key of its own; the same batch sent again
    gives the same keys."""
    keys = [key, *(f"{key}#{index}" for index in range(1, len(made)))]
    return [replace(one, idempotency_key=of, body_sha256=body_sha256) for one, of in zip(made, keys, strict=True)]


async def names_now(context: ApiContext, devices: Sequence[Device]) -> DeviceNames:
    """The names of the devices. Those reported now go first, if Redis answers at once."""
    live = None
    with suppress(TimeoutError):
        live = (await asyncio.wait_for(context.live.read(), _LOOK_WITHIN_S)).view
    return DeviceNames(devices, live.reported if live else ())


def with_device_ids(submission: Submission, names: DeviceNames) -> Submission:
    """The submission with the ids of the devices that it names. Raises NeverFits as `constraints_by_id`."""
    found = constraints_by_id(submission.constraints, names)
    if submission.constraints is None or found is None:
        return submission
    return replace(submission, constraints=replace(submission.constraints, devices=found.devices))


def constraints_by_id(asked: Constraints | None, names: DeviceNames) -> DeviceConstraints | None:
    """The constraints with the ids of the devices that they name. A name that several devices have stands for all of them. Raises
    NeverFits for one that none has."""
    if asked is None:
        return None
    ids: dict[DeviceId, None] = {}
    for text in asked.devices:
        devices = names.find(text)
        if not devices:
            known = names.shown()
            what = f"; there are {known}" if known else ", and none is known yet"
            raise NeverFits(f"There is no device {params.shown(text)}{what}.", fix="`gpuq gpus` shows the names.")
        ids.update(dict.fromkeys(device.id for device in devices))
    return DeviceConstraints(**{**asdict(asked), "devices": tuple(ids)})


def limited(submission: Submission, limit_s: float) -> Submission:
    """The submission with the site's time limit, if it is interactive and names none; `limit_s` 0 is none."""
    if submission.interactive is None or submission.time_limit_s is not None or not limit_s:
        return submission
    return replace(submission, time_limit_s=limit_s)


def check_account(caller: Caller) -> None:
    """Raises NotPermitted for a caller as whom no job may run: root, and accounts of services."""
    if caller.uid < LEAST_UID:
        raise NotPermitted(
            f"Jobs run as their submitters here, and none runs as {caller.user}: its uid is {caller.uid}, and the least "
            f"is {LEAST_UID}.",
            fix="Submit as a user of your own; from another machine with a token of that user (`gpuq token create`).",
        )


def check_fits(submission: Submission, devices: Sequence[Device], names: DeviceNames) -> None:
    """Raises NeverFits, with the number that is missing, if no set of these devices could ever run this.

    While no device is known, everything is accepted that could run on some devices.
    """
    if submission.gpus % submission.hosts:
        raise NeverFits(
            f"The job asks for {submission.gpus} devices of {submission.hosts} hosts, which cannot be divided evenly.",
            fix=f"Ask for a multiple of {submission.hosts} with `--gpus`, which counts the devices of all hosts.",
        )
    if submission.hosts > 1 and submission.interactive is not None:
        raise NeverFits(
            f"The job asks for {submission.hosts} hosts; one with a terminal or a notebook runs on one host.",
            fix="Leave out `--hosts`, or submit a batch job.",
        )
    if submission.hosts > 1 and submission.most_gpus is not None:
        raise NeverFits(
            "The job asks for a range of devices; over several hosts it has a fixed number.",
            fix="Ask for one number with `--gpus`.",
        )
    constraints = constraints_of(submission)
    verdict = fits_ever(submission.gpu_memory, submission.gpus, devices, submission.hosts, constraints)
    if verdict is None:
        return
    numbers = dict(verdict.numbers)
    if "constraint" in numbers:
        raise NeverFits(f"No device meets what the job asks for: {constraint(numbers)}.")
    if constraints is not None:
        devices = [device for device in devices if constraints.unmet(device) is None]
    if submission.hosts > 1 and ("hosts" in numbers or "devices_per_host" in numbers):
        raise _too_few_hosts(submission, devices)
    if "devices_per_host" in numbers:
        most = int(numbers["devices_per_host"] or 0)
        lacking = submission.gpus - most
        raise NeverFits(
            f"The job asks for {submission.gpus} devices of one host; the host with the most has "
            f"{most}, so {lacking} {'is' if lacking == 1 else 'are'} missing.",
            fix=f"Ask for at most {most} with `--gpus`; `gpuq gpus` shows what there is.",
        )
    needed, largest, missing = (
        gib(int(numbers[name] or 0)) for name in ("needed_bytes", "largest_device_bytes", "missing_bytes")
    )
    asked, which = f"{needed} of device memory", "the largest device"
    if submission.gpus > 1:
        hosts = f"{submission.hosts} hosts" if submission.hosts > 1 else "one host"
        asked, which = f"{asked} on each of {submission.gpus} devices of {hosts}", "the last that it would get"
    device = names.of(verdict.device or "")
    raise NeverFits(f"The job asks for {asked}; {which}, {device}, has {largest}, which is {missing} too little.")


def _too_few_hosts(submission: Submission, devices: Sequence[Device]) -> NeverFits:
    per_host = submission.gpus // submission.hosts
    enough = sum(count >= per_host for count in Counter(device.host for device in devices).values())
    lacking = submission.hosts - enough
    return NeverFits(
        f"The job asks for {submission.hosts} hosts with {per_host} device{'s' * (per_host != 1)} each; {enough} "
        f"{'has' if enough == 1 else 'have'} so many, so {lacking} {'is' if lacking == 1 else 'are'} missing.",
        fix="Ask for less with `--hosts` or `--gpus`; `gpuq gpus` shows what there is.",
    )
