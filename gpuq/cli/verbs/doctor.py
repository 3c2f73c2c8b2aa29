"""`gpuq doctor`: check each part, and say what to do about what is wrong. Exit code 1 if something is broken.

Checks the home, the machine and the API's probes, and changes nothing. What the running daemon says of its devices takes
precedence over what this process can see of them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.daemon_checks import BROKEN, NOTE, OK, Check, daemon_checks, is_silent
from gpuq.cli.service_logs import UNIT_FOLDERS, log_elsewhere, service_log
from gpuq.errors import BadSettings, GpuqError
from gpuq.home import Home

_NVML = "libnvidia-ml.so.1"
_MIN_FREE_BYTES, _MIN_FREE_FILES = 2**30, 1000
_THIS_PROGRAM_IS_FROM = 1_760_000_000
# A service that crashed this often in the last five minutes and has run for less than half a minute is broken.
_CRASHES_COUNTED, _CRASHES_LATELY_S, _LIVES_S = 3, 300.0, 30.0
_EVENTS_WAIT_S = 60.0
_LISTENS = 0x10000  # a flag in /proc/net/unix
_PCI_NVIDIA, _PCI_DISPLAY = "0x10de", "0x03"
_FOR_SUBMITTERS = tuple(
    map(Path, ("/run/gpuq-broker.sock", "/run/gpuq-lease", "/etc/gpuq/dispatcher.pub", "/etc/pam.d/gpuq"))
)


def run(words: list[str]) -> int:
    """Check everything and print the results."""
    parser = Parser("doctor", "Check each part and name the fix. Exit code 1 if something is broken.")
    options = parser.parse_args(words)
    client = HttpClient.of(options, away_s=0)
    try:
        devices = client.get("/api/v1/gpus")
    except GpuqError:
        devices = []
    home = Home.from_environment()
    of_daemon = daemon_checks(client, home)
    if any(check.part in {"redis", "dispatcher"} and check.status != OK for check in of_daemon):
        devices = []  # that none has a reading says nothing of the GPUs then
    checks = [*local_checks(home, devices), *of_daemon]
    ok = all(check.status != BROKEN for check in checks)
    answer = {"ok": ok, "checks": [asdict(check) for check in checks]}
    console.show(options, answer, lambda _, width, colour: screen(checks, width, colour))
    return int(not ok)


def screen(checks: list[Check], width: int, colour: bool) -> list[str]:
    """A line per check, with the fix below it."""
    styles = {OK: "32", NOTE: "33", BROKEN: "31"}
    lines = []
    for check in checks:
        found = console.wrapped(fmt.clean(check.found), width - 24)
        status = console.paint(f"{check.status:<6}", styles[check.status], colour)
        lines.append(f"{status}  {check.part:<14}  {found[0]}")
        lines += [" " * 24 + part for part in found[1:]]
        if check.fix and check.status != OK:
            lines += [" " * 24 + part for part in console.wrapped(f"→ {check.fix}", width - 24)]
    return lines


def local_checks(home: Home, devices: Sequence[Record] = ()) -> list[Check]:
    """The checks of this machine; `devices`: those of the daemon. One that fails with an OSError is a note."""
    parts: list[tuple[str, Callable[[], Check]]] = [
        ("home", lambda: _home(home.root)),
        ("settings", lambda: _settings(home)),
        ("services", lambda: _services(home)),
        ("events", lambda: _events(home)),
        ("disk", lambda: _disk(home.root)),
        ("clock", _clock),
        ("installation", _installation),
        ("nvml", lambda: _nvml(devices)),
        ("cgroup", _cgroup),
        ("submitters", lambda: _submitters(home)),
        ("timer", _timer),
    ]
    checks = []
    for part, check in parts:
        try:
            checks.append(check())
        except OSError as error:
            checks.append(Check(part, NOTE, f"could not be checked: {error.strerror or error}"))
    return checks


# --- this machine --------------------------------------------------------------------------------------------------


def _home(root: Path) -> Check:
    try:
        found = root.stat()
    except FileNotFoundError:
        return Check("home", NOTE, f"{root} does not exist yet", "`gpuq up` makes it.")
    if found.st_uid != os.getuid():
        return Check("home", BROKEN, f"{root} belongs to user {found.st_uid}", "Set GPUQ_HOME to a folder of your own.")
    if not os.access(root, os.W_OK | os.X_OK):
        if os.statvfs(root).f_flag & os.ST_RDONLY:
            fix = "Mount it for writing, or set GPUQ_HOME to a folder elsewhere."
            return Check("home", BROKEN, f"{root} is on a read-only file system", fix)
        return Check("home", BROKEN, f"{root} cannot be written", f"chmod u+rwx {root}")
    if Home(root).is_open_to_others:
        return Check("home", BROKEN, f"{root} is open to others", f"chmod 700 {root}")
    files = [
        name
        for name in ("token", "order.key", "dispatcher.key", "host.key", "tls/ca.key", "tls/host.pem", "gpuq.db")
        if (root / name).exists()
    ]
    open_files = [name for name in files if (root / name).stat().st_mode & 0o077]
    if open_files:
        names = " ".join(str(root / name) for name in open_files)
        return Check("home", BROKEN, f"open to others: {', '.join(open_files)}", f"chmod 600 {names}")
    return Check("home", OK, str(root))


def _settings(home: Home) -> Check:
    from gpuq.settings import GROUPS, load, unknown_variables

    removed: list[str] = []
    try:
        load(warn=removed.append)
    except BadSettings as error:
        return Check("settings", BROKEN, error.message, error.fix)
    if removed:
        return Check("settings", NOTE, " ".join(removed), "Remove what is named there.")
    unknown = unknown_variables(os.environ)
    if unknown:
        found = f"no settings, and without effect: {', '.join(unknown)}"
        return Check("settings", NOTE, found, "Unset or correct them.")
    prefixes = tuple(f"GPUQ_{group}_".upper() for group in GROUPS)
    overridden = sum(name.startswith(prefixes) for name in os.environ)
    file = str(home.settings_file) if home.settings_file.exists() else "no settings file"
    return Check("settings", OK, f"{file}, {overridden} set by the environment here" if overridden else file)


def _services(home: Home) -> Check:
    """The status files of the services that `gpuq up` and the worker supervise here."""
    now = time.time()
    running, fallen = [], []
    for file in sorted(home.run.glob("service-*.json")):
        try:
            status: Record = json.loads(file.read_bytes())
        except (OSError, ValueError):  # gone, since it ended in order just now
            continue
        if not Path(f"/proc/{status['supervisor']}").exists():
            continue
        lately = sum(now - at < _CRASHES_LATELY_S for at in status["crashes"])
        lives_s = 0.0 if status["started_at"] is None else now - status["started_at"]
        running.append(status["name"])
        if lately:
            stays_up = lately < _CRASHES_COUNTED or lives_s >= _LIVES_S
            fallen.append((stays_up, lately, status["last_crash"]))
    if not running:
        return Check("services", OK, "none is kept alive by `gpuq up` here")
    if not fallen:
        return Check("services", OK, ", ".join(running))
    stays_up, lately, crash = min(fallen, key=lambda one: one[:1])
    often = f"{lately} times" if lately > 1 else "once"
    found = f"{crash['name']} ended {often} in the last five minutes, last by {crash['how']}"
    if stays_up:
        return Check("services", NOTE, f"{found}, and runs again: {crash['said']}", f"{crash['log']} has more.")
    return Check("services", BROKEN, f"{found}: {crash['said']}", crash["fix"] or f"Its log is {crash['log']}.")


def _events(home: Home) -> Check:
    """The spool of the worker service here: what the dispatcher has committed leaves it within seconds."""
    waiting = []
    for path in home.spool.glob("*.json"):
        with suppress(FileNotFoundError):  # committed just now
            waiting.append(path.stat().st_mtime)
    since_s = time.time() - min(waiting, default=time.time())
    if since_s < _EVENTS_WAIT_S:
        return Check("events", OK, "none waits for the dispatcher")
    found = f"starts or ends of jobs that wait for the dispatcher: {len(waiting)}, since {fmt.local_time(min(waiting))}"
    fix = f"{service_log(home, 'worker').where} and the log of the dispatcher say why."
    return Check("events", BROKEN, found, fix)


def _disk(root: Path) -> Check:
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < _MIN_FREE_BYTES:
        found = f"{fmt.gib(free)} free at {existing}"
        return Check("disk", BROKEN, found, "Make room: logs and the record live there.")
    files = os.statvfs(existing)
    # Some file systems count no inodes, and say 0 of 0.
    if files.f_files and files.f_favail < _MIN_FREE_FILES:
        found = f"room for {files.f_favail} more files at {existing}"
        return Check("disk", BROKEN, found, f"Remove files there: it has no inodes left (`df -i {existing}`).")
    return Check("disk", OK, f"{fmt.gib(free)} free")


def _clock() -> Check:
    if time.time() < _THIS_PROGRAM_IS_FROM:
        return Check("clock", BROKEN, f"it says {fmt.local_time(time.time())}", "Set it: timedatectl set-ntp true")
    return Check("clock", OK, fmt.local_time(time.time()))


def _installation() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    try:
        other = version("gpuq")
    except PackageNotFoundError:
        return Check("installation", OK, "no other package named gpuq")
    found = f"the package `gpuq` {other} is installed too; it is an unrelated program with the same module name"
    return Check("installation", BROKEN, found, "pip uninstall gpuq, then install gpuq-daemon again.")


def _nvml(devices: Sequence[Record] = ()) -> Check:
    driver = Path("/proc/driver/nvidia/version").exists()
    read = {device.get("backend") for device in devices if not is_silent(device)}
    known = {device.get("backend") for device in devices}
    if "nvml" in known and "nvml" not in read:
        fix = (
            f"`nvidia-smi` must list them on their host; {log_elsewhere('worker')} says there what the driver answered."
        )
        return Check("nvml", BROKEN, "no GPU of this gpuq answers, and none gets a job", fix)
    if "nvml" in read or (not devices and _loads_nvml()):
        if not _in_host_pid_namespace():
            found = f"{_NVML}, in a container with its own pid namespace: it may not tell its jobs on a GPU apart"
            fix = "Start the container in the host's pid namespace (docker run --pid=host)."
            return Check("nvml", NOTE, found, fix)
        return Check("nvml", OK, _NVML)
    if driver and not _loads_nvml():
        fix = "Install the driver's NVML library (libnvidia-ml.so.1), of the driver's version."
        return Check("nvml", BROKEN, "the NVIDIA driver is loaded, but its NVML library is missing", fix)
    if driver:
        fix = f'Unless `backend = "cpu"` is meant: {log_elsewhere("worker")} says why; restart gpuq after that.'
        return Check("nvml", NOTE, "there is an NVIDIA driver, but gpuq uses CPU devices", fix)
    if _has_nvidia_gpu():
        found = "there is an NVIDIA GPU, but no driver for it; jobs run on CPU devices"
        return Check("nvml", NOTE, found, "Install NVIDIA's driver, then restart gpuq.")
    return Check("nvml", OK, "no NVIDIA GPU; jobs run on CPU devices")


def _loads_nvml() -> bool:
    """Whether the library loads under the name that the worker's bindings use. Nothing in it is called."""
    from ctypes import CDLL

    try:
        CDLL(_NVML)
    except OSError:
        return False
    return True


