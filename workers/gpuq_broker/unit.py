"""The properties of an attempt's transient unit.

A job may do what its user may do in a shell, without other users' processes, devices that were not granted, and more rights by a
setuid program. System calls are not filtered: it would protect nothing that another program of the user could not reach, and
takes longer than the rest of a start.
"""

from __future__ import annotations

import json
import pwd
import sys
from pathlib import Path

from gpuq.home import Home
from gpuq.messages.launch import JOB_FOLDER, LEASE_FILE, LaunchCredential, SubmittedCommand, UnitOrder
from gpuq_broker.pid1 import Property

_SHIM = Path(__file__).resolve().parents[1] / "gpuq_workers" / "shim"
PAM_SERVICE = "gpuq"
# Time beyond the job's own grace in which the shim writes down how it ended, before PID 1 kills the unit.
_MARGIN_S = 5.0
_MS_REC = 0x4000
_MOST_FILES = 1_048_576
_INFINITY = 2**64 - 1


def properties(
    credential: LaunchCredential,
    command: SubmittedCommand,
    order: UnitOrder,
    order_fd: int,
    home: Home,
    service: pwd.struct_passwd,
) -> list[Property]:
    """The unit of this attempt. Its shim reads the order from `order_fd`; what ends it writes the exit status into `home`, as the
    account of the services, where the job cannot write."""
    attempt = f"{credential.job}-{credential.attempt}"
    own = home.jobs / attempt
    shim = [sys.executable, "-I", "-S", str(_SHIM / "start_unit.py")]
    # As root it only gives up all rights; our code runs after that.
    ended = [
        *("/usr/bin/setpriv", f"--reuid={service.pw_uid}", f"--regid={service.pw_gid}", "--clear-groups"),
        *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
        *(
            sys.executable,
            "-I",
            "-S",
            str(_SHIM / "unit_end.py"),
            str(home.attempt(credential.job, credential.attempt)),
            str(own),
        ),
    ]
    found: list[Property] = [
        ("Description", ("s", f"gpuq job {credential.job} of {credential.user}, attempt {credential.attempt}")),
        ("Slice", ("s", "gpuq.slice")),
        ("CollectMode", ("s", "inactive-or-failed")),
        ("Type", ("s", "simple")),
        ("User", ("s", credential.user)),
        ("PAMName", ("s", PAM_SERVICE)),
        ("UMask", ("u", 0o022)),  # of the shim's own files; the job gets the one that was submitted
        ("StandardInputFileDescriptor", ("h", order_fd)),
        ("StandardOutput", ("s", "null")),
        ("StandardError", ("s", "journal")),
        ("ExecStart", ("a(sasb)", [(shim[0], shim, False)])),
        # As root, because of `PermissionsStartOnly`. Not `ExecStopPostEx`: systemd 252 writes that name into the unit's file, and
        # does not know it when it reads all units again (`daemon-reload`); then nothing would write the exit status.
        ("ExecStopPost", ("a(sasb)", [(ended[0], ended, False)])),
        ("PermissionsStartOnly", ("b", True)),
        # SIGTERM to every process at once, and SIGKILL to what is left: nothing that a job starts escapes its control group.
        ("KillMode", ("s", "control-group")),
        ("TimeoutStopUSec", ("t", _usec(order.grace_s + _MARGIN_S))),
        ("OOMPolicy", ("s", "continue")),  # a data loader that is killed for memory need not end the job
        # Owned by the user, below a folder that only root and the services can enter; the job sees it under one name for all.
        ("StateDirectory", ("as", [f"{home.jobs.name}/{attempt}"])),
        ("StateDirectoryMode", ("u", 0o755)),
        ("BindPaths", ("a(ssbt)", [(str(own), JOB_FOLDER, False, _MS_REC)])),
        ("PrivateTmp", ("b", True)),
        ("ProtectProc", ("s", "invisible")),  # not ProcSubset=pid: frameworks read /proc/cpuinfo, meminfo and stat
        ("NoNewPrivileges", ("b", True)),
        ("KeyringMode", ("s", "private")),
        ("DevicePolicy", ("s", "closed")),
        ("DeviceAllow", ("a(ss)", [(node, "rw") for node in order.nodes])),
        ("LimitNOFILE", ("t", _MOST_FILES)),
        ("LimitMEMLOCK", ("t", _INFINITY)),
        ("MemoryMax", ("t", order.memory_max_bytes or _INFINITY)),
        ("TasksMax", ("t", order.tasks_max or _INFINITY)),
    ]
    if order.cores:
        found.append(("AllowedCPUs", ("ay", _mask(order.cores))))
    if command.time_limit_s is not None:
        # The shim ends the job at its limit; this ends a job that has stopped or killed its shim.
        found.append(("RuntimeMaxUSec", ("t", _usec(command.time_limit_s + order.grace_s + _MARGIN_S))))
    return found


def order_for_shim(command: SubmittedCommand, order: UnitOrder) -> bytes:
    """What the shim reads on its standard input: see `gpuq_workers/shim/unit.py`."""
    rest = {
        "time_limit_s": command.time_limit_s,
        "grace_s": order.grace_s,
        "save_grace_s": order.save_grace_s,
        "checkpoint_signal": order.checkpoint_signal,
        "signal_before_s": order.signal_before_s,
        "resumes": order.resumes,
        "log_limit_bytes": order.log_limit_bytes,
    }
    words, cwd = command.command, command.cwd
    if command.tree is not None:
        # The job's own process gets its files, with the rights of its user.
        words = (sys.executable, "-I", "-m", "gpuq_workers.sync_in_unit", command.tree, cwd, "--", *words)
        cwd = JOB_FOLDER
    fields = [
        f"{command.umask:o}",
        ",".join(map(str, order.cores or ())),
        cwd,
        "" if command.stdin is None else f"={command.stdin}",
        "" if order.lease_s is None else f"{order.lease_s!r} {LEASE_FILE}",
        command.interactive or "",
        str(len(words)),
        str(len(order.env)),
        *words,
        *(f"{name}={value}" for name, value in order.env.items()),
        json.dumps(rest),
    ]
    return "\0".join(fields).encode("utf-8", "surrogateescape")


def _usec(seconds: float) -> int:
    return int(seconds * 1e6)


def _mask(cores: tuple[int, ...]) -> bytes:
    mask = sum(1 << core for core in set(cores))
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")
