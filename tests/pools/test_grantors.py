"""Places that grant pilots: clusters of pods beside Slurm."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import Unreachable
from gpuq.pools import pool
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pod, Pool
from tests.pools.site import FakeSlurm, Site


class FakePods(FakeSlurm):
    """Of one place; pods that have ended are there until they are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.manifests: list[dict[str, Any]] = []
        self.away = False

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        self._reach()
        return super().jobs(ids)

    def cancel(self, ids: list[int]) -> None:
        self._reach()
        super().cancel(ids)

    def _reach(self) -> None:
        if self.away:
            raise Unreachable("The cluster does not answer.")

    def submit(self, manifest: dict[str, Any]) -> None:  # type: ignore[override]
        self._reach()
        self.manifests.append(manifest)
        if self.loses != "late":
            self.there[int(manifest["metadata"]["labels"]["gpuq.pilot"])] = "PENDING"
        if self.loses:
            raise Unreachable("The cluster does not answer.")

    def folder_of(self, number: int) -> str:
        return next(
            str(one["metadata"]["annotations"]["gpuq.folder"])
            for one in self.manifests
            if one["metadata"]["labels"]["gpuq.pilot"] == str(number)
        )


def test_a_pool_of_pods_requests_takes_back_and_deletes_pods_in_its_place(site: Site) -> None:
    pod = Pod(image="i", claim="home", mount=str(site.home.root), namespace="lab")
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="kubernetes", most=3, pod=pod))
    places: dict[tuple[str, ...], FakePods] = {}

    def place(where: Any) -> FakePods:
        return places.setdefault(tuple(where), FakePods())

    site.restart(pods=place)
    site.api.waiting = 2
    site.look()
    (there,) = places.values()
    assert (list(places), len(there.manifests), site.slurm.submitted) == ([("--namespace=lab",)], 2, 0)
    order = json.loads((site.home.pilots / site.pilots[0] / "order.json").read_bytes())
    assert order["lasts_s"] == 4 * 3600
    site.api.join(site.pilots[0], 7)
    site.api.waiting = 0
    site.look(after_s=3)
    assert len(there.cancelled) == 1, "the one that waits"
    pool.remove(site.home, "kubernetes")
    site.look(after_s=3)
    assert there.there == {}, "its place is known though its pool is not any more"
    site.api.hosts[site.pilots[0]] |= {"state": "silent", "jobs": []}
    for _ in range(3):
        site.look(after_s=31)
    assert site.pilots == []
    assert sorted(there.cancelled) == sorted(2 * numbers(there.manifests))


def test_a_cluster_that_does_not_answer_keeps_no_other_pool_waiting(site: Site, pods: FakePods) -> None:
    """Its pool was removed, so its pilots are to be ended, which cannot be done; and one of Slurm's has ended meanwhile."""
    site.api.waiting = 1
    site.look()
    pool.remove(site.home, "pods")
    pool.add(site.home, Pool(name="slurm", most=1))
    pods.away = True
    site.look()
    assert site.slurm.submitted == 1
    site.slurm.there.clear()
    site.stay(120)
    assert site.slurm.submitted == 2, "the end of the first one was noticed"

    pods.away = False
    site.stay(120)
    assert pods.there == {}


@pytest.mark.parametrize("how", ["answer", "late"])
def test_a_pod_that_was_created_without_an_answer_is_found_and_deleted(site: Site, pods: FakePods, how: str) -> None:
    site.api.waiting, pods.loses = 1, how
    site.look()
    site.stay(50)
    (number,) = numbers(pods.manifests)
    pods.there[number], pods.loses = "PENDING", None
    site.stay(60)
    (pilot,) = PilotFolders(site.home).read()
    assert pilot.slurm_job == number
    site.api.waiting = 0
    site.stay(60)
    assert (pods.there, site.pilots) == ({}, [])


def test_what_a_pod_took_is_charged_once_though_it_cannot_be_deleted_for_a_while(site: Site, pods: FakePods) -> None:
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.hosts[name]["state"], site.api.waiting = "silent", 0
    pods.there.clear()
    site.look(after_s=3600)
    pods.away = True
    site.stay(60)
    pods.away = False
    site.stay(60)
    assert site.pilots == []
    assert PilotFolders(site.home).hours("pods") == pytest.approx(1.0, abs=0.05)


def test_a_pod_that_runs_and_does_not_join_is_called_a_pod(site: Site, pods: FakePods) -> None:
    site.api.waiting = 1
    site.look()
    (number,) = numbers(pods.manifests)
    pods.there[number] = "RUNNING"
    site.stay(400)
    assert pods.cancelled[0] == number
    said = site.problem("pods")
    assert said["problem"].startswith(f"Pod {number} has run for 3")


@pytest.fixture
def pods(site: Site) -> FakePods:
    """A pool of pods, in place of that of Slurm."""
    made = FakePods()
    site.restart(pods=lambda _: made)
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="pods", most=1, pod=Pod(image="i", claim="home", mount=str(site.home.root))))
    return made


def numbers(manifests: list[dict[str, Any]]) -> list[int]:
    return [int(manifest["metadata"]["labels"]["gpuq.pilot"]) for manifest in manifests]
