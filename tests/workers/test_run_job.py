"""Orders: followed at most once, and never if they are forged, late, or for another host."""

from __future__ import annotations

import json
import logging
import os
import pwd
import sys
from collections.abc import Iterator

import pytest
from gpuq_workers import order_file, run_job
from gpuq_workers.attempts import AttemptFolder, ends_asked_for
from gpuq_workers.measuring.progress import HOOK_FOLDER

from gpuq.adapters import process
from gpuq.errors import Unreachable
from gpuq.messages import wire
from gpuq.messages.submission import Submission
from gpuq.messages.wire import Verb
from gpuq.settings import Settings
from tests.support.hostile import put
from tests.workers import twins
from tests.workers.conftest import shim_lives, wait_for
from tests.workers.twins import OneClaim, attempt_id, order, spec


@pytest.fixture
def folder(settings: Settings) -> Iterator[AttemptFolder]:
    made = AttemptFolder(settings.home.attempt(1, 1), attempt_id())
    yield made
    shim = made.shim()
    if shim is not None:
        process.kill_tree(shim)


@pytest.fixture(autouse=True)
def _dismiss() -> Iterator[None]:
    yield
    for context in twins.contexts:
        context.launcher.shims.close()
        wait_for(
            lambda shims=context.launcher.shims: all(shim.is_gone() for shim in shims._serving),
            what="the end of the shims",
        )


def ended(folder: AttemptFolder) -> None:
    wait_for(folder.ended, what="exit.json")


def test_a_launch_starts_the_command(settings: Settings, folder: AttemptFolder) -> None:
    store = OneClaim(spec(["sh", "-c", "echo $GPUQ_JOB_ID; exit 4"]))
    context = twins.context(settings, store)
    run_job.run(context, order(Verb.LAUNCH))
    ended(folder)
    assert folder.ended().exit_code == 4  # type: ignore[union-attr]
    assert folder.log_path.read_text() == "1\n"
    assert store.claims == [(attempt_id(), "alpha", twins.INSTANCE, process.boot_id())]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "order.json").stat().st_mode & 0o777 == 0o600


def test_only_jobs_submitted_with_blink_may_be_paused(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["true"], blink=True)))
    run_job.run(context, order(Verb.LAUNCH))
    ended(folder)
    assert folder.order().blink  # type: ignore[union-attr]
    assert not Submission(command=("true",), cwd="/").blink


@pytest.mark.parametrize(("submitted", "printed"), [(0o027, "0027"), (None, "0022")])
def test_a_job_has_its_submitters_umask(
    settings: Settings, folder: AttemptFolder, submitted: int | None, printed: str
) -> None:
    """Not that of the services, 077, under which a user could not read the results of their own group."""
    before = os.umask(0o077)
    try:
        run_job.run(twins.context(settings, OneClaim(spec(["sh", "-c", "umask"], umask=submitted))), order(Verb.LAUNCH))
    finally:
        os.umask(before)
    ended(folder)
    assert folder.log_path.read_text().strip() == printed


def test_a_stop_reaches_a_job_that_has_spoiled_its_folder(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(folder.started, what="the start")
    for name in ("exit.json", "stop.json", "stop.json.tmp", "started.json"):
        put("a pipe", folder.path / name)
    run_job.run(context, order(Verb.STOP))
    wait_for(lambda: folder.path.joinpath("exit.json").is_file(), what="the end")
    assert folder.ended().ending == "stopped"  # type: ignore[union-attr]


def test_every_attempt_of_a_job_reads_its_standard_input(settings: Settings, folder: AttemptFolder) -> None:
    command, script = [sys.executable, "-", "7"], "import sys\nprint(sys.argv)\n"
    again = AttemptFolder(settings.home.attempt(1, 2), attempt_id(1, 2))
    context = twins.context(settings, OneClaim(*(spec(command, one.attempt, stdin=script) for one in (folder, again))))
    for one in (folder, again):
        run_job.run(context, order(Verb.LAUNCH, number=one.attempt.number))
        ended(one)
        assert one.log_path.read_text() == "['-', '7']\n"
        assert one.stdin_path.stat().st_mode & 0o777 == 0o600


def test_a_job_without_standard_input_reads_nothing(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["sh", "-c", "wc -c; readlink /proc/self/fd/0"])))
    run_job.run(context, order(Verb.LAUNCH))
    ended(folder)
    assert folder.log_path.read_text() == "0\n/dev/null\n"


def test_a_repeated_launch_starts_once(settings: Settings, folder: AttemptFolder) -> None:
    ran = settings.home.root / "ran"
    store = OneClaim(spec(["sh", "-c", f"echo once >> {ran}"]))
    context = twins.context(settings, store)
    for ring in (1, 1, 2):
        run_job.run(context, order(Verb.LAUNCH, ring=ring))
    ended(folder)
    assert ran.read_text() == "once\n"
    assert len(store.claims) == 1


def test_a_lost_claim_leaves_no_folder(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim())
    run_job.run(context, order(Verb.LAUNCH))
    assert not folder.path.exists()


