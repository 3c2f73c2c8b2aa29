"""What a captured worker service may not do: choose a user, a command, or what the user's process loads."""

from __future__ import annotations

from typing import Any

import pytest
from gpuq_broker import checks
from gpuq_broker.checks import HOOK_FOLDER, StartRefused
from gpuq_workers.rendezvous import rendezvous_environment

from gpuq.core.state.attempt import Attempt, AttemptId, Gang
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, KindId
from gpuq.messages.launch import JOB_FOLDER
from tests.support.broker import ANN, COMMAND, INSTANCE, NOW, credential, unit_order


def test_a_sound_credential_and_order_pass() -> None:
    checks.check_credential(credential(), INSTANCE, 1000, NOW)
    assert checks.check_account(credential(), ANN) is ANN
    assert checks.check_order(unit_order(), credential(), ANN) == COMMAND


@pytest.mark.parametrize(
    ("changes", "least_uid", "why"),
    [
        ({"instance": "a copy of this home"}, 1000, "another machine or home"),
        ({"expires_at": NOW}, 1000, "expired"),
        ({"uid": 0, "user": "root"}, 1000, "root or of a service"),
        ({"uid": 999}, 1000, "root or of a service"),
        ({"uid": 999}, 1, "root or of a service"),  # the setting cannot lower it
        ({"uid": 1001}, 2000, "root or of a service"),
    ],
)
def test_a_credential_that_does_not_hold_here_is_refused(changes: dict[str, Any], least_uid: int, why: str) -> None:
    with pytest.raises(StartRefused, match=why):
        checks.check_credential(credential(**changes), INSTANCE, least_uid, NOW)


def test_a_user_who_is_another_one_here_is_refused() -> None:
    with pytest.raises(StartRefused, match="uid 1001 on this host and 1002 on the main host"):
        checks.check_account(credential(uid=1002), ANN)
    with pytest.raises(StartRefused, match="no user ann"):
        checks.check_account(credential(), None)


def test_an_order_that_was_not_signed_for_is_refused() -> None:
    other = unit_order(submitted=COMMAND.text().replace("train.py", "steal.py"))
    with pytest.raises(StartRefused, match="not the one"):
        checks.check_order(other, credential(), ANN)


@pytest.mark.parametrize(
    "added",
    [
        {"LD_PRELOAD": "/tmp/evil.so"},
        {"PYTHONPATH": "/tmp/evil"},
        {"PYTHONPATH": f"{HOOK_FOLDER}:/tmp/evil"},
        {"PATH": "/tmp/evil:/usr/bin"},
        {"CUDA_INJECTION64_PATH": "/tmp/evil.so"},
        {"CUDA_VISIBLE_DEVICES": "GPU-1\nLD_PRELOAD"},
        {"HOME": "/home/bob"},
        {"USER": "bob"},
        {"SEED": "2"},
        {"GPUQ_PROGRESS": "/home/ann/.ssh/authorized_keys"},
        {"GPUQ_CHECKPOINT_DIR": "/home/ann/.ssh"},
        {"GPUQ_CHECKPOINT_DIR": "/home/ann/.local/state/gpuq/checkpoints/8-1000"},
        {"GPUQ_ARRAY_TASK": "3"},
        {"SLURM_JOB_NODELIST": "$(id)"},
        {"GPUQ_JOB_ID": "7\0LD_PRELOAD=/tmp/evil.so"},
        {"LD_PRELOAD=/tmp/evil.so\0A": "1"},
    ],
)
def test_a_host_adds_no_variable_that_loads_other_code(added: dict[str, str]) -> None:
    with pytest.raises(StartRefused):
        checks.check_order(unit_order(env={**unit_order().env, **added}), credential(), ANN)


def test_a_host_may_not_leave_out_what_was_submitted() -> None:
    with pytest.raises(StartRefused, match="SEED"):
        checks.check_order(unit_order(env={"HOME": "/home/ann"}), credential(), ANN)


def test_what_the_worker_service_adds_itself_passes() -> None:
    added = {
        "PYTHONPATH": str(HOOK_FOLDER),
        "GPUQ_PROGRESS": f"{JOB_FOLDER}/progress",
        "GPUQ_CHECKPOINT_DIR": "/home/ann/.local/state/gpuq/checkpoints/7-1795422713",
        "USER": "ann",
        "GPUQ_SHARED": "1",
    }
    checks.check_order(unit_order(env={**unit_order().env, **added}), credential(), ANN)


@pytest.mark.parametrize("address", ["node1.example.org", "10.0.0.1", "fe80::1%eth0"])
def test_what_lets_the_processes_of_several_hosts_meet_passes(address: str) -> None:
    gang = Gang(3, (HostId("a"), HostId("b")), address, 23_456)
    attempt = Attempt(AttemptId(JobId(7), 4), KindId("k"), HostId("b"), (DeviceId("g"),), (1,), False, 0.0, gang=gang)
    added = rendezvous_environment(gang, attempt)
    checks.check_order(unit_order(env={**unit_order().env, **added}), credential(), ANN)
    assert (added["RANK"], added["WORLD_SIZE"], added["MASTER_ADDR"]) == ("1", "2", address)
    with pytest.raises(StartRefused, match="MASTER_ADDR"):
        checks.check_order(unit_order(env={**unit_order().env, "MASTER_ADDR": "$(id)"}), credential(), ANN)


@pytest.mark.parametrize("node", ["/dev/sda", "/dev/mem", "/dev/nvidia0/../sda", "char-*", "/dev/nvidia0 rwm"])
def test_only_nvidias_devices_can_be_granted(node: str) -> None:
    with pytest.raises(StartRefused, match="no device"):
        checks.check_order(unit_order(nodes=(node,)), credential(), ANN)
