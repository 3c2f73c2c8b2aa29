"""Probes, metrics, models, policies, the document."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuq.api.contract.route import methods
from gpuq.api.handlers import models, policies
from gpuq.api.kept import SharedResults
from gpuq.api.live import LiveReader
from gpuq.api.routes import ROUTES, openapi
from gpuq.core.state.device import Device, DeviceId, HostId, Vitals
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobState
from gpuq.errors import SchemaMismatch, Unreachable
from gpuq.learn.history.drift import Drift
from tests.api.conftest import Endpoint
from tests.api.support import MemoryStream, afternoon, picture
from tests.learn.world import GIB, Work, run


async def ready(endpoint: Endpoint) -> tuple[int, dict[str, object]]:
    endpoint.context.live._last, endpoint.context.live._pinged_at = None, float("-inf")
    status, body = await endpoint.get("/readyz")
    return status, body


async def test_readyz_names_what_is_missing_in_fixed_words(endpoint: Endpoint) -> None:
    async with endpoint.tcp.get("/livez") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")
    assert await ready(endpoint) == (503, {"ready": False, "database": "ok", "redis": "ok", "dispatcher": "absent"})
    endpoint.stream.picture = picture(time.time())
    assert (await ready(endpoint))[0] == 200
    endpoint.stream.picture = picture(time.time() - 100)
    assert (await ready(endpoint))[1]["dispatcher"] == "stale"
    endpoint.stream.picture = picture(time.time(), shares_redis=True)
    assert (await ready(endpoint))[1]["redis"] == "shared"
    for word in ("refused", "full", "unwritable"):
        endpoint.stream.fault = Unreachable(sign=word)
        assert (await ready(endpoint))[1]["redis"] == word
    endpoint.stream.down = True
    assert (await ready(endpoint))[1]["redis"] == "unreachable"
    for error, word in (
        (SchemaMismatch("secret"), "schema"),
        (Unreachable("secret"), "unreachable"),
        (OSError("secret"), "unreachable"),
    ):
        endpoint.store.refuse = error
        status, body = await ready(endpoint)
        assert (status, body["database"]) == (503, word)
        assert "secret" not in str(body)


async def test_reads_of_a_silent_database_are_answered_with_503(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuq.api.context.ANSWER_WITHIN_S", 0.2)
    gate = threading.Event()
    for call in ("last_seq", "job"):
        monkeypatch.setattr(endpoint.store, call, lambda *_: gate.wait(60))
    try:
        shown, probed = await asyncio.gather(endpoint.get("/api/v1/jobs/1"), endpoint.get("/readyz"))
    finally:
        gate.set()
    assert (shown[0], shown[1]["detail"]) == (503, "The database has not answered for 0.2 s.")
    assert (probed[0], probed[1]["database"]) == (503, "unreachable")


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
async def test_a_dispatcher_that_ended_is_noticed_in_time_although_the_clock_was_set(step_s: float) -> None:
    stream, now, step = MemoryStream(), 100.0, 0.0
    reader = LiveReader(stream, lambda: now + step, stale_after_s=10.0, monotonic=lambda: now)
    stream.picture = picture(now)
    assert (await reader.read()).dispatcher == "ok"
    step, now = step_s, now + 5.0
    assert (await reader.read()).dispatcher == "ok"
    stream.picture, now = None, now + 5.1
    assert (await reader.read()).dispatcher == "stale"


async def test_probes_that_anyone_sends_make_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now, writes = MemoryStream(), 100.0, []

    async def ping() -> None:
        writes.append(now)
        await asyncio.sleep(0)

    monkeypatch.setattr(stream, "ping", ping)
    reader = LiveReader(stream, time.time, stale_after_s=10.0, monotonic=lambda: now)
    for now in (100.0, 100.1, 100.15, 100.3):  # noqa: B007 - it is the clock of the reader
        assert [sign for _, sign in await asyncio.gather(reader.probe(), reader.probe())] == ["ok", "ok"]
    assert writes == [100.0, 100.3]


async def test_a_redis_that_does_not_answer_is_asked_once_by_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question takes seconds where the network drops packets, and systems that probe wait for a few only."""
    stream = MemoryStream()
    stream.fault = Unreachable("Redis does not answer.")

    async def asked_again() -> None:
        pytest.fail("it was asked again")

    monkeypatch.setattr(stream, "view", asked_again)
    live, sign = await LiveReader(stream, time.time, stale_after_s=10.0).probe()
    assert (live.dispatcher, sign) == ("absent", "unreachable")


