"""The spool: numbers without gaps, kept over restarts, lost disks and crashes at the worst moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers import spool as spool_module
from gpuq_workers.spool import Spool

from gpuq.core.state.events import Started
from gpuq.messages import codec
from tests.workers.twins import attempt_id


def event(job: int = 1) -> Started:
    return Started(attempt_id(job), 1.5, 42, "/log")


def test_numbers_count_up_from_1_and_events_are_read_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "alpha")
    assert [spool.write(event(job)) for job in (1, 2, 3)] == [1, 2, 3]
    messages = spool.unacknowledged()
    assert [message.seq for message in messages] == [1, 2, 3]
    assert codec.from_plain(messages[1].name, messages[1].body) == event(2)


def test_a_restart_reads_the_remaining_events(tmp_path: Path) -> None:
    first = Spool(tmp_path, "alpha")
    for job in range(12):
        first.write(event(job))
    first.forget(upto=9)
    second = Spool(tmp_path, "alpha")
    assert [message.seq for message in second.unacknowledged()] == [10, 11, 12]
    assert second.write(event()) == 13


def test_an_empty_spool_remembers_its_last_number(tmp_path: Path) -> None:
    first = Spool(tmp_path, "alpha")
    first.write(event())
    first.forget(upto=1)
    assert Spool(tmp_path, "alpha").write(event()) == 2


def test_a_crash_during_forget_repeats_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Spool(tmp_path, "alpha")
    first.write(event())
    first.write(event())
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        first.forget(upto=2)
    monkeypatch.undo()
    for path in tmp_path.glob("*.json"):
        path.unlink()
    assert Spool(tmp_path, "alpha").write(event()) == 3


def test_an_event_that_cannot_be_written_takes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, "alpha")
    monkeypatch.setattr(spool_module, "write_private", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        spool.write(event())
    monkeypatch.undo()
    assert spool.write(event()) == 1


def test_a_temporary_file_is_no_event(tmp_path: Path) -> None:
    Spool(tmp_path, "alpha").write(event())
    (tmp_path / "000000000002.json.tmp").write_bytes(b'{"host": "al')
    assert [message.seq for message in Spool(tmp_path, "alpha").unacknowledged()] == [1]


def test_a_new_folder_is_not_numbered_until_the_dispatchers_count_is_known(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "alpha")
    spool.write(event())
    assert not Spool(tmp_path, "alpha").is_numbered
    spool.continue_after(40)
    assert (spool.first, spool.last) == (41, 41)
    again = Spool(tmp_path, "alpha")
    assert again.is_numbered
    assert [message.seq for message in again.unacknowledged()] == [41]
    assert again.write(event()) == 42
    again.forget(upto=41)
    assert (again.first, again.last) == (42, 42)


def test_a_folder_of_the_previous_release_keeps_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("7\n")
    spool = Spool(tmp_path, "alpha")
    assert spool.is_numbered
    assert (spool.first, spool.last, spool.write(event())) == (8, 7, 8)
