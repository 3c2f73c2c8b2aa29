"""How an attempt is started and ended on this host: as the user of the services, or as the user who submitted it.

`ServiceLauncher` hands it to a shim that was started ahead of time, a child of the RQ worker in a session of its own. With
`run_as = "submitter"` under [worker] `SubmitterLauncher` has the broker start a systemd unit for it.
"""

from __future__ import annotations

import logging
import os
import pwd
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import boot_id, send_signal
from gpuq.core.state.attempt import Attempt
from gpuq.errors import BadSettings, Failure, Unreachable
from gpuq.home import Home
from gpuq.messages import launch
from gpuq.messages.job_record import JobRecord
from gpuq.messages.submission import command_in_unit
from gpuq.settings import Settings
from gpuq_workers import job_lease
from gpuq_workers.attempts import AttemptFolder, OrderFile, Unit
from gpuq_workers.order_file import checkpoint_variable, environment, order_file
from gpuq_workers.shim_pool import ShimPool

log = logging.getLogger("gpuq.launcher")

_BROKER_ANSWERS_WITHIN_S = 10.0
_START_BROKER = "systemctl enable --now gpuq-broker.socket; docs/hosts.md says what it needs."


class LaunchRefused(Failure):
    """The attempt cannot be started, however often it is tried."""


@dataclass(frozen=True)
class Claimed:
    """An attempt that was claimed and is to be started: what was submitted, where it goes, and the dispatcher's credential."""

    record: JobRecord
    attempt: Attempt
    placement: Placement
    credential: launch.SignedCredential | None = None


class Launcher(Protocol):
    """Starts attempts, and ends those that it started."""

    def warm(self) -> None:
        """Make what shortens the next start. Raises OSError, and BadSettings if nothing can be started."""
        ...

    def start(self, folder: AttemptFolder, claimed: Claimed) -> None:
        """Start an attempt in its new folder. Returns when it was handed over. Raises LaunchRefused; GpuqError or OSError if
        none of it was started."""
        ...

    def stop(self, folder: AttemptFolder, *, save: bool) -> None:
        """Make its shim look at `stop.json`, with `save` to let the job save its work first. Raises GpuqError or OSError."""
        ...

    def close(self) -> None:
        """Release what `warm` made; attempts that run go on."""
        ...


def launcher_of(settings: Settings) -> Launcher:
    """The launcher that the settings name."""
    if settings.worker.run_as == "submitter":
        return SubmitterLauncher(settings)
    return ServiceLauncher(settings, ShimPool(settings.home.logs / "shims.log"))


class ServiceLauncher:
    """Jobs run as the user of the worker service."""

    def __init__(self, settings: Settings, shims: ShimPool) -> None:
        self._settings, self.shims = settings, shims

    def warm(self) -> None:
        """See Launcher."""
        self.shims.warm()

    def start(self, folder: AttemptFolder, claimed: Claimed) -> None:
        """See Launcher."""
        record, attempt, placement = claimed.record, claimed.attempt, claimed.placement
        user = pwd.getpwuid(os.getuid())
        env = environment(self._settings, record.submission.env, attempt, placement, user, folder.path)
        env.update(checkpoint_variable(self._settings.home, record, attempt))
        shim = self.shims.take()
        try:
            if record.submission.stdin is not None:
                folder.write_stdin(record.submission.stdin)
            folder.write_order(order_file(self._settings, record, attempt, placement, env, shim.identity))
            shim.hand(folder.path)
        except BaseException:
            # A shim that is not given a folder would wait for one for ever, and the attempt would look alive.
            shim.dismiss()
            raise
        finally:
            self.shims.warm_soon()

    def stop(self, folder: AttemptFolder, *, save: bool) -> None:  # noqa: ARG002 - `stop.json` has it
        """See Launcher."""
        shim = folder.shim()
        if shim is not None:
            send_signal(shim, signal.SIGTERM)

    def close(self) -> None:
        """See Launcher."""
        self.shims.close()


