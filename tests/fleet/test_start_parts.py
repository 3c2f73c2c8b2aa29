"""What the start of a job as its user takes, part by part: units of PID 1 with ever more of the properties that a job's unit has.

It judges nothing: the figures are those of a machine with nothing else to do, and say what no change of gpuq could save.
"""

from __future__ import annotations

import json
import shlex

from tests.fleet.test_submitters import Host, host

__all__ = ["host"]

# Each part adds these properties to the ones before it; the last unit is that of a job, with Python in place of its shim.
PARTS = {
    "a unit that runs one program": (
        *("Description", "Slice", "CollectMode", "Type", "ExecStart", "StandardInputFileDescriptor"),
    ),
    "as a user, with a session of PAM": ("User", "PAMName"),
    "devices and limits": (
        *("DevicePolicy", "DeviceAllow", "LimitNOFILE", "LimitMEMLOCK", "MemoryMax", "TasksMax", "NoNewPrivileges"),
    ),
    "a folder, a private /tmp, no processes of others": (
        *("StateDirectory", "StateDirectoryMode", "BindPaths", "PrivateTmp", "ProtectProc"),
    ),
    "the other properties": (),
    "a bare Python interpreter before the program": (),
}
MEASURE = """
import json, os, pwd, statistics, sys, time
from pathlib import Path
from gpuq.home import Home
from gpuq.messages.launch import LaunchCredential, SubmittedCommand, UnitOrder
from gpuq_broker import unit
from gpuq_broker.pid1 import Pid1
command = SubmittedCommand(command=("date",), cwd="/", env={}, stdin=None, umask=0o022, time_limit_s=None)
order = UnitOrder(submitted="", env={}, cores=None, nodes=("/dev/nvidia0", "/dev/nvidiactl"),
    memory_max_bytes=3 * 10**9, tasks_max=20000, grace_s=5, save_grace_s=5, checkpoint_signal=15, log_limit_bytes=4096)
date = ["/usr/bin/date", "+%s.%N"]
python = [sys.executable, "-I", "-S", "-c", f"import os; os.execv({date[0]!r}, {date!r})"]
parts, pid1 = json.loads(sys.argv[1]), Pid1()
def took(number, names, program):
    credential = LaunchCredential(job=10**9 + number, attempt=1, host="one", instance="", user="ann", uid=1001,
        order="0" * 64, expires_at=0)
    with open(os.devnull) as null:
        whole = unit.properties(credential, command, order, null.fileno(), Home(Path("/var/lib/gpuq")), pwd.getpwnam("gpuq"))
        of = {name: value for name, value in whole if names is None or name in names}
        path = Path(f"/srv/start-{number}")
        of.pop("StandardOutput", None)
        of |= {"ExecStart": ("a(sasb)", [(program[0], program, False)]), "StandardOutputFileToAppend": ("s", str(path))}
        began = time.time()
        pid1.start(f"gpuq-{credential.job}-1.service", list(of.items()))
    while not (path.exists() and path.read_text().endswith("\\n")):
        time.sleep(0.001)
    found = float(path.read_text()) - began
    path.unlink()
    time.sleep(0.2)
    return found
variants, names = {}, []
for part, more in parts.items():
    names += more
    variants[part] = (list(names) if more else None, python if "Python" in part else date)
times = {part: [] for part in variants}
for number in range(int(sys.argv[2]) * len(variants)):
    part = list(variants)[number % len(variants)]
    times[part].append(took(number, *variants[part]))
print(json.dumps({part: 1000 * statistics.median(each) for part, each in times.items()}))
"""
EACH = 30


def test_parts_of_a_start(host: Host) -> None:
    host.shell("cat >/srv/measure.py", stdin=MEASURE)
    measure = f"/opt/gpuq/bin/python /srv/measure.py {shlex.quote(json.dumps(PARTS))} {EACH}"
    found = json.loads(host.shell(measure, within_s=300))
    before = 0.0
    for part, milliseconds in found.items():
        print(f"{part}: {milliseconds:.1f} ms, {milliseconds - before:+.1f}")
        before = milliseconds
    assert list(found) == list(PARTS)
