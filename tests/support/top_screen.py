"""The screen of `gpuq top` in a test: what is on it, and the keys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from gpuq.cli.client import HttpClient
from gpuq.cli.top.app import Top


class TopScreen:
    """`text` is what is seen now."""

    def __init__(self, top: Top, pilot: Pilot[None]) -> None:
        self._top, self._pilot = top, pilot

    @property
    def text(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self._top.screen._compositor.render_strips())

    async def until(self, *wanted: str | Callable[[str], bool], within_s: float = 60) -> str:
        """The first text that has, or fulfils, all of `wanted` at once: what the screen shows comes from several requests."""
        deadline = time.monotonic() + within_s
        while missing := [
            want for want in wanted if not (want in self.text if isinstance(want, str) else want(self.text))
        ]:
            assert time.monotonic() < deadline, f"never: {missing}\n{self.text}"
            await self._pilot.pause(0.05)
        return self.text

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)


@asynccontextmanager
async def opened_top(connect: Callable[[], HttpClient], width: int = 80, height: int = 24) -> AsyncIterator[TopScreen]:
    """`gpuq top` on a terminal of this size."""
    top = Top(connect, 1, "all")
    async with top.run_test(size=(width, height)) as pilot:
        yield TopScreen(top, pilot)
