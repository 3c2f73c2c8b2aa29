"""What a credential and its order must be before a unit is started. No I/O.

The worker service writes the order, and it may be captured. So what it adds to a submitted command is checked against a closed
list: no variable that could make the user's process load other code, no device but NVIDIA's.
"""

from __future__ import annotations

import pwd
import re
from collections.abc import Mapping
from pathlib import Path

from gpuq.home import Home
from gpuq.messages.launch import (
    JOB_FOLDER,
    LEAST_UID,
    BadLaunch,
    LaunchCredential,
    SubmittedCommand,
    UnitOrder,
    decoded,
    digest,
    reaches_job,
)

HOOK_FOLDER = Path(__file__).resolve().parents[1] / "gpuq_workers" / "hook"

_NODE = re.compile(r"/dev/(nvidia[0-9]{1,3}|nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-caps/nvidia-cap[0-9]{1,5})")
_NUMBER = "[0-9]{1,19}"
_ADDRESS = "[A-Za-z0-9.:_%-]{1,253}"
_HOST = "[A-Za-z0-9._-]{1,253}"
_HOSTS = rf"{_HOST}(?:,{_HOST})*"
# What a host adds to the environment that was submitted: names, and patterns of their values.
_ADDED = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_VISIBLE_DEVICES": "[A-Za-z0-9,/-]{0,4096}",
    "GPUQ_ATTEMPT": _NUMBER,
    "GPUQ_GPU_MEM_BUDGET": _NUMBER,
    "GPUQ_JOB_ID": _NUMBER,
    "GPUQ_PROGRESS": re.escape(f"{JOB_FOLDER}/progress"),
    "GPUQ_SHARED": "[01]",
    "GROUP_RANK": _NUMBER,
    "JAX_COORDINATOR_ADDRESS": rf"(?:{_ADDRESS}|\[{_ADDRESS}\]):[0-9]{{1,5}}",
    "JAX_NUM_PROCESSES": _NUMBER,
    "JAX_PROCESS_ID": _NUMBER,
    "LOCAL_RANK": _NUMBER,
    "LOCAL_WORLD_SIZE": _NUMBER,
    "MASTER_ADDR": _ADDRESS,
    "MASTER_PORT": "[0-9]{1,5}",
    "NNODES": _NUMBER,
    "NODE_RANK": _NUMBER,
    "NPROC_PER_NODE": _NUMBER,
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PET_MASTER_ADDR": _ADDRESS,
    "PET_MASTER_PORT": "[0-9]{1,5}",
    "PET_NNODES": _NUMBER,
    "PET_NODE_RANK": _NUMBER,
    "PET_NPROC_PER_NODE": _NUMBER,
    "PYTHONUNBUFFERED": "1",
    "RANK": _NUMBER,
    "SLURMD_NODENAME": _HOST,
    "SLURM_GPUS_ON_NODE": _NUMBER,
    "SLURM_JOBID": _NUMBER,
    "SLURM_JOB_ID": _NUMBER,
    "SLURM_JOB_NODELIST": _HOSTS,
    "SLURM_JOB_NUM_NODES": _NUMBER,
    "SLURM_LOCALID": _NUMBER,
    "SLURM_NNODES": _NUMBER,
    "SLURM_NODEID": _NUMBER,
    "SLURM_NODELIST": _HOSTS,
    "SLURM_NPROCS": _NUMBER,
    "SLURM_NTASKS": _NUMBER,
    "SLURM_PROCID": _NUMBER,
    "SLURM_RESTART_COUNT": _NUMBER,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "WORLD_SIZE": _NUMBER,
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


class StartRefused(Exception):
    """The unit is not started. The message is a sentence for the submitter and the log; it has no value of a variable."""


class HostRefuses(StartRefused):
    """No unit of any job would be started: the key or the clock of this host is wrong, or its home was replaced."""


def check_credential(credential: LaunchCredential, instance: str, least_uid: int, now: float) -> None:
    """Raises StartRefused unless the credential is for this instance, for a user's account and has not expired at `now`."""
    if credential.instance != instance:
        raise HostRefuses(f"the credential is for another machine or home, of host {credential.host}")
    if now >= credential.expires_at:
        late_s = now - credential.expires_at
        raise HostRefuses(
            f"the credential expired {late_s:.0f} s ago; compare the clocks of this host and the main host"
        )
    if credential.uid < max(least_uid, LEAST_UID):
        raise StartRefused(f"user {credential.user} has uid {credential.uid}, which is that of root or of a service")


def check_account(credential: LaunchCredential, account: pwd.struct_passwd | None) -> pwd.struct_passwd:
    """The account that the credential names, by its entry here. Raises StartRefused unless name and number are the same."""
    if account is None:
        raise StartRefused(f"this host has no user {credential.user}")
    if account.pw_uid != credential.uid:
        raise StartRefused(
            f"user {credential.user} has uid {account.pw_uid} on this host and {credential.uid} on the main host"
        )
    return account


def check_order(order: UnitOrder, credential: LaunchCredential, account: pwd.struct_passwd) -> SubmittedCommand:
    """What was submitted, if the credential was signed for it and the order adds only what a host may. Raises StartRefused."""
    if digest(order.submitted) != credential.order:
        raise StartRefused(
            "the order is not the one that the credential was signed for; do this host and the main host have one release?"
        )
    try:
        command: SubmittedCommand = decoded(order.submitted.encode(), SubmittedCommand)
    except BadLaunch as error:
        raise StartRefused(f"the order is malformed: {error}") from error
    texts = (*command.command, command.cwd, command.stdin or "", *order.env, *order.env.values())
    if any("\0" in text for text in texts) or any("=" in name for name in order.env):
        raise StartRefused("the order has characters that no command line can have")
    _check_environment(order.env, command.env, _Added(credential.job, account, command.env))
    for node in order.nodes:
        if not _NODE.fullmatch(node):
            raise StartRefused(f"{node[:100]} is no device of NVIDIA's driver")
    if order.cores is not None and not all(0 <= core < 8192 for core in order.cores):
        raise StartRefused("the order names cores that no machine has")
    return command


class _Added:
    """What the host may add to the variables that were submitted with a job."""

    def __init__(self, job: int, account: pwd.struct_passwd, submitted: Mapping[str, str]) -> None:
        searched = submitted.get("PYTHONPATH")
        self._values = {
            "HOME": account.pw_dir,
            "LOGNAME": account.pw_name,
            "PYTHONPATH": f"{HOOK_FOLDER}:{searched}" if searched else str(HOOK_FOLDER),
            "USER": account.pw_name,
        }
        self._checkpoints = f"{Home.of_user(account.pw_dir).checkpoints}/{job}-"

    def has(self, name: str, value: str) -> bool:
        if name in self._values:
            return value == self._values[name]
        if name == "GPUQ_CHECKPOINT_DIR":  # one for each moment at which this job was submitted
            folder, moment = value[: len(self._checkpoints)], value[len(self._checkpoints) :]
            return folder == self._checkpoints and re.fullmatch("[0-9]{1,12}", moment) is not None
        return name in _ADDED and re.fullmatch(_ADDED[name], value) is not None


def _check_environment(env: Mapping[str, str], submitted: Mapping[str, str], added: _Added) -> None:
    for name, value in env.items():
        as_submitted = reaches_job(name) and submitted.get(name) == value
        if not as_submitted and not added.has(name, value):
            raise StartRefused(f"the host may not set the variable {name[:100]} so")
    for name in submitted:
        if name not in env and reaches_job(name):
            raise StartRefused(f"the host has left out the variable {name[:100]}")
