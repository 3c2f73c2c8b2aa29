"""`gpuq url` and `gpuq open`: the page's address with the token, and that the token gets to the browser unseen by others."""

from __future__ import annotations

import argparse
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from gpuq.cli.logins import Logins
from gpuq.cli.verbs.url import page_address
from gpuq.errors import NotPermitted, Unreachable
from tests.cli.conftest import Command

TOKEN = "a-token-of-this-test"


@pytest.fixture
def running(home: Path) -> Path:
    """The home of a gpuq that listens, as far as its files say."""
    note = {"url": "http://127.0.0.1:8790/", "port": 8790, "pid": os.getpid()}
    (home / "run" / "http.json").write_text(json.dumps(note))
    (home / "token").write_text(f"{TOKEN}\n")
    return home


def test_the_address_has_the_token(gpuq: Command, running: Path) -> None:
    done = gpuq("url")
    assert (done.code, done.out, done.err) == (0, f"http://127.0.0.1:8790/?token={TOKEN}\n", "")


def test_another_gpuq_is_named_by_its_address_and_token(gpuq: Command, home: Path) -> None:
    done = gpuq("url", "--json", "--host", "https://gpu.lab/", GPUQ_TOKEN="theirs")
    assert done.json == {"url": "https://gpu.lab/?token=theirs"}
    assert gpuq("url", "--host", "https://gpu.lab").code == 4, "no token of it is known"
    (home / "token").write_text(f"{TOKEN}\n")
    done = gpuq("url", "--host", "https://gpu.lab")
    assert (done.code, TOKEN in done.out) == (4, False), "that of this home is for this machine"
    for address in (f"unix://{home}/run/api.sock", "gpu.lab"):
        assert gpuq("url", "--host", address).code == 2
    assert gpuq("url", "--host", "http://[gpu.lab").code == 4


def test_without_a_gpuq_there_is_no_address(gpuq: Command, running: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    (running / "run" / "http.json").write_text(
        json.dumps({"url": "http://127.0.0.1:8790/", "port": 8790, "pid": gone.pid})
    )
    assert gpuq("url").code == 4, "it was killed"
    (running / "run" / "http.json").unlink()
    done = gpuq("open")
    assert (done.code, "gpuq up" in done.err) == (4, True)


def test_a_user_of_a_gpuq_elsewhere_reads_how_to_enter_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands work, so that no gpuq runs in the user's own home is no help."""
    options = argparse.Namespace(host=None)
    for name in ("GPUQ_HOME", "GPUQ_HOST", "GPUQ_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("gpuq.cli.verbs.url.SHARED_SOCKET", tmp_path / "api.sock")
    with pytest.raises(Unreachable, match="No gpuq is running"):
        page_address(options)
    (tmp_path / "api.sock").touch()
    with pytest.raises(NotPermitted, match="a token of yours") as refused:
        page_address(options)
    assert "`gpuq token create`, and type it at its page" in refused.value.fix
    Logins("https://gpu.lab", {}).write(os.environ)
    with pytest.raises(NotPermitted) as refused:
        page_address(options)
    assert refused.value.fix.endswith("type it at https://gpu.lab.")


def test_without_a_browser_the_address_is_printed(gpuq: Command, running: Path) -> None:
    done = gpuq("open")
    assert (done.code, done.out) == (0, f"http://127.0.0.1:8790/?token={TOKEN}\n")


def test_the_browsers_command_line_does_not_have_the_token(gpuq: Command, running: Path, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$*" > {tmp_path}/given\n')
    browser.chmod(0o700)

    done = gpuq("open", BROWSER=f"{browser} %s")

    assert (done.code, done.out) == (0, "")
    given = (tmp_path / "given").read_text()
    assert given == (running / "run" / "open.html").as_uri()
    assert TOKEN not in given + done.err
    page = running / "run" / "open.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert f'content="0; url=http://127.0.0.1:8790/?token={TOKEN}"' in page.read_text()
