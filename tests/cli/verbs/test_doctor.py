"""`gpuq doctor`: what it finds, and that each broken part comes with its fix."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuq.cli.main import main
from gpuq.cli.verbs import doctor
from gpuq.home import Home
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply

READY = {"ready": True, "database": "ok", "redis": "ok", "dispatcher": "ok"}


@pytest.fixture
def healthy(api: FakeApi) -> FakeApi:
    api.home.chmod(0o700)
    api.on("GET", "/readyz", READY)
    api.on("GET", "/livez", Reply(raw=b"ok"))
    api.on("GET", "/version", {"version": "0.1.0", "api": "v1"})
    api.on("GET", "/api/v1/gpus", samples.DEVICES[:1])
    api.on("GET", "/api/v1/policies", samples.POLICIES)
    api.on("GET", "/api/v1/jobs", {"jobs": []})
    return api


def checks(done: Any) -> dict[str, dict[str, Any]]:
    return {check["part"]: check for check in done.json["checks"]}


def test_a_healthy_gpuq_is_0_and_nothing_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    done = gpuq("doctor", "--json")
    assert done.code == 0, done.out
    found = checks(done)
    assert {"home", "disk", "clock", "installation", "nvml", "cgroup", "timer"} < set(found)
    for part in ("home", "settings", "services", "api", "database", "redis", "dispatcher", "devices", "policy"):
        assert found[part]["status"] == "ok"
    assert gpuq("doctor").code == 0


def test_no_daemon_is_broken_with_its_fix_and_the_rest_is_still_checked(gpuq: Command, home: Path) -> None:
    home.chmod(0o700)
    done = gpuq("doctor", "--json")
    assert done.code == 1
    assert "gpuq up" in checks(done)["api"]["fix"]
    assert checks(done)["home"]["status"] == "ok"


@pytest.mark.parametrize(
    ("part", "word", "fix"),
    [
        ("redis", "unreachable", "Start Redis"),
        ("redis", "refused", "GPUQ_REDIS_URL"),
        ("redis", "full", "maxclients"),
        ("redis", "unwritable", "maxmemory"),
        ("redis", "shared", "database number of its own"),
        ("database", "schema", "gpuq db upgrade"),
        ("dispatcher", "stale", "gpuq up"),
    ],
)
def test_each_part_of_readiness_has_its_fix(gpuq: Command, healthy: FakeApi, part: str, word: str, fix: str) -> None:
    healthy.on("GET", "/readyz", Reply({**READY, "ready": False, part: word}, 503))
    done = gpuq("doctor", "--json")
    assert done.code == 1
    assert checks(done)[part]["status"] == "broken"
    assert fix in checks(done)[part]["fix"]
    assert fix in gpuq("doctor", COLUMNS="200").out


def test_a_dispatcher_that_runs_and_is_stuck_is_not_to_be_started_but_quoted(gpuq: Command, healthy: FakeApi) -> None:
    healthy.on("GET", "/readyz", Reply({**READY, "ready": False, "dispatcher": "stale"}, 503))
    (healthy.home / "logs").mkdir()
    (healthy.home / "logs" / "dispatcher.log").write_text("1 WARNING: Redis refused: OOM command not allowed.\n")
    lock = healthy.home / "run" / "dispatcher.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = checks(gpuq("doctor", "--json"))["dispatcher"]
    assert "although it runs here; it wrote last: 1 WARNING: Redis refused: OOM" in found["found"]
    assert "gpuq up" not in found["fix"]


def held(lock: Path) -> Any:
    lock.parent.mkdir(exist_ok=True)
    file = lock.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def test_where_redis_is_away_nothing_else_is_blamed_for_it(gpuq: Command, healthy: FakeApi) -> None:
    silent = [{**device, "backend": "nvml", "read_at": None} for device in samples.DEVICES]
    healthy.on("GET", "/api/v1/gpus", silent)
    healthy.on("GET", "/readyz", Reply({**READY, "ready": False, "redis": "refused", "dispatcher": "absent"}, 503))
    done = gpuq("doctor", "--json")
    found = checks(done)
    assert [part for part in ("nvml", "redis", "dispatcher", "devices") if found[part]["status"] == "broken"] == [
        "redis"
    ]
    assert (done.code, found["dispatcher"]["fix"]) == (1, "Mend Redis first.")
    assert "gpuq-worker" not in found["devices"]["fix"]


def test_an_endpoint_that_cannot_start_is_not_taken_for_no_gpuq(gpuq: Command, home: Path) -> None:
    (home / "logs").mkdir()
    why = "Cannot listen on /h/run/api.sock: its disk has no room, or no inode, for one more file."
    (home / "logs" / "api.log").write_text(f"gpuq: {why}\n  Make room there.\n")
    with held(home / "run" / "dispatcher.lock"):
        found = checks(gpuq("doctor", "--json"))["api"]
    assert found["found"] == f"gpuq runs here, and its endpoint does not answer; it wrote last: {why}"
    assert found["fix"] == "Make room there."


def test_a_name_of_redis_that_is_not_found_is_said(
    gpuq: Command, healthy: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_found(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", not_found)
    healthy.on("GET", "/readyz", Reply({**READY, "ready": False, "redis": "unreachable"}, 503))
    found = checks(gpuq("doctor", "--json", GPUQ_REDIS_URL="redis://cache.lab:6379/0"))["redis"]["found"]
    assert found == "unreachable: the name cache.lab is not found (Name or service not known)"


def test_a_record_whose_jobs_cannot_be_read_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    problem = {"title": "Failure", "detail": "The record is damaged: malformed.", "fix": "Stop gpuq."}
    healthy.on("GET", "/api/v1/jobs", Reply(problem, 500))
    found = checks(gpuq("doctor", "--json"))["jobs"]
    assert (found["status"], "damaged" in found["found"]) == ("broken", True)


def test_a_home_on_a_read_only_file_system_needs_another_mount_and_no_mode(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    monkeypatch.setattr(doctor.os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    found = doctor._home(home)
    assert (found.status, found.found) == ("broken", f"{home} is on a read-only file system")
    assert found.fix == "Mount it for writing, or set GPUQ_HOME to a folder elsewhere."


def test_an_open_home_or_token_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    healthy.home.chmod(0o755)
    assert checks(gpuq("doctor", "--json"))["home"]["fix"] == f"chmod 700 {healthy.home}"
    healthy.home.chmod(0o700)
    (healthy.home / "token").write_text("x")
    (healthy.home / "token").chmod(0o644)
    assert checks(gpuq("doctor", "--json"))["home"]["fix"] == f"chmod 600 {healthy.home}/token"


def test_no_device_and_a_silent_device(gpuq: Command, healthy: FakeApi) -> None:
    healthy.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert checks(gpuq("doctor", "--json"))["devices"]["status"] == "note"
    healthy.on("GET", "/api/v1/gpus", [])
    assert gpuq("doctor").code == 1


def test_a_device_that_is_unwell_is_broken_and_a_container_of_its_own_is_noted(
    gpuq: Command, healthy: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy.on("GET", "/api/v1/gpus", [{"id": "GPU-1", "utilization_pct": 3.0, "unwell": "XID 79: off the bus"}])
    found = checks(gpuq("doctor", "--json"))["devices"]
    assert (found["status"], "XID 79" in found["found"]) == ("broken", True)
    assert "stop the worker service" in found["fix"].partition("nvidia-smi -r")[0], "which has the GPU open"
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    monkeypatch.setattr(doctor, "_in_host_pid_namespace", lambda: False)
    noted = doctor._nvml()
    assert (noted.status, "--pid=host" in (noted.fix or "")) == ("note", True)


def test_gpus_that_show_no_processes_are_noted_with_what_follows(gpuq: Command, healthy: FakeApi) -> None:
    shown, hidden = samples.DEVICES[0], {**samples.DEVICES[0], "host": "wsl", "processes_visible": False}
    assert "processes" not in checks(gpuq("doctor", "--json"))
    healthy.on("GET", "/api/v1/gpus", [shown, hidden])
    done = gpuq("doctor", "--json")
    found = checks(done)["processes"]
    assert (done.code, found["status"]) == (0, "note")
    assert "on wsl does not show" in found["found"]
    assert "jobs that share one" in found["found"]
    assert "--pid=host" in found["fix"]


def test_the_daemons_gpus_count_and_not_what_this_shell_can_load(
    healthy: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", no_library)
    monkeypatch.setattr(doctor, "_in_host_pid_namespace", lambda: True)
    monkeypatch.setattr(doctor, "_has_nvidia_gpu", lambda: False)
    gpu, cpu = ({"backend": backend, "read_at": "2026-11-20T23:00:00.000Z"} for backend in ("nvml", "cpu"))
    assert doctor._nvml([gpu]) == doctor.Check("nvml", "ok", "libnvidia-ml.so.1")
    assert doctor._nvml([cpu]).status == "ok", "a laptop without a GPU lacks nothing"
    silent = {**gpu, "read_at": None}
    assert [doctor._nvml(found).status for found in ([silent], [silent, cpu], [silent, gpu])] == [
        "broken",
        "broken",
        "ok",
    ]
    monkeypatch.setattr(doctor, "_has_nvidia_gpu", lambda: True)
    assert (doctor._nvml([cpu]).status, doctor._nvml().status) == ("note", "note")


def test_wrong_settings_are_broken_and_unknown_names_are_noted(gpuq: Command, healthy: FakeApi) -> None:
    noted = checks(gpuq("doctor", "--json", GPUQ_ADMISSION_MAX_SLOWDWN="1.2"))["settings"]
    assert (noted["status"], "GPUQ_ADMISSION_MAX_SLOWDOWN?" in noted["found"]) == ("note", True)
    (healthy.home / "config.toml").write_text("[admission]\nresidents_per_device = -3\n")
    done = gpuq("doctor", "--json")
    found = checks(done)["settings"]
    assert (done.code, found["status"]) == (1, "broken")
    said = f"{healthy.home}/config.toml sets `residents_per_device` under [admission] to -3"
    assert found["found"] == f"{said}; it must be a whole number of at least 1."


@pytest.fixture
def environment_file(healthy: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if the home were that of the services that systemd starts. The command runs in this process."""
    file = tmp_path / "environment"
    monkeypatch.setattr("gpuq.services_environment.HOME", healthy.home)
    monkeypatch.setattr("gpuq.services_environment.FILE", file)
    monkeypatch.setattr(os, "environ", {**os.environ, "GPUQ_HOME": str(healthy.home)})
    return file