def _has_nvidia_gpu() -> bool:
    """Whether the PCI bus has a display controller by NVIDIA."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text()
        except OSError:
            continue
        if vendor == _PCI_NVIDIA and kind.startswith(_PCI_DISPLAY):
            return True
    return False


def _in_host_pid_namespace() -> bool:
    # The same check as in gpuq.adapters.nvml.processes: the command may not import adapters.
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"
    except OSError:
        return True


def _cgroup() -> Check:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return Check("cgroup", OK, "version 2")
    found = "not version 2: a kill for memory anywhere on the machine may be taken for a job's that is killed just then"
    return Check("cgroup", NOTE, found, "Boot with systemd.unified_cgroup_hierarchy=1.")


def _submitters(home: Home) -> Check:
    from gpuq.settings import load

    try:
        if load({**os.environ, "GPUQ_HOME": str(home.root)}, warn=lambda _: None).worker.run_as == "service":
            return Check("submitters", OK, "jobs run as the user of the worker service")
    except BadSettings:
        return Check("submitters", NOTE, "not checked, because the settings are wrong", "Correct them first.")
    missing = [str(path) for path in _FOR_SUBMITTERS if not path.exists()]
    if missing:
        found = f"jobs are to run as their submitters, and this is not there: {', '.join(missing)}"
        return Check("submitters", BROKEN, found, "docs/hosts.md, Jobs of several users, says how to place it.")
    if not _is_listened_to(_FOR_SUBMITTERS[0]):
        found = f"jobs are to run as their submitters, and nothing listens on {_FOR_SUBMITTERS[0]}"
        return Check("submitters", BROKEN, found, "systemctl enable --now gpuq-broker.socket")
    return Check("submitters", OK, "jobs run as their submitters")


def _is_listened_to(path: Path) -> bool:
    """Whether a process listens on this Unix socket, without a connection, which that process would have to answer."""
    words = (line.split() for line in Path("/proc/net/unix").read_text(errors="replace").splitlines())
    return any(found[7:] == [str(path)] and int(found[3], 16) & _LISTENS for found in words if found[:1] != ["Num"])


def _timer() -> Check:
    for folder in UNIT_FOLDERS:
        if (Path(folder).expanduser() / "gpuq-retrain.timer").exists():
            return Check("timer", OK, f"gpuq-retrain.timer in {folder}")
    if any((Path(folder).expanduser() / "gpuqd.service").exists() for folder in UNIT_FOLDERS):
        found = "gpuq's services are installed without their nightly training"
        return Check("timer", NOTE, found, "Install systemd/gpuq-retrain.timer, or run `gpuq model train` at times.")
    return Check("timer", OK, "no nightly training is installed; `gpuq model train` trains now")
