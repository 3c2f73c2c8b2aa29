"""The units as an operator gets them: rendered, accepted by systemd, closed as far as they can be, and sparing jobs."""

import configparser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_broker.unit import PAM_SERVICE

from gpuq import services_environment
from gpuq.errors import BadSettings
from gpuq.messages import launch
from gpuq.settings import Api

ROOT = Path(__file__).resolve().parents[2]
RENDER = ROOT / "systemd" / "render.py"
PREFIX = Path(sys.prefix)
SERVICES = sorted(path.name for path in (ROOT / "systemd").glob("*.service"))
REACH = {
    "gpuq-broker.service": 1.0,
    "gpuqd.service": 1.2,
    "gpuq-api.service": 1.2,
    "gpuq-hosts.service": 1.2,
    "gpuq-redis.service": 1.2,
    "gpuq-retrain.service": 1.2,
    "gpuq-worker.service": 3.5,
}

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine (Debian: package systemd)"
)


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    out = tmp_path_factory.mktemp("units")
    done = run(sys.executable, RENDER, "--prefix", PREFIX, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def settings(unit: Path) -> dict[str, list[str]]:
    """Every `Name=value` of a unit, values in order."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if re.match(r"[A-Za-z]+=", line):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_rendering_leaves_no_token_and_names_each_file(tmp_path):
    done = run(sys.executable, RENDER, "--prefix", PREFIX, "--out", tmp_path)
    written = [Path(line) for line in done.stdout.splitlines()]
    assert {path.name for path in written} >= {*SERVICES, "gpuq-retrain.timer", "gpuq.target", "gpuq.conf"}
    assert all("@BIN@" not in path.read_text() for path in written)
    assert f"ExecStart={PREFIX}/bin/python -m gpuq.daemon\n" in (tmp_path / "gpuqd.service").read_text()


@pytest.mark.parametrize("prefix", ["relative", "/opt/my gpuq", "/opt/%h", '/opt/"x"', "/opt/a\nExecStart=/bin/sh"])
def test_a_prefix_that_systemd_would_misread_is_refused(prefix, tmp_path):
    done = run(sys.executable, RENDER, "--prefix", prefix, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "must be an absolute path" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_prefix_without_gpuq_is_refused_with_the_fix(tmp_path):
    done = run(sys.executable, RENDER, "--prefix", tmp_path, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert "first install gpuq" in done.stderr


@pytest.mark.parametrize("service", sorted(set(SERVICES) - {"gpuq-broker.service"}))
def test_the_commands_know_where_the_services_have_their_settings_from(units, service):
    unit = settings(units / service)
    assert f"GPUQ_HOME={services_environment.HOME}" in unit["Environment"]
    assert unit["EnvironmentFile"] == [f"-{services_environment.FILE}"]


@needs_analyze
def test_systemd_accepts_every_unit_without_a_word(units):
    done = run("systemd-analyze", "verify", "--man=no", *sorted(p for p in units.iterdir() if p.is_file()))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_analyze
def test_systemd_accepts_the_users_unit_without_a_word(tmp_path):
    done = run(sys.executable, RENDER, "--user", "--prefix", PREFIX, "--out", tmp_path)
    assert done.stdout == f"{tmp_path}/gpuq.service\n", done.stderr
    unit = settings(tmp_path / "gpuq.service")
    assert (unit["ExecStart"], unit["KillMode"], unit["OOMPolicy"]) == (
        [f"{PREFIX}/bin/gpuq up"],
        ["process"],
        ["continue"],
    )
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verified = run("systemd-analyze", "--user", "verify", "--man=no", tmp_path / "gpuq.service", env=environment)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@needs_analyze
@pytest.mark.parametrize("fault", ["ExecStart=/not/there", "KillMod=process"])
def test_the_check_notices_a_bad_unit(units, tmp_path, fault):
    unit = tmp_path / "gpuqd.service"
    text = (units / "gpuqd.service").read_text()
    unit.write_text(re.sub(r"^ExecStart=.*$", fault, text, flags=re.M) if fault.startswith("Exec") else text + fault)
    done = run("systemd-analyze", "verify", "--man=no", unit)
    assert done.stdout + done.stderr != ""


@needs_analyze
@pytest.mark.parametrize("service", SERVICES)
def test_exposure(units, service):
    """Bare units score 9.6, as slurmd does."""
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", units / service)
    score = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    if score is None and "offline" in done.stderr:
        pytest.skip(f"this systemd-analyze cannot check offline: {done.stderr.strip()}")
    assert score is not None, done.stdout + done.stderr
    assert float(score[1]) <= REACH[service], "\n".join(line for line in done.stdout.splitlines() if "✗" in line)


def test_a_restart_of_the_worker_spares_the_jobs(units):
    worker = settings(units / "gpuq-worker.service")
    assert worker["KillMode"] == ["process"]
    assert worker["OOMPolicy"] == ["continue"]
    assert "RemoveIPC" not in worker
    assert "RuntimeMaxSec" not in worker


def test_the_worker_leaves_jobs_what_they_need(units):
    worker = settings(units / "gpuq-worker.service")
    assert not {"PrivateDevices", "DeviceAllow", "ProtectHome", "PrivateTmp", "MemoryDenyWriteExecute"} & set(worker)
    assert not any(value for value in worker["AmbientCapabilities"]), "jobs would inherit it"


def test_only_the_worker_sees_devices(units):
    for service in set(SERVICES) - {"gpuq-worker.service"}:
        assert settings(units / service)["PrivateDevices"] == ["yes"], service


@pytest.mark.parametrize("service", SERVICES)
def test_common_to_all(units, service):
    unit = settings(units / service)
    assert "PrivateUsers" not in unit, "the user id of every peer would read 65534 (the overflow user)"
    assert "GPUQ_HOME=/var/lib/gpuq" in unit["Environment"]
    assert (unit["UMask"], unit["NoNewPrivileges"], unit["CapabilityBoundingSet"]) == (["0077"], ["yes"], [""])


@pytest.mark.parametrize("service", sorted(set(SERVICES) - {"gpuq-broker.service"}))
def test_all_but_the_broker_run_as_the_services_account(units, service):
    unit = settings(units / service)
    assert unit["User"] == ["gpuq"]
    assert (unit["StateDirectory"], unit["StateDirectoryMode"]) == (["gpuq"], ["0700"])


def test_the_broker_has_no_network_and_one_peer(units):
    """It runs as root without capabilities; who may connect decides what it can be asked for."""
    broker, listener = settings(units / "gpuq-broker.service"), settings(units / "gpuq-broker.socket")
    assert "User" not in broker
    assert (broker["PrivateNetwork"], broker["RestrictAddressFamilies"]) == (["yes"], ["AF_UNIX"])
    assert (listener["SocketUser"], listener["SocketMode"]) == (["gpuq"], ["0600"])
    assert listener["ListenSequentialPacket"] == [launch.SOCKET]
    pam = (units / "pam.d" / PAM_SERVICE).read_text()
    assert pam.count("pam_limits.so") == 1
    # PID 1 asks for these three; for a kind without a line PAM takes the rules of another service.
    assert {line.split()[0] for line in pam.splitlines() if not line.startswith("#")} == {"auth", "account", "session"}


@pytest.mark.parametrize("service", ["gpuqd.service", "gpuq-api.service", "gpuq-worker.service"])
def test_daemons_are_watched(units, service):
    unit = settings(units / service)
    notifies = "exec" if service == "gpuqd.service" else "main"  # the upgrade of the record before its start, too
    assert (unit["Type"], unit["NotifyAccess"], unit["Restart"]) == (["notify"], [notifies], ["always"])
    assert int(unit["WatchdogSec"][0]) >= 30


RESTARTED = sorted(
    path.relative_to(ROOT / "systemd") for path in (ROOT / "systemd").rglob("*.service") if "Restart" in settings(path)
)


def test_every_daemon_is_restarted():
    system = {"gpuqd.service", "gpuq-api.service", "gpuq-hosts.service", "gpuq-redis.service", "gpuq-worker.service"}
    assert {str(path) for path in RESTARTED} == {*system, "user/gpuq.service"}


@pytest.mark.parametrize("path", RESTARTED, ids=str)
def test_a_service_is_restarted_without_end_except_after_wrong_settings(path):
    """By default systemd gives a unit up after five starts in ten seconds: a database that is away for a minute would do."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(ROOT / "systemd" / path)
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert int(unit["Service"]["RestartSec"]) >= 2
    assert unit["Service"]["RestartPreventExitStatus"] == str(BadSettings.exit_code)
    # That status counts only if the main process ends with it.
    assert unit["Service"].get("ExecStartPre", "-").startswith("-")


def test_systemd_holds_the_port_of_the_endpoint(units):
    """Else any user could take it while the endpoint is started again."""
    port = configparser.ConfigParser(interpolation=None, strict=False)
    port.optionxform = str
    port.read(units / "gpuq-api.socket")
    assert port["Socket"]["ListenStream"] == f"{Api().host}:{Api().port}"
    assert port["Socket"]["IPAddressDeny"] == "any"
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(units / "gpuq-api.service")
    assert unit["Unit"]["Requires"] == "gpuq-api.socket"
    assert unit["Service"]["ExecStart"].endswith("--tcp-fd 3"), "the first descriptor that systemd passes"


@pytest.mark.parametrize("service", ["gpuq-retrain.service", "gpuq-api.service", "gpuq-worker.service"])
def test_where_libraries_may_compile_they_are_let(units, service):
    assert "MemoryDenyWriteExecute" not in settings(units / service)


def test_training_is_nightly_spread_and_made_up_for(units):
    timer = configparser.ConfigParser(interpolation=None)
    timer.optionxform = str
    timer.read(units / "gpuq-retrain.timer")
    assert timer["Timer"]["Persistent"] == "yes"
    assert timer["Timer"]["RandomizedDelaySec"] == "2h"
    if shutil.which("systemd-analyze"):
        done = run("systemd-analyze", "calendar", "--iterations=3", timer["Timer"]["OnCalendar"])
        assert done.stdout.count("02:00:00") >= 3, done.stdout + done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_started_is_there(units, service):
    [start] = settings(units / service)["ExecStart"]
    module = start.split(" -m ")[1].split()[0]
    found = importlib.util.find_spec(module)
    if found is not None and found.submodule_search_locations is not None:
        found = importlib.util.find_spec(f"{module}.__main__")
    documented = f"`python -m {module}`" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert found is not None or documented, module


def test_user_and_folders_are_made_as_the_units_need_them(units, tmp_path):
    if shutil.which("systemd-sysusers") is None or shutil.which("systemd-tmpfiles") is None:
        pytest.skip("systemd-sysusers and systemd-tmpfiles are not on this machine")
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")
    (tmp_path / "etc").mkdir()
    made = run("systemd-sysusers", f"--root={tmp_path}", units / "sysusers.d" / "gpuq.conf")
    assert made.returncode == 0, made.stderr
    assert "gpuq:" in (tmp_path / "etc/passwd").read_text()
    (tmp_path / "var/lib/gpuq/run").mkdir(parents=True)
    (tmp_path / "var/lib/gpuq/run/api.sock").touch()
    for boot, kept in (([], True), (["--boot"], False)):
        options = ["--create", "--remove", *boot, f"--root={tmp_path}"]
        made = run("systemd-tmpfiles", *options, units / "tmpfiles.d" / "gpuq.conf")
        assert made.returncode == 0, made.stderr
        assert (tmp_path / "var/lib/gpuq/run/api.sock").exists() is kept
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("var/lib/gpuq", "etc/gpuq/environment")}
    assert modes == {"var/lib/gpuq": 0o700, "etc/gpuq/environment": 0o640}


@pytest.mark.parametrize("module", ["gpuq.daemon.main", "gpuq.adapters.redis.server"])
def test_what_may_not_compile_does_not_need_to(module):
    """MemoryDenyWriteExecute, asked of the kernel directly: what these units run must load under it."""
    deny = (
        "import ctypes, os, sys\n"
        "denied = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0  # PR_SET_MDWE\n"
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]]) if denied else sys.exit(77)"
    )
    check = f"import mmap\ntry: mmap.mmap(-1, 4096, prot=7)\nexcept PermissionError: import {module}; print('loaded')"
    done = run(sys.executable, "-c", deny, check)
    if done.returncode == 77:
        pytest.skip("this kernel cannot deny it by prctl (Linux 6.3 can)")
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr
