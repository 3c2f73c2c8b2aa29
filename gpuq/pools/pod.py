"""The pod that a pilot is on a Kubernetes cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpuq.adapters.kubernetes import FOLDER, LABEL
from gpuq.messages.pilot import NOTICE_S
from gpuq.pools.pool import Pod, Pool


def where(pod: Pod) -> tuple[str, ...]:
    """The options of kubectl that name the cluster and the namespace."""
    given = {"--context": pod.context, "--namespace": pod.namespace}
    return tuple(f"{name}={value}" for name, value in given.items() if value)


def manifest(pool: Pool, pod: Pod, gpus: int, folder: Path, number: int) -> dict[str, Any]:
    """The pod of a pilot with so many GPUs, whose folder is in the volume. Kubernetes ends it at its time limit, and starts it
    never again."""
    requests = {name: value for name, value in {"cpu": pod.cpu, "memory": pod.memory}.items() if value}
    limits = {pod.resource: str(gpus)} if gpus else {}
    labels = {"app.kubernetes.io/name": "gpuq", "app.kubernetes.io/managed-by": "gpuq", "gpuq.pool": pool.name}
    # The same output as Slurm writes: it says why a pilot ended before it joined.
    command = 'exec "$0" -P -m gpuq_workers.pilot "$1" >"$1/slurm.out" 2>&1'
    container = {
        "name": "pilot",
        "image": pod.image,
        "command": ["/bin/sh", "-c", command, pod.python, str(folder)],
        "workingDir": pod.mount,
        "env": [{"name": "HOME", "value": pod.mount}],
        "resources": {"requests": {**requests, **limits}, "limits": limits},
        "volumeMounts": [{"name": "home", "mountPath": pod.mount}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": int(pool.time_limit_s),
        "terminationGracePeriodSeconds": NOTICE_S,
        "automountServiceAccountToken": False,
        # The files of the home are its owner's only.
        "securityContext": {"runAsUser": os.getuid(), "runAsGroup": os.getgid()},
        "containers": [container],
        "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": pod.claim}}],
    }
    if pod.node_selector:
        spec["nodeSelector"] = pod.node_selector
    metadata = {
        "name": f"gpuq-{pool.name}-{number}",
        "labels": {**labels, LABEL: str(number)},
        "annotations": {FOLDER: str(folder)},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
