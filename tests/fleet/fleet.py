"""gpuq on the hosts of a lab: a main host, a standby, one more host, and two for the databases.

`db` has PostgreSQL and Redis, `replica` follows its PostgreSQL, `main` and `standby` each have a dispatcher and an API, and
`main`, `standby` and `node` run jobs, on eight emulated GPUs each: NVIDIA's mock of its driver library (`GPUQ_NVML_MOCK`). Where
it is missing they have two CPU devices each, and what else keeps this machine busy is foreign load that delays their jobs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg

from gpuq.home import host_key
from tests.fleet import ledger
from tests.fleet.ledger import Run
from tests.support import unix_http
from tests.support.lab import Lab
from tests.support.site import wait_for
from workloads.demo import emulated
from workloads.demo.gpuq import DemoFailed

DISPATCHERS = ("main", "standby")
WORKERS = ("main", "standby", "node")
HOSTS = ("db", *WORKERS, "replica")
HOME = "/var/lib/gpuq"
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
_GPUS = {
    "GPUQ_DEVICES_BACKEND": "nvml",
    "LD_LIBRARY_PATH": "/srv/nvml",
    "MOCK_NVML_CONFIG": "/srv/nvml/config.yaml",
}
_REPLICATE = """
echo 'host replication all 10.77.0.0/24 scram-sha-256' >>/var/lib/lab-pg/pg_hba.conf
runuser -u postgres -- /usr/lib/postgresql/15/bin/pg_ctl -D /var/lib/lab-pg reload >/dev/null
"""
_FOLLOW = """
systemctl stop lab-postgresql 2>/dev/null || true
rm -rf /var/lib/lab-pg
install -d -o postgres -g postgres -m 700 /var/lib/lab-pg
export PGPASSWORD=pw
runuser -u postgres -- /usr/lib/postgresql/15/bin/pg_basebackup -h {primary} -U postgres -D /var/lib/lab-pg -R -c fast --no-sync
systemctl start lab-postgresql 2>/dev/null || systemd-run --quiet --unit=lab-postgresql --uid=postgres -p Type=notify \\
  /usr/lib/postgresql/15/bin/postgres -D /var/lib/lab-pg -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
# Hosts have one tree of control groups, so that of one lab may remove the group that that of another has just made for its Redis.
_START_REDIS = "until systemctl start lab-redis && sleep 0.2 && systemctl is-active --quiet lab-redis; do :; done"
# The servers of the lab are transient units; these are there after a boot, too.
_ENABLE_SERVERS = """
mkdir -p /etc/systemd/system/multi-user.target.wants
for unit in /run/systemd/transient/lab-*.service; do
    cp $unit /etc/systemd/system
    ln -s ../${unit##*/} /etc/systemd/system/multi-user.target.wants
done
# As Debian's unit does; at SIGTERM PostgreSQL waits for its clients.
mkdir /etc/systemd/system/lab-postgresql.service.d
printf '[Service]\nKillSignal=SIGINT\n' >/etc/systemd/system/lab-postgresql.service.d/stop.conf
systemctl daemon-reload
"""
_PROMOTE = "runuser -u postgres -- /usr/lib/postgresql/15/bin/pg_ctl -D /var/lib/lab-pg -w promote"


