"""One process follows the order to start an attempt while another one looks for attempts that nothing runs any more.

Wherever the first is met between its steps, the job runs at most once, and it does run if the first goes on to the end.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import attempts, run_job
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.live_attempt import LiveAttempt
from gpuq_workers.residents import Residents
from gpuq_workers.spool import Spool

from gpuq.adapters import process
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.events import Exited, Started
from gpuq.messages import codec
from gpuq.messages.wire import Verb
from gpuq.settings import Settings
from tests.workers import twins
from tests.workers.conftest import wait_for
from tests.workers.twins import Claimed, OneClaim, attempt_id, order, spec


class Killed(BaseException):
    """The process that follows orders ends here; what it held is closed."""


class Record(OneClaim):
    """A record during whose answer other things happen."""

    def __init__(self, *specs: Claimed) -> None:
        super().__init__(*specs)
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def claim(self, attempt: AttemptId, host: str, instance: str, boot_id: str, at: float) -> Claimed | None:
        self.before()
        claimed = super().claim(attempt, host, instance, boot_id, at)
        self.after()
        return claimed


class Host:
    """Both sides on one host, and a job that leaves a line in `ran` each time it runs."""

    def __init__(self, settings: Settings) -> None:
        self.ran = settings.home.root / "ran"
        self.folder = AttemptFolder(settings.home.attempt(1, 1), attempt_id())
        self.record = Record(spec(["sh", "-c", f"echo once >> {self.ran}"]))
        self.context = twins.context(settings, self.record)
        self.spool, self.now = Spool(settings.home.spool, "alpha"), 0.0
        self.watch = Residents(
            settings.home.attempts, self.spool, self.measure, 0.2, twins.INSTANCE, monotonic=lambda: self.now
        )

    async def measure(self, _folder: AttemptFolder) -> Measurement:
        return Measurement()

    def launch(self, ring: int = 1) -> None:
        run_job.run(self.context, order(Verb.LAUNCH, ring=ring))

    def look_long(self) -> None:
        """Look twice, minutes apart: the second time a folder that nothing is known of is old."""
        for _ in range(2):
            asyncio.run(self.watch.look())
            self.now += 100

    def events(self) -> list[Any]:
        return [codec.from_plain(m.name, m.body) for m in self.spool.unacknowledged()]

    def end(self) -> Exited:
        """How it ended, which is reported once; what comes later changes nothing."""

        def exits() -> list[Exited]:
            asyncio.run(self.watch.look())
            self.now += 1
            return [event for event in self.events() if isinstance(event, Exited)]

        wait_for(exits, what="the end")
        (exited,) = exits()
        return exited

    def ran_once(self) -> bool:
        """Whether it ran once and ended well, and was reported so."""
        assert (self.end().ending, self.end().exit_code) == ("exited", 0)
        assert [type(event) for event in self.events()] == [Started, Exited]
        return self.ran.read_text() == "once\n"

    def never_ran(self) -> str:
        """Why it did not run."""
        exited = self.end()
        assert (exited.ending, self.ran.exists()) == ("never started", False)
        return exited.reason


@pytest.fixture
def host(settings: Settings) -> Iterator[Host]:
    made = Host(settings)
    yield made
    shim = made.folder.shim()
    if shim is not None:
        process.kill_tree(shim)
    shims = made.context.launcher.shims  # type: ignore[attr-defined]
    shims.close()
    wait_for(lambda: all(shim.is_gone() for shim in shims._serving), what="the end of the shims")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_record_that_takes_long_to_answer_delays_a_start_and_does_not_undo_it(host: Host, moment: str) -> None:
    def meanwhile() -> None:
        host.look_long()
        assert list(host.watch.present()) == [attempt_id()], "the dispatcher hears that the order has arrived"
        assert host.events() == []

    setattr(host.record, moment, meanwhile)
    host.launch()
    assert host.ran_once()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_ends_while_it_asks_the_record_leaves_an_attempt_that_never_started(
    host: Host, moment: str
) -> None:
    """It may have been claimed, or not: in both cases nothing of it ran, and nothing of it ever will."""

    def dies() -> None:
        raise Killed

    setattr(host.record, moment, dies)
    with suppress(Killed):
        host.launch()
    asyncio.run(host.watch.look())
    assert host.events() == [], "another process may just have made it"
    reason = host.never_ran()
    assert "gave up waiting for the record" in reason
    assert "supervisor" not in reason, "there was none"
    host.launch(ring=2)
    assert len(host.record.claims) == (moment == "after")
    assert host.never_ran() == reason


def test_an_order_followed_after_its_attempt_was_given_up_starts_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process stood still for long between making the folder and locking it."""

    def stands_still(path: Path, attempt: AttemptId) -> AttemptFolder | None:
        made = attempts.make_folder(path, attempt)
        host.look_long()
        assert [type(event) for event in host.events()] == [Exited]
        return made

    monkeypatch.setattr(run_job, "make_folder", stands_still)
    host.launch()
    host.never_ran()


