"""The counter of the kernel's OOM killer, on a file in its place."""

from __future__ import annotations

from gpuq_workers.shim import oom


def test_an_increase_of_the_counter_is_noticed(tmp_path, monkeypatch) -> None:
    events, now = tmp_path / "memory.events", [100.0]
    events.write_text("oom 0\noom_kill 4\n")
    monkeypatch.setattr(oom, "_events_file", lambda: str(events))
    watch = oom.OomWatch(lambda: now[0])
    assert watch.seconds_ago() is None
    events.write_text("oom 1\noom_kill 5\n")
    assert watch.seconds_ago() == 0
    now[0] += 7
    assert watch.seconds_ago() == 7
    events.unlink()
    assert watch.seconds_ago() == 7, "what was seen stays seen"


def test_a_failed_read_keeps_the_last_value(tmp_path, monkeypatch) -> None:
    """Otherwise a kill between that look and the next would be missed."""
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 4\n")
    monkeypatch.setattr(oom, "_events_file", lambda: str(events))
    watch = oom.OomWatch(lambda: 100.0)
    events.write_text("")
    watch.look()
    events.write_text("oom_kill 5\n")
    assert watch.seconds_ago() == 0
