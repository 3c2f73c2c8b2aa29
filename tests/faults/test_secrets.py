"""A secret leaves the submitter's environment only when asked for by name, and then reaches only the job."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
from pathlib import Path

import redis

from tests.support import forked
from tests.support.site import Site, wait_for

# What holds the submission itself, private to its owner.
HOLDS_IT = ("gpuq.db", "gpuq.db-wal", "order.json")


def gpuq(site: Site, *words: str, **more: str) -> str:
    """The real command; all that it says."""
    done = forked.gpuq(*words, env={**site.env, **more}, cwd=site.home, text=True)
    assert done.returncode == (1 if words[0] == "doctor" and services_crashed(done.stdout) else 0), (
        done.stdout + done.stderr
    )
    return done.stdout + done.stderr


def services_crashed(report: str) -> bool:
    """Whether doctor found fault with nothing but crashed services: other tests of this package kill them in the same gpuq."""
    return [check["part"] for check in json.loads(report)["checks"] if check["status"] == "broken"] == ["services"]


def test_what_looks_like_a_secret_is_not_captured(site: Site) -> None:
    canary = secrets.token_hex(16)
    named = ("HF_TOKEN", "WANDB_API_KEY", "TF_SECRET", "CONDA_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_VARIABLE")
    job = gpuq(site, "submit", "--parsable", "--", "/usr/bin/env", **dict.fromkeys(named, canary), TF_XYZ="1").strip()
    gpuq(site, "wait", job)

    seen = gpuq(site, "logs", job)

    assert "TF_XYZ=1" in seen, "what is on the list goes along"
    assert canary not in seen
    assert not any(name in seen for name in named)
    assert everywhere(site, canary) == []


def test_a_secret_given_by_name_reaches_the_job_and_nothing_else_shows_it(site: Site) -> None:
    canary = secrets.token_hex(16)
    token = (site.home / "token").read_text().strip()
    key = (site.home / "order.key").read_text().strip()
    check = 'test "$HF_TOKEN" = "$(cat expected)" && touch checked && until [ -e seen ]; do sleep 0.05; done'
    (site.home / "expected").write_text(canary)
    job = gpuq(site, "submit", "--parsable", "-e", "HF_TOKEN", "--", "/bin/sh", "-c", check, HF_TOKEN=canary).strip()
    site.wait(int(job), "RUNNING")
    wait_for((site.home / "checked").exists, 20)
    (site.home / "expected").unlink()
    commands = b"".join(read(Path(f"/proc/{pid}/cmdline")) for pid in site.processes()).decode(errors="replace")
    said = [
        commands,
        *(gpuq(site, verb, job, *also) for verb in ("show", "explain") for also in ((), ("--json",))),
        *(gpuq(site, verb, "--json") for verb in ("queue", "gpus", "doctor")),
        *(str(site.get(path)[1]) for path in ("/api/v1/jobs", f"/api/v1/jobs/{job}", "/metrics", "/", "/api/v1/queue")),
        journal(site),
        in_redis(site),
    ]
    (site.home / "seen").touch()
    gpuq(site, "wait", job)
    said += [gpuq(site, "show", job, "--json"), gpuq(site, "logs", job), gpuq(site, "queue", "--all", "--json")]

    for secret in (canary, token, key):
        assert [text for text in said if secret in text] == []
    assert "HF_TOKEN" in site.job(int(job))["environment"], "that it was given is no secret"
    assert set(everywhere(site, canary)) <= set(HOLDS_IT)
    assert everywhere(site, token) == ["token"]
    assert everywhere(site, key) == ["order.key"]


def test_a_crash_does_not_spill_a_secret_either(site: Site) -> None:
    """What a dispatcher and a worker write when they are killed and come back is in their logs."""
    canary = secrets.token_hex(16)
    until = "until [ -e killed ]; do sleep 0.1; done"
    job = site.submit("/bin/sh", "-c", until, env={"PATH": os.environ["PATH"], "API_KEY": canary})
    site.wait(job, "RUNNING")
    for part in ("dispatcher", "worker", "orders", "api"):
        site.kill(part)
    (site.home / "killed").touch()

    assert site.wait(job)["state"] == "COMPLETED"

    assert set(everywhere(site, canary)) <= set(HOLDS_IT)


def test_all_that_lies_in_the_home_is_the_owners_alone(site: Site) -> None:
    job = site.submit("/bin/true")
    site.wait(job)
    ours = [
        path
        for folder in ("run", "redis", "models", "attempts", "spool", "logs")
        for path in [site.home / folder, *(site.home / folder).rglob("*")]
    ]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in ours if path.is_dir()} == {"0o700"}
    named = [
        site.home / name for name in ("gpuq.db", "token", "order.key", "run/redis.conf", f"attempts/{job}-1/order.json")
    ]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in named} == {"0o600"}


# --- where it could be ---------------------------------------------------------------------------------------------


def everywhere(site: Site, secret: str) -> list[str]:
    """The names of the files in the home that hold this text."""
    found = {path.name for path in site.home.rglob("*") if path.is_file() and secret.encode() in read(path)}
    return sorted(found)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def journal(site: Site) -> str:
    with sqlite3.connect(f"file:{site.home}/gpuq.db?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT name, body FROM journal").fetchall()
    connection.close()
    assert rows
    return str(rows)


def in_redis(site: Site) -> str:
    with redis.Redis(unix_socket_path=str(site.home / "run" / "redis.sock")) as client:
        dumps = [client.dump(key) or b"" for key in client.scan_iter()]
    assert dumps
    return b"".join(dumps).decode("latin-1")
