"""Quotas: seen by those they concern, set by admins, and kept by submissions."""

from __future__ import annotations

import asyncio
import time

import msgspec

from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.quota import EVERYONE, Account, Quota, QuotaScope
from gpuq.messages.live import AccountUse, LiveView
from tests.api.conftest import Endpoint
from tests.api.support import submission
from tests.api.test_visibility import ADA, ANN, BOB, OLA, Shared, shared  # noqa: F401 - a fixture

EVERY_USER = Account(QuotaScope.USER, EVERYONE)
VISION = Account(QuotaScope.PROJECT, "vision")


def limit(endpoint: Endpoint, *quotas: Quota) -> None:
    endpoint.store.commit(Commit(quotas={quota.account: quota for quota in quotas}))


async def test_an_admin_sets_and_removes_quotas(shared: Shared) -> None:  # noqa: F811
    wanted = {"scope": "user", "name": "ann", "device_hours": 100}
    assert (await shared.post(ADA, "/api/v1/quotas", wanted))[0] == 202
    assert (await shared.post(ADA, "/api/v1/quotas/remove", {"scope": "user", "name": "bob"}))[0] == 404
    limit(shared.endpoint, Quota(Account(QuotaScope.USER, "bob"), running_devices=1))
    assert (await shared.post(ADA, "/api/v1/quotas/remove", {"scope": "user", "name": "bob"}))[0] == 202
    limits = {"running_devices": None, "waiting_jobs": None, "device_hours": 100.0, "window_s": 604_800.0}
    assert [(request.verb, request.by, request.body) for request in shared.endpoint.store.requests(9)] == [
        ("quota", str(ADA), {"quota": {"account": ["user", "ann"], **limits}}),
        ("remove_quota", str(ADA), {"account": ["user", "bob"]}),
    ]


async def test_users_see_their_own_use_beside_the_limits_and_operators_all(shared: Shared) -> None:  # noqa: F811
    endpoint = shared.endpoint
    limit(endpoint, Quota(EVERY_USER, running_devices=4), Quota(VISION, waiting_jobs=9))
    uses = (AccountUse("user", str(ANN), 3, 1.5), AccountUse("user", str(BOB), 1, 2.0))
    endpoint.stream.picture = msgspec.json.encode(LiveView(at=time.time(), uses=uses))
    await shared.submit(ANN, project="vision")
    await shared.submit(BOB, project="secret")

    status, [project, user] = await shared.get(ANN, "/api/v1/quotas")
    assert status == 200
    assert (project["name"], project["waiting_jobs"], project["waiting_jobs_limit"]) == ("vision", 1, 9)
    assert (user["name"], user["own"], user["running_devices"], user["running_devices_limit"]) == (
        str(ANN),
        False,
        3,
        4,
    )
    assert (user["device_hours"], user["device_hours_limit"], user["waiting_jobs"]) == (1.5, None, 1)
    _, every = await shared.get(OLA, "/api/v1/quotas")
    assert {quota["name"] for quota in every} == {"*", "vision", "secret", str(ANN), str(BOB), str(OLA)}


async def test_use_is_unknown_while_no_dispatcher_says_it(endpoint: Endpoint) -> None:
    limit(endpoint, Quota(EVERY_USER, running_devices=4))
    _, quotas = await endpoint.get("/api/v1/quotas")
    assert [quota["running_devices"] for quota in quotas] == [None] * len(quotas)


async def test_a_submission_beyond_the_waiting_limit_is_refused_with_the_numbers(endpoint: Endpoint) -> None:
    limit(endpoint, Quota(EVERY_USER, waiting_jobs=2))
    assert (await endpoint.post("/api/v1/jobs", [submission(), submission(hold=True)]))[0] == 201
    status, problem = await endpoint.post("/api/v1/jobs", submission())
    assert (status, problem["exit_code"], problem["type"]) == (403, 5, "urn:gpuq:over-quota")
    assert "has 2 waiting jobs; 1 more would exceed the quota of 2." in problem["detail"]
    assert "cancel some" in problem["hint"]


async def test_a_batch_is_taken_or_refused_as_a_whole(endpoint: Endpoint) -> None:
    limit(endpoint, Quota(VISION, waiting_jobs=2))
    batch = [submission(project="vision") for _ in range(3)]
    assert (await endpoint.post("/api/v1/jobs", batch))[0] == 403
    assert not endpoint.store.job_rows
    assert (await endpoint.post("/api/v1/jobs", batch[:2]))[0] == 201


async def test_a_job_that_wants_more_devices_than_it_could_ever_have_is_refused(endpoint: Endpoint) -> None:
    limit(endpoint, Quota(EVERY_USER, running_devices=2))
    status, problem = await endpoint.post("/api/v1/jobs", submission(gpus=3))
    assert (status, problem["exit_code"]) == (403, 5)
    assert "may have 2 at a time" in problem["detail"]


async def test_the_refusal_of_one_user_does_not_refuse_those_who_submit_at_the_same_time(
    shared: Shared,  # noqa: F811
) -> None:
    """Submissions that come at once share one transaction."""
    limit(shared.endpoint, Quota(Account(QuotaScope.USER, str(ANN)), waiting_jobs=0))
    context = shared.endpoint.context
    one, other = (_record(context, uid) for uid in (ANN, BOB))
    refused, taken = await asyncio.gather(
        context.committer.add([one]), context.committer.add([other]), return_exceptions=True
    )
    assert isinstance(refused, Exception)
    assert taken == [1]


def _record(context, uid):  # type: ignore[no-untyped-def]
    from gpuq.api.handlers.submit import records
    from gpuq.api.identity import Caller, Role
    from gpuq.messages.submission import Submission

    caller = Caller(str(uid), uid, "socket", Role.USER)
    return records(context, caller, [msgspec.convert(submission(), Submission)])[0]


async def test_the_list_of_a_project_shows_users_their_own_jobs_only(shared: Shared) -> None:  # noqa: F811
    mine = await shared.submit(ANN, project="vision")
    await shared.submit(BOB, project="vision")
    await shared.submit(ANN)
    _, page = await shared.get(ANN, "/api/v1/jobs?project=vision")
    assert [job["id"] for job in page["jobs"]] == [mine]
    _, page = await shared.get(OLA, "/api/v1/jobs?project=vision")
    assert len(page["jobs"]) == 2
