"""Users of a shared gpuq manage their own jobs and see a summary of the others'; operators and admins have more rights."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gpuq.api import identity
from gpuq.api.contract.schema_jobs import JobLine
from gpuq.api.identity import Role
from gpuq.api.models import ExplainedForecast
from gpuq.api.routes import ROUTES
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobState
from gpuq.messages.outcome import AttemptOutcome, PairSlowdown
from gpuq.settings import Settings
from tests.api.conftest import Endpoint, started
from tests.api.handlers.test_events import take
from tests.api.support import GIB, FaultyStore, MemoryStream, SmallModels, attempt, forecast, submission

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
ANN, BOB, OLA, ADA, UNKNOWN = (
    54001,
    54002,
    54003,
    54004,
    54005,
)  # no users of this machine, so their names are these numbers


@dataclass
class Shared:
    """A gpuq with a shared socket. `uid` is the user that the kernel is made to name."""

    endpoint: Endpoint
    uid: int = ANN
    size: int = 12

    def unpack(self, _: bytes) -> tuple[int, int, int]:
        return (1, self.uid, 1)

    async def get(self, uid: int, path: str) -> tuple[int, Any]:
        self.uid = uid
        return await self.endpoint.get(path)

    async def post(self, uid: int, path: str, body: Any = None) -> tuple[int, Any]:
        self.uid = uid
        return await self.endpoint.post(path, body)

    async def submit(self, uid: int, **fields: Any) -> int:
        status, body = await self.post(uid, "/api/v1/jobs", submission(**fields))
        assert status == 201
        return int(body["id"])


@pytest.fixture
async def shared(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shared]:
    api = replace(settings.api, shared_socket=str(tmp_path / "shared.sock"), operators=(str(OLA),), admins=(str(ADA),))
    async with started(replace(settings, api=api), FaultyStore(), MemoryStream(), SmallModels()) as endpoint:
        shared = Shared(endpoint)
        monkeypatch.setattr(identity, "_PEER", shared)
        yield shared


async def test_a_job_belongs_to_the_user_who_connected(shared: Shared) -> None:
    job = await shared.submit(ANN)
    record = shared.endpoint.store.job_rows[job].record
    assert (record.owner, record.uid) == (str(ANN), ANN)


@pytest.mark.parametrize("verb", ["cancel", "hold"])
async def test_a_job_is_changed_by_its_owner_operators_and_admins_alone(shared: Shared, verb: str) -> None:
    job = await shared.submit(ANN)
    status, body = await shared.post(BOB, f"/api/v1/jobs/{job}/{verb}?wait=0")
    assert (status, body["detail"]) == (403, f"Job {job} belongs to {ANN}; {BOB} may not change it.")
    assert [request.verb for request in shared.endpoint.store.requests(9)] == ["submit"]
    for uid in (ANN, OLA, ADA):
        status, _ = await shared.post(uid, f"/api/v1/jobs/{job}/{verb}?wait=0")
        assert status == 202
    assert [request.by for request in shared.endpoint.store.requests(9)][1:] == [str(ANN), str(OLA), str(ADA)]


async def test_a_request_about_many_jobs_stops_at_the_jobs_of_others(shared: Shared) -> None:
    mine, theirs = await shared.submit(BOB), await shared.submit(ANN)

    async def cancel(uid: int, **where: Any) -> tuple[int, Any]:
        return await shared.post(uid, "/api/v1/jobs/cancel?wait=0", {"where": where, "dry_run": True})

    assert (await cancel(BOB, state=["waiting"]))[1]["jobs"] == {"PENDING": [mine]}
    assert (await cancel(BOB, ids=[mine, 99]))[1]["jobs"] == {"PENDING": [mine]}
    for where in ({"ids": [mine, theirs]}, {"ids": [[1, 99]]}, {"owner": str(ANN)}, {"owner": "all"}):
        assert (await cancel(BOB, **where))[0] == 403, where
        assert (await cancel(OLA, **where))[0] == 200, where


async def test_jobs_are_edited_by_their_owner_and_operators_alone(shared: Shared) -> None:
    mine, theirs = await shared.submit(BOB), await shared.submit(ANN)
    body = {"where": {"ids": [mine, theirs]}, "edit": {"priority": 5}}
    assert (await shared.post(BOB, "/api/v1/jobs/edit?wait=0", body))[0] == 403
    assert len(shared.endpoint.store.requests(9)) == 2, "the submissions"
    for uid, where in ((BOB, {"ids": [mine]}), (OLA, body["where"])):
        assert (await shared.post(uid, "/api/v1/jobs/edit?wait=0", {**body, "where": where}))[0] == 202


async def test_others_see_a_summary_without_what_a_job_runs(shared: Shared) -> None:
    secret = "s3cret"
    job = await shared.submit(ANN, name=secret, command=["python", secret], cwd=f"/{secret}", env={secret: "1"})
    shared.endpoint.store.set_state(job, JobState.FAILED, reason=f"ended with exit code 1: {secret}")
    for path in (f"/api/v1/jobs/{job}", f"/api/v1/jobs/{job}/explanation", "/api/v1/jobs", "/api/v1/gpus", "/"):
        shared.uid = BOB
        async with shared.endpoint.socket.get(path) as answer:
            assert answer.status == 200
            assert secret not in await answer.text(), path
    _, body = await shared.get(BOB, f"/api/v1/jobs/{job}")
    assert (body["owner"], body["state"], body["command"], body["kind"]) == (str(ANN), "FAILED", [], None)
    for uid in (ANN, OLA, ADA):
        assert (await shared.get(uid, f"/api/v1/jobs/{job}"))[1]["command"] == ["python", secret]


HIDDEN = {
    "job": "name project kind command log_path notify snapshot params reason cwd script script_sha256 git_sha git_dirty"
    " snapshot_folder snapshot_taken_from environment attempts verdict actual",
    "array": "name project command params verdict",
    "attempts": "reason log_path verdict actual",
    "actual": "partner_kinds slowdowns",
    "verdict": "numbers sentence",
}
SHOWN = {
    "job": "id state owner priority share max_slowdown gpus wanted_hosts time_limit_s preemptible submitted_at"
    " submitted_at_unix state_since state_since_unix started_at started_at_unix ended_at ended_at_unix cancel_requested"
    " attempt host hosts device device_name devices device_names partners exit_code after retry singleton begin_at"
    " begin_at_unix array task live position expected_start forecast dispatcher synced signal signal_before_s"
    " interactive umask declared_memory_bytes requeue_on_node_fail constraints most_gpus deadline_at deadline_at_unix"
    " blink idle_ok no_pause lend_cores alone retried raised_memory_bytes",
    "array": "id tasks count at_once states first owner priority submitted_at submitted_at_unix reason position"
    " expected_start dispatcher",
    "attempts": "number host device devices device_names promised_memory_bytes shares opened_memory_bytes launched_at"
    " started_at ended_at ending exit_code model_version forecast",
}
"""By what is shown of a job: the fields that others see as the owner does. Whoever adds one decides about it here."""


def check_summary(what: str, full: Any, seen: Any, fields: Collection[str] = ()) -> None:
    """The fields that differ between what the owner and another user see are the hidden ones."""
    hidden = set(HIDDEN[what].split()) & set(fields or full)
    assert {name for name in full if full[name] != seen[name]} == hidden
    if what in SHOWN:
        assert set(full) - set(SHOWN[what].split()) == hidden
    for part in hidden & HIDDEN.keys():
        pairs = (
            ((full[part], seen[part]),) if isinstance(full[part], dict) else zip(full[part], seen[part], strict=True)
        )
        for one, other in pairs:
            check_summary(part, one, other)


async def test_of_the_job_of_another_exactly_the_fields_that_are_no_secret_are_shown(shared: Shared) -> None:
    place = {"key": "0" * 16, "folder": "/s3cret", "taken_from": "/s3cret"}
    files = {
        "script": "s3cret.py",
        "script_sha256": "0" * 64,
        "git_sha": "s3cret",
        "git_dirty": True,
        "snapshot": place,
    }
    tasks = {"tasks": "0", "params": {"s3cret": ["s3cret"]}}
    texts = {"name": "s3cret", "project": "s3cret", "kind": "s3cret", "command": ["s3cret"], "cwd": "/s3cret"}
    job = await shared.submit(ANN, **texts, **files, array=tasks, env={"s3cret": "1"}, notify=["end:s3cret"])
    store = shared.endpoint.store
    store.set_devices(Device("gpu-0", "rack-3", "nvml", "NVIDIA H200", 141 * GIB))  # type: ignore[arg-type]
    refused = {"admitted": False, "rule": "UnsafePair", "device": None, "numbers": [["beside", f"{ANN}:s3cret.py"]]}
    store.set_state(job, JobState.PENDING, verdict=refused)
    for path in ("/api/v1/jobs?tasks=together", "/api/v1/arrays?ids=1"):
        [full], [seen] = [(await shared.get(uid, path))[1]["arrays"] for uid in (ANN, BOB)]
        check_summary("array", full, seen)
        assert "s3cret" not in json.dumps(seen)

    slower = PairSlowdown(kind=f"{ANN}:s3cret.py", value=1.1)
    outcome = AttemptOutcome(partner_kinds=(f"{ANN}:s3cret.py",), slowdowns=(slower,), peak_utilization_pct=61.0)
    start = attempt(
        job, "gpu-0", 1_800_000_000.0, forecast(61, 10), actual=outcome, reason="s3cret", log_path="/s3cret"
    )
    start.launch["verdict"] = refused
    store.set_attempts(start)
    store.set_state(job, JobState.FAILED, attempt=1, reason="s3cret")
    for path in (f"/api/v1/jobs/{job}", "/api/v1/jobs", f"/api/v1/jobs/{job}/explanation"):
        (_, full), (_, seen) = [await shared.get(uid, path) for uid in (ANN, BOB)]
        assert "s3cret" in json.dumps(full)
        assert "s3cret" not in json.dumps(seen), path
    [line], [seen_line] = [(await shared.get(uid, "/api/v1/jobs"))[1]["jobs"] for uid in (ANN, BOB)]
    check_summary("job", line, seen_line, JobLine.__struct_fields__)
    view, seen_view = [(await shared.get(uid, f"/api/v1/jobs/{job}"))[1] for uid in (ANN, BOB)]
    check_summary("job", view, seen_view)


async def test_lists_are_not_searched_for_names_and_kinds_of_others(shared: Shared) -> None:
    job = await shared.submit(ANN, name="s3cret", project="s3cret")
    for condition in ("name=s3*", "kind=*", "project=s3*"):
        seen = [(await shared.get(uid, f"/api/v1/jobs?{condition}"))[1]["jobs"] for uid in (ANN, BOB)]
        assert [[one["id"] for one in jobs] for jobs in seen] == [[job], []], condition


@pytest.mark.parametrize("state", [JobState.HELD, JobState.COMPLETED])
async def test_the_order_of_a_page_does_not_give_names_of_others_away(shared: Shared, state: JobState) -> None:
    jobs = [await shared.submit(uid, name=name) for uid, name in ((ANN, "m"), (BOB, "l"), (BOB, "n"))]
    for job in jobs:
        shared.endpoint.store.set_state(job, state)
    show = "waiting" if state is JobState.HELD else "ended"
    for uid, order in ((BOB, [1, 2, 3]), (OLA, [2, 1, 3])):
        shared.uid = uid
        async with shared.endpoint.socket.get(f"/queue?show={show}&sort=name") as answer:
            text = await answer.text()
        assert sorted(jobs, key=lambda job: text.index(f'href="/jobs/{job}"')) == order


async def test_output_and_events_are_for_those_who_see_the_job(shared: Shared) -> None:
    job = await shared.submit(ANN)
    assert (await shared.get(BOB, f"/api/v1/jobs/{job}/logs"))[0] == 403
    assert (await shared.get(BOB, f"/api/v1/events?job={job}"))[0] == 403
    assert (await shared.get(BOB, "/api/v1/events"))[0] == 403
    for uid in (ANN, OLA):
        assert (await shared.get(uid, f"/api/v1/jobs/{job}/logs"))[0] == 200


async def test_a_forecast_names_no_kind_of_others(shared: Shared) -> None:
    """`SmallModels` gives `ada:other.py` as the nearest kind."""
    shared.endpoint.store.set_devices(Device("gpu-0", "rack-3", "nvml", "NVIDIA H200", 141 * GIB))  # type: ignore[arg-type]
    job = await shared.submit(ANN, name="s3cret")
    path = f"/api/v1/predict?beside={job}"
    for uid, named in ((BOB, False), (OLA, True)):
        status, body = await shared.post(uid, path, submission())
        assert (status, "ada:other.py" in json.dumps(body), "s3cret" in json.dumps(body)) == (200, named, named)


async def test_beside_a_job_of_ones_own_no_kind_of_others_is_named(shared: Shared) -> None:
    """They are names of scripts, and any user may have a job that shares a device with another's."""
    store, own = shared.endpoint.store, f"{BOB}:mine.py"
    store.set_devices(Device("gpu-0", "rack-3", "nvml", "NVIDIA H200", 141 * GIB))  # type: ignore[arg-type]
    job = await shared.submit(BOB)
    refused = {"admitted": False, "rule": "UnsafePair", "device": None, "numbers": [["beside", "eve:s3cret.py"]]}
    slowdowns = tuple(PairSlowdown(kind=kind, value=1.1) for kind in ("eve:s3cret.py", own))
    outcome = AttemptOutcome(partner_kinds=("eve:s3cret.py", own), slowdowns=slowdowns)
    start = attempt(job, "gpu-0", 1_800_000_000.0, forecast(61, 10), actual=outcome)
    start.launch["verdict"] = refused
    store.set_attempts(start)
    store.set_state(job, JobState.PENDING, attempt=1, verdict=refused)
    pairs = {"pairs": [{"beside": kind, "newcomer": 1.1} for kind in ("eve:s3cret.py", own)]}
    store.tell("Launch", {"attempt": {"forecast": pairs}, "verdict": refused}, job)
    for uid, named in ((BOB, False), (OLA, True)):
        for path in (f"/api/v1/jobs/{job}", f"/api/v1/jobs/{job}/explanation", "/api/v1/jobs", f"/jobs/{job}"):
            shared.uid = uid
            async with shared.endpoint.socket.get(path) as answer:
                assert (answer.status, "s3cret" in await answer.text()) == (200, named), path
        _, view = await shared.get(uid, f"/api/v1/jobs/{job}")
        assert own in view["attempts"][-1]["actual"]["partner_kinds"]
        shared.uid = uid
        async with shared.endpoint.socket.get(f"/api/v1/events?after=0&job={job}") as answer:
            [(_, _, entry)] = await take(answer, 1)
        assert ("s3cret" in json.dumps(entry), own in json.dumps(entry)) == (named, True)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("project p:mine.py", ["project p:theirs.py"]),
        ("named", ["named"]),
        ("eve", []),
        (":eve:mine.py", []),
        (f"{BOB}:mine.py", []),
    ],
)
async def test_beside_a_job_of_a_project_the_kinds_of_that_project_are_named(
    shared: Shared, kind: str, seen: list[str]
) -> None:
    store, others = shared.endpoint.store, ("eve:s3cret.py", "project p:theirs.py", "named", ":eve:named")
    shared.endpoint.context.describe = lambda *_: (kind, "signature", {})
    job = await shared.submit(BOB)
    outcome = AttemptOutcome(partner_kinds=others)
    store.set_attempts(attempt(job, "gpu-0", 1_800_000_000.0, forecast(61, 10), actual=outcome))
    store.set_state(job, JobState.COMPLETED, attempt=1)
    assert (await shared.get(BOB, f"/api/v1/jobs/{job}"))[1]["actual"]["partner_kinds"] == seen


