"""kubectl, by stand-ins of it that print what a cluster answers. No cluster was there to run against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuq.adapters import kubernetes
from gpuq.adapters.kubernetes import Pods
from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Unreachable


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def prints(commands: Path, *, out: str = "", err: str = "", code: int = 0) -> None:
    path = commands / "kubectl"
    text = f"#!/bin/sh\necho \"$@\" >> {commands}/calls\ncat >&2 <<'E'\n{err}\nE\ncat <<'E'\n{out}\nE\nexit {code}\n"
    path.write_text(text)
    path.chmod(0o755)


def listed(*pods: dict[str, Any]) -> str:
    return json.dumps({"items": pods})


def pod(number: int, phase: str, *, deleted: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {
        "labels": {"gpuq.pilot": str(number)},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
    }
    return {"metadata": metadata, "spec": {"nodeName": "n7"}, "status": {"phase": phase, **status}}


def test_a_pod_is_created_from_a_manifest_in_the_place_of_the_pool(commands: Path) -> None:
    prints(commands, out="pod/gpuq-1")
    Pods(["--namespace=lab"]).submit({"kind": "Pod"})
    Pods().test({"kind": "Pod"})
    assert (commands / "calls").read_text().splitlines() == [
        "create -f - --output=name --namespace=lab",
        "create -f - --dry-run=server --output=name",
    ]


def test_pods_that_have_ended_or_are_being_deleted_are_left_out(commands: Path) -> None:
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    pulling = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    said = [
        pod(1, "Pending", conditions=unschedulable),
        pod(2, "Running"),
        pod(3, "Failed"),
        pod(4, "Succeeded"),
        pod(5, "Running", deleted=True),
        pod(6, "Pending", containerStatuses=pulling, conditions=unschedulable),
    ]
    prints(commands, out=listed(*said))
    assert Pods().jobs({1, 2, 3, 4, 5, 6}) == {
        1: SlurmJob(1, "PENDING", "Unschedulable"),
        2: SlurmJob(2, "RUNNING", "None"),
        6: SlurmJob(6, "PENDING", "ImagePullBackOff"),
    }
    assert (commands / "calls").read_text() == "get pods --selector=gpuq.pilot in (1,2,3,4,5,6) --output=json\n"


def test_pods_are_found_by_the_folders_of_their_pilots_also_those_that_have_ended(commands: Path) -> None:
    said = [pod(1, "Running"), pod(2, "Failed"), pod(3, "Running")]
    for one, folder in zip(said, ("/home/ada/a", "/home/ada/b", None), strict=True):
        one["metadata"] |= {"annotations": {"gpuq.folder": folder}} if folder else {}
    prints(commands, out=listed(*said))
    assert {
        folder: job.id for folder, job in Pods().jobs_in({"/home/ada/a", "/home/ada/b", "/home/ada/c"}).items()
    } == {
        "/home/ada/a": 1,
        "/home/ada/b": 2,
    }
    assert (commands / "calls").read_text() == "get pods --selector=gpuq.pilot --output=json\n"


def test_nothing_is_asked_about_no_pods(commands: Path) -> None:
    assert Pods().jobs(set()) == {}
    Pods().cancel([])
    assert not (commands / "calls").exists()


def test_how_a_pod_ended_is_said_in_the_clusters_words(commands: Path) -> None:
    over = [{"state": {"terminated": {"reason": "Error", "exitCode": 2}}}]
    prints(commands, out=listed(pod(1, "Failed", reason="DeadlineExceeded", containerStatuses=over)))
    assert Pods().ended(1) == "Failed, DeadlineExceeded, Error, exit code 2, on n7"
    with pytest.raises(BadInput, match="not there"):
        Pods().ended(2)


def test_one_that_waits_is_deleted_only_if_it_still_waits(commands: Path) -> None:
    prints(commands)
    Pods().take_back([2, 1])
    Pods().cancel([3])
    assert (commands / "calls").read_text().splitlines() == [
        "delete pods --selector=gpuq.pilot in (1,2) --wait=false --ignore-not-found --field-selector=status.phase=Pending",
        "delete pods --selector=gpuq.pilot in (3) --wait=false --ignore-not-found",
    ]


def test_a_refusal_is_said_in_the_clusters_words(commands: Path) -> None:
    said = 'Error from server (Forbidden): pods "gpuq-1" is forbidden: exceeded quota: gpus'
    prints(commands, err=said, code=1)
    with pytest.raises(BadInput, match=r"Kubernetes refuses it: .*exceeded quota: gpus"):
        Pods().submit({})


@pytest.mark.parametrize(
    "said",
    [
        "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?",
        "Error from server (Timeout): error when creating STDIN: Timeout: request did not complete within requested timeout",
        "Error from server: etcdserver: request timed out",
        "Error from server (InternalError): an error on the server has prevented the request from succeeding",
        "error: http2: client connection lost",
    ],
)
def test_a_cluster_that_is_away_is_no_refusal(commands: Path, said: str) -> None:
    prints(commands, err=said, code=1)
    with pytest.raises(Unreachable, match="Kubernetes does not answer"):
        Pods().jobs({1})


def test_a_host_without_kubectl_says_so(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(commands))
    with pytest.raises(BadInput, match="not on your PATH"):
        kubernetes.check()
