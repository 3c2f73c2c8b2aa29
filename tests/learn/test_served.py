"""What the API shows of learning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from gpuq.learn.served import Served
from gpuq.learn.shelf import Shelf
from gpuq.settings import Learning
from tests.daemon.test_retrain import row
from tests.learn.world import GIB, Work

RESNET = Work("resnet50", 64, 60.0, 6 * GIB)


def test_each_question_first_takes_up_what_has_ended(tmp_path: Path):
    rows: list[Any] = []
    asked: list[float] = []

    def finished(since: float) -> list[Any]:
        asked.append(since)
        return [pair for pair in rows if pair[1].ended_at >= since]

    served = Served(Shelf(tmp_path), Learning(), finished, lambda: {"h/0": "GPU", "h/1": "Other GPU"})
    record = row(RESNET, 1, random.Random(1))[0].record
    assert served.forecast(record)["evidence"] == "none"
    rows.append(row(RESNET, 1, random.Random(1)))
    first = served.forecast(record)
    assert first["evidence"] == "own history, 1 run"
    assert first["upper_memory_bytes"] > first["peak_memory_bytes"]
    rows.extend(row(RESNET, number, random.Random(number)) for number in range(2, 100))
    assert served.forecast(record)["evidence"] == "own history, 64 runs"
    assert served.forecast(record) == served.forecast(record)
    assert asked[-1] > rows[50][1].ended_at, "old attempts must not be read again"


def test_without_devices_nothing_is_known(tmp_path: Path):
    served = Served(Shelf(tmp_path), Learning(), lambda since: [], dict)
    record = row(RESNET, 1, random.Random(1))[0].record
    assert served.forecast(record)["upper_memory_bytes"] is None
    assert served.status()["current"] is None