async def test_a_refusal_in_a_forecast_names_no_kind_of_others(shared: Shared) -> None:
    shared.endpoint.store.set_devices(Device("gpu-0", "rack-3", "nvml", "NVIDIA H200", 141 * GIB))  # type: ignore[arg-type]
    job = await shared.submit(ANN, command=["s3cret.py"])
    shared.endpoint.context.models = UnsafeModels()
    for uid, named in ((BOB, False), (OLA, True)):
        _, body = await shared.post(uid, f"/api/v1/predict?beside={job}", submission())
        assert (body["beside"][0]["verdict"]["rule"], "s3cret" in json.dumps(body)) == ("UnsafePair", named)


async def test_a_site_may_show_everything(shared: Shared) -> None:
    shared.endpoint.context.settings = replace(
        shared.endpoint.settings, api=replace(shared.endpoint.settings.api, others_jobs="full")
    )
    job = await shared.submit(ANN)
    assert (await shared.get(BOB, f"/api/v1/jobs/{job}"))[1]["command"] == ["python", "train.py"]
    assert (await shared.get(BOB, f"/api/v1/jobs/{job}/logs"))[0] == 200
    assert (await shared.post(BOB, f"/api/v1/jobs/{job}/cancel"))[0] == 403


class UnsafeModels(SmallModels):
    """No two kinds may share."""

    def explained_forecasts(self, *asked: Any) -> list[ExplainedForecast]:
        return [
            replace(
                one,
                forecast=replace(
                    one.forecast,
                    peak_utilization_pct=10.0,
                    pairs=tuple(replace(pair, unsafe=True) for pair in one.forecast.pairs),
                ),
            )
            for one in super().explained_forecasts(*asked)
        ]


