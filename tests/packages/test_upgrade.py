"""The Debian package on a host with systemd: it is upgraded and removed while a job runs. Run by `make package-test`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.conftest import why_no_root
from tests.support.lab import Lab, why_not
from tests.support.site import wait_for

pytestmark = pytest.mark.packages
# The lab's host comes with gpuq from the checkout. The job is its user's, so it runs in a unit of its own.
_INSTALL = """
rm -rf /opt/gpuq; find /etc/systemd/system -name 'gpuq*' -prune -exec rm -r {} +
systemctl daemon-reload
dpkg -i /root/gpuq.deb
useradd -m ann
printf '[api]\nshared_socket = "/run/gpuq/api.sock"\n[worker]\nrun_as = "submitter"\n' >/var/lib/gpuq/config.toml
printf '%s\n' GPUQ_DEVICES_BACKEND=cpu GPUQ_DEVICES_CPU_COUNT=1 GPUQ_ADMISSION_MEMORY_HEADROOM=0.95 >/etc/gpuq/environment
systemctl enable --now gpuq.target gpuq-redis gpuqd
until [ -s /var/lib/gpuq/dispatcher.key ]; do sleep 0.1; done
openssl pkey -in /var/lib/gpuq/dispatcher.key -pubout -outform DER | tail -c 32 | base64 >/etc/gpuq/dispatcher.pub
systemctl enable --now gpuq-broker.socket gpuq-worker gpuq-api gpuq-retrain.timer
"""
_ACTIVE = "systemctl list-units --plain --no-legend --state=active 'gpuq*' | cut -d' ' -f1"
_SERVICES = "systemctl show --value -p MainPID gpuqd gpuq-worker gpuq-api gpuq-redis"


class Host:
    """The host, as root and as a user."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def shell(self, script: str) -> str:
        return self._lab.run("one", "bash", "-ec", script, within_s=300).stdout.strip()

    def gpuq(self, words: str) -> str:
        return self.shell(f"cd /home/ann; runuser -u ann -- gpuq {words}")

    def start(self, command: str) -> str:
        """The id of a job that runs."""
        job = self.gpuq(f"submit -- sh -c '{command}'")
        wait_for(lambda: self.gpuq(f"queue {job}").count(" R "), 60)
        return job


@pytest.fixture(scope="module")
def host(built: Path) -> Iterator[Host]:
    if reason := why_no_root() or why_not():
        pytest.skip(reason)
    with Lab() as lab:
        lab.up("one")
        (deb,) = built.glob("gpuq_*.deb")
        shutil.copy(deb, lab.path("one", "/root/gpuq.deb"))
        found = Host(lab)
        found.shell(_INSTALL)
        yield found


def test_an_upgrade_restarts_the_services_and_no_job(host: Host) -> None:
    job = host.start("until [ -e ~/go ]; do sleep 0.1; done; exit 3")
    services = host.shell(_SERVICES).split()
    process = host.shell(f"systemctl show --value -p MainPID gpuq-{job}-1")
    host.shell("dpkg -i /root/gpuq.deb")
    assert not set(services) & set(host.shell(_SERVICES).split())
    assert host.shell(f"systemctl show --value -p MainPID gpuq-{job}-1") == process != "0"
    host.shell("touch /home/ann/go")
    assert host.gpuq(f"wait {job} >/dev/null || echo $?") == "3"


def test_a_removal_stops_all_of_gpuq_and_no_job(host: Host) -> None:
    job = host.start("sleep 300")
    host.shell("dpkg --remove gpuq")
    assert host.shell(_ACTIVE).split() == [f"gpuq-{job}-1.service", "gpuq.slice"]
    assert host.shell("find /etc/systemd/system -type l -name 'gpuq*'") == ""
    assert "/var/lib/gpuq, " in host.shell("dpkg --purge gpuq")
    assert host.shell("ls /var/lib/gpuq/gpuq.db /etc/gpuq/environment; ls /etc/pam.d").split("\n")[:2] == [
        "/etc/gpuq/environment",
        "/var/lib/gpuq/gpuq.db",
    ]
