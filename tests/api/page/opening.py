"""Opens a page of the afternoon in a browser, over a record in memory that carries out requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.codec import decoded
from tests.api.conftest import TOKEN, Endpoint
from tests.api.support import afternoon
from tests.support.browser import Browser


def address(endpoint: Endpoint, path: str = "/") -> str:
    return f"http://127.0.0.1:{endpoint.port}{path}"


def carry_out(endpoint: Endpoint) -> None:
    """Requests are carried out at once, as a dispatcher would."""
    after = {"hold": JobState.HELD, "release": JobState.PENDING, "cancel": JobState.CANCELLED}

    def add_requests(verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        if verb == "edit":
            edit = decoded(body["edit"], JobEdit)
            endpoint.store.commit(Commit(edited=[(job, edit) for job in jobs]))
        for job in jobs if verb in after else ():
            endpoint.store.set_state(job, after[verb])

    endpoint.store.add_requests = add_requests  # type: ignore[method-assign]


async def opened(endpoint: Endpoint, browser: Browser, path: str = "/") -> None:
    """The page `path` of the afternoon, after a login with the token in the address."""
    afternoon(endpoint.store, endpoint.stream)
    carry_out(endpoint)

    def open_it() -> None:
        browser.open(address(endpoint, f"/?token={TOKEN}"))
        browser.wait(lambda: browser.driver.current_url == address(endpoint))
        if path != "/":
            browser.open(address(endpoint, path))
        browser.find("html.scripts #frame")

    await asyncio.to_thread(open_it)
