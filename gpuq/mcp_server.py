"""`gpuq mcp`: gpuq for coding agents, by the Model Context Protocol on standard input and output.

An agent may look, ask for forecasts and read output. It may submit within the device-hours that its user granted
(`--budget`), and cancel only what it has submitted. Paths of scripts begin at the folder that the process was started in.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from gpuq import __version__
from gpuq.cli.client import Lost
from gpuq.cli.quantities import parse_duration
from gpuq.client import AsyncClient, JobInfo
from gpuq.errors import Failure, GpuqError

_INSTRUCTIONS = """\
gpuq is a queue of GPU jobs. Look at `devices` and `queue` first, ask `predict` what a job needs, submit it with a time limit as
short as it can be, then `wait` for it and read its `logs`. A job that waits has its reason in `reason`, and `explain` has
the numbers."""
_LONGEST_WAIT_S = 600.0
_MOST_LINES, _MOST_CHARACTERS = 500, 32_768

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Agent:
    """The tools, and what is left of the budget in device-seconds: devices times the time limit of each job, when submitted."""

    client: AsyncClient
    granted_s: float
    spent_s: float = 0.0
    submitted: set[int] = field(default_factory=set)

    async def devices(self) -> list[dict[str, Any]]:
        """All GPUs: memory, load, and the jobs on them."""
        return await self.client.devices()

    async def queue(self, limit: int = 100) -> list[dict[str, Any]]:
        """The jobs of all users that run, then those that wait in the order of their start, with the reason why each waits: the
        first `limit` of them."""
        return [_summary(job) for job in (await self.client.queue())[: max(0, limit)]]

    async def jobs(self, state: str | None = None, name: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """The user's newest jobs, also those that have ended. `state` is one as FAILED, or waiting, active or ended; `name` is a
        shell pattern, as in "sweep-*"."""
        return [_summary(job) for job in await self.client.find(state=state, name=name, limit=max(1, limit))]

    async def job(self, job_id: int) -> dict[str, Any]:
        """All that is known of one job: state, attempts, forecast, measurements."""
        return dict((await self.client.job(job_id)).record)

    async def explain(self, job_id: int) -> dict[str, Any]:
        """Why a job waits, or why it runs where it runs, with the deciding numbers."""
        return await self.client.explain(job_id)

    async def predict(self, command: list[str], gpus: int = 1) -> dict[str, Any]:
        """What a job would need (memory, load, duration), and beside which jobs it could run. Queues nothing.

        `command` is a script with its arguments, as ["train.py", "--lr", "0.1"], or another program.
        """
        return await self.client.predict(*command, gpus=gpus)

    async def submit(
        self, command: list[str], time_limit: str, gpus: int = 1, name: str | None = None, gpu_mem: str | None = None
    ) -> dict[str, Any]:
        """Queue a job. `time_limit` as "30m" or "2h"; the job is ended after that, and it counts against the budget. Retries that
        the script or its project ask for are left out: they would not count.

        `gpu_mem` ("10G") is the most memory that it needs, where that is known better than gpuq's forecast.
        """
        with self._charged(gpus * parse_duration(time_limit)):
            given = {"name": name, "gpu_mem": gpu_mem}
            options: Any = {key: value for key, value in given.items() if value is not None}
            options |= {"retry": [], "requeue_on_timeout": False}
            job_id = await self.client.submit_for_id(*command, time=time_limit, gpus=gpus, **options)
        self.submitted.add(job_id)
        try:
            return _summary(await self.client.job(job_id))
        except GpuqError:
            return {"id": job_id}  # it is queued: an error would have the agent submit it again

    async def wait(self, job_id: int, seconds: float = 60.0) -> dict[str, Any]:
        """The job once it has ended, or as it is after so many seconds, at most 600."""
        try:
            [job] = await self.client.wait([job_id], min(seconds, _LONGEST_WAIT_S))
        except TimeoutError:
            job = await self.client.job(job_id)
        return _summary(job)

    async def logs(self, job_id: int, lines: int = 50) -> str:
        """The last lines of a job's output, at most 500 and 32,768 characters of them."""
        # A progress bar is one line, of megabytes.
        return (await self.client.logs(job_id, lines=min(lines, _MOST_LINES)))[-_MOST_CHARACTERS:]

    async def cancel(self, job_id: int) -> dict[str, Any]:
        """End a job that was submitted by these tools."""
        if job_id not in self.submitted:
            raise ToolError(f"Job {job_id} was not submitted here. Ask the user to cancel it: gpuq cancel {job_id}")
        await self.client.cancel(job_id)
        return _summary(await self.client.job(job_id))

    @contextmanager
    def _charged(self, device_s: float) -> Iterator[None]:
        """Count against the budget, unless the job was certainly not queued. Raises ToolError where too little is left."""
        left = self.granted_s - self.spent_s
        if device_s > left:
            raise ToolError(
                f"This job may take {device_s / 3600:.2f} device-hours; {left / 3600:.2f} of the {self.granted_s / 3600:.2f} "
                "granted are left. Ask for less time, or have the user start `gpuq mcp` with a larger --budget."
            )
        self.spent_s += device_s
        try:
            yield
        except GpuqError as error:
            if not isinstance(error, Lost | Failure):
                self.spent_s -= device_s
            raise


def _summary(job: JobInfo) -> dict[str, Any]:
    names = ("id", "name", "state", "exit_code", "reason", "gpus", "device_names", "position", "expected_start")
    return {name: job.record[name] for name in names if job.record.get(name) not in (None, [])}


def _with_fix(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The tool, with gpuq's errors as the protocol has them: the sentence, and what to do."""

    @wraps(tool)
    async def called(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return await tool(*arguments, **keywords)
        except GpuqError as error:
            raise ToolError(f"{error.message} {error.fix}") from error

    return called


def server_of(agent: Agent) -> MCPServer[Any]:
    """The server with all tools."""
    server: MCPServer[Any] = MCPServer("gpuq", instructions=_INSTRUCTIONS, version=__version__)
    for tool in (
        agent.devices, agent.queue, agent.jobs, agent.job, agent.explain, agent.predict, agent.submit, agent.wait, agent.logs,
        agent.cancel,
    ):  # fmt: skip
        server.tool()(_with_fix(tool))
    return server


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="gpuq mcp")
    parser.add_argument("--host")
    parser.add_argument("--budget-s", type=float, default=0.0)
    options = parser.parse_args()
    server_of(Agent(AsyncClient(options.host), options.budget_s)).run("stdio")


if __name__ == "__main__":
    main()
