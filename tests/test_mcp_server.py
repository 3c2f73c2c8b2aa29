"""`gpuq mcp` as an agent uses it: the official SDK starts the command, on a whole gpuq with real jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from gpuq.client import AsyncClient
from gpuq.mcp_server import Agent, server_of
from tests.support.forked import PROGRAM
from tests.support.site import Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=1) as site:
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
    (tmp_path / "train.py").write_text("import sys; print('lr', sys.argv[2])\n")
    command = StdioServerParameters(
        command=PROGRAM, args=["mcp", "--budget", "1h"], env={**site.env, "PATH": site.env["PATH"]}, cwd=tmp_path
    )
    async with Client(command) as agent:
        assert {tool.name for tool in (await agent.list_tools()).tools} == {
            "devices", "queue", "job", "explain", "predict", "submit", "wait", "logs", "cancel",
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
        assert (await call(agent, "job", job_id=job["id"]))["name"] == "mine"


async def test_an_agent_without_a_budget_only_looks(site: Site) -> None:
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
            assert gpuq.spent_s == 60.0
            assert (await call(agent, "cancel", job_id=own["id"]))["id"] == own["id"]
            assert (await call(agent, "wait", job_id=own["id"]))["state"] == "CANCELLED"
    site.request("POST", f"/api/v1/jobs/{others}/cancel")
