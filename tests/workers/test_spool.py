"""The spool: numbers without gaps, kept over restarts, lost disks and crashes at the worst moment."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import spool as spool_module
from gpuq_workers.spool import Spool

from gpuq.core.state.events import Started
from gpuq.home import write_private
from gpuq.messages import codec
from tests.workers.twins import attempt_id


def write(spool: Spool, event: Started) -> int:
    return asyncio.run(spool.write(event))


def event(job: int = 1) -> Started:
    return Started(attempt_id(job), 1.5, 42, "/log")


def _crash_at(rename: Any, name: str) -> Any:
    def crashing(path: Path, target: Path) -> Any:
        if path.name == name:
            raise KeyboardInterrupt
        return rename(path, target)

    return crashing


def test_numbers_count_up_from_1_and_events_are_read_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "alpha")
    assert [write(spool, event(job)) for job in (1, 2, 3)] == [1, 2, 3]
    messages = spool.unacknowledged()
    assert [message.seq for message in messages] == [1, 2, 3]
    assert codec.from_plain(messages[1].name, messages[1].body) == event(2)


async def test_all_else_goes_on_while_the_disk_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jobs save much at once, a sync takes seconds: without reports the host would be taken to be silent."""
    may_write = threading.Event()

    def slow(path: Path, content: bytes, *, durable: bool = True) -> None:
        assert may_write.wait(60)
        write_private(path, content, durable=durable)

    spool = Spool(tmp_path, "alpha")
    monkeypatch.setattr(spool_module, "write_private", slow)
    writing = asyncio.create_task(spool.write(event()))
    await asyncio.sleep(0)
    assert (spool.last, spool.unacknowledged()) == (0, []), "not before it is on the disk"
    may_write.set()
    assert await writing == 1
    assert [message.seq for message in spool.unacknowledged()] == [1]


def test_a_restart_reads_the_remaining_events(tmp_path: Path) -> None:
    first = Spool(tmp_path, "alpha")
    for job in range(12):
        write(first, event(job))
    first.forget(upto=9)
    second = Spool(tmp_path, "alpha")
    assert [message.seq for message in second.unacknowledged()] == [10, 11, 12]
    assert write(second, event()) == 13


def test_an_empty_spool_remembers_its_last_number(tmp_path: Path) -> None:
    first = Spool(tmp_path, "alpha")
    write(first, event())
    first.forget(upto=1)
    assert write(Spool(tmp_path, "alpha"), event()) == 2


def test_a_crash_during_forget_repeats_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Spool(tmp_path, "alpha")
    write(first, event())
    write(first, event())
    monkeypatch.setattr(Path, "rename", _crash_at(spool_module.Path.rename, "000000000001.json"))
    with pytest.raises(KeyboardInterrupt):
        first.forget(upto=2)
    monkeypatch.undo()
    for path in tmp_path.glob("*.json"):
        path.unlink()
    assert write(Spool(tmp_path, "alpha"), event()) == 3


def test_an_event_that_cannot_be_written_takes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, "alpha")
    monkeypatch.setattr(spool_module, "write_private", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        write(spool, event())
    monkeypatch.undo()
    assert write(spool, event()) == 1


def test_a_folder_that_is_removed_while_the_service_runs_is_made_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "alpha")
    spool.continue_after(7)
    assert write(spool, event()) == 8
    (tmp_path / "spool").rename(tmp_path / "removed before a write")
    assert write(spool, event(2)) == 9
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    assert [message.seq for message in Spool(tmp_path / "spool", "alpha").unacknowledged()] == [9]
    (tmp_path / "spool").rename(tmp_path / "removed before an acknowledgement")
    spool.forget(upto=9)
    assert spool.committed == 9
    assert write(Spool(tmp_path / "spool", "alpha"), event(3)) == 10


def test_a_temporary_file_is_no_event(tmp_path: Path) -> None:
    write(Spool(tmp_path, "alpha"), event())
    (tmp_path / "000000000002.json.tmp").write_bytes(b'{"host": "al')
    assert [message.seq for message in Spool(tmp_path, "alpha").unacknowledged()] == [1]


def test_a_new_folder_is_not_numbered_until_the_dispatchers_count_is_known(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "alpha")
    write(spool, event())
    assert not Spool(tmp_path, "alpha").is_numbered
    spool.continue_after(40)
    assert (spool.first, spool.last) == (41, 41)
    again = Spool(tmp_path, "alpha")
    assert again.is_numbered
    assert [message.seq for message in again.unacknowledged()] == [41]
    assert write(again, event()) == 42
    again.forget(upto=41)
    assert (again.first, again.committed, again.last) == (41, 41, 42)


def test_a_folder_of_the_previous_release_keeps_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("7\n")
    spool = Spool(tmp_path, "alpha")
    assert spool.is_numbered
    assert (spool.first, spool.last, write(spool, event())) == (8, 7, 8)


# --- a record that went back ---------------------------------------------------------------------------------------


def numbered(folder: Path, count: int) -> Spool:
    """A spool whose numbers are certain, with so many events."""
    spool = Spool(folder, "alpha")
    spool.continue_after(0)
    for job in range(1, count + 1):
        write(spool, event(job))
    return spool


def test_committed_events_can_be_sent_again_also_after_a_restart(tmp_path: Path) -> None:
    numbered(tmp_path, 5).forget(upto=4)
    spool = Spool(tmp_path, "alpha")
    assert ([message.seq for message in spool.unacknowledged()], spool.committed, spool.first) == ([5], 4, 1)
    spool.send_again(after=2)
    sent = spool.unacknowledged()
    assert [message.seq for message in sent] == [3, 4, 5]
    assert codec.from_plain(sent[0].name, sent[0].body) == event(3)
    assert (spool.committed, Spool(tmp_path, "alpha").committed, write(spool, event())) == (2, 2, 6)


def test_committed_events_are_deleted_after_a_day(tmp_path: Path) -> None:
    spool = numbered(tmp_path, 3)
    spool.forget(upto=2)
    os.utime(tmp_path / "committed" / "000000000001.json", (1000.0, 1000.0))
    os.utime(tmp_path / "committed" / "000000000002.json", (2000.0, 2000.0))
    spool.prune(600.0, lambda: 2100.0)
    assert (spool.first, spool.committed) == (2, 2)
    spool.send_again(after=0)
    assert [message.seq for message in spool.unacknowledged()] == [2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 9999, b'{"host": 1}'])
def test_a_damaged_event_is_set_aside_and_the_others_are_sent(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The dispatcher skips the number as soon as those before it are committed."""
    numbered(tmp_path, 3)
    (tmp_path / "000000000002.json").write_bytes(content)
    (tmp_path / "notes.json").write_text("no event")
    with caplog.at_level(logging.ERROR):
        spool = Spool(tmp_path, "alpha")
    assert "000000000002.json cannot be read and is set aside" in caplog.text
    assert [message.seq for message in spool.unacknowledged()] == [1, 3]
    assert (spool.first, spool.last, Spool(tmp_path, "alpha").first) == (3, 3, 3)


def test_a_pipe_in_place_of_an_event_does_not_block_the_start(tmp_path: Path) -> None:
    numbered(tmp_path, 2)
    (tmp_path / "000000000001.json").unlink()
    os.mkfifo(tmp_path / "000000000001.json")
    assert [message.seq for message in Spool(tmp_path, "alpha").unacknowledged()] == [2]
