"""Pods of a Kubernetes cluster, by `kubectl` in the user's context. The only part of gpuq that names its words."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Unreachable

LABEL = "gpuq.pilot"
"""Of a pod: the number of its pilot."""
FOLDER = "gpuq.folder"
"""Of a pod: the folder of its pilot."""
_ANSWER_WITHIN_S = 60.0
# With these it is not known whether the cluster has done what it was asked for.
_AWAY = re.compile(
    r"Unable to connect to the server|connection refused|i/o timeout|TLS handshake|was refused|EOF|ServiceUnavailable"
    r"|timed out|\(Timeout\)|ServerTimeout|deadline exceeded|request cancell?ed|connection (was )?(reset|lost)|leader changed"
    r"|InternalError|TooManyRequests",
    re.IGNORECASE,
)
_ENDED = {"Succeeded", "Failed"}


def check() -> None:
    """Raises BadInput where kubectl is not installed."""
    if shutil.which("kubectl") is None:
        raise BadInput("`kubectl` is not on your PATH.", fix="Install it, and log in to the cluster with it.")


class Pods:
    """The pods of gpuq in one namespace. `where`: `--context` and `--namespace`, as far as they are not kubectl's own."""

    def __init__(self, where: Sequence[str] = ()) -> None:
        self._where = tuple(where)

    def submit(self, manifest: dict[str, Any]) -> None:
        """Create a pod. Raises BadInput with what the cluster says against it, and Unreachable."""
        self._run(["create", "-f", "-", "--output=name"], json.dumps(manifest))

    def test(self, manifest: dict[str, Any]) -> None:
        """Raises as `submit` would, and creates nothing: the cluster checks the manifest and the rights to create it."""
        self._run(["create", "-f", "-", "--dry-run=server", "--output=name"], json.dumps(manifest))

    def jobs(self, ids: Collection[int]) -> dict[int, SlurmJob]:
        """Those of these pods that wait or run. Raises Unreachable."""
        return {
            number: _job(number, pod)
            for number, pod in self._pods(ids).items()
            if pod["status"].get("phase") not in _ENDED and "deletionTimestamp" not in pod["metadata"]
        }

    def jobs_in(self, folders: Collection[str]) -> dict[str, SlurmJob]:
        """The pods of the pilots with these folders, by folder; also those that have ended, which stay until they are deleted.
        Raises Unreachable."""
        found = {}
        for number, pod in self._listed(f"--selector={LABEL}").items() if folders else ():
            folder = pod["metadata"].get("annotations", {}).get(FOLDER)
            if folder in folders:
                found[folder] = _job(number, pod)
        return found

    def ended(self, job: int) -> str:
        """How this pod ended, in the cluster's words. Raises Unreachable, and BadInput where it is not there any more."""
        pods = self._pods([job])
        if job not in pods:
            raise BadInput(f"Pod {job} is not there any more.")
        status = pods[job]["status"]
        words = [status.get("phase"), status.get("reason"), status.get("message")]
        for container in status.get("containerStatuses", ()):
            over = container.get("state", {}).get("terminated", {})
            words += [over.get("reason"), f"exit code {over['exitCode']}" if "exitCode" in over else None]
        node = pods[job].get("spec", {}).get("nodeName")
        return ", ".join([word for word in words if word] + ([f"on {node}"] if node else []))

    def cancel(self, ids: Collection[int]) -> None:
        """Delete these pods; those that are not there any more are left alone. Raises Unreachable."""
        self._delete(ids)

    def take_back(self, ids: Collection[int]) -> None:
        """Delete those of these pods that wait; one that has started meanwhile runs on. Raises Unreachable."""
        self._delete(ids, "--field-selector=status.phase=Pending")

    def _delete(self, ids: Collection[int], *options: str) -> None:
        if ids:
            self._run(["delete", "pods", _selector(ids), "--wait=false", "--ignore-not-found", *options])

    def _pods(self, ids: Collection[int]) -> dict[int, dict[str, Any]]:
        return self._listed(_selector(ids)) if ids else {}

    def _listed(self, selector: str) -> dict[int, dict[str, Any]]:
        listed = json.loads(self._run(["get", "pods", selector, "--output=json"]))
        return {int(pod["metadata"]["labels"][LABEL]): pod for pod in listed["items"]}

    def _run(self, words: list[str], standard_input: str | None = None) -> str:
        try:
            done = subprocess.run(
                ["kubectl", *words, *self._where],
                input=standard_input,
                stdin=subprocess.DEVNULL if standard_input is None else None,
                capture_output=True,
                text=True,
                timeout=_ANSWER_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable("`kubectl` gave no answer within a minute.", fix="Is the cluster up?") from None
        except OSError as error:
            raise BadInput(f"`kubectl` cannot be run: {error.strerror}.", fix="Is it installed here?") from error
        if done.returncode == 0:
            return done.stdout
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        if _AWAY.search(said):
            raise Unreachable(f"Kubernetes does not answer: {said}", fix="`kubectl get pods` shows when it does.")
        raise BadInput(f"Kubernetes refuses it: {said}", fix="Correct the options of the pool, or ask for the right.")


def _selector(ids: Iterable[int]) -> str:
    return f"--selector={LABEL} in ({','.join(map(str, sorted(ids)))})"


def _job(number: int, pod: dict[str, Any]) -> SlurmJob:
    """With why it waits: what the scheduler says of it, else the reason for which its container does not start."""
    status = pod["status"]
    reasons = [one.get("reason") for one in status.get("conditions", ()) if one.get("status") == "False"]
    waits = [one.get("state", {}).get("waiting", {}).get("reason") for one in status.get("containerStatuses", ())]
    phase = status.get("phase", "Unknown")
    reason = next((one for one in [*waits, *reasons] if one), "None") if phase == "Pending" else "None"
    return SlurmJob(number, "PENDING" if phase == "Pending" else "RUNNING", reason)
