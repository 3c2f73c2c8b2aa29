"""Pictures of every view over a made record at a fixed moment, compared with those in `pictures`: `make soak`.

They are of Debian 12's Chromium and its fonts. After a wanted change take them again, and look at them before they are committed:
`GPUQ_PICTURES=take pytest -m soak tests/api/page/test_pictures.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuq.api.live import LiveReader
from gpuq.settings import Settings
from tests.api.conftest import Endpoint, started
from tests.api.page.opening import address, opened
from tests.api.support import FaultyStore, MemoryStream, SmallModels
from tests.support.browser import Browser
from tests.support.pictures import differing, small

FOLDER = Path(__file__).with_name("pictures")
SEEN = Path("build") / "pictures"
MOST_DIFFERING = 0.0005
"""Of the pixels: some 500 of a desktop's screen, fewer than a changed word of a label has."""
MOMENT = 1_790_000_000.25
SIZES = (("desktop", 1280, 800, "light"), ("phone", 390, 844, "dark"))
VIEWS = {
    "devices": "/",
    "queue": "/queue",
    "ended": "/queue?show=ended",
    "running-job": "/jobs/42",
    "waiting-job": "/jobs/51?share=auto&max_slowdown=50&gpus=1",
    "ended-job": "/jobs/37",
    "timeline": "/timeline?hours=2",
    "week": "/week",
    "pairs": "/pairs?slowed=ada:train.py&beside=ada:gan.py",
    "model": "/model",
    "submit": "/submit?like=51",
    "administration": "/administration",
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], float]]:
    """The wall clock, also of what makes the record, which stands still, in UTC; time that is waited for goes on."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", lambda: MOMENT)
        yield time.time
    time.tzset()


@pytest.mark.soak
async def test_every_view_looks_as_it_did(clock: Callable[[], float], settings: Settings, browser: Browser) -> None:
    async with started(settings, FaultyStore(), MemoryStream(), SmallModels(), clock) as endpoint:
        # By a clock that stands still, what was read before the afternoon began would stay the latest.
        endpoint.context.live = LiveReader(endpoint.stream, clock, stale_after_s=3600.0)
        await opened(endpoint, browser)
        taken = await asyncio.to_thread(take, endpoint, browser)
    if os.environ.get("GPUQ_PICTURES") == "take":
        FOLDER.mkdir(exist_ok=True)
        for name, picture in taken.items():
            (FOLDER / name).write_bytes(picture)
    SEEN.mkdir(parents=True, exist_ok=True)
    others = {}
    for name, picture in taken.items():
        share = differing((FOLDER / name).read_bytes(), picture)
        if share > MOST_DIFFERING:
            (SEEN / name).write_bytes(picture)
            others[name] = f"{share:.2%}"
    assert others == {}, f"so many pixels differ; what was seen is in {SEEN.absolute()}"


def take(endpoint: Endpoint, browser: Browser) -> dict[str, bytes]:
    """Each view as a whole, in each size, by the name of its file."""
    taken = {}
    for name, path in VIEWS.items():
        for size, width, height, shade in SIZES:
            browser.size(width, height)
            browser.shade(shade)
            browser.open(address(endpoint, path))
            browser.wait(lambda: browser.text(".health") == "live")
            taken[f"{name}-{size}-{shade}.png"] = small(browser.picture(whole=True))
    return taken