class Fleet:
    """`with Fleet() as fleet:` boots and starts everything; the end of the block leaves nothing."""

    def __init__(self) -> None:
        self.lab = Lab()
        self.database = "db"
        """The host with PostgreSQL's primary."""
        self._databases: dict[str, psycopg.Connection[Any]] = {}
        self._wanted_codes: dict[int, int] = {}

    def __enter__(self) -> Fleet:
        try:
            self._install()
            self.start()
        except BaseException:
            self.lab.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._databases.values():
            connection.close()
        self.lab.close()

    # --- installation ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        self.lab.up(*HOSTS)
        self.lab.servers("db")
        self.shell("db", _REPLICATE + _ENABLE_SERVERS)
        self.follow("replica")
        addresses = ",".join(self.lab.address(host) for host in ("db", "replica"))
        settings = {
            "GPUQ_DATABASE_URL": f"postgresql://gpuq:pw@{addresses}/gpuq?target_session_attrs=read-write",
            "GPUQ_WORKER_GRACE_S": "1",
        }
        for host in WORKERS:
            mine = {**settings, **self._gpus(host)}
            lines = "".join(f"{name}={value}\n" for name, value in mine.items())
            # A file that every user may write: systemd gives /srv back to root at each boot.
            ledger_file = f"install -m 666 /dev/null {ledger.FILE}"
            self.shell(host, f"cat >>/etc/gpuq/environment <<'END'\n{lines}END\n{ledger_file}")
        self.shell("main", "systemctl start gpuqd")
        key = self.shell("main", f"cat {HOME}/order.key")
        self.shell("standby", f"install -m 600 -o gpuq -g gpuq /dev/stdin {HOME}/order.key", stdin=key)
        # As a host of the previous release, with the database's address: its stories cut that connection too.
        own = host_key(key.strip(), "node")
        self.shell("node", f"install -m 600 -o gpuq -g gpuq /dev/stdin {HOME}/host.key", stdin=own)

    def _gpus(self, host: str) -> dict[str, str]:
        """Give a host eight GPUs, which no other host has; the settings for them."""
        try:
            mock = emulated.folder(os.environ)
        except DemoFailed:
            return {}
        folder = self.lab.path(host, "/srv/nvml")
        folder.mkdir(mode=0o755)
        shutil.copy(mock / emulated.LIBRARY, folder)
        config = (mock / emulated.CONFIG).read_text()
        (folder / "config.yaml").write_text(config.replace("GPU-01000100", f"GPU-{WORKERS.index(host) + 2:08d}"))
        return _GPUS

    def start(self) -> None:
        """Start all units that do not run, put drained hosts back, and wait until every host can run jobs."""
        for host in WORKERS:
            units = ["gpuqd", "gpuq-api", "gpuq-worker"] if host in DISPATCHERS else ["gpuq-worker"]
            self.lab.run(host, "systemctl", "enable", "--quiet", "--now", "gpuq.target", *units)
        wait_for(lambda: self.leader()[1] and self.get("/api/v1/hosts")[0] == 200, 60)
        for (host,) in self.sql("SELECT host FROM drained_hosts"):
            self.resume(host)
        wait_for(self.is_whole, 60, lambda: str(self.get("/api/v1/hosts")))

    def mend(self) -> None:
        """Make it whole, whatever the story before left: no cut, no stopped process, and no job that runs or waits."""
        for host in HOSTS:
            self.lab.heal(host)
            if not self.lab.is_up(host):
                self.lab.boot(host)
        for host in DISPATCHERS:
            self.shell(host, "systemctl kill --signal=CONT gpuqd gpuq-api 2>/dev/null || true")
        self.start()
        left = [job for (job,) in self.sql("SELECT id FROM jobs WHERE NOT state = ANY(%s)", list(_ENDED))]
        self.control("cancel", left)
        self.wait(left)

    def is_whole(self) -> bool:
        """Whether the API answers, and all hosts report."""
        status, found = self.get("/api/v1/hosts")
        return status == 200 and {host["name"]: host["state"] for host in found} == dict.fromkeys(WORKERS, "ok")

    # --- hosts -----------------------------------------------------------------------------------------------------

    def shell(self, host: str, script: str, *, stdin: str | None = None, within_s: float = 60) -> str:
        """What a shell script in a host prints."""
        return self.lab.run(host, "bash", "-ec", script, stdin=stdin, within_s=within_s).stdout

    def gpuq(self, *words: str, host: str = "main", user: str = "gpuq") -> Any:
        """What the command prints as JSON. Raises LabError if it fails."""
        command = ["runuser", "-u", user, "--", "env", f"GPUQ_HOME={HOME}", "/opt/gpuq/bin/gpuq"]
        return json.loads(self.lab.run(host, *command, *words).stdout)

    def switch_off(self, host: str, *, in_order: bool) -> None:
        """Switch a host off, as `poweroff` does, or as if its power failed."""
        if host in self._databases:
            self._databases.pop(host).close()
        (self.lab.shut_down if in_order else self.lab.kill)(host)

    def signal(self, host: str, unit: str, number: str, *, if_any: bool = False) -> None:
        """Send a signal to the main process of a unit. Raises LabError if it has none, unless `if_any`."""
        self.lab.run(host, "systemctl", "kill", "--kill-who=main", f"--signal={number}", unit, check=not if_any)

    def journal(self, host: str, unit: str, lines: int = 30) -> str:
        """The last lines of a unit's log."""
        return self.lab.run(host, "journalctl", "-q", "-o", "cat", "-n", str(lines), "-u", unit).stdout

    def keep(self, folder: Path) -> None:
        """Copy what tells why a story failed: of each host the log of its units, gpuq's home and the ledger, and the jobs."""
        folder.mkdir(parents=True, exist_ok=True)
        for host in HOSTS:
            if self.lab.is_up(host):
                log = self.lab.run(
                    host, "journalctl", "-q", "-o", "short-precise", "--since=-15min", check=False
                ).stdout
                (folder / f"{host}.log").write_text(log)
        for host in WORKERS:
            for name in (HOME, ledger.FILE):
                copy = ["cp", "-a", self.lab.path(host, name), folder / f"{host}{name.replace('/', '-')}"]
                subprocess.run(copy, check=False, capture_output=True)
        with (folder / "record.txt").open("w") as file:
            for table in ("jobs", "attempts", "requests", "leadership"):
                rows = self.sql(f"SELECT to_json(t) FROM {table} t ORDER BY 1::text DESC LIMIT 300")
                file.writelines(f"{table} {json.dumps(row)}\n" for (row,) in rows)

    def restart_redis(self, after_s: float = 0.0) -> None:
        """Kill Redis, and start an empty one after a while."""
        self.signal("db", "lab-redis", "KILL")
        time.sleep(after_s)
        self.shell("db", _START_REDIS)

    # --- PostgreSQL -------------------------------------------------------------------------------------------------

    def follow(self, host: str) -> None:
        """Make the PostgreSQL of a host a new replica of the primary."""
        self.shell(host, _FOLLOW.format(primary=self.lab.address(self.database)))
        if host in self._databases:
            self._databases.pop(host).close()

    def promote(self, host: str) -> None:
        """Make the replica in a host the primary."""
        self.shell(host, _PROMOTE)
        self.database = host

    # --- the record ------------------------------------------------------------------------------------------------

    def sql(self, query: str, *values: Any, host: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query to the primary, or to the server in `host`, by its Unix socket, which no cut reaches."""
        host = host or self.database
        if host not in self._databases or self._databases[host].closed:
            where = f"host={self.lab.live_path(host, '/tmp')} dbname=gpuq user=postgres password=pw"
            self._databases[host] = psycopg.connect(where, autocommit=True)
        found = self._databases[host].execute(query, values or None)
        return found.fetchall() if found.description else []

    def leader(self) -> tuple[int, str | None]:
        """The epoch, and the host whose dispatcher leads; None if none does."""
        [(epoch, holder)] = self.sql("SELECT epoch, holder FROM leadership")
        return epoch, None if holder is None else holder.split()[0]

    # --- the API ---------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        key: str | None = None,
        host: str = "main",
        within_s: float = 20,
    ) -> tuple[int, Any]:
        """(status, JSON) of the API of a host, as root. Status 0 if no process answers."""
        socket = self.lab.path(host, f"{HOME}/run/api.sock")
        return unix_http.request(socket, method, target, body, {"Idempotency-Key": key} if key else {}, within_s)

    def get(self, target: str, host: str = "main") -> tuple[int, Any]:
        return self.request("GET", target, host=host)

    def submit(
        self,
        seconds: float,
        code: int = 0,
        *,
        hosts: Iterable[str] = DISPATCHERS,
        patience_s: float = 90,
        **fields: Any,
    ) -> int:
        """The id of a job that keeps a ledger; tries each API again until one acknowledges it, as a careful client does."""
        body = {
            "command": [*ledger.JOB, str(seconds), str(code)],
            "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin"},
            **fields,
        }
        key, apis = os.urandom(8).hex(), tuple(hosts)

        def acknowledged() -> int | None:
            for host in apis:
                status, answer = self.request("POST", "/api/v1/jobs", body, key=key, host=host, within_s=6)
                assert status in {0, 201, 503}, (status, answer)
                if status == 201:
                    return int(answer["id"])
            return None

        job = wait_for(acknowledged, patience_s)
        self._wanted_codes[job] = code
        return job

    def control(self, verb: str, jobs: Iterable[int], host: str = "main") -> None:
        """Cancel, hold or release jobs."""
        for job in jobs:
            assert self.request("POST", f"/api/v1/jobs/{job}/{verb}?wait=0", host=host)[0] in {200, 202}

    def drain(self, host: str, api: str = "main") -> None:
        """Keep new jobs off a host; returns once the dispatcher does."""
        assert self.request("POST", f"/api/v1/hosts/{host}/drain", {"why": "the test"}, host=api)[0] == 202
        wait_for(lambda: (host,) in self.sql("SELECT host FROM drained_hosts"), 20)

    def resume(self, host: str, api: str = "main") -> None:
        """Put a drained host back into service; returns once the dispatcher has."""
        assert self.request("POST", f"/api/v1/hosts/{host}/resume", host=api)[0] == 202
        wait_for(lambda: (host,) not in self.sql("SELECT host FROM drained_hosts"), 20)

    # --- what became of jobs ---------------------------------------------------------------------------------------

    def wait(self, jobs: Iterable[int], within_s: float = 120) -> dict[int, str]:
        """The states of these jobs, once all have ended."""
        wanted = sorted(jobs)

        def states() -> dict[int, str]:
            return dict(self.sql("SELECT id, state FROM jobs WHERE id = ANY(%s)", wanted))  # type: ignore[arg-type]

        def ended() -> bool:
            found = states()
            return len(found) == len(wanted) and set(found.values()) <= set(_ENDED)

        wait_for(ended, within_s, lambda: str({j: s for j, s in states().items() if s not in _ENDED}))
        return states()

    def codes(self, jobs: Iterable[int]) -> dict[int, int | None]:
        """The exit codes of the last attempts of these jobs."""
        last = "LEFT JOIN attempts a ON a.job = j.id AND a.number = j.attempt"
        query = f"SELECT j.id, a.exit_code FROM jobs j {last} WHERE j.id = ANY(%s)"
        return dict(self.sql(query, sorted(jobs)))  # type: ignore[arg-type]

    def runs(self, jobs: Iterable[int] | None = None) -> dict[int, list[Run]]:
        """What these jobs wrote down of their runs."""
        return ledger.runs(self.ledgers(), None if jobs is None else frozenset(jobs))

    def ledgers(self) -> list[Path]:
        """The ledger of each host."""
        return [self.lab.path(host, ledger.FILE) for host in WORKERS]

    def output(self, job: int) -> str:
        """What a job printed, or why that cannot be read."""
        return str(self.get(f"/api/v1/jobs/{job}/logs")[1])

    def faults(self, jobs: Iterable[int]) -> list[str]:
        """What is wrong with jobs that have ended and should have run once, to the exit codes that `submit` gave them."""
        wanted = list(jobs)
        return ledger.faults(self.runs(wanted), wanted) + self.wrong_codes(wanted)

    def wrong_codes(self, jobs: Iterable[int]) -> list[str]:
        """Jobs that have ended, and not to the exit codes that `submit` gave them."""
        wanted = list(jobs)
        codes = self.codes(wanted)
        return [
            f"job {job} has exit code {codes.get(job)}; its output: {self.output(job)[-1000:]!r}"
            for job in wanted
            if codes.get(job) != self._wanted_codes.get(job, 0)
        ]


def uptime() -> float:
    """Seconds since the machine was booted, which is the clock of the ledgers."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
