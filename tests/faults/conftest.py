"""One gpuq for the tests that break a part of it and see it mend: each leaves it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.site import Site
from tests.workers.conftest import attempt

__all__ = ["attempt", "site"]


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1) as site:
        yield site
