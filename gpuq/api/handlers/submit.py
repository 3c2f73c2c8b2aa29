"""`POST /api/v1/jobs`: commit submissions and return their ids.

The script and the directory are not checked here: the command checks them on the user's machine, the worker where the job runs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from aiohttp import web
from msgspec.structs import asdict, replace

from gpuq.api import dependencies, visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, limits, params
from gpuq.api.contract.schema_jobs import SubmittedJob, SubmittedJobs
from gpuq.api.handlers import files
from gpuq.api.identity import Caller, caller_of
from gpuq.core.scheduling.admit import fits_ever
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.device_names import DeviceNames
from gpuq.errors import NeverFits, NotPermitted
from gpuq.format import gib
from gpuq.learn.features.kind import describe_tasks
from gpuq.messages.job_record import JobRecord, constraints_of
from gpuq.messages.launch import LEAST_UID
from gpuq.messages.submission import Constraints, Submission
from gpuq.messages.verdicts import constraint

# Describing more than this would keep the event loop from other users' requests for too long.
_INLINE, _INLINE_BYTES = 20, 2**13
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
        known = await context.read(context.devices)
        try:
            wanted = await _fitted_to(known, context, wanted)
        except NeverFits:
            # The device that it asks for may have come since the devices were read.
            latest = await context.read(partial(context.devices, latest=True))
            if latest == known:
                raise
            wanted = await _fitted_to(latest, context, wanted)
    if any(one.after for one in wanted):
        owner = None if visibility.sees_all(request) else caller.user
        wanted = await context.read(dependencies.resolved, context.store, wanted, owner)
    await files.note_use(context, caller, wanted)
    key = params.given(params.headers(request, params.SubmitHeaders).key)
    await limits.check_unended(request, len(wanted), len(raw))
    if len(raw) <= _INLINE_BYTES and sum(one.count for one in wanted) <= _INLINE:
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


async def _fitted_to(known: Sequence[Device], context: ApiContext, wanted: Sequence[Submission]) -> list[Submission]:
    names = DeviceNames()
    if any(one.constraints for one in wanted):
        names = await names_now(context, known)
    # Of a long list on many devices this takes minutes.
    return await context.for_user(fitted, wanted, await context.read(context.devices_to_fit), names)


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


def fitted(wanted: Sequence[Submission], bounds: Sequence[Device], names: DeviceNames) -> list[Submission]:
    """The submissions with the ids of the devices that they name. Raises NeverFits for one that no set of `bounds` could run."""
    found = [with_device_ids(one, names) for one in wanted]
    for one in found:
        check_fits(one, bounds, names)
    return found


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
