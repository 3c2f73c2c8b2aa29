"""Requests for pilots: what each is ordered, and what is left of one that fails."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from gpuq.pools import pilots, requests, serve
from gpuq.pools.pilots import PilotFolders
from tests.pools.site import Site


def test_a_pilot_is_ordered_to_have_the_settings_of_this_gpuq(site: Site) -> None:
    site.restart(settings={"learning": {"level_after_s": 10.0}})
    order = json.loads((site.home.pilots / site.requested() / "order.json").read_bytes())
    assert order["settings"] == {"learning": {"level_after_s": 10.0}}


def test_a_pilot_that_waits_in_slurms_queue_for_an_hour_still_has_a_valid_invitation(site: Site) -> None:
    name = site.requested()
    for _ in range(45):
        site.look(after_s=90)
    assert set(site.api.invited) == {name}
    assert len(site.api.invited) == 3
    assert b"secret 3" in (site.home.pilots / name / "order.json").read_bytes()
    assert site.slurm.submitted == 1


def test_a_pilot_that_waits_while_gpuq_is_upgraded_is_ordered_to_run_the_new_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.requested()
    monkeypatch.setattr(serve, "__version__", "9.9")
    monkeypatch.setattr(requests, "__version__", "9.9")
    site.restart()
    site.look(after_s=3)
    assert json.loads((site.home.pilots / name / "order.json").read_bytes())["version"] == "9.9"
    site.look(after_s=3)
    assert len(site.api.invited) == 2, "once"


def test_a_request_that_never_reached_slurm_is_made_again(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "request", 1
    site.look()
    site.slurm.loses = None
    site.stay(180)
    (pilot,) = PilotFolders(site.home).read()
    assert (pilot.slurm_job, list(site.slurm.there)) == (1, [1])


def test_a_home_that_is_full_requests_no_pilot_and_leaves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(path))

    monkeypatch.setattr(pilots, "write_private", full)
    site.api.waiting = 1
    with pytest.raises(OSError, match="quota"):
        site.look()
    assert (site.slurm.submitted, list(site.home.pilots.glob("*/"))) == (0, [])


def test_a_refused_request_leaves_nothing(site: Site) -> None:
    site.slurm.refuses, site.api.waiting = "Invalid qos", 1
    site.look()
    assert not list(site.home.pilots.glob("*/"))


def test_a_slow_slurm_gets_one_request_at_each_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = site.slurm.submit

    def slowly(script: str, options: list[str]) -> int:
        site.now += 20
        return submit(script, options)

    monkeypatch.setattr(site.slurm, "submit", slowly)
    site.api.waiting = 3
    site.look()
    assert site.slurm.submitted == 1
    site.look(after_s=3)
    assert site.slurm.submitted == 2