def documented_roles() -> dict[tuple[str, str], Role]:
    """(method, path) -> the least role, of the calls that docs/security.md says are not for every user."""
    rows = re.findall(r"^\| (`[A-Z]+ /.*?) \| (operators|admins) ", SECURITY.read_text(), re.MULTILINE)
    roles = {"operators": Role.OPERATOR, "admins": Role.ADMIN}
    return {
        (method, path): roles[who] for calls, who in rows for method, path in re.findall(r"`([A-Z]+) ([^` ]+)`", calls)
    }


async def test_every_route_answers_exactly_the_roles_that_the_document_names(shared: Shared) -> None:
    documented = documented_roles()
    assert documented == {(route.method, route.path): route.role for route in ROUTES if route.role is not Role.USER}
    for (method, path), least in documented.items():
        for uid, role in ((ANN, Role.USER), (OLA, Role.OPERATOR), (ADA, Role.ADMIN)):
            if method == "POST" and role >= least:
                continue  # it would train
            shared.uid = uid
            async with shared.endpoint.socket.request(method, path.replace("{id}", "1")) as answer:
                assert (answer.status == 403) is (role < least), (method, path, role)
                assert ("it takes the role" in await answer.text()) is (role < least)


def status_for(uid: int, path: Path) -> int:
    """What the endpoint on this socket answers to a process of that user; 0 if it may not connect.

    A fork, because the interpreter may be in a folder that this user may not enter.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(b"GET /api/v1/queue HTTP/1.1\r\nHost: gpuq\r\nConnection: close\r\n\r\n")
                os.write(writing, connection.recv(4096).split()[1])
        finally:
            os._exit(0)
    os.close(writing)
    answer = os.read(reading, 16)
    os.close(reading)
    os.waitpid(child, 0)
    return int(answer or 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
async def test_a_real_process_of_another_user_may_use_the_shared_socket_only(settings: Settings) -> None:
    # Not below pytest's own folders, which are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="gq-"))
    folder.chmod(0o755)
    path = folder / "api.sock"
    try:
        api = replace(settings.api, shared_socket=str(path))
        async with started(replace(settings, api=api), FaultyStore(), MemoryStream()) as endpoint:
            assert await asyncio.to_thread(status_for, UNKNOWN, path) == 200
            assert await asyncio.to_thread(status_for, UNKNOWN, endpoint.settings.home.api_socket) == 0
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()


@pytest.mark.parametrize(("uid", "status"), [(BOB, 403), (ANN, 201), (OLA, 201)])
async def test_only_who_is_shown_a_job_may_wait_for_it(shared: Shared, uid: int, status: int) -> None:
    job = await shared.submit(ANN)
    answered, body = await shared.post(uid, "/api/v1/jobs", submission(after=[f"any:{job}"]))
    assert answered == status
    assert status == 201 or "belongs to another user" in body["detail"]
