"""A child that falls over is started again, and why it fell is told and written down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from gpuq.adapters.supervise import ChildSpec, Crash, supervise

WITHIN_S = 20


async def test_a_child_that_falls_over_is_reported_with_its_last_words_and_started_again(tmp_path: Path) -> None:
    """It refuses, is killed, then stays: the status file shows both, and goes when the supervision ends in order."""
    script = (
        f"cd {tmp_path}; echo x >> lives; "
        'case "$(wc -l < lives)" in 1) echo "gpuq: no driver."; echo "  Install it."; exit 4;; 2) kill -9 $$;; esac; '
        "exec sleep 600"
    )
    spec = ChildSpec("worker", ["sh", "-c", script], tmp_path / "worker.log", status=tmp_path / "status.json")
    stop = asyncio.Event()
    crashes: list[Crash] = []
    supervision = asyncio.create_task(supervise(spec, stop, crashes.append))
    async with asyncio.timeout(WITHIN_S):
        while not _runs_after_two(tmp_path / "status.json"):
            await asyncio.sleep(0.01)
    status = json.loads((tmp_path / "status.json").read_text())
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)

    assert [(crash.how, crash.in_a_row, crash.said, crash.fix) for crash in crashes] == [
        ("exit code 4", 1, "no driver.", "Install it."),
        ("SIGKILL", 2, "It wrote nothing.", None),
    ]
    assert "worker ended (SIGKILL) and is started again" in str(crashes[1])
    assert status["last_crash"]["how"] == "SIGKILL"
    assert not (tmp_path / "status.json").exists()


def _runs_after_two(status: Path) -> bool:
    if not status.exists():
        return False
    found = json.loads(status.read_text())
    return len(found["crashes"]) == 2 and found["started_at"] is not None
