"""What `gpuq profile` becomes: `python -m gpuq.programs.profile [OPTIONS] BODY`, with BODY a submission as JSON.

It runs the command here and now, outside the queue, with a hook on its PYTHONPATH that records some of its training steps; then
it ends the command. With `--from FILE` it runs nothing and reads what a profiler wrote. The profile goes to stdout as a table
or JSON, to `$GPUQ_HOME/profiles` for the trainer, and to `--out`. What the command prints goes to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuq.errors import BadInput, Failure, GpuqError, Unreachable
from gpuq.learn.features.kind import describe
from gpuq.learn.transfer.importers import read
from gpuq.learn.transfer.profile import OpProfile, to_json
from gpuq.programs.user import user_name
from gpuq.settings import Settings, load
from gpuq.submission import Submission

HOOK_FOLDER = Path(__file__).parents[1] / "learn" / "transfer" / "hook"
_POLL_EVERY_S = 0.05
# A training may save its work when it gets SIGTERM.
_GRACE_S = 10.0
_SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile, and return the process's exit code."""
    asked = _parse(arguments)
    try:
        settings = load()
        settings.home.create()
        submission = msgspec.json.decode(asked.body, type=Submission)
        found = read(Path(asked.source)) if asked.source else collect(submission, asked.skip, asked.steps, asked.limit)
        profile = named(found, submission, asked.device_type or device_type(settings))
        paths = [keep(profile, settings.home.profiles)]
        if asked.out:
            paths.append(Path(asked.out))
            paths[-1].write_bytes(to_json(profile) + b"\n")
    except (GpuqError, OSError) as error:
        fix = f"\n  {error.fix}" if isinstance(error, GpuqError) else ""
        sys.stderr.write(f"gpuq: {error.message if isinstance(error, GpuqError) else error}{fix}\n")
        return error.exit_code if isinstance(error, GpuqError) else 1
    text = to_json(profile).decode() if asked.json else "\n".join([*table(profile), *(f"kept in {p}" for p in paths)])
    sys.stdout.write(text + "\n")
    return 0


def collect(submission: Submission, skip: int, steps: int, limit_s: float) -> OpProfile:
    """Run the command until the hook has recorded, at most `limit_s`. Raises BadInput where it never trained."""
    with tempfile.TemporaryDirectory(prefix="gpuq-profile-") as name:
        folder = Path(name)
        started = time.monotonic()
        try:
            # stdout is for the table, so the job's own output goes to stderr.
            process = subprocess.Popen(
                submission.command,
                cwd=submission.cwd,
                env=_environment(folder, skip, steps),
                stdout=sys.stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise BadInput(f"{submission.command[0]} cannot be started: {error.strerror}.") from error
        try:
            done = _wait(process, folder / "done.json", started + limit_s)
        finally:
            _end(process)
        if done is None:
            raise _nothing_seen(process, limit_s)
        return _recorded(folder, done)


def named(profile: OpProfile, submission: Submission, device: str | None) -> OpProfile:
    """The profile with its kind, script, batch size and device type; the kind is the one that `gpuq submit` would give."""
    kind, _, features = describe(submission, user_name())
    return msgspec.structs.replace(
        profile,
        kind=kind,
        script_sha256=features["script_sha256"],
        batch_log2=features["batch_log2"],
        device_type=device or profile.device_type,
    )


def keep(profile: OpProfile, folder: Path) -> Path:
    """Store the profile where the trainer looks; a later one of the same work on the same type replaces it."""
    identity = (profile.kind, profile.script_sha256, profile.batch_log2, profile.device_type)
    path = folder / f"{hashlib.sha256(repr(identity).encode('utf-8', 'replace')).hexdigest()[:32]}.json"
    temporary = path.with_suffix(f".{os.getpid()}.new")
    temporary.write_bytes(to_json(profile) + b"\n")
    temporary.replace(path)
    return path


def device_type(settings: Settings) -> str | None:
    """The type of this host's first device, as the queue names it; None without any."""
    from gpuq.adapters.cpu import backend as cpu
    from gpuq.adapters.nvml import backend as nvml

    if settings.devices.backend != "cpu":
        with contextlib.suppress(Unreachable):
            backend = nvml.open_backend(settings)
            return next((device.type for device in backend.devices()), None)
    return next((device.type for device in cpu.open_backend(settings).devices()), None)


def table(profile: OpProfile) -> list[str]:
    """Op, time and share, the longest first, for people."""
    shares = sorted(profile.shares().items(), key=lambda item: -item[1])
    total = sum(profile.ops_us.values()) + profile.idle_us
    where = "device" if profile.device_us else "host"
    step = f", {1000 * profile.step_s:.2f} ms a step" if profile.step_s else ""
    lines = [
        f"kind: {profile.kind}",
        f"{profile.framework} on {profile.device_type}, times on the {where}{step}",
        "",
        f"{'OP':<40} {'MS':>10} {'SHARE':>7}",
    ]
    lines += [f"{name[:40]:<40} {share * total / 1000:>10.3f} {share:>7.1%}" for name, share in shares[:_SHOWN]]
    if len(shares) > _SHOWN:
        rest = sum(share for _, share in shares[_SHOWN:])
        lines.append(f"{f'{len(shares) - _SHOWN} more':<40} {rest * total / 1000:>10.3f} {rest:>7.1%}")
    return lines


def _environment(folder: Path, skip: int, steps: int) -> dict[str, str]:
    rest = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": f"{HOOK_FOLDER}{os.pathsep}{rest}" if rest else str(HOOK_FOLDER),
        "GPUQ_PROFILE": str(folder),
        "GPUQ_PROFILE_SKIP": str(skip),
        "GPUQ_PROFILE_STEPS": str(steps),
    }


def _wait(process: subprocess.Popen[bytes], done: Path, until: float) -> dict[str, Any] | None:
    """What the hook wrote when it had recorded; None if the command ended, or the time was over, before that."""
    while True:
        ended = process.poll() is not None
        if done.exists():
            return msgspec.json.decode(done.read_bytes(), type=dict[str, Any])
        if ended or time.monotonic() > until:
            return None
        time.sleep(_POLL_EVERY_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started: SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)


def _recorded(folder: Path, done: dict[str, Any]) -> OpProfile:
    traces = [*folder.rglob("*.xplane.pb"), *folder.glob("trace.json")]
    if not traces:
        raise Failure("the profiler wrote no trace.", fix="Set GPUQ_DEBUG=1 and run it again; the hook says why.")
    return msgspec.structs.replace(read(traces[0]), steps=done["steps"], step_s=done["step_s"])


def _nothing_seen(process: subprocess.Popen[bytes], limit_s: float) -> BadInput:
    how = (
        f"it ended with code {process.returncode}"
        if process.returncode not in (-15, -9, None)
        else f"in {limit_s:.0f} s"
    )
    return BadInput(
        f"too few training steps of PyTorch or of Keras on TensorFlow were seen to record any ({how}).",
        fix="Let it train longer, raise --limit, or lower --skip and --steps.",
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gpuq.programs.profile", description="Profile a command.")
    parser.add_argument("body", type=str.encode)
    parser.add_argument("--from", dest="source", help="read what a profiler wrote instead of running")
    parser.add_argument("--out", help="write the profile there too")
    parser.add_argument("--device-type", help="what to call the device")
    parser.add_argument("--skip", type=int, default=10, help="steps before timing")
    parser.add_argument("--steps", type=int, default=20, help="steps to time, and then to record")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds until it is given up")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
