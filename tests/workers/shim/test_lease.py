"""A job with a lease ends when its host is not connected, and does not start without; all others run on."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gpuq_workers.job_lease import remove_former, renew
from gpuq_workers.shim.lease import JobLease, uptime

from gpuq.adapters.process import boot_id
from tests.workers.conftest import Attempt, gone, python, quick_shim, wait_for

STUBBORN = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


def start(attempt: Attempt) -> None:
    changes = "shim.lease.LONGEST_GRACE_S = 0.2; shim.lease._FIRST_RENEWAL_WITHIN_S = 0.1"
    attempt.shim = subprocess.Popen(quick_shim(attempt.folder, changes), start_new_session=True)


@contextmanager
def connected(lease: Path) -> Iterator[None]:
    """The leader answers reports during the block."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.05):
            renew(lease, uptime())

    renew(lease, uptime())
    thread = threading.Thread(target=answer)
    thread.start()
    yield
    over.set()
    thread.join()


def test_a_job_ends_when_its_lease_is_not_renewed_and_is_killed_soon_after_sigterm(
    attempt: Attempt, tmp_path: Path
) -> None:
    lease = tmp_path / "lease"
    attempt.order(*STUBBORN, lease=str(lease), lease_s=1.5, grace_s=60)
    with connected(lease):
        start(attempt)
        started = attempt.started()
        until = time.monotonic() + 2.0
        wait_for(lambda: time.monotonic() > until)
        assert not gone(started["pid"]), "it runs while its host is connected"
    end = attempt.end()
    assert end["ending"] == "lost"
    assert "its host was not connected to the dispatcher for 1.5 s" in end["reason"]
    assert gone(started["pid"])


def test_a_job_does_not_start_without_a_lease(attempt: Attempt, tmp_path: Path) -> None:
    attempt.order("true", lease=str(tmp_path / "lease"), lease_s=5.0)
    start(attempt)
    assert attempt.end()["ending"] == "never started"
    assert not (attempt.folder / "started.json").exists()


def test_a_job_that_has_no_lease_runs_on_without_a_connection(attempt: Attempt, tmp_path: Path) -> None:
    assert attempt.run("true", lease=str(tmp_path / "lease"), lease_s=None)["ending"] == "exited"


def test_a_lease_counts_from_its_last_renewal_also_when_its_file_is_gone(tmp_path: Path) -> None:
    file, now = tmp_path / "lease", [1000.0]
    lease = JobLease({"lease": str(file), "lease_s": 10.0}, lambda: now[0])
    assert lease.has_ended()
    renew(file, 995.0)
    assert not lease.has_ended()
    file.unlink()
    now[0] = 1004.9
    assert not lease.has_ended()
    now[0] = 1005.1
    assert lease.has_ended()


@pytest.mark.parametrize("at", [1000.1, 5000.0])
def test_a_renewal_in_the_future_is_of_another_clock_and_does_not_count(tmp_path: Path, at: float) -> None:
    renew(tmp_path / "lease", at)
    assert JobLease({"lease": str(tmp_path / "lease"), "lease_s": 10.0}, lambda: 1000.0).has_ended()


def test_only_the_lease_of_this_boot_is_kept(tmp_path: Path) -> None:
    for name in ("lease-of-an-earlier-boot", "api.sock"):
        (tmp_path / name).touch()
    current = tmp_path / f"lease-{boot_id()}"
    renew(current, 5.0)
    remove_former(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["api.sock", current.name]
