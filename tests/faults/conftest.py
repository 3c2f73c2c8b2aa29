"""One gpuq for the tests that break a part of it and see it mend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.site import Site
from tests.workers.conftest import attempt

__all__ = ["attempt", "site"]


@pytest.fixture(scope="package")
def shared_site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1) as site:
        yield site


@pytest.fixture
def site(shared_site: Site) -> Site:
    """Whole and idle, also after a test that failed in between."""
    shared_site.mend()
    return shared_site