class SubmitterLauncher:
    """Each job runs as the user who submitted it, in a systemd unit that the broker has PID 1 start."""

    def __init__(
        self,
        settings: Settings,
        broker: str = launch.SOCKET,
        clock: Callable[[], float] = time.time,
        lease: str = launch.LEASE_FILE,
    ) -> None:
        self._settings, self._broker, self._clock, self._lease = settings, broker, clock, lease

    def warm(self) -> None:
        """See Launcher. The first request makes systemd start the broker, which takes longer than all else of a start."""
        if not Path(self._broker).exists():
            raise BadSettings(
                f'Jobs cannot run as their submitters (`run_as = "submitter"` under [worker]): {self._broker} is not there.',
                fix=_START_BROKER,
            )
        job_lease.check(Path(self._lease))
        answer = None
        with suppress(Unreachable):
            answer = self._ask(launch.StopUnit(job=1, attempt=2**52))  # no such attempt
        if answer is None:
            raise BadSettings(
                'Jobs cannot run as their submitters (`run_as = "submitter"` under [worker]): the broker does not answer.',
                fix="`journalctl -u gpuq-broker` says why; docs/hosts.md says what it needs.",
            )

    def start(self, folder: AttemptFolder, claimed: Claimed) -> None:
        """See Launcher."""
        if claimed.credential is None:
            raise LaunchRefused(
                "The dispatcher has signed no credential for it.",
                fix='Set `run_as = "submitter"` under [worker] on the main host too, and restart gpuqd.',
            )
        order = self._order(claimed)
        folder.write_order(order)
        with _memfd(msgspec.json.encode(self._unit_order(order, claimed))) as file:
            answer = self._ask(launch.StartUnit(claimed.credential), file)
        if answer is None or answer.refused is None:
            return  # it may have been done even without an answer, so nothing is concluded: the unit is there soon, or not
        if answer.final:
            raise LaunchRefused(f"{answer.refused[:1].upper()}{answer.refused[1:]}.")
        raise Failure(answer.refused)

    def stop(self, folder: AttemptFolder, *, save: bool) -> None:
        """See Launcher."""
        self._ask(launch.StopUnit(job=folder.attempt.job, attempt=folder.attempt.number, save=save))

    def close(self) -> None:
        """See Launcher."""

    def _order(self, claimed: Claimed) -> OrderFile:
        try:
            user = pwd.getpwnam(claimed.record.owner)
        except KeyError:
            raise LaunchRefused(f"This host has no user {claimed.record.owner}.") from None
        env = environment(
            self._settings,
            claimed.record.submission.env,
            claimed.attempt,
            claimed.placement,
            user,
            Path(launch.JOB_FOLDER),
        )
        # In the user's own home: the services may not write there, and most sites share homes among their hosts.
        env.update(checkpoint_variable(Home.of_user(user.pw_dir), claimed.record, claimed.attempt))
        id_ = claimed.attempt.id
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        unit = Unit(launch.unit_name(id_.job, id_.number), self._clock(), uptime, boot_id())
        order = order_file(self._settings, claimed.record, claimed.attempt, claimed.placement, env, unit)
        # Its shim belongs to the user, so the services can hand it no request for a pause.
        return msgspec.structs.replace(order, blink=False, stdin="/dev/null")

    def _unit_order(self, order: OrderFile, claimed: Claimed) -> launch.UnitOrder:
        worker = self._settings.worker
        return launch.UnitOrder(
            submitted=command_in_unit(claimed.record.submission).text(),
            env=order.env,
            cores=order.cores,
            nodes=claimed.placement.nodes,
            memory_max_bytes=worker.job_memory_max_bytes or None,
            tasks_max=worker.job_tasks_max or None,
            grace_s=order.grace_s,
            save_grace_s=order.save_grace_s,
            checkpoint_signal=order.checkpoint_signal,
            log_limit_bytes=order.log_limit_bytes,
            lease_s=order.lease_s,
            signal_before_s=order.signal_before_s,
            resumes=order.resumes,
        )

    def _ask(self, request: launch.Request, *files: int) -> launch.Answer | None:
        """The broker's answer; None if it gives none. Raises Unreachable if the request did not reach it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_BROKER_ANSWERS_WITHIN_S)
            try:
                connection.connect(self._broker)
                socket.send_fds(connection, [msgspec.json.encode(request)], files)
            except OSError as error:
                why = error.strerror or error
                raise Unreachable(f"the broker at {self._broker} cannot be asked: {why}", fix=_START_BROKER) from error
            with suppress(OSError):
                raw = connection.recv(launch.LARGEST_REQUEST_BYTES)
                if raw:
                    answer: launch.Answer = launch.decoded(raw, launch.Answer)
                    return answer
        log.warning("the broker did not answer; `journalctl -u gpuq-broker` may say why", extra={"action": "broker"})
        return None


@contextmanager
def _memfd(content: bytes) -> Iterator[int]:
    """A file in memory. It has no name that another process could open."""
    with os.fdopen(os.memfd_create("gpuq-order"), "wb", buffering=0) as file:
        file.write(content)
        yield file.fileno()
