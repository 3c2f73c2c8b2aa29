"""gpuq from Python, on a whole gpuq with real jobs."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuq
from gpuq import AsyncClient, Client
from gpuq.cli import job_options
from gpuq.client import JobOptions, submission
from gpuq.errors import BadInput, Conflict, NotFound, Unreachable
from gpuq.states import JobState
from tests.support.site import Site

SCRIPT = "import sys; print('lr', *sys.argv[1:]); sys.exit(sys.argv[1] == '3')\n"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, admission_memory_headroom=0.95) as site:
        yield site


@pytest.fixture
def address(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The gpuq's address, with a script in the current folder."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return f"unix://{site.home}/run/api.sock"


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def test_a_script_is_submitted_from_its_folder_and_read_to_its_end(client: Client) -> None:
    job = client.submit("train.py", "1", name="first", time="5m", env={"GREETING": "hello"})
    assert (job.name, job.record["command"][-1], job.record["time_limit_s"]) == ("first", "1", 300)
    assert b"".join(client.stream(job)) == b"lr 1\n"
    [ended] = client.wait([job], timeout_s=30)
    assert (ended, ended.ended, ended.exit_code) == (client.job(job.id), True, 0)
    assert client.logs(job) == "lr 1\n"


def test_jobs_are_found_by_what_they_are(client: Client) -> None:
    first, second = client.map("train.py", "{lr}", grid={"lr": [1, 2]}, name="found-{lr}", project="of-find", hold=True)
    last = client.submit("train.py", "1", name="found", hold=True)

    def found(**conditions: Any) -> list[int]:
        return [job.id for job in client.find(**conditions)]

    assert found(name="found-*") == [first.id, second.id]
    assert found(name="found*", state=["HELD", "PENDING"], limit=2) == [second.id, last.id]
    assert found(project="of-*", owner="all", kind="*/train.py*", name="*2") == [second.id]
    assert found(name="found", state="ended") == []
    assert [job.id for job in client.queue()][-3:] == [first.id, second.id, last.id]
    gone = range(1_000_000, 1_020_100, 2)
    with pytest.raises(NotFound, match="There is no job 1000000"):
        client.cancel([first.id, second, last, *gone])
    assert found(name="found*", state="CANCELLED") == [first.id, second.id, last.id]
    with pytest.raises(BadInput, match="10,050 separate ids are named"):
        client.edit(gone, priority=3)


def test_a_grid_makes_a_job_of_each_combination(client: Client) -> None:
    grid = {"lr": [1, 3], "seed": "ab"}
    jobs = client.map(Path("train.py"), "{lr}", "seed={seed}", grid=grid, at_once=1, project="sweep")
    assert [job.record["params"] for job in jobs[1:3]] == [{"lr": "1", "seed": "b"}, {"lr": "3", "seed": "a"}]
    ended = client.wait(jobs)
    assert [client.logs(job, lines=1) for job in ended] == [f"lr {lr} seed={seed}\n" for lr in (1, 3) for seed in "ab"]
    assert [(job.state, job.exit_code) for job in ended] == [(JobState.COMPLETED, 0)] * 2 + [(JobState.FAILED, 1)] * 2


def test_asyncio_has_every_call_with_the_same_parameters() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(AsyncClient, name)).parameters == inspect.signature(method).parameters


async def test_the_same_from_asyncio(address: str) -> None:
    async with AsyncClient(address) as client:
        await _watch_two_jobs(client)


async def _watch_two_jobs(client: AsyncClient) -> None:
    quick, slow = await asyncio.gather(client.submit("train.py", "1"), client.submit("sleep", "60"))
    assert (await client.wait([quick]))[0].state == "COMPLETED"
    assert [piece async for piece in client.stream(quick)] == [b"lr 1\n"]
    with pytest.raises(TimeoutError, match=r"after 0\.1 s; they go on"):
        await client.wait([quick, slow], timeout_s=0.1)
    endless = asyncio.create_task(client.wait([slow]))
    await asyncio.sleep(0)
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    await client.cancel(slow)
    [cancelled] = await client.wait([slow])
    assert cancelled.state == "CANCELLED"


def test_a_held_job_waits_for_its_release(client: Client) -> None:
    job = client.submit("train.py", "1", hold=True)
    assert job.state == "HELD"
    client.edit(job, priority=5, time="4h")
    client.edit([job], name="renamed", time="default", max_slowdown=1.3)
    changed = client.job(job.id)
    assert (changed.name, changed.record["priority"], changed.record["time_limit_s"]) == ("renamed", 5, None)
    with pytest.raises(BadInput, match="`gpus` cannot be changed of a job"):
        client.edit(job, priority=1, gpus=2)  # type: ignore[call-arg]
    client.release(job)
    assert client.wait([job])[0].exit_code == 0
    assert {device["host"] for device in client.devices()}


def test_a_job_may_be_given_as_it_was_returned_wherever_one_is_wanted(client: Client) -> None:
    held = client.submit("train.py", 1, 2.5, hold=True)
    assert held.record["command"][-2:] == ["1", "2.5"]
    after, after_many = client.submit("train.py", after=held), client.submit("train.py", after=[held, held.id])
    assert client.job(held).id == client.explain(held)["id"] == client.jobs(held)[0].id == held.id
    assert client.explain(after)["state"] == "PENDING"
    client.cancel([held, after_many])
    client.cancel([])
    assert [job.state for job in client.wait([held, after_many])] == ["CANCELLED"] * 2
    [alone] = client.wait(after)
    assert alone.id == after.id
    with pytest.raises(Conflict, match=f"Job {held.id} "):
        client.cancel(held)
    with pytest.raises(NotFound, match="no job 1000000000"):
        client.hold(10**9)


def test_a_forked_process_does_not_read_the_answers_of_its_parent(client: Client) -> None:
    """As of `multiprocessing`. Two processes on one connection would get each other's jobs."""

    def connected() -> int:
        client.devices()
        return os.fstat(client._http._connection.sock.fileno()).st_ino

    before, (read, write) = connected(), os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, f"{connected()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 40) not in (b"", f"{before}".encode())
    assert connected() == before
    os.close(read)
    os.close(write)


