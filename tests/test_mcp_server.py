"""`gpuq mcp` as an agent uses it: the official SDK starts the command, on a whole gpuq with real jobs.

The SDK is imported in the tests: every process of the suite collects this file, and it takes half a second.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuq.cli.client import Lost
from gpuq.client import AsyncClient, JobInfo, submission
from gpuq.errors import BadInput, Conflict, Failure, NeverFits, NotPermitted, OverQuota, Unreachable
from gpuq.states import JobState
from tests.cli import samples
from tests.support.forked import PROGRAM
from tests.support.site import Site

if TYPE_CHECKING:
    from mcp import Client

INSPECTOR = shutil.which("mcp-inspector")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=1, admission_memory_headroom=0.95) as site:
        yield site


async def call(agent: Client, tool: str, **arguments: Any) -> Any:
    """What the tool returns; the sentence of its error, if it fails."""
    result = await agent.call_tool(tool, arguments)
    if result.is_error:
        return result.content[0].text
    assert result.structured_content is not None
    return result.structured_content.get("result", result.structured_content)


async def test_an_agent_looks_predicts_submits_within_its_budget_and_reads_the_output(
    site: Site, tmp_path: Path
) -> None:
    from mcp import Client, StdioServerParameters

    (tmp_path / "train.py").write_text("import sys; print('lr', sys.argv[2])\n")
    command = StdioServerParameters(
        command=PROGRAM, args=["mcp", "--budget", "1h"], env={**site.env, "PATH": site.env["PATH"]}, cwd=tmp_path
    )
    async with Client(command) as agent:
        assert {tool.name for tool in (await agent.list_tools()).tools} == {
            "devices", "queue", "jobs", "job", "explain", "predict", "submit", "wait", "logs", "cancel",
        }  # fmt: skip
        assert [device["name"] for device in await call(agent, "devices")]
        assert "memory" in str(await call(agent, "predict", command=["train.py"]))
        script = [sys.executable, "train.py", "--lr", "0.1"]

        job = await call(agent, "submit", command=script, time_limit="40m", name="mine")
        too_long = await call(agent, "submit", command=script, time_limit="30m")
        assert "This job may take 0.50 device-hours; 0.33 of the 1.00 granted are left. Ask for less time" in too_long
        ended = await call(agent, "wait", job_id=job["id"])

        assert (ended["state"], ended["exit_code"]) == ("COMPLETED", 0)
        assert await call(agent, "logs", job_id=job["id"]) == "lr 0.1\n"
        assert await call(agent, "jobs", state="ended", name="mi*") == [ended]
        assert await call(agent, "jobs", name="other") == []
        assert (await call(agent, "job", job_id=job["id"]))["name"] == "mine"


async def test_an_agent_without_a_budget_only_looks(site: Site) -> None:
    from mcp import Client

    from gpuq.mcp_server import Agent, server_of

    others = site.submit("/bin/sleep", "60")
    async with AsyncClient(f"unix://{site.home}/run/api.sock") as client:
        gpuq = Agent(client, granted_s=0.0)
        async with Client(server_of(gpuq)) as agent:
            assert [job["id"] for job in await call(agent, "queue")] == [others]
            assert "0.00 of the 0.00 granted" in await call(agent, "submit", command=["true"], time_limit="1m")
            assert "was not submitted here" in await call(agent, "cancel", job_id=others)
            assert (await call(agent, "wait", job_id=others, seconds=0.1))["state"] in {
                "PENDING",
                "STARTING",
                "RUNNING",
            }
            assert "There is no job 999" in await call(agent, "explain", job_id=999)

            gpuq.granted_s = 60.0
            assert "no command on PATH" in await call(agent, "submit", command=["nothing-such"], time_limit="1m")
            assert gpuq.spent_s == 0.0, "what was not queued is not charged"
            own = await call(agent, "submit", command=["sleep", "60"], time_limit="1m")
            assert [job["id"] for job in await call(agent, "queue")] == [others, own["id"]]
            assert [job["id"] for job in await call(agent, "queue", limit=1)] == [others]
            assert gpuq.spent_s == 60.0
            assert (await call(agent, "cancel", job_id=own["id"]))["id"] == own["id"]
            assert (await call(agent, "wait", job_id=own["id"]))["state"] == "CANCELLED"
    site.request("POST", f"/api/v1/jobs/{others}/cancel")


def test_of_a_job_that_waits_the_reason_and_the_expected_start_are_given() -> None:
    from gpuq.mcp_server import _summary

    start = {"p50_unix": 1.0, "p90_unix": 2.0, "checked": True}
    record = samples.job(48, reason="Resources", position=1, expected_start=start)
    given = _summary(JobInfo(48, record["name"], JobState.PENDING, None, "Resources", record))
    assert (given["reason"], given["position"], given["expected_start"]) == ("Resources", 1, start)
    assert "device_names" not in given
    record = samples.running(42)
    assert _summary(JobInfo(42, "", JobState.RUNNING, None, None, record))["device_names"] == record["device_names"]


class Answers:
    """A client whose submission and whose next question have these answers."""

    def __init__(self, submitted: int | BaseException, asked: BaseException) -> None:
        self.submitted, self.asked = submitted, asked

    async def submit_for_id(self, *_: str, **__: object) -> int:
        if isinstance(self.submitted, BaseException):
            raise self.submitted
        return self.submitted

    async def job(self, _: int) -> JobInfo:
        raise self.asked

    async def submit(self, *words: str, **options: object) -> JobInfo:
        return await self.job(await self.submit_for_id(*words, **options))


async def test_a_progress_bar_of_megabytes_is_given_by_its_end() -> None:
    from gpuq.mcp_server import Agent

    class Client(AsyncClient):
        async def logs(self, job: Any, **_: Any) -> str:
            return "\r".join(f"step {n}" for n in range(10**5))

    text = await Agent(Client(), 0.0).logs(1)
    assert (len(text), text[-10:]) == (32_768, "step 99999")


async def test_what_may_have_been_queued_is_charged() -> None:
    from gpuq.mcp_server import Agent

    agent = Agent(Answers(12, Unreachable()), granted_s=3600.0)  # type: ignore[arg-type]
    assert await agent.submit(["train.py"], "10m") == {"id": 12}, "the agent need not submit it again"
    assert (agent.spent_s, agent.submitted) == (600.0, {12})
    for error, charged_s in (
        *((refusal(), 0.0) for refusal in (BadInput, NotPermitted, OverQuota, Conflict, NeverFits)),
        (Unreachable("No gpuq is there."), 0.0),
        *((unknown, 600.0) for unknown in (Lost(), Failure(), asyncio.CancelledError())),
    ):
        agent = Agent(Answers(error, error), granted_s=3600.0)  # type: ignore[arg-type]
        with pytest.raises(type(error)):
            await agent.submit(["train.py"], "10m")
        assert agent.spent_s == charged_s, error


async def test_a_script_of_the_agent_cannot_ask_for_retries_beyond_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuq.mcp_server import Agent

    (tmp_path / "train.py").write_text("#GPUQ -t 9h --retry any:9999 --requeue-on-timeout\n")
    monkeypatch.chdir(tmp_path)
    bodies = []

    class Client(AsyncClient):
        async def submit_for_id(self, *words: Any, **options: Any) -> int:
            bodies.append(submission(words, options))  # type: ignore[arg-type]
            return 12

        async def job(self, _: Any) -> JobInfo:
            raise Unreachable

    await Agent(Client(), granted_s=3600.0).submit(["train.py"], "10m")
    assert (bodies[0]["time_limit_s"], "retry" in bodies[0]) == (600.0, False)


@pytest.mark.soak
@pytest.mark.skipif(
    INSPECTOR is None,
    reason="needs mcp-inspector on PATH (npm install node@22 @modelcontextprotocol/inspector), some 8 s for each call",
)
def test_the_inspector_of_the_protocol_lists_and_calls_each_tool(site: Site, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")

    def inspect(*words: str) -> Any:
        server = ["-e", f"GPUQ_HOME={site.home}", PROGRAM, "mcp", "--budget", "1h"]
        done = subprocess.run(
            [str(INSPECTOR), "--cli", *server, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=tmp_path,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def called(tool: str, **arguments: object) -> Any:
        given = [f"--tool-arg={name}={json.dumps(value)}" for name, value in arguments.items()]
        result = inspect("--method", "tools/call", "--tool-name", tool, *given)
        return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]

    tools = {tool["name"]: tool for tool in inspect("--method", "tools/list")["tools"]}
    assert all(tool["description"] and tool["inputSchema"] and tool["outputSchema"] for tool in tools.values())
    command = [sys.executable, "train.py"]
    job = called("submit", command=command, time_limit="5m")["id"]
    answers = {
        "submit": "30.00 device-hours; 1.00 of the 1.00" in called("submit", command=command, time_limit="30h"),
        "wait": called("wait", job_id=job, seconds=60)["exit_code"] == 0,
        "logs": called("logs", job_id=job)["result"] == "hello\n",
        "job": called("job", job_id=job)["id"] == job,
        "explain": called("explain", job_id=job)["state"] == "COMPLETED",
        "predict": "forecast" in called("predict", command=command),
        "devices": len(called("devices")["result"]) == 1,
        "queue": called("queue")["result"] == [],
        # Each call is a server of its own, which has submitted nothing.
        "cancel": "was not submitted here" in called("cancel", job_id=job),
    }
    assert answers == dict.fromkeys(tools, True)