def test_an_order_followed_while_its_attempt_is_given_up_claims_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts.make_folder(host.folder.path, attempt_id())
    asyncio.run(host.watch.look())
    host.now += 100
    sought = LiveAttempt.left
    monkeypatch.setattr(run_job, "make_folder", lambda *_: host.folder)  # it was made, and is locked from now on

    def meanwhile(live: Any) -> Any:
        host.launch()
        return sought(live)

    monkeypatch.setattr(LiveAttempt, "left", meanwhile)
    assert "gave up" in host.never_ran()
    assert host.record.claims == []


def test_an_attempt_whose_order_is_written_while_it_is_looked_at_is_left_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is not there yet when it is read, and the lock is gone when that is looked at."""
    claims, go_on = threading.Event(), threading.Event()
    host.record.before = lambda: (claims.set(), go_on.wait())
    order_thread = threading.Thread(target=host.launch)
    order_thread.start()
    claims.wait()
    asyncio.run(host.watch.look())
    host.now += 100
    read = AttemptFolder.order

    def read_too_early(folder: AttemptFolder) -> Any:
        found = read(folder)
        monkeypatch.setattr(AttemptFolder, "order", read)
        go_on.set()
        order_thread.join()
        return found

    monkeypatch.setattr(AttemptFolder, "order", read_too_early)
    asyncio.run(host.watch.look())
    assert host.ran_once()


def test_a_folder_made_again_after_it_was_removed_is_another_ones(host: Host) -> None:
    """The record did not let the attempt start, and its folder was removed: who waited for that lock has not the new folder."""
    attempts.make_folder(host.folder.path, attempt_id())
    real_open = attempts.os.open

    def replaced(path: Any, *rest: Any) -> int:
        descriptor = real_open(path, *rest)
        if path == host.folder.path:
            host.folder.path.rmdir()
            attempts.make_folder(host.folder.path, attempt_id())
        return descriptor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempts.os, "open", replaced)
        with host.folder.locked() as is_ours:
            assert not is_ours


def test_an_attempt_that_the_record_did_not_let_start_is_none_that_the_host_could_not_start(host: Host) -> None:
    """It was cancelled before its claim, and its folder was seen during that."""
    host.record.specs.clear()
    host.record.before = lambda: asyncio.run(host.watch.look())
    host.launch()
    host.look_long()
    assert (host.events(), host.watch.no_starts(), host.watch.present()) == ([], None, {})


def test_a_lock_that_cannot_be_taken_keeps_no_descriptor(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again ten times a second."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    attempts.make_folder(host.folder.path, attempt_id())
    monkeypatch.setattr(attempts.fcntl, "flock", refused)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        with pytest.raises(OSError, match="No locks"), host.folder.locked():
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_stop_that_closes_the_fence_is_not_taken_for_an_order_that_failed(host: Host) -> None:
    """The broker may take seconds to say that no unit of it runs."""
    host.context.launcher.stop = lambda *_, **__: host.look_long()  # type: ignore[method-assign]
    run_job.run(host.context, order(Verb.STOP))
    assert host.never_ran() == "stopped before it was started"
