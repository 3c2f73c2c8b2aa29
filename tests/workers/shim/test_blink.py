"""Blinks with real processes: what stands still, for how long, and that the job is resumed whatever process dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers.shim import blink, tree
from gpuq_workers.shim.blink import EARN, Blinks, earned_at
from hypothesis import given
from hypothesis import strategies as st

from tests.support.patience import Stopwatch
from tests.workers.conftest import Attempt, gone, python, quick_shim, wait_for

# One process that counts, and below it a session of its own that counts too; both say where.
FAMILY = """
import os, time
if os.fork() == 0: os.setsid()
print(os.getpid(), flush=True)
while True: time.sleep(0.005)
"""

HEARS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
print(os.getpid(), flush=True)
while True: time.sleep(0.01)
"""


class Blinked(Attempt):
    """An attempt that is asked to blink."""

    asked = 0
    lease_number, leased_until = 1, 0.0

    def ask(self, seconds: float, until_s: float = 60.0) -> Blinked:
        self.asked += 1
        aside = self.folder / "blink.json.tmp"
        aside.write_text(json.dumps({"id": self.asked, "seconds": seconds, "until": time.monotonic() + until_s}))
        aside.rename(self.folder / "blink.json")
        return self

    def lease(self, seconds: float) -> None:
        """Keep the job standing for so long from now."""
        self.leased_until = time.monotonic() + seconds
        aside = self.folder / "pause.json.tmp"
        aside.write_text(json.dumps({"id": self.lease_number, "until": self.leased_until}))
        aside.rename(self.folder / "pause.json")

    def stand(self, pids: list[int]) -> None:
        """Let the job stand still, with a lease that is not the last one if that has ended."""

        def stands() -> bool:
            self.lease_number += time.monotonic() > self.leased_until
            self.lease(0.9)
            return states(pids) == {b"T"} and self.record().get("since") is not None

        wait_for(stands, what="both stopped, and a record of it")

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.read("paused.json") if (self.folder / "paused.json").exists() else {}
        return found

    def answer(self) -> dict[str, Any]:
        def reported() -> dict[str, Any] | None:
            path = self.folder / "blinked.json"
            answer = self.read("blinked.json") if path.exists() else {"id": 0}
            return answer if answer["id"] == self.asked else None

        answer: dict[str, Any] = wait_for(reported, what="an answer")
        return answer

    def pids(self, count: int = 2) -> list[int]:
        def found() -> list[int]:
            lines = self.log().split() if (self.folder / "output.log").exists() else []
            return [int(line) for line in lines] if len(lines) == count else []

        pids: list[int] = wait_for(found, what="pids in the log")
        return pids

    @property
    def helper(self) -> int:
        """The helper's pid, once there is one."""
        assert self.shim is not None
        main = self.started()["pid"]
        shim = self.shim.pid

        def one() -> int:
            below = Path(f"/proc/{shim}/task/{shim}/children").read_text().split()
            return next((int(pid) for pid in below if int(pid) != main), 0)

        pid: int = wait_for(one, what="the helper")
        return pid


@pytest.fixture
def attempt(tmp_path: Path) -> Any:
    (tmp_path / "1-1").mkdir()
    made = Blinked(tmp_path / "1-1")
    yield made
    if made.shim is not None and made.shim.poll() is None:
        os.killpg(made.shim.pid, signal.SIGKILL)
        made.shim.wait()
    for line in made.log().split() if (made.folder / "output.log").exists() else []:
        if line.isdigit() and not gone(int(line)):
            os.kill(int(line), signal.SIGKILL)


def generous(attempt: Blinked, *command: str, **changes: Any) -> Blinked:
    """The command under a shim that lets pauses follow each other, where tests would wait for a hundred times a pause.

    It runs and has said so.
    """
    attempt.order(*command, blink=True, **changes)
    attempt.shim = subprocess.Popen(quick_shim(attempt.folder, "shim.blink.EARN = 0.0"), start_new_session=True)
    return attempt


def states(pids: list[int]) -> set[bytes]:
    return {tree.state(pid) for pid in pids}


def test_the_whole_tree_is_stopped_and_resumed(attempt: Blinked) -> None:
    pids = generous(attempt, *python(FAMILY)).pids()
    watch = Stopwatch()
    attempt.ask(1.0)
    wait_for(lambda: states(pids) == {b"T"}, what="both stopped")
    answer = attempt.answer()
    assert answer["why_not"] is None
    assert 1.0 <= answer["ended"] - answer["began"] < 1.3 + watch.waited_s
    wait_for(lambda: b"T" not in states(pids), what="both going on")


def test_a_job_submitted_without_blink_is_never_paused(attempt: Blinked) -> None:
    attempt.order(*python(FAMILY)).start()
    attempt.pids()
    attempt.ask(0.001)
    attempt.stop()
    attempt.end()
    assert not (attempt.folder / "blinked.json").exists()