def test_a_stop_before_the_launch_closes_the_fence(settings: Settings, folder: AttemptFolder) -> None:
    store = OneClaim(spec(["true"]))
    context = twins.context(settings, store)
    run_job.run(context, order(Verb.STOP))
    run_job.run(context, order(Verb.LAUNCH))
    assert folder.ended().ending == "never started"  # type: ignore[union-attr]
    assert store.claims == []
    assert folder.started() is None


@pytest.mark.parametrize("verb", Verb)
def test_an_order_to_another_instance_of_the_host_is_dropped(
    settings: Settings, folder: AttemptFolder, verb: Verb
) -> None:
    store = OneClaim(spec(["true"]))
    run_job.run(twins.context(settings, store), order(verb, instance="a copy of the home"))
    assert not folder.path.exists()
    assert store.claims == []


def test_an_order_to_this_instance_is_followed(settings: Settings, folder: AttemptFolder) -> None:
    run_job.run(twins.context(settings, OneClaim()), order(Verb.STOP, instance=twins.INSTANCE))
    assert folder.ended().ending == "never started"  # type: ignore[union-attr]


def test_a_void_closes_the_fence_but_leaves_a_running_attempt_alone(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(folder.started)
    run_job.run(context, order(Verb.VOID))
    assert shim_lives(folder)
    assert not (folder.path / "stop.json").exists()


def test_a_voided_attempt_without_a_folder_is_lost(settings: Settings, folder: AttemptFolder) -> None:
    """It was claimed, and so had a folder: it may have run, and would run a second time as one that never started."""
    context = twins.context(settings, OneClaim(spec(["true"])))
    run_job.run(context, order(Verb.VOID))
    run_job.run(context, order(Verb.LAUNCH))
    end = folder.ended()
    assert end is not None
    assert (end.ending, end.reason) == ("lost", "its folder was removed; how it ended is not known")
    assert folder.started() is None


@pytest.mark.parametrize("verb", [Verb.STOP, Verb.VOID, Verb.PREEMPT])
def test_an_order_to_end_an_attempt_that_has_begun_asks_for_its_end(
    settings: Settings, folder: AttemptFolder, verb: Verb
) -> None:
    context = twins.context(settings, OneClaim(spec(["true"])))
    run_job.run(context, order(Verb.LAUNCH))
    ended(folder)
    assert list(ends_asked_for(settings.home.attempts)) == []

    run_job.run(context, order(verb))

    assert [one.attempt for one in ends_asked_for(settings.home.attempts)] == [attempt_id()]
    assert list(ends_asked_for(settings.home.attempts)) == [], "once"


def test_a_stop_ends_a_running_attempt_long_before_its_own_end(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(folder.started)
    run_job.run(context, order(Verb.STOP))
    run_job.run(context, order(Verb.STOP, ring=2))
    ended(folder)
    assert folder.ended().ending == "stopped"  # type: ignore[union-attr]


def test_a_stop_reaches_a_job_although_no_file_can_be_made(
    settings: Settings, folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(folder.started)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AttemptFolder, "write_stop", full)
    run_job.run(context, order(Verb.STOP))
    ended(folder)
    assert folder.ended().ending == "lost"  # type: ignore[union-attr]


@pytest.mark.parametrize(("asked", "reported"), [(None, "SIGTERM"), ("SIGUSR1", "SIGUSR1")])
def test_a_preempted_job_gets_its_own_signal_and_may_save(
    settings: Settings, folder: AttemptFolder, asked: str | None, reported: str
) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal(signal.{reported}, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    context = twins.context(settings, OneClaim(spec([sys.executable, "-c", code], preemptible=True, signal=asked)))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(lambda: folder.log_path.exists() and "ready" in folder.log_path.read_text(), what="ready")
    run_job.run(context, order(Verb.PREEMPT))
    ended(folder)
    assert "saved" in folder.log_path.read_text()
    assert folder.ended().ending == "stopped"  # type: ignore[union-attr]
    assert folder.ended().exit_code == 0  # type: ignore[union-attr]


def test_a_preemption_before_the_launch_closes_the_fence(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["true"])))
    run_job.run(context, order(Verb.PREEMPT))
    run_job.run(context, order(Verb.LAUNCH))
    assert folder.ended().ending == "never started"  # type: ignore[union-attr]


def test_a_stop_directly_after_the_launch_ends_it(settings: Settings, folder: AttemptFolder) -> None:
    """The shim may not have read its order yet; then it dies of the signal, and the worker service closes the attempt."""
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    run_job.run(context, order(Verb.STOP))
    wait_for(lambda: folder.ended() or not shim_lives(folder), what="an end")
    wait_for(
        lambda: process.with_environment({"GPUQ_PROGRESS": str(folder.path / "progress")}) == [], what="no process"
    )


@pytest.mark.parametrize("fault", ["signature", "host", "shape", "key"])
def test_a_forged_order_is_refused(
    settings: Settings, folder: AttemptFolder, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    store = OneClaim(spec(["true"]))
    context = twins.context(settings, store)
    signed = {
        "signature": {**order(Verb.LAUNCH), "order": {**order(Verb.LAUNCH)["order"], "job": 1, "ring": 77}},
        "host": order(Verb.LAUNCH, host="beta"),
        "shape": {"order": ["rm", "-rf"]},
        "key": {**order(Verb.LAUNCH), "signature": "0" * 64},
    }[fault]
    run_job.run(context, signed)
    assert store.claims == []
    assert not folder.path.exists()
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    assert twins.KEY not in caplog.text


def test_a_claim_that_is_not_answered_never_starts(settings: Settings, folder: AttemptFolder) -> None:
    """It may have been made all the same. Without a folder, the attempt would be taken for one whose folder was removed."""
    store = OneClaim(spec(["true"]))
    store.down = True
    run_job.run(twins.context(settings, store), order(Verb.LAUNCH))
    end = folder.ended()
    assert end is not None
    assert (end.ending, folder.started()) == ("never started", None)
    assert "The database does not answer" in end.reason


def test_a_job_that_cannot_be_placed_never_starts(settings: Settings, folder: AttemptFolder) -> None:
    store = OneClaim(spec(["true"]))
    context = twins.context(settings, store)
    context.backend.placement = None  # type: ignore[method-assign,assignment]

    def fails(_devices: object) -> None:
        raise Unreachable("The driver does not answer.")

    context.backend.placement = fails  # type: ignore[method-assign,assignment]
    run_job.run(context, order(Verb.LAUNCH))
    end = folder.ended()
    assert end is not None
    assert end.ending == "never started"
    assert "driver" in end.reason


def test_a_dead_waiting_shim_is_replaced(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["true"])))
    context.launcher.shims.warm()
    assert context.launcher.shims._waiting is not None
    waiting = context.launcher.shims._waiting
    waiting._process.kill()
    waiting._process.wait()
    run_job.run(context, order(Verb.LAUNCH))
    ended(folder)
    waiting.dismiss()


