"""What `gpuq doctor` learns of the running gpuq: through its API, or from its files where that does not answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpuq.cli import messages
from gpuq.cli.client import HttpClient, Record, is_held
from gpuq.cli.service_logs import log_elsewhere, service_log
from gpuq.cli.verbs import policy
from gpuq.cli.verbs.host import no_starts
from gpuq.errors import BadSettings, GpuqError, NotFound
from gpuq.home import Home

OK, NOTE, BROKEN = "ok", "note", "broken"
_CLOCK_TOLERANCE_S = 5.0
_SYNCHRONISE = "timedatectl set-ntp true"


@dataclass(frozen=True)
class Check:
    """The result for one part. `status` is ok, note (works, but worth knowing) or broken; `fix` says what to do."""

    part: str
    status: str
    found: str
    fix: str | None = None


def daemon_checks(client: HttpClient, home: Home) -> list[Check]:
    """The checks through the API."""
    try:
        ready: Record = client.look("/readyz")
        version: Record = client.look("/version")
    except GpuqError as error:
        return [_no_answer(client, home, error)]
    answering = f"gpuq {version.get('version') or '(version unknown)'} answers at {client.address}"
    checks = [Check("api", OK, answering)]
    parts = {part: word for part, word in ready.items() if part != "ready" and isinstance(word, str)}
    checks += [_part(home, parts, part) for part in parts]
    with suppress(GpuqError):
        theirs = client.server_time()
        if theirs is not None and abs(theirs - time.time()) > _CLOCK_TOLERANCE_S:
            apart = f"the daemon's clock and this one are {abs(theirs - time.time()):.0f} s apart"
            checks.append(Check("clocks", NOTE, apart, f"Switch on time synchronisation: {_SYNCHRONISE}"))
    return [*checks, *_jobs(client), *_devices(client, _is_blind(parts)), *_hosts(client), *_policy(client)]


_FIXES = {
    "redis": "Start Redis, or unset GPUQ_REDIS_URL so that `gpuq up` runs its own. Submissions are taken meanwhile.",
    "database": "Look at the database server and its disk; GPUQ_DATABASE_URL names it.",
    "dispatcher": "Start it: `gpuq up`, or systemctl start gpuqd. Submissions are taken meanwhile.",
}
# What a word means of a part, and its fix.
_MEANINGS = {
    ("database", "schema"): ("its schema is not this version's", "gpuq db upgrade"),
    ("redis", "refused"): (
        "it refuses the login",
        "Put the right user and password into GPUQ_REDIS_URL, under systemd in /etc/gpuq/environment, then restart the services.",
    ),
    ("redis", "full"): (
        "it takes no more connections",
        "Raise its `maxclients`, or end what else is connected: `redis-cli CLIENT LIST` shows it.",
    ),
    ("redis", "unwritable"): (
        "it takes no writes, so no job starts",
        "Its log says why: give it memory (`maxmemory`) or room on its disk, or name the primary server in GPUQ_REDIS_URL.",
    ),
    ("redis", "shared"): (
        "another gpuq uses the same database of it, and each takes messages of the other: starts are late, devices fall silent",
        "Give each gpuq a database number of its own in GPUQ_REDIS_URL, then restart the services of both.",
    ),
}
_MEND_REDIS = "Mend Redis first."


def _redis_works(parts: Mapping[str, str]) -> bool:
    return parts.get("redis", "ok") in {"ok", "shared"}


def _is_blind(parts: Mapping[str, str]) -> bool:
    """Whether what hosts report is not known, by these words of /readyz."""
    return not _redis_works(parts) or parts.get("dispatcher", "ok") != "ok"


def _part(home: Home, parts: Mapping[str, str], part: str) -> Check:
    word = parts[part]
    if word == "ok":
        return Check(part, OK, word)
    if part == "dispatcher" and not _redis_works(parts):
        return Check(part, NOTE, "not known: its signs of life are in Redis", _MEND_REDIS)
    if part == "dispatcher" and is_held(home.run / "dispatcher.lock"):
        return _stuck_dispatcher(home, word)
    if (part, word) in _MEANINGS:
        return Check(part, BROKEN, *_MEANINGS[part, word])
    return Check(part, BROKEN, f"{word}{_unresolved(part)}", _FIXES.get(part))


def _stuck_dispatcher(home: Home, status: str) -> Check:
    """It runs here, so to start it would change nothing: what it waits for is in its log."""
    log = service_log(home, "dispatcher")
    return Check("dispatcher", BROKEN, f"{status}, although it runs here{log.quoted}", log.what_to_do)


def _no_answer(client: HttpClient, home: Home, error: GpuqError) -> Check:
    """Where the dispatcher runs, gpuq does; only its endpoint does not answer."""
    if client.address != f"unix://{home.api_socket}" or not is_held(home.run / "dispatcher.lock"):
        return Check("api", BROKEN, error.message, error.fix)
    log = service_log(home, "api")
    return Check("api", BROKEN, f"gpuq runs here, and its endpoint does not answer{log.quoted}", log.what_to_do)


def _unresolved(part: str) -> str:
    """What is wrong with the name of Redis or of the database, as far as this process knows it: the end of a sentence."""
    from gpuq.settings import load

    try:
        settings = load(warn=lambda _: None)
        host = urlsplit(settings.effective_redis_url if part == "redis" else settings.database_url).hostname
        if host:
            socket.getaddrinfo(host, None)
    except (BadSettings, ValueError):
        return ""
    except OSError as error:
        return f": the name {host} is not found ({error.strerror})"
    return ""


def _jobs(client: HttpClient) -> Iterator[Check]:
    """Whether jobs can be read: a record that is damaged in part still answers other questions. And those that do not start."""
    try:
        starting: list[Record] = client.get("/api/v1/jobs?state=STARTING&limit=20")["jobs"]
    except GpuqError as error:
        yield Check("jobs", BROKEN, error.message, error.fix)
        return
    for job in starting:
        if (late := messages.slow_start(job)) is not None:
            fix = f"See there whether they can be listed; `gpuq cancel {job['id']}` ends the job."
            yield Check("starts", BROKEN, f"job {job['id']}: {late}", fix)


def _devices(client: HttpClient, blind: bool) -> Iterator[Check]:
    try:
        devices: list[Record] = client.get("/api/v1/gpus")
    except GpuqError as error:
        yield Check("devices", BROKEN, error.message, error.fix)
        return
    silent = [str(device.get("name", device["id"])) for device in devices if is_silent(device)]
    unwell = [f"{device.get('name', device['id'])} ({device['unwell']})" for device in devices if device.get("unwell")]
    if not devices:
        fix = "Start one: `gpuq up`, or systemctl start gpuq-worker."
        yield Check("devices", BROKEN, "none: no worker has reported", fix)
    elif unwell:
        fix = (
            "End what runs there, stop the worker service on its host, since the driver resets no GPU that a program has "
            "open, then `nvidia-smi -r -i UUID`, and start it again; or restart the machine. Other jobs there run on."
        )
        yield Check("devices", BROKEN, f"given no new jobs: {', '.join(unwell)}", fix)
    elif blind:
        yield Check(
            "devices", NOTE, f"{len(devices)}, whose readings are not known", "Mend Redis or the dispatcher first."
        )
    elif silent:
        fix = f"Run `gpuq doctor` on its host: it gets no jobs without. {log_elsewhere('worker')} has more there."
        yield Check("devices", NOTE, f"{len(devices)}, without a reading: {', '.join(silent)}", fix)
    else:
        yield Check("devices", OK, f"{len(devices)}, all with fresh readings")
    hosts = sorted({device["host"] for device in devices if device.get("processes_visible") is False})
    if hosts:
        found = (
            f"the driver on {', '.join(hosts)} does not show the processes of jobs: a job alone on a GPU is measured by the "
            "whole GPU, and what jobs that share one need is not measured"
        )
        fix = "In a container, start it with --pid=host. WSL 2 and some vGPUs never show them; jobs run there all the same."
        yield Check("processes", NOTE, found, fix)


def is_silent(device: Record) -> bool:
    """Whether it has no fresh reading."""
    return device.get("read_at") is None


def _hosts(client: HttpClient) -> Iterator[Check]:
    """The hosts that start no job, whose reports are dropped, or whose clocks are wrong; and what the record lost, as
    after a replica without the last commits replaced it."""
    try:
        hosts: list[Record] = client.get("/api/v1/hosts")
    except GpuqError:  # the devices' check says why
        return
    for host in hosts:
        if host.get("no_starts"):
            found = f"{host['name']} {no_starts(host)}"
            fix = f"Mend what it names, on {host['name']}; jobs start there again by themselves after that."
            yield Check("starts", BROKEN, found, fix)
        if host.get("unread"):
            fix = f"Run `gpuq doctor` on {host['name']}; upgrade gpuq there if it is older or newer."
            yield Check("reports", BROKEN, f"those of {host['name']} are dropped: {host['unread']}", fix)
        ahead_s = host.get("clock_ahead_s")
        if ahead_s is not None and abs(ahead_s) > _CLOCK_TOLERANCE_S:
            by = f"{abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}"
            found = f"the clock of {host['name']} is {by}, and so are the starts and ends of its jobs"
            yield Check("clocks", NOTE, found, f"Switch on time synchronisation on {host['name']}: {_SYNCHRONISE}")
    for sentence in dict.fromkeys(sentence for host in hosts for sentence in host.get("lost", ())):
        fix = "Look at the jobs of that time (`gpuq queue -a`). Synchronous replication loses no commit."
        yield Check("record", NOTE, sentence, fix)


def _policy(client: HttpClient) -> Iterator[Check]:
    try:
        found: Record = client.get("/api/v1/policies")
    except NotFound:  # a daemon older than this command
        return
    except GpuqError as error:
        yield Check("policy", BROKEN, error.message, error.fix)
        return
    if found.get("fault") is None:
        yield Check("policy", OK, found["chosen"])
    else:
        yield Check("policy", BROKEN, policy.fault(found), policy.FAULT_FIX)