def test_a_pause_that_is_not_earned_yet_is_refused(attempt: Blinked) -> None:
    attempt.order(*python(FAMILY), blink=True).start()
    attempt.pids()
    assert "too short a while ago" in attempt.ask(1.0).answer()["why_not"]
    assert "at most" in attempt.ask(60.0).answer()["why_not"]
    assert "too late" in attempt.ask(0.001, until_s=-1).answer()["why_not"]


@pytest.mark.parametrize("victim", ["helper", "shim"])
def test_the_job_is_resumed_if_shim_or_helper_is_killed(attempt: Blinked, victim: str) -> None:
    pids = generous(attempt, *python(FAMILY)).pids()
    attempt.ask(5.0)
    wait_for(lambda: states(pids) == {b"T"}, what="both stopped")
    helper = attempt.helper
    assert attempt.shim is not None
    os.kill(helper if victim == "helper" else attempt.shim.pid, signal.SIGKILL)
    wait_for(lambda: b"T" not in states(pids), within_s=2, what="both going on")
    assert not any(gone(pid) for pid in pids)
    wait_for(lambda: gone(helper), what="no helper left")


def test_a_hanging_helper_is_killed_and_the_job_resumed(attempt: Blinked) -> None:
    pids = generous(attempt, *python(FAMILY)).pids()
    attempt.ask(1.5)
    wait_for(lambda: states(pids) == {b"T"}, what="both stopped")
    os.kill(attempt.helper, signal.SIGSTOP)
    wait_for(lambda: b"T" not in states(pids), within_s=5, what="both going on")


def test_a_stop_ends_the_pause_at_once(attempt: Blinked) -> None:
    pids = generous(attempt, *python(HEARS), grace_s=30).pids(1)
    attempt.ask(5.0)
    wait_for(lambda: states(pids) == {b"T"}, what="stopped")
    os.kill(attempt.helper, signal.SIGTERM)  # as the shim sends it to every process below it
    attempt.stop()
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == ("stopped", 9)
    assert attempt.answer()["why_not"] is not None


def test_a_job_killed_in_a_pause_keeps_its_ending(attempt: Blinked) -> None:
    pids = generous(attempt, *python("import os, time; print(os.getpid(), flush=True); time.sleep(60)")).pids(1)
    attempt.ask(5.0)
    wait_for(lambda: states(pids) == {b"T"}, what="stopped")
    os.kill(pids[0], signal.SIGKILL)
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == ("killed", 137)


def test_a_signal_for_the_job_cuts_the_pause_short(attempt: Blinked) -> None:
    pids = generous(attempt, *python(HEARS)).pids(1)
    attempt.ask(5.0)
    wait_for(lambda: states(pids) == {b"T"}, what="stopped")
    os.kill(pids[0], signal.SIGUSR1)
    assert attempt.answer()["why_not"] == "a signal came for the job meanwhile"
    wait_for(lambda: b"heard" in attempt.log(), within_s=2)


def test_a_process_stopped_by_its_user_is_not_paused(attempt: Blinked) -> None:
    pids = generous(attempt, *python(FAMILY)).pids()
    os.kill(pids[0], signal.SIGSTOP)
    wait_for(lambda: b"T" in states(pids[:1]))
    assert attempt.ask(0.1).answer()["why_not"] == "another program has stopped it"
    assert states(pids[:1]) == {b"T"}
    os.kill(pids[0], signal.SIGCONT)


def test_a_process_stopped_by_its_user_during_a_pause_stays_stopped(attempt: Blinked) -> None:
    pids = generous(attempt, *python(FAMILY)).pids()
    attempt.ask(5.0)
    wait_for(lambda: states(pids) == {b"T"}, what="both stopped")
    os.kill(pids[0], signal.SIGSTOP)
    assert attempt.answer()["why_not"] == "another program stopped the job meanwhile"
    wait_for(lambda: states(pids[1:]) != {b"T"}, what="the other one going on")
    helper_gone = wait_for(lambda: not _children_but(attempt, pids), what="the helper's end")
    assert helper_gone
    assert states(pids[:1]) == {b"T"}
    os.kill(pids[0], signal.SIGCONT)


def _children_but(attempt: Blinked, pids: list[int]) -> list[str]:
    assert attempt.shim is not None
    below = Path(f"/proc/{attempt.shim.pid}/task/{attempt.shim.pid}/children").read_text().split()
    return [pid for pid in below if int(pid) not in pids]


@given(
    st.lists(
        st.tuples(
            st.floats(0.01, blink.LONGEST_S),  # asked for
            st.floats(0, 1.01),  # how much of it was paused: cut short, or a little late
            st.floats(0, 500),  # waited longer than needed
        ),
        min_size=1,
        max_size=50,
    )
)
def test_at_no_moment_have_pauses_taken_one_percent(pauses: list[tuple[float, float, float]]) -> None:
    began = ended = start = 1000.0
    paused = 0.0
    for seconds, share, later in pauses:
        began = earned_at(began, ended, seconds) + later
        ended = began + share * seconds
        paused += ended - began
        assert paused < 0.01 * (ended - start)
    assert EARN == 100