def test_the_environment_is_the_submitters_with_ours_and_without_gpuqs_own(settings: Settings) -> None:
    theirs = {
        "PATH": "/opt/bin",
        "PYTHONPATH": "/their/lib",
        "CUDA_VISIBLE_DEVICES": "7",
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "GPUQ_HOME": "/secret/home",
        "GPUQ_REDIS_URL": "redis://:password@host",
        "GPUQ_DATABASE_URL": "postgresql://u:p@host/db",
        "PYTHONUNBUFFERED": "",
    }
    import dataclasses

    hooked = dataclasses.replace(settings, worker=dataclasses.replace(settings.worker, hook=True))
    os.environ["GPUQ_TEST_SECRET"] = "daemon's own"
    record, attempt = spec(["true"], env=theirs)
    placement, ann = twins.Places().placement(attempt.devices), pwd.getpwuid(os.getuid())
    folder = settings.home.attempt(1, 1)
    env = order_file.environment(hooked, record.submission.env, attempt, placement, ann, folder)
    del os.environ["GPUQ_TEST_SECRET"]
    assert {name: value for name, value in env.items() if name.startswith("GPUQ_")} == {
        "GPUQ_JOB_ID": "1",
        "GPUQ_ATTEMPT": "1",
        "GPUQ_SHARED": "0",
        "GPUQ_GPU_MEM_BUDGET": str(twins.GIB),
        "GPUQ_PROGRESS": str(settings.home.attempt(1, 1) / "progress"),
    }
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-1", "the placement wins"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["TF_FORCE_GPU_ALLOW_GROWTH"] == "false", "the submitter may opt out"
    assert env["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert (env["PATH"], env["PYTHONUNBUFFERED"]) == ("/opt/bin", "")
    assert env["PYTHONPATH"] == f"{HOOK_FOLDER}:/their/lib"
    assert "/secret/home" not in json.dumps(env)


def test_an_order_of_a_lower_epoch_is_dropped(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Its dispatcher was suspended between a commit and its orders, and another one leads since."""
    asked = twins.context(settings, OneClaim(spec(["true"]), spec(["true"], attempt_id(2))))
    for job, epoch in ((1, 7), (2, 6)):
        run_job.run(asked, wire.sign(wire.Order("alpha", job, 1, 1, Verb.LAUNCH, None, epoch), twins.KEY))
    assert sorted(path.name for path in settings.home.attempts.iterdir()) == ["1-1"]
    assert "launch-2-1-1 dropped: it is of a dispatcher that another one has replaced" in caplog.text


def test_a_stop_reaches_a_job_that_wrote_its_own_end(settings: Settings, folder: AttemptFolder) -> None:
    context = twins.context(settings, OneClaim(spec(["sleep", "60"])))
    run_job.run(context, order(Verb.LAUNCH))
    wait_for(folder.started)
    (folder.path / "exit.json").write_text('{"ending": "exited", "exit_code": 0, "reason": "", "at": 5.0}')
    run_job.run(context, order(Verb.STOP))
    wait_for(lambda: not shim_lives(folder), what="the end of the shim")
    assert folder.ended().ending == "stopped"  # type: ignore[union-attr]
