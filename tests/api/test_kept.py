"""Results that are shown while they are made again."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from gpuq.api.kept import KeptResults


async def finished(kept: KeptResults, key: str, value: object) -> None:
    async with asyncio.timeout(60):
        while True:
            found = await kept.get(key, lambda: value, for_s=60)
            if found is not None and found.value == value:
                return
            await asyncio.sleep(0.01)


async def test_a_result_is_shown_while_the_next_one_is_made() -> None:
    now, go = [1000.0], threading.Event()
    kept = KeptResults(lambda: now[0])
    first = await kept.get("week", lambda: 1, for_s=60)
    assert first is not None
    assert (first.value, first.at) == (1, 1000.0)

    def slow() -> int:
        go.wait(60)
        return 2

    now[0] += 61
    stale = await kept.get("week", slow, for_s=60)
    assert stale is not None
    assert (stale.value, stale.at) == (1, 1000.0)
    go.set()
    await finished(kept, "week", 2)
    kept.stop()


async def test_a_first_result_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.api.kept.FIRST_WITHIN_S", 0.01)
    go = threading.Event()
    kept = KeptResults()
    assert await kept.get("week", lambda: go.wait(60), for_s=60) is None
    go.set()
    await finished(kept, "week", True)
    kept.stop()


async def test_a_result_of_yesterday_is_as_none_and_a_failure_is_raised() -> None:
    now = [1000.0]
    kept = KeptResults(lambda: now[0])

    def fails() -> int:
        raise LookupError("no record")

    assert await kept.get("week", lambda: 1, for_s=60) is not None
    now[0] += 86_400
    with pytest.raises(LookupError):
        await kept.get("week", fails, for_s=60)
    kept.stop()


async def test_all_who_wait_for_a_first_result_get_it() -> None:
    kept = KeptResults()
    found = await asyncio.gather(*(kept.get("week", lambda: 1, for_s=60) for _ in range(3)))
    assert [None if one is None else one.value for one in found] == [1, 1, 1]
    kept.stop()


async def test_no_more_than_a_few_results_are_held_also_of_those_that_are_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Report:
        """A result that is large."""

    monkeypatch.setattr("gpuq.api.kept.FIRST_WITHIN_S", 0.0)
    kept = KeptResults()
    for number in range(100):
        await kept.get(number, Report, for_s=60)
        await asyncio.sleep(0)
    await finished(kept, "last", "last")
    assert sum(isinstance(one, Report) for one in gc.get_objects()) <= 32
    kept.stop()


async def test_calculations_do_not_pile_up_behind_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.api.kept.FIRST_WITHIN_S", 0.0)
    go, made = threading.Event(), list[int]()
    kept = KeptResults()
    assert await kept.get("long", lambda: go.wait(60), for_s=60) is None
    for number in range(100):
        assert await kept.get(number, lambda: made.append(1), for_s=60) is None
    go.set()
    await finished(kept, "long", True)
    await finished(kept, "last", "last")
    assert len(made) < 40
    kept.stop()
