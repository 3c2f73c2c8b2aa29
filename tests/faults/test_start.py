"""What must be right before gpuq can start: when it is not, one sentence says what and a stable exit code follows.

Nothing is left running and nothing in the home is changed; no traceback is ever shown.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.errors import BadSettings
from gpuq.home import Home
from gpuq.settings import load
from tests.support.services import forks
from tests.support.sqlite_record import make_record

# Where the `main` of each program is.
UP, DISPATCHER, API, WORKER = "gpuq.programs.up", "gpuq.daemon.main", "gpuq.api.__main__", "gpuq_workers.serve"
MESS = "[admission\nmax_slowdown = = 2\n"


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path, as sockets need it."""
    path = Path(tempfile.mkdtemp(prefix="gq-"))
    yield path
    shutil.rmtree(path)


def refused(home: Path, module: str, code: int, *arguments: str, before: str = "") -> str:
    """What the program writes that ends by itself with this code. `before` is code that its process runs first."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")}
    env |= {"GPUQ_HOME": str(home), "GPUQ_DEVICES_BACKEND": "cpu", "GPUQ_API_PORT": "0"}
    run = f"import sys\nfrom {module} import main\n{before}\nsys.exit(main())"
    done = forks().run(run, [module, *arguments], env=env)
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 2, "a sentence and what to do next"
    return said


@pytest.mark.parametrize("module", [UP, DISPATCHER])
def test_a_settings_file_that_is_no_toml(home: Path, module: str) -> None:
    (home / "config.toml").write_text(MESS)
    said = refused(home, module, 2)
    assert f"{home}/config.toml is not valid TOML" in said
    assert "line 1" in said
    assert (home / "config.toml").read_text() == MESS
    assert sorted(path.name for path in home.iterdir()) == ["config.toml"]


def test_a_setting_that_does_not_exist(home: Path) -> None:
    (home / "config.toml").write_text("[admission]\nmax_slodown = 2")
    said = refused(home, UP, 2)
    assert f"[admission] in {home}/config.toml has no setting `max_slodown`. Did you mean `max_slowdown`?" in said


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"[worker]\ngrace_s = 'long'",
            "sets `grace_s` under [worker] to 'long'; it must be a number of at least 0.",
        ),
        (b"[wroker]\ngrace_s = 5", "unknown table [wroker]"),
        (b"worker = 3", "config.toml must be a table"),
        (b"\xff\xfe\x00", "is not valid TOML"),
    ],
)
def test_settings_that_make_no_sense(home: Path, content: bytes, sentence: str) -> None:
    (home / "config.toml").write_bytes(content)
    with pytest.raises(BadSettings) as caught:
        load({"GPUQ_HOME": str(home)})
    assert sentence in caught.value.message


@pytest.mark.parametrize("module", [DISPATCHER, API, WORKER])
def test_every_service_refuses_a_value_that_is_not_allowed(home: Path, module: str) -> None:
    (home / "config.toml").write_text("[admission]\nresidents_per_device = -3")
    said = refused(home, module, 2)
    assert f"{home}/config.toml sets `residents_per_device` under [admission] to -3; it must be a whole number" in said


@pytest.mark.parametrize("module", [UP, DISPATCHER])
def test_a_home_that_cannot_be_made(home: Path, module: str) -> None:
    (home / "file").touch()
    said = refused(home / "file" / "gpuq", module, 2)
    assert f"{home}/file/gpuq cannot be part of gpuq's home: Not a directory." in said
    assert "GPUQ_HOME" in said


def test_a_home_of_another_user(home: Path) -> None:
    """Said of a home that is complete and readable, but not ours to write to."""
    Home(home / "gpuq").create()
    for folder in (home, *home.rglob("*")):
        folder.chmod(0o555)

    pid = os.fork()
    if pid == 0:
        os._exit(_try_as_another_user(home / "gpuq"))
    _, status = os.waitpid(pid, 0)

    for folder in (home, *home.rglob("*")):
        folder.chmod(0o700)
    assert os.waitstatus_to_exitcode(status) == 2


def _try_as_another_user(home: Path) -> int:
    if os.geteuid() == 0:
        os.setuid(65_534)
    try:
        Home(home).create()
    except BadSettings as error:
        return error.exit_code if "it may not be written to" in error.message else 1
    return 0


def test_a_home_whose_sockets_would_have_too_long_paths(home: Path) -> None:
    long = home / ("x" * 100)
    said = refused(long, UP, 2)
    assert "Linux allows 107" in said
    assert "bytes shorter" in said


def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        # `gpuq up` waits five seconds for a port, as the endpoint of a killed one may still hold it.
        hurry = "from gpuq.programs import up; up._PORT_FREE_WITHIN_S = 0.3"
        said = refused(home, UP, 1, "--port", str(port), before=hurry)
    assert f"Port {port} on 127.0.0.1 is taken" in said
    assert "--port" in said


def test_a_second_up_in_one_home(home: Path) -> None:
    (home / "run").mkdir()
    with (home / "run" / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = refused(home, UP, 6)
    assert f"`gpuq up` already runs in {home}" in said


# --- the record ----------------------------------------------------------------------------------------------------


def content(database: Path) -> list[str]:
    with sqlite3.connect(database) as connection:
        lines = list(connection.iterdump())
    connection.close()
    return lines


@pytest.mark.parametrize(
    ("module", "schema", "which"),
    [(UP, "9999", "newer"), (DISPATCHER, "9999", "newer"), (DISPATCHER, "0000", "older")],
)
def test_a_record_with_another_schema_is_refused_and_stays_as_it_is(
    home: Path, module: str, schema: str, which: str
) -> None:
    database = home / "gpuq.db"
    make_record(database)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [schema])
        connection.execute("UPDATE leadership SET oldest_gpuq = ?", [schema])
    connection.close()
    before = content(database)

    said = refused(home, module, 1)

    assert f"The database is {which} than this gpuq: it has schema {schema}" in said
    assert content(database) == before


@pytest.mark.parametrize("module", [UP, DISPATCHER])
def test_a_record_that_is_no_database_is_left_for_its_owner_to_save(home: Path, module: str) -> None:
    rubbish = os.urandom(20_000)
    (home / "gpuq.db").write_bytes(rubbish)

    said = refused(home, module, 1)

    assert f"The record {home}/gpuq.db is damaged or is no database" in said
    assert "move gpuq.db, gpuq.db-wal and gpuq.db-shm away" in said, "the WAL of another file damages a backup"
    assert (home / "gpuq.db").read_bytes() == rubbish
