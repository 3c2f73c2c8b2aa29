"""The pod that a pilot is: what it holds, and that Kubernetes' own schema takes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuq.pools.pod import manifest, where
from gpuq.pools.pool import Pod, Pool

POD = Pod(
    image="registry.example.org/gpuq:1",
    claim="home",
    mount="/home/ada",
    cpu="8",
    memory="32Gi",
    python="/venv/bin/python",
)
POOL = Pool(name="kubernetes", gpus=4, time_limit_s=3600, pod=POD)
FOLDER = Path("/home/ada/.local/state/gpuq/pilots/kubernetes-1")


def made(pod: Pod = POD, gpus: int = 2) -> dict[str, Any]:
    return manifest(POOL, pod, gpus, FOLDER, 7)


def test_a_pod_has_the_gpus_that_were_asked_for_and_ends_at_the_limit_of_its_pool() -> None:
    spec = made()["spec"]
    (container,) = spec["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    assert (spec["activeDeadlineSeconds"], spec["restartPolicy"]) == (3600, "Never")
    assert spec["securityContext"]["runAsUser"] == os.getuid(), "the files of the home are its owner's only"
    assert container["command"][-2:] == ["/venv/bin/python", str(FOLDER)]


def test_a_pool_without_gpus_asks_for_none() -> None:
    assert made(gpus=0)["spec"]["containers"][0]["resources"]["limits"] == {}


def test_the_namespace_and_the_context_are_kubectls_own_unless_they_are_given() -> None:
    assert where(POD) == ()
    assert where(replace(POD, namespace="lab", context="site")) == ("--context=site", "--namespace=lab")


@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize("selector", [{}, {"nvidia.com/gpu.product": "H100"}])
def test_the_schema_of_kubernetes_takes_it(gpus: int, selector: dict[str, str]) -> None:
    schema = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate: it has 17,000 files")
    schema.validate(json.loads(json.dumps(made(replace(POD, node_selector=selector), gpus))), "1.37", strict=True)
    with pytest.raises(schema.ValidationError):
        schema.validate({**made(), "spec": {**made()["spec"], "restart": "Never"}}, "1.37", strict=True)
