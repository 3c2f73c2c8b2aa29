"""Attempts as their submitters, from the claimed order to what PID 1 is asked for, through the real broker."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gpuq_workers import run_job
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.launcher import SubmitterLauncher

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import boot_id
from gpuq.errors import BadSettings
from gpuq.messages import launch, wire
from gpuq.messages.submission import command_in_unit
from gpuq.settings import Settings
from tests.support import broker as served
from tests.workers import twins
from tests.workers.twins import OneClaim, attempt_id, spec

ME = pwd.getpwuid(os.getuid())
UNIT = "gpuq-1-1.service"


class Nodes:
    def placement(self, _devices: object) -> Placement:
        return Placement({"CUDA_VISIBLE_DEVICES": "GPU-1"}, (0,), ("/dev/nvidia3",))


class Host:
    """The RQ worker of a host whose jobs run as their submitters; the submitter is who runs the tests, under a made up uid."""

    def __init__(self, settings: Settings, folder: Path, pid1: served.Pid1) -> None:
        self.settings, self.pid1, self.socket = settings, pid1, folder / "broker.sock"
        self.ann = pwd.struct_passwd((ME.pw_name, "x", 1001, 1001, "", ME.pw_dir, "/bin/sh"))
        self.broker = served.broker(folder, pid1, home=settings.home, account={ME.pw_name: self.ann}.get)
        self.lease = folder / "lease"
        self.lease.touch()
        self.launcher = SubmitterLauncher(settings, str(self.socket), lease=str(self.lease))
        self.folder = AttemptFolder(settings.home.attempt(1, 1), attempt_id())

    def follow(self, verb: wire.Verb, *specs: Any, credential: launch.SignedCredential | None = None) -> None:
        context = run_job.OrderContext(
            self.settings,
            twins.KEY,
            OneClaim(*specs),
            Nodes(),
            self.launcher,
            twins.INSTANCE,  # type: ignore[arg-type]
        )
        run_job.run(context, wire.sign(wire.Order("alpha", 1, 1, 1, verb, credential=credential), twins.KEY))

    def launch(self, *command: str, uid: int = 1001, lease_s: float | None = None, **changes: Any) -> None:
        record, attempt = spec(command, **changes)
        attempt = replace(attempt, lease_s=lease_s)
        record = msgspec.structs.replace(record, owner=ME.pw_name, uid=uid)
        credential = served.signed_credential(
            job=1, attempt=1, user=ME.pw_name, uid=uid, order=launch.digest(command_in_unit(record.submission).text())
        )
        self.follow(wire.Verb.LAUNCH, (record, attempt), credential=credential)


@pytest.fixture
def host(settings: Settings, tmp_path: Path) -> Iterator[Host]:
    limited = replace(settings.worker, run_as="submitter", job_memory_max_bytes=2**30, hook=True)
    made = Host(replace(settings, worker=limited), tmp_path, served.Pid1())
    with served.listening(made.broker, made.socket):
        yield made


def test_a_launch_becomes_a_unit_of_its_submitter(host: Host) -> None:
    host.launch("python", "train.py", env={"SEED": "1", "GPUQ_FAKE": "1"}, stdin="text", time_limit_s=60.0)
    unit = host.pid1.started[UNIT]
    assert (unit["User"], unit["MemoryMax"], unit["DeviceAllow"]) == (ME.pw_name, 2**30, [("/dev/nvidia3", "rw")])
    order = host.folder.order()
    assert order is not None
    assert (order.shim, order.unit and order.unit.name, order.blink) == (None, UNIT, False)
    assert order.env["GPUQ_PROGRESS"] == "/run/gpuq-job/progress"
    assert order.env["GPUQ_CHECKPOINT_DIR"].startswith(f"{ME.pw_dir}/.local/state/gpuq/checkpoints/1-")
    assert "GPUQ_FAKE" not in order.env
    assert host.folder.path.stat().st_mode & 0o777 == 0o700
    handed = host.pid1.orders[UNIT].decode().split("\0")
    assert "=text" in handed
    assert "SEED=1" in handed
    assert host.folder.ended() is None


def test_the_variables_of_arrays_snapshots_and_slurm_reach_the_job(host: Host) -> None:
    of_record = {"GPUQ_ARRAY_ID": "5", "GPUQ_ARRAY_TASK": "3", "GPUQ_SUBMIT_DIR": "/home/ann/work"}
    host.launch("true", env={**of_record, "SLURM_JOB_ID": "", "SLURM_SUBMIT_DIR": "/", "SLURM_ARRAY_TASK_ID": "3"})
    handed = host.pid1.orders[UNIT].decode().split("\0")
    assert {f"{name}={value}" for name, value in of_record.items()} <= set(handed)
    assert {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=alpha", "SLURM_ARRAY_TASK_ID=3"} <= set(handed)


@pytest.mark.parametrize("entry", ["terminal", "notebook"])
def test_the_shim_of_an_interactive_job_gets_how_its_user_works_in_it(host: Host, entry: str) -> None:
    host.launch("bash", interactive=entry)
    assert host.pid1.orders[UNIT].decode().split("\0")[5] == entry


def test_what_the_broker_refuses_ends_as_failed_with_its_reason(host: Host) -> None:
    host.launch("true", uid=1002)
    end = host.folder.ended()
    assert end is not None
    assert (end.ending, end.exit_code) == ("exited", 126)
    assert f"user {ME.pw_name} has uid 1001 on this host" in end.reason.lower()
    assert host.pid1.started == {}


def test_an_order_without_a_credential_starts_nothing(host: Host) -> None:
    host.follow(wire.Verb.LAUNCH, spec(["true"]))
    end = host.folder.ended()
    assert end is not None
    assert end.exit_code == 126
    assert "no credential" in end.reason


def test_the_shim_of_a_job_with_a_lease_gets_its_length_and_the_file_that_root_keeps(host: Host) -> None:
    host.launch("true", lease_s=10.0)
    assert "10.0 /run/gpuq-lease" in host.pid1.orders[UNIT].decode().split("\0")


def test_without_a_lease_that_it_can_renew_the_worker_says_what_to_do(host: Host) -> None:
    host.lease.unlink()
    with pytest.raises(BadSettings, match="lease") as raised:
        host.launcher.warm()
    assert "systemd-tmpfiles" in raised.value.fix


def test_what_pid_1_does_not_start_never_started(host: Host) -> None:
    host.pid1.fails = True
    host.launch("true")
    end = host.folder.ended()
    assert end is not None
    assert end.ending == "never started"


def test_stop_and_preempt_go_to_the_unit(host: Host) -> None:
    host.launch("sleep", "300")
    host.follow(wire.Verb.PREEMPT)
    host.follow(wire.Verb.STOP)
    assert host.pid1.calls == [("signal", UNIT, 10), ("stop", UNIT)]


def test_without_its_socket_the_worker_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="run_as") as raised:
        SubmitterLauncher(settings, str(tmp_path / "none")).warm()
    assert "gpuq-broker.socket" in raised.value.fix


def test_a_broker_that_does_not_answer_is_noticed_at_the_start(host: Host) -> None:
    host.launcher.warm()
    stranger = replace(host.broker, service=pwd.struct_passwd(("x", "x", os.getuid() + 1, 1, "", "/", "")))
    path = host.socket.with_name("other.sock")
    with served.listening(stranger, path), pytest.raises(BadSettings, match="does not answer"):
        SubmitterLauncher(host.settings, str(path), lease=str(host.lease)).warm()


def test_a_start_without_a_broker_names_it(host: Host) -> None:
    host.launcher = SubmitterLauncher(host.settings, str(host.socket.with_name("none.sock")), lease=str(host.lease))
    host.launch("true")
    end = host.folder.ended()
    assert end is not None
    assert (end.ending, end.reason) == (
        "never started",
        f"it could not be started: the broker at {host.socket.with_name('none.sock')} cannot be asked: No such file or directory",
    )


def test_the_boot_is_part_of_the_instance(settings: Settings) -> None:
    from gpuq.home import instance_id

    assert instance_id(settings.home, boot_id()) != instance_id(settings.home, "another boot")