def test_commands_that_read_settings_have_those_that_systemd_gives_the_services(
    environment_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an upgrade would make a record in the home beside that of the services, and wrong settings would be called right."""
    upgraded = []
    monkeypatch.setattr("gpuq.cli.verbs.db.become_module", lambda _: upgraded.append(os.environ["GPUQ_DATABASE_URL"]))
    lines = ("# for all units", "", "GPUQ_DATABASE_URL=postgresql://db/gpuq", "GPUQ_ADMISSION_RISK='7'", "LANG=x")
    environment_file.write_text("\n".join(lines))
    os.environ["LANG"] = "C"
    main(["db", "upgrade"])
    assert (upgraded, os.environ["LANG"]) == (["postgresql://db/gpuq"], "C")
    found = doctor._settings(Home.from_environment())
    assert found.found.startswith("GPUQ_ADMISSION_RISK sets `risk` under [admission] to '7'")
    os.environ["GPUQ_DATABASE_URL"] = "sqlite:////shell.db"
    main(["db", "upgrade"])
    assert upgraded[1:] == ["sqlite:////shell.db"], "what the shell sets goes first"


def test_settings_of_the_services_that_cannot_be_read_are_said(
    environment_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment_file.mkdir()
    assert (main(["doctor"]), "Run this as the user gpuq" in capsys.readouterr().err) == (2, True)


def test_removed_setting_is_a_note(gpuq: Command, healthy: FakeApi) -> None:
    (healthy.home / "config.toml").write_text("[scheduling]\novertaking = 20\n")
    done = gpuq("doctor", "--json")
    check = checks(done)["settings"]
    assert check["status"] == "note"
    assert f"`overtaking` under [scheduling] in {healthy.home}/config.toml is no setting any more" in check["found"]
    assert done.err == ""


def service(healthy: FakeApi, *, supervisor: int, crashes_s_ago: list[float], lives_s: float | None) -> None:
    """What the supervision of a worker has written down."""
    now = time.time()
    body = {
        "name": "worker",
        "supervisor": supervisor,
        "started_at": None if lives_s is None else now - lives_s,
        "crashes": [now - ago for ago in crashes_s_ago],
        "last_crash": {
            "name": "worker",
            "how": "exit code 4",
            "said": "no driver.",
            "fix": "Install it.",
            "log": "w.log",
        },
    }
    (healthy.home / "run" / "service-worker.json").write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("crashes_s_ago", "lives_s", "status", "fix"),
    [
        ([], 100, "ok", None),
        ([20], 15, "note", "w.log has more."),
        ([40, 30, 20, 2], None, "broken", "Install it."),
        ([40, 30, 20], 15, "broken", "Install it."),
        ([240, 220, 200], 195, "note", "w.log has more."),
        ([4000, 3900, 3800], 3790, "ok", None),
    ],
)
def test_a_service_that_keeps_crashing_is_broken_with_its_last_words(
    gpuq: Command, healthy: FakeApi, crashes_s_ago: list[float], lives_s: float | None, status: str, fix: str | None
) -> None:
    service(healthy, supervisor=os.getpid(), crashes_s_ago=crashes_s_ago, lives_s=lives_s)
    found = checks(gpuq("doctor", "--json"))["services"]
    assert (found["status"], found["fix"]) == (status, fix)
    if status != "ok":
        assert "last by exit code 4" in found["found"]
        assert "no driver." in found["found"]


def test_the_status_of_a_dead_supervisor_does_not_count(gpuq: Command, healthy: FakeApi) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    service(healthy, supervisor=gone.pid, crashes_s_ago=[3, 2, 1], lives_s=None)
    assert checks(gpuq("doctor", "--json"))["services"]["status"] == "ok"


def test_clocks_that_disagree_are_noted(gpuq: Command, healthy: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "clocks" not in checks(gpuq("doctor", "--json"))
    monkeypatch.setattr(
        "http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: "Sat, 01 Jan 2000 00:00:00 GMT"
    )
    assert checks(gpuq("doctor", "--json"))["clocks"]["status"] == "note"


def test_the_other_package_named_gpuq_is_found(gpuq: Command, healthy: FakeApi, tmp_path: Path) -> None:
    info = tmp_path / "site" / "gpuq-1.5.6.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gpuq\nVersion: 1.5.6\n")
    done = gpuq("doctor", "--json", PYTHONPATH=str(tmp_path / "site"))
    assert done.code == 1
    assert "1.5.6" in checks(done)["installation"]["found"]


def test_an_end_that_does_not_reach_the_dispatcher_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    waiting = healthy.home / "spool" / "000000000001.json"
    waiting.parent.mkdir(exist_ok=True)
    waiting.touch()
    assert checks(gpuq("doctor", "--json"))["events"]["status"] == "ok"
    os.utime(waiting, (time.time() - 90, time.time() - 90))
    found = checks(gpuq("doctor", "--json"))["events"]
    assert (found["status"], "wait for the dispatcher: 1, since" in found["found"]) == ("broken", True)


def test_a_host_whose_reports_are_dropped_is_broken_with_the_reason(gpuq: Command, healthy: FakeApi) -> None:
    healthy.on("GET", "/api/v1/hosts", [{"name": "node2", "unread": "a number is too large"}, {"name": "node3"}])
    found = checks(gpuq("doctor", "--json"))["reports"]
    assert (found["status"], found["found"]) == ("broken", "those of node2 are dropped: a number is too large")


def test_a_host_with_another_clock_is_noted(gpuq: Command, healthy: FakeApi) -> None:
    """It gives no command an answer of its own, so nothing else compares its clock."""
    off = [{"name": "node2", "clock_ahead_s": -7200.2}, {"name": "node3", "clock_ahead_s": 0.2}, {"name": "node4"}]
    healthy.on("GET", "/api/v1/hosts", off)
    found = checks(gpuq("doctor", "--json"))["clocks"]
    assert (found["status"], found["found"].split(",")[0]) == ("note", "the clock of node2 is 7200 s behind")
    assert "on node2: timedatectl" in found["fix"]


def test_a_host_that_can_start_no_job_is_broken_and_no_reset_is_asked_for(gpuq: Command, healthy: FakeApi) -> None:
    cannot = {"why": "no process is left", "since_at": "2026-11-22T10:00:00Z", "again_at": "2026-11-22T10:00:08Z"}
    healthy.on("GET", "/api/v1/hosts", [{"name": "node2", "no_starts": cannot}, {"name": "node3", "no_starts": None}])
    found = checks(gpuq("doctor", "--json"))["starts"]
    assert (found["status"], found["found"][:51]) == ("broken", "node2 starts no job since 2026-11-22 10:00:00: no p")
    assert found["found"].endswith("; it tries again at 2026-11-22 10:00:08")
    assert "reset" not in found["fix"]


def test_a_job_that_does_not_start_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    job = {"id": 7, "state": "STARTING", "host": "node2", "state_since_unix": time.time() - 5}
    healthy.on("GET", "/api/v1/jobs", {"jobs": [job]})
    assert "starts" not in checks(gpuq("doctor", "--json"))
    healthy.on("GET", "/api/v1/jobs", {"jobs": [{**job, "state_since_unix": time.time() - 90}]})
    found = checks(gpuq("doctor", "--json"))["starts"]
    assert (found["status"], found["found"][:33]) == ("broken", "job 7: it was to start on node2 1")
    assert "gpuq cancel 7" in found["fix"]


def test_a_full_disk_is_broken(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10 * 2**20})())
    found = {check.part: check for check in doctor.local_checks(Home(home))}
    assert found["disk"].status == "broken"
    assert found["disk"].fix


def test_a_disk_without_inodes_is_broken(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """It has room for bytes, but not for one more file."""
    left = type("Left", (), {"f_files": 10**6, "f_favail": 3})()
    monkeypatch.setattr(doctor.os, "statvfs", lambda _: left)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10 * 2**30})())
    found = {check.part: check for check in doctor.local_checks(Home(home))}["disk"]
    assert (found.status, found.found) == ("broken", f"room for 3 more files at {home}")


def test_a_check_that_fails_itself_is_reported(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def fail(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.disk_usage", fail)
    found = {check.part: check for check in doctor.local_checks(Home(home))}
    assert (found["disk"].status, found["disk"].found) == ("note", "could not be checked: Input/output error")


def test_a_missing_home_is_no_fault(tmp_path: Path) -> None:
    found = {check.part: check for check in doctor.local_checks(Home(tmp_path / "later"))}
    assert found["home"].status == "note"
    assert "gpuq up" in (found["home"].fix or "")


def test_a_policy_that_was_replaced_is_broken_with_its_reason(gpuq: Command, healthy: FakeApi) -> None:
    healthy.on("GET", "/api/v1/policies", samples.REPLACED)
    done = gpuq("doctor", "--json")
    assert done.code == 1
    assert checks(done)["policy"]["found"] == "`fair` is replaced by `packed`: it failed: KeyError: 'ada'"
    assert "restart the dispatcher" in checks(done)["policy"]["fix"]


def test_a_daemon_that_knows_no_policies_is_not_broken(gpuq: Command, healthy: FakeApi) -> None:
    del healthy.answers["GET", "/api/v1/policies"]
    done = gpuq("doctor", "--json")
    assert done.code == 0
    assert "policy" not in checks(done)


def test_jobs_as_their_submitters_need_the_broker(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = tmp_path / "broker.sock"
    monkeypatch.setattr(doctor, "_FOR_SUBMITTERS", (needed,))

    def found() -> doctor.Check:
        return next(check for check in doctor.local_checks(Home(home)) if check.part == "submitters")

    assert found().status == "ok"
    (home / "config.toml").write_text('[worker]\nrun_as = "submitter"\n')
    assert found().status == "broken"
    assert str(needed) in found().found
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as broker:
        broker.bind(str(needed))
        broker.listen()
        assert found().status == "ok"
    assert found().found == f"jobs are to run as their submitters, and nothing listens on {needed}"
