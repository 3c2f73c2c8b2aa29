"""`gpuq doctor`: what it finds, and that each broken part comes with its fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuq.cli import doctor
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
    return api


def checks(done: Any) -> dict[str, dict[str, Any]]:
    return {check["part"]: check for check in done.json["checks"]}


def test_a_healthy_gpuq_is_0_and_nothing_is_broken(gpuq: Command, healthy: FakeApi) -> None:
    done = gpuq("doctor", "--json")
    assert done.code == 0, done.out
    found = checks(done)
    assert {"home", "disk", "clock", "installation", "nvml", "cgroup", "timer"} < set(found)
    for part in ("home", "api", "database", "redis", "dispatcher", "devices", "policy"):
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
    assert (found["status"], "XID 79" in found["found"], "nvidia-smi -r" in found["fix"]) == ("broken", True, True)
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    monkeypatch.setattr(doctor, "_has_the_hosts_process_numbers", lambda: False)
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


def test_a_full_disk_is_broken(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10 * 2**20})())
    found = {check.part: check for check in doctor.local_checks(Home(home))}
    assert found["disk"].status == "broken"
    assert found["disk"].fix


def test_a_check_that_fails_itself_is_reported(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def fail(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.disk_usage", fail)
    found = {check.part: check for check in doctor.local_checks(Home(home))}
    assert (found["disk"].status, found["disk"].found) == ("note", "could not be looked at: Input/output error")


def test_a_home_that_is_not_there_yet_is_no_fault(tmp_path: Path) -> None:
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
