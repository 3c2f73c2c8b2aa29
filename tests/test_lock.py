"""A service is installed with the versions that the tests ran with, and without what only tests and workloads need."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pins(name: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==[\w.+!-]+", (ROOT / name).read_text(), re.MULTILINE))


def test_a_service_gets_a_part_of_what_is_tested() -> None:
    service, tested = pins("requirements-service.lock"), pins("requirements.lock")
    assert service < tested
    assert not {pin.split("==")[0] for pin in tested - service} & {"aiohttp", "hatchling", "psycopg", "scikit-learn"}
    assert not {pin.split("==")[0] for pin in service} & {"pytest", "tensorflow", "selenium"}