@pytest.mark.parametrize(
    "asked",
    [
        "[]",
        "no JSON",
        '{"id": 1}',
        '{"id": Infinity, "seconds": 0.1, "until": 1e9}',
        '{"id": 1, "seconds": "x", "until": 2}',
        f'{{"id": {"[" * 5000}, "seconds": 0.1, "until": 1e9}}',
    ],
    ids=["list", "text", "half", "infinite", "words", "deep"],
)
def test_an_invalid_request_is_ignored(tmp_path: Path, asked: str) -> None:
    (tmp_path / "blink.json").write_text(asked)
    Blinks(str(tmp_path), True, 1).poll(True)
    assert not (tmp_path / "blinked.json").exists()


def test_a_pause_that_cannot_begin_is_answered_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(blink, "EARN", 0.0)
    monkeypatch.setattr(blink.os, "pipe2", full)
    (tmp_path / "blink.json").write_text(json.dumps({"id": 1, "seconds": 1.0, "until": time.monotonic() + 60}))
    Blinks(str(tmp_path), True, 1).poll(True)
    assert "could be started" in json.loads((tmp_path / "blinked.json").read_text())["why_not"]


def test_the_shim_keeps_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the worker service asks for: a made-up clock, a helper that is never started, and a request every second."""
    clock, granted = [0.0], []
    monkeypatch.setattr(blink.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Blinks, "_fork", lambda self, asked: granted.append(clock[0]) or _pretend(self, clock, asked))
    blinks = Blinks(str(tmp_path), True, 1)
    for number in range(600):
        clock[0] += 1.0
        (tmp_path / "blink.json").write_text(json.dumps({"id": number, "seconds": 1.0, "until": clock[0] + 2}))
        blinks.poll(True)
    assert granted[0] >= EARN
    assert 3 < len(granted) < 0.01 * clock[0]


def _pretend(blinks: Blinks, clock: list[float], asked: dict[str, Any]) -> None:
    blinks._began, blinks._helper = clock[0], 5
    clock[0] += asked["seconds"]
    blinks.over(5, 0)


# --- longer pauses, which end with their lease ------------------------------------------------------------------------


def leased(attempt: Blinked) -> list[int]:
    """The pids of a job that stands still; it was not submitted with --blink."""
    attempt.order(*python(FAMILY)).start()
    pids = attempt.pids()
    attempt.stand(pids)
    return pids


def test_a_job_stands_still_while_its_lease_is_renewed_and_goes_on_within_a_second_of_the_last_renewal(
    attempt: Blinked,
) -> None:
    watch = Stopwatch()
    pids = leased(attempt)
    since = attempt.record()["since"]
    while time.monotonic() < since + 1.5:
        if time.monotonic() > attempt.leased_until:  # this process was late
            attempt.stand(pids)
            since = attempt.record()["since"]
        attempt.lease(0.6)
        assert states(pids) == {b"T"} or time.monotonic() > attempt.leased_until
    wait_for(lambda: b"T" not in states(pids), within_s=2, what="both going on")
    wait_for(lambda: attempt.record()["since"] is None, what="the end of the pause in its record")
    record = attempt.record()
    assert record["why_not"] is None
    assert 1.5 < record["total_s"] < 4 + watch.waited_s


def test_no_lease_lasts_longer_than_a_second(attempt: Blinked) -> None:
    attempt.order(*python(FAMILY)).start()
    pids = attempt.pids()
    attempt.lease(3600)
    wait_for(lambda: states(pids) == {b"T"}, what="both stopped")
    os.kill(attempt.helper, 0)
    (attempt.folder / "pause.json").unlink()
    wait_for(lambda: b"T" not in states(pids), within_s=2, what="both going on")


def test_an_ended_lease_is_not_taken_up_again_and_a_new_one_is(attempt: Blinked) -> None:
    pids = leased(attempt)
    attempt.lease(-1)
    wait_for(lambda: attempt.record()["since"] is None, what="the end of the pause")
    first = attempt.record()["total_s"]

    attempt.stand(pids)
    assert attempt.record()["total_s"] == pytest.approx(first)


@pytest.mark.parametrize("victim", ["helper", "shim"])
def test_a_job_that_stands_still_goes_on_if_shim_or_helper_is_killed(attempt: Blinked, victim: str) -> None:
    pids = leased(attempt)
    helper = attempt.helper
    attempt.lease(0.9)
    assert attempt.shim is not None
    os.kill(helper if victim == "helper" else attempt.shim.pid, signal.SIGKILL)
    wait_for(lambda: b"T" not in states(pids), within_s=2, what="both going on")
    wait_for(lambda: gone(helper), what="no helper left")
    if victim == "helper":
        wait_for(lambda: attempt.record()["since"] is None, what="the end of the pause in its record")
        assert attempt.record()["why_not"] == "the pause was ended from outside"