async def test_metrics(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    async with endpoint.socket.get("/metrics") as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    jobs = {sample.labels["state"]: sample.value for sample in families["gpuq_jobs"].samples}
    assert (jobs["RUNNING"], jobs["PENDING"], jobs["PREEMPTED"]) == (5, 4, 0)
    assert families["gpuq_jobs_submitted"].samples[0].value == 15
    finished = {sample.labels["outcome"]: sample.value for sample in families["gpuq_jobs_finished"].samples}
    assert finished["completed"] == 3
    used = families["gpuq_gpu_utilization_ratio"].samples
    assert used[0].value == 0.84
    assert set(used[0].labels) == {"gpu", "host"}
    assert families["gpuq_gpu_jobs"].samples[0].value == 2
    assert families["gpuq_redis_up"].samples[0].value == 1
    assert families["gpuq_dispatcher_epoch"].samples[0].value == 4
    assert families["gpuq_model_info"].samples[0].labels == {"version": "m-7"}
    assert {label for family in families.values() for sample in family.samples for label in sample.labels} <= {
        "state", "outcome", "gpu", "host", "version",
    }  # fmt: skip
    for family in families.values():
        assert family.documentation


async def test_jobs_are_counted_once_for_all_who_look_within_a_second(endpoint: Endpoint) -> None:
    """A count takes 0.3 s with a million jobs, and ten open pages ask for twenty a second."""
    counted = 0
    count = endpoint.store.count_by_state

    def counting() -> dict[JobState, int]:
        nonlocal counted
        counted += 1
        return count()

    endpoint.store.count_by_state = counting  # type: ignore[method-assign]
    now = 100.0
    endpoint.context.once = SharedResults(lambda: now)
    for now in (100.0, 100.5, 101.0, 101.5):  # noqa: B007 - the clock
        async with endpoint.socket.get("/metrics") as answer:
            assert answer.status == 200
    assert counted == 2


async def test_metrics_have_the_vitals_that_a_device_reports(
    endpoint: Endpoint,
) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    vitals = Vitals(412.5, 9e6, 66.0, 71.0, None, ("power_cap",), ((31, 2), (79, 1)))
    live["devices"][0] |= {"unwell": "XID 79: it has fallen off the bus", "vitals": vitals}
    endpoint.stream.picture = msgspec.json.encode(live)
    async with endpoint.socket.get("/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}

    def reply(name: str) -> list[float]:
        return [sample.value for sample in families[name].samples if sample.name in (name, f"{name}_total")]

    assert reply("gpuq_gpu_power_watts") == [412.5]
    assert reply("gpuq_gpu_energy_joules") == [9e6]
    assert reply("gpuq_gpu_temperature_celsius") == [66]
    assert reply("gpuq_gpu_sm_activity_ratio") == [pytest.approx(0.71)]
    assert reply("gpuq_gpu_memory_bandwidth_ratio") == []
    assert reply("gpuq_gpu_unwell")[0] == 1
    assert [sample.labels["reason"] for sample in families["gpuq_gpu_throttled"].samples] == ["power_cap"]
    xids = {sample.labels["xid"]: sample.value for sample in families["gpuq_gpu_xid_errors"].samples}
    assert xids == {"31": 2, "79": 1}
    device = next(one for one in (await endpoint.get("/api/v1/gpus"))[1] if one["unwell"])
    assert (device["power_watts"], device["throttling"], device["xids"]) == (412.5, ["power_cap"], {"31": 2, "79": 1})


async def test_the_age_of_the_last_report_goes_on_while_a_host_is_silent(endpoint: Endpoint) -> None:
    """Its devices have no reading by then. A host that was not heard since the dispatcher began has no known age."""
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    for device in live["devices"]:
        device["read_at"] = None
    live["hosts"] = [{"name": "rack-3", "reported_at": live["at"] - 90}, {"name": "rack-4"}]
    endpoint.stream.picture = msgspec.json.encode(live)
    async with endpoint.socket.get("/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    (silent,) = families["gpuq_worker_heartbeat_age_seconds"].samples
    assert (silent.labels, silent.value) == ({"host": "rack-3"}, pytest.approx(90, abs=5))


def drifting() -> dict[str, Any]:
    """What `Drift.report` says after three kinds were watched, one of which needs ever more."""
    drift = Drift(0.95)
    for n in range(60):
        predicted = Forecast(50.0, GIB, 2 * GIB, model_version="m-7")
        ratio = 3 if n % 3 == 0 else 1
        work = Work(f"net{'abc'[n % 3]}", 8, 55.0, GIB)
        drift.learn(replace(run(work, n, random.Random(n), peak_memory_bytes=ratio * GIB), forecast=predicted))
    return drift.report()


async def test_drift_is_in_metrics_and_in_models(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    endpoint.stream.picture = msgspec.json.encode({**live, "drift": drifting()})
    async with endpoint.socket.get("/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    (covered,) = families["gpuq_forecast_memory_coverage_ratio"].samples
    assert covered.labels == {}, "a kind has its user and script"
    assert 0.5 < covered.value < 0.8
    assert families["gpuq_forecast_promised_ratio"].samples[0].value == 0.95
    assert families["gpuq_forecast_kinds_in_alarm"].samples[0].value == 1
    (widened,) = families["gpuq_forecast_bound_widened_ratio"].samples
    assert widened.value >= 1
    status, reply = await endpoint.get("/api/v1/models")
    assert status == 200
    assert reply["drift"]["kinds"][0]["alarm"]


async def test_metrics_leave_out_what_is_unknown(endpoint: Endpoint) -> None:
    endpoint.stream.down = True
    async with endpoint.socket.get("/metrics") as answer:
        text = await answer.text()
    assert "gpuq_redis_up 0.0" in text
    assert "gpuq_gpu" not in text
    assert "gpuq_schedule" not in text


async def test_models(endpoint: Endpoint) -> None:
    assert await endpoint.get("/api/v1/models") == (200, {"serving": "m-7", "versions": ["m-6", "m-7"]})


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the trainer's place: its text is written by the test."""
    monkeypatch.setattr(models, "MODULE", "trainer_of_the_test")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "trainer_of_the_test.py"


async def test_training_returns_the_trainers_json(endpoint: Endpoint, trainer: Path) -> None:
    trainer.write_text(
        "import sys, json, os; print('talk'); print(json.dumps([sys.argv[1:], os.environ['GPUQ_HOME']]))"
    )
    home = str(endpoint.settings.home.root)
    assert await endpoint.post("/api/v1/models/train") == (200, [[], home])
    assert await endpoint.post("/api/v1/models/rollback") == (200, [["--rollback"], home])


async def test_a_trainer_that_fails_is_an_error_without_its_traceback(endpoint: Endpoint, trainer: Path) -> None:
    trainer.write_text(
        "import sys; sys.stderr.write('Traceback (most recent call last):\\nX: nothing to roll back to\\n'); sys.exit(1)"
    )
    status, reply = await endpoint.post("/api/v1/models/rollback")
    assert status == 500
    assert "nothing to roll back to" in reply["detail"]
    assert "Traceback" not in str(reply)


async def test_one_training_at_a_time(endpoint: Endpoint, trainer: Path, tmp_path: Path) -> None:
    trainer.write_text(
        f"import pathlib, time; pathlib.Path({str(tmp_path / 'on')!r}).touch()\n"
        f"while not pathlib.Path({str(tmp_path / 'off')!r}).exists(): time.sleep(0.01)\nprint('{{}}')"
    )
    first = asyncio.create_task(endpoint.post("/api/v1/models/train"))
    async with asyncio.timeout(60):
        while not (tmp_path / "on").exists():
            await asyncio.sleep(0.01)
    status, reply = await endpoint.post("/api/v1/models/train")
    assert (status, reply["exit_code"]) == (409, 6)
    (tmp_path / "off").touch()
    assert await first == (200, {})


async def test_the_document_names_every_route_and_nothing_else(endpoint: Endpoint) -> None:
    status, document = await endpoint.get("/api/v1/openapi.json")
    assert status == 200
    assert document["openapi"].startswith("3.1")
    written = {(method.upper(), path) for path, found in document["paths"].items() for method in found}
    assert written == {(route.method, route.path) for route in ROUTES}
    ids = [operation["operationId"] for found in document["paths"].values() for operation in found.values()]
    assert len(ids) == len(set(ids))


async def test_the_router_serves_the_table_and_nothing_else(endpoint: Endpoint) -> None:
    from gpuq.api.app import make_app

    app = make_app(replace(endpoint.context))
    served = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None}
    assert served == {(method, route.path) for route in ROUTES for method in methods(route)}


def test_every_reference_in_the_document_leads_somewhere() -> None:
    text = openapi().decode()
    document = json.loads(text)
    names = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert names == set(document["components"]["schemas"])
    assert {"Submission", "JobView", "Problem", "DeviceView"} <= names


def test_generators_of_clients_read_the_document() -> None:
    """`items: false` after `prefixItems` is sound, and openapi-python-client takes the whole document for unsound."""
    assert "false" not in re.findall(r'"items":(\w+)', openapi().decode())


async def test_version(endpoint: Endpoint) -> None:
    import gpuq

    assert await endpoint.get("/version") == (200, {"version": gpuq.__version__, "api": "v1"})


def with_policy(endpoint: Endpoint, fault: dict[str, Any] | None) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    live["dispatcher"]["policy"] = {"chosen": "fair", "serving": "packed" if fault else "fair", "fault": fault}
    endpoint.stream.picture = msgspec.json.encode(live)


async def test_policies_lists_the_chosen_and_the_serving_policy(endpoint: Endpoint) -> None:
    status, reply = await endpoint.get("/api/v1/policies")
    assert (status, reply["chosen"], reply["serving"], reply["fault"]) == (200, "packed", None, None)
    assert "packed" in {policy["name"] for policy in reply["policies"]}


async def test_all_who_ask_for_the_policies_share_one_process(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a second of a core: a loop of requests took all of them."""
    started: list[str] = []
    start, now, changed_at = endpoint.context.start, [1000.0], [1]

    async def counted(module: str) -> Any:
        started.append(module)
        return await start(module)

    monkeypatch.setattr(endpoint.context, "start", counted)
    monkeypatch.setattr(endpoint.context.once, "_clock", lambda: now[0])
    monkeypatch.setattr(policies, "_changed_at", lambda folder: changed_at[0])
    replies = await asyncio.gather(*(endpoint.get("/api/v1/policies") for _ in range(20)))
    assert ([status for status, _ in replies], len(started)) == ([200] * 20, 1)
    now[0] += 50
    assert (await endpoint.get("/api/v1/policies"), len(started)) == (replies[0], 1)
    changed_at[0] += 1  # a policy was installed
    assert (await endpoint.get("/api/v1/policies"), len(started)) == (replies[0], 2)


async def test_a_replaced_policy_is_in_policies_metrics_and_page(endpoint: Endpoint) -> None:
    with_policy(endpoint, {"reason": "it failed: <b>KeyError</b>", "at": 1000.0})
    _, reply = await endpoint.get("/api/v1/policies")
    assert (reply["chosen"], reply["serving"]) == ("fair", "packed")
    assert reply["fault"] == {"reason": "it failed: <b>KeyError</b>", "at": "1970-01-01T00:16:40.000Z"}
    async with endpoint.socket.get("/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    assert families["gpuq_policy_replaced"].samples[0].value == 1
    assert families["gpuq_policy_info"].samples[0].labels == {"chosen": "fair", "serving": "packed"}
    async with endpoint.socket.get("/") as answer:
        page = await answer.text()
    assert "the policy fair is replaced by packed: it failed: &lt;b&gt;" in page


async def test_a_policy_that_serves_as_chosen_is_no_alarm(endpoint: Endpoint) -> None:
    with_policy(endpoint, None)
    async with endpoint.socket.get("/metrics") as answer:
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    assert families["gpuq_policy_replaced"].samples[0].value == 0


async def test_devices_have_an_index_and_a_name_and_stand_in_that_order(endpoint: Endpoint) -> None:
    gpus = [Device(DeviceId(f"GPU-{n}"), HostId("a"), "nvml", "NVIDIA H100", 80 * GIB, index=str(n)) for n in (10, 9)]
    endpoint.store.set_devices(*gpus)
    _, reply = await endpoint.get("/api/v1/gpus")
    assert [(one["name"], one["index"]) for one in reply] == [("gpu9", "9"), ("gpu10", "10")]
    endpoint.store.set_devices(*gpus, Device(DeviceId("b/cpu0"), HostId("b"), "cpu", "cpu-2", GIB, index="0"))
    endpoint.context._devices_read_at = float("-inf")
    _, reply = await endpoint.get("/api/v1/gpus")
    assert [one["name"] for one in reply] == ["a:gpu9", "a:gpu10", "b:cpu0"]
