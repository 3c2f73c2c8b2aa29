"""Schemathesis against the real endpoint: requests made from its own document, and the document held against the answers.

What is valid by the document is taken, what is not is refused, nothing is answered with 5xx, and every answer has a status, a
content type and a body that the document names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuq.adapters.store import open_store
from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.home import Home
from gpuq.messages import wire
from tests.adapters.store.samples import WAITS, a_change, a_record, an_attempt, an_end, an_entry
from tests.api.support import live_device, live_resident, picture
from tests.api.test_process import redis_server, running
from tests.support.sqlite_record import make_record

GIB = 2**30
DEVICES = ("GPU-0", "GPU-1")
# Each of these starts a process of its own that takes a second or more; they have tests of their own.
SLOW = ("/api/v1/policies", "/api/v1/models/train", "/api/v1/models/rollback")
# What an answer waits for need not come: output of a job that does not run (`follow`), and a change of one that ends on a host
# that is gone (`wait`). The journal's stream has no end, and is looked at for two seconds.
CONFIGURATION = """
max-stream-events = 1
request-timeout = 30
[parameters]
follow = false
wait = 0
[[operations]]
include-path = "/api/v1/events"
request-timeout = 2
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A record with a device and with jobs in every state, and the endpoint on it."""
    home = Home(tmp_path / "h")
    home.create()
    store = open_store(make_record(home.database))
    states = list(JobState)
    store.add_jobs([a_record(name=f"n{number}", project="p") for number in range(len(states))])
    ran = [JobId(number) for number, state in enumerate(states, 1) if state not in (JobState.PENDING, JobState.HELD)]
    ended = [job for job in ran if states[job - 1] not in (JobState.STARTING, JobState.RUNNING, JobState.COMPLETING)]
    changes = [a_change(number, state, int(JobId(number) in ran)) for number, state in enumerate(states, 1)]
    waiting = a_change(1, states[0], verdict=WAITS)
    store.commit(
        Commit(
            entries=[an_entry(number, number, name="Submitted") for number in range(1, 4)],
            jobs=[waiting, *changes[1:]],
            devices=[Device(DeviceId(name), HostId("host"), "nvml", "NVIDIA H200", 141 * GIB) for name in DEVICES],
            launched=[an_attempt(job, devices=DEVICES) for job in ran],
            started=[(AttemptId(job, 1), 220.0, "/var/lib/gpuq/output.log") for job in ran],
            ended=[(AttemptId(job, 1), an_end(300.0 + job)) for job in ended],
        )
    )
    store.close()
    home.settings_file.write_text("[admission]\nstale_after_s = 3600\n")  # so that the view is not stale before the end
    with redis_server(home) as redis, running(home):
        redis.set(wire.VIEW, picture(time.time(), live_device(DEVICES[0], 141, 50.0, live_resident(4, 9.0, 50.0, 1.5))))
        yield home


def schemathesis(home: Home, folder: Path, *words: str, timeout_s: float = 600) -> dict[str, Any]:
    """The report of one run of the real command."""
    folder.mkdir(exist_ok=True)
    hooks = json.dumps(str(Path(__file__).with_name("schemathesis_hooks.py")))
    (folder / "configuration.toml").write_text(f"hooks = {hooks}\n{CONFIGURATION}")
    port = json.loads((home.run / "http.json").read_bytes())["port"]
    token = home.token_file.read_text().strip()
    report = folder / "report.json"
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(folder / "configuration.toml")),
        *("run", f"http://127.0.0.1:{port}/api/v1/openapi.json", "--header", f"Authorization: Bearer {token}"),
        *("--seed", "12", "--generation-deterministic", "--continue-on-failure"),
        *("--suppress-health-check", "too_slow"),  # a busy machine is no failure
        *("--report-json-path", str(report), *words),
        *(word for path in SLOW for word in ("--exclude-path", path)),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(report.read_bytes())
    assert (done.returncode, found["failures"], found["errors"]) == (0, [], []), done.stdout
    return found


def test_requests_of_the_document_are_answered_as_it_says(home: Home, tmp_path: Path) -> None:
    # The rest is left to the long run, `predict` too, whose body is that of `jobs`.
    few = ("--phases", "fuzzing", "--max-examples", "3", "--include-path-regex", "^/api/v1/(jobs|gpus|queue|report)")
    found = schemathesis(home, tmp_path / "st", *few)
    assert found["test_cases"]["generated"] > 40


@pytest.mark.soak
def test_two_thousand_requests_of_the_document_are_answered_as_it_says(home: Home, tmp_path: Path) -> None:
    environ = {**os.environ, "GPUQ_HOME": str(home.root)}
    dispatcher = subprocess.Popen([sys.executable, "-m", "gpuq.daemon"], env=environ)
    try:
        found = schemathesis(home, tmp_path / "st", "--max-examples", "100", timeout_s=1800)
    finally:
        dispatcher.terminate()
        dispatcher.wait(60)
    assert found["test_cases"]["generated"] >= 2000