def test_many_submissions_are_queued_or_none(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of thousands goes out in several requests. Who repeats it after an error would have the first ones twice."""
    monkeypatch.setattr("gpuq.cli.verbs.submit._BATCH_JOBS", 2)
    bodies = [submission(["sleep", "60"], {"name": f"many-{number}"}) for number in range(3)]
    with pytest.raises(BadInput, match="absolute path"):
        client.submit_all([*bodies, {**bodies[0], "cwd": "here"}])
    assert [job.state for job in client.wait(client.find(name="many-*"))] == ["CANCELLED", "CANCELLED"]
    assert len(client.submit_all(bodies)) == 3
    client.cancel(client.find(name="many-*", state="active,waiting"))


def test_a_thread_that_has_ended_leaves_no_connection_open(client: Client) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        thread = threading.Thread(target=client.devices)
        thread.start()
        thread.join()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_no_job_and_no_word_is_named(client: Client) -> None:
    asked: list[Callable[[Any], object]] = [
        client.job,
        client.explain,
        client.wait,
        client.cancel,
        client.logs,
        client.edit,
    ]
    for call in asked:
        for wrong in ("foo bar", 1.5, None, True):
            with pytest.raises(BadInput, match=re.escape(f"{wrong!r} is no job")):
                call(wrong)
    with pytest.raises(BadInput, match="None is no job"):
        client.submit("train.py", after=[None])  # type: ignore[list-item]
    with pytest.raises(BadInput, match=r"\['-c', '1'\] is no word of a command"):
        client.submit("train.py", ["-c", "1"])  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="is no address of the API"):
        client.cancel_reservation("1 2")  # type: ignore[arg-type]


def test_what_cannot_be_submitted_raises_the_sentence_of_the_command(client: Client) -> None:
    with pytest.raises(BadInput, match=r"there is no script .*trian\.py\. Did you mean train\.py\?"):
        client.submit("trian.py")
    with pytest.raises(BadInput, match="`gpu` is no option of a job") as refused:
        client.submit("train.py", gpu=2)  # type: ignore[call-arg]
    assert "gpus" in refused.value.fix
    with pytest.raises(BadInput, match="--gpus `none` is not a number"):
        client.submit("train.py", gpus="none")
    with pytest.raises(BadInput, match="no word of the command has"):
        client.map("train.py", "{lr}", grid={"lr": [1], "wd": [1]})
    with pytest.raises(NotFound):
        client.job(10**9)
    with pytest.raises(Unreachable):
        Client("unix:///nowhere/api.sock").devices()


def test_the_keywords_are_the_options_of_submit() -> None:
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    options = {option.removeprefix("--").replace("-", "_") for option in parser.long_options()}
    assert set(JobOptions.__annotations__) == options - {"json", "host", "no_color", "help_all", "pty"}


def test_values_are_read_as_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_DATA", "/data")
    body = submission(
        ["train.py"],
        {"gpus": "1-4", "gpu_mem": "10G", "max_slowdown": 1.15, "priority": 5, "exclusive": True, "pass_env": ["MY_*"]},
    )
    assert (body["gpus"], body["most_gpus"], body["priority"], body["share"]) == (1, 4, 5, "never")
    assert (body["gpu_memory"], body["max_slowdown"], body["env"]["MY_DATA"]) == (10 * 2**30, 1.15, "/data")


def test_a_script_that_is_edited_between_two_submissions_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bodies = []
    for width in (64, 6400):
        Path("train.py").write_text(f"import torch\nnet = torch.nn.Linear(8, {width})\n")
        bodies.append(submission(["train.py"], {}))
    first, second = bodies
    assert first["script_sha256"] != second["script_sha256"]
    assert first["hints"]["values"]["program-code"] != second["hints"]["values"]["program-code"]


def test_importing_gpuq_does_not_import_the_client() -> None:
    code = "import sys, gpuq; assert 'gpuq.client' not in sys.modules; gpuq.Client; assert 'gpuq.client' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        gpuq.Cleint  # noqa: B018
