"""A bare host joins a main host whose jobs run as their submitters: the one command is all that it takes there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import wait_for
from workloads.demo import emulated
from workloads.demo.gpuq import DemoFailed

HOME = "/var/lib/gpuq"
LEASE_S = 6
MAIN = f"""
install -o gpuq -g gpuq /dev/stdin {HOME}/config.toml <<'END'
[api]
shared_socket = "/run/gpuq/api.sock"
hosts_at = ["10.77.0.1:8781"]
[admission]
lease_s = {LEASE_S}
[worker]
run_as = "submitter"
END
useradd -m -u 1001 ann
systemctl start gpuqd gpuq-api gpuq-hosts
until [ -s {HOME}/dispatcher.key ]; do sleep 0.1; done
"""
# What a driver would leave: the joining host itself has nothing of gpuq.
BARE = """
rm -rf /opt/gpuq /etc/systemd/system/gpuq* /etc/systemd/system/sysusers.d /etc/systemd/system/tmpfiles.d /etc/gpuq /var/lib/gpuq*
rm -rf /run/gpuq* /etc/pam.d/gpuq /usr/local/lib/tmpfiles.d
systemctl daemon-reload
useradd -m -u 1001 ann
install -d -m 750 /etc/gpuq
for number in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$number c 195 $number; done
mknod -m 666 /dev/nvidiactl c 195 255
printf '%s\\n' GPUQ_DEVICES_BACKEND=nvml LD_LIBRARY_PATH=/srv/nvml MOCK_NVML_CONFIG=/srv/nvml/config.yaml >/etc/gpuq/environment
"""


class Site:
    """The main host `joinmain`, which runs no jobs, and the bare host `joinnode`."""

    def __init__(self, lab: Any, mock: Path) -> None:
        self.lab = lab
        lab.up("joinmain", "joinnode", controllers=True)
        lab.servers("joinmain")
        self.shell("joinmain", MAIN)
        self.shell("joinnode", BARE)
        folder = lab.path("joinnode", "/srv/nvml")
        folder.mkdir(mode=0o755)
        shutil.copy(mock / emulated.LIBRARY, folder)
        shutil.copy(mock / emulated.CONFIG, folder / "config.yaml")

    def shell(self, host: str, script: str, within_s: float = 120) -> str:
        return str(self.lab.run(host, "bash", "-ec", script, within_s=within_s).stdout)

    def gpuq(self, *words: str, check: bool = True) -> str:
        command = ["runuser", "-u", "ann", "--", "env", "HOME=/home/ann", "/opt/gpuq/bin/gpuq", *words]
        return str(self.lab.run("joinmain", *command, check=check).stdout)

    def state(self, job: int) -> str:
        return str(json.loads(self.gpuq("show", str(job), "--json"))["state"])

    def story(self, job: int) -> str:
        """What is known of a job that did not run."""
        look = (
            "systemctl --no-pager status gpuq-worker gpuq-broker gpuq-broker.socket 2>&1; cat /var/lib/gpuq/config.toml"
        )
        seen = self.shell("joinnode", f"{look}; tail -n 20 /var/lib/gpuq/logs/orders.log || true")
        return self.gpuq("gpus", check=False) + self.gpuq("explain", str(job), check=False) + seen

    def submit(self, *command: str) -> int:
        return int(self.gpuq("submit", "-C", "/home/ann", *command))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    labs = pytest.importorskip("tests.support.lab")
    if reason := labs.why_not():
        pytest.skip(reason)
    try:
        mock = emulated.folder(os.environ)
    except DemoFailed as missing:
        pytest.skip(str(missing))  # a CPU device is closed to jobs while other processes use the machine
    with labs.Lab() as lab:
        yield Site(lab, mock)


def test_a_host_that_joins_starts_jobs_as_their_submitters_ends_those_whose_lease_it_cannot_renew_and_outlasts_a_reboot(
    site: Site,
) -> None:
    add = f"runuser -u gpuq -- env GPUQ_HOME={HOME} $(cat /etc/gpuq/environment) /opt/gpuq/bin/gpuq host add joinnode"
    command = next(line for line in site.shell("joinmain", add).splitlines() if "python3 -" in line).strip()
    site.shell("joinnode", command, within_s=600)
    job = site.submit("--", "id", "-un")
    wait_for(lambda: site.state(job) == "COMPLETED", 60, lambda: site.story(job))
    assert site.gpuq("logs", str(job)) == "ann\n"

    kept = site.submit("--requeue", "--", "sh", "-c", "echo up; exec sleep 300")
    wait_for(lambda: site.gpuq("logs", str(kept), check=False) == "up\n", 120)
    ended = f"{HOME}/attempts/{kept}-1/exit.json"
    site.lab.cut("joinnode")
    wait_for(lambda: site.lab.run("joinnode", "test", "-e", ended, check=False).returncode == 0, LEASE_S + 60)
    end = json.loads(site.shell("joinnode", f"cat {ended}"))
    site.lab.heal("joinnode")
    assert (end["ending"], end["exit_code"]) == ("lost", 143)
    assert "not connected" in end["reason"]
    again = f"/var/lib/gpuq-jobs/{kept}-2/started.json"
    wait_for(lambda: site.lab.run("joinnode", "test", "-e", again, check=False).returncode == 0, 120)
    site.gpuq("cancel", str(kept))

    site.lab.kill("joinnode")
    site.lab.boot("joinnode")
    later = site.submit("--", "id", "-un")
    wait_for(lambda: site.state(later) == "COMPLETED", 120, lambda: site.story(later))
