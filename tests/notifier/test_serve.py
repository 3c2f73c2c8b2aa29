"""Notifications of a real gpuq: a webhook, a mail server that wants a password, and a target that does not answer."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.site import Site, kill, wait_for

smtp = pytest.importorskip("aiosmtpd.smtp")
pytest.importorskip("apprise")

# aiosmtpd warns that a password without TLS is not secret. This one passes the loopback only.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
PASSWORD = "hunter2-SECRET"
TOKEN = "tok-SECRET"


class Hook:
    """A webhook on loopback that remembers the JSON it got and the path it was sent to."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def titles(self) -> list[str]:
        return [body["title"] for _, body in self.got]


class Mailbox:
    """A mail server that takes mail from those who know the password."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        opening = asyncio.run_coroutine_threadsafe(self._open(), self.loop)
        self.server: asyncio.Server = opening.result(10)

    async def _open(self) -> asyncio.Server:
        def connected() -> Any:
            return smtp.SMTP(self, auth_require_tls=False, auth_required=True, authenticator=authenticate)

        def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
            return smtp.AuthResult(success=(data.login, data.password) == (b"ann", PASSWORD.encode()))

        return await self.loop.create_server(connected, "127.0.0.1", 0)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  aiosmtpd's name
        self.got.append(envelope)
        return "250 OK"

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


@pytest.fixture(scope="module")
def site(hook: Hook, mailbox: Mailbox) -> Iterator[Site]:
    site = Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1)
    file = site.home / "config" / "gpuq" / "notify.toml"
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    file.write_text(
        f"""default = "fail:mail"
[targets]
hook = "json://127.0.0.1:{hook.port}/{TOKEN}"
mail = "mailto://ann:{PASSWORD}@127.0.0.1:{mailbox.port}?from=gpuq@example.org&to=ann@example.org"
away = "json://127.0.0.1:1/{TOKEN}"
phone = "ntfy://{PASSWORD}:{TOKEN}@127.0.0.1:{hook.port}/jobs"
"""
    )
    with site:
        yield site


def gpuq(site: Site, *words: str) -> Any:
    return forked.gpuq(*words, env=site.env, cwd=site.home, text=True)


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The files under `folder`, but the user's own file of targets."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "notify.toml":
            yield path, path.read_bytes()


def test_ends_and_failures_reach_webhook_and_mail_and_no_secret_leaves_the_file(
    site: Site, hook: Hook, mailbox: Mailbox
) -> None:
    wait_for((site.home / "notify" / "notes.json").exists, 30, lambda: log_of(site))
    done = gpuq(site, "submit", "--notify", "begin,end:hook,away", "-n", "well", "--", "/usr/bin/env")
    assert (done.returncode, done.stderr) == (0, ""), "`gpuq up` sends"
    well = int(done.stdout)
    bad = int(gpuq(site, "submit", "-n", "bad <b>", "--", "/bin/sh", "-c", "echo broken >&2; exit 3").stdout)
    quiet = int(gpuq(site, "submit", "--notify", "none", "--", "/bin/false").stdout)

    wait_for(lambda: len(hook.got) >= 2 and mailbox.got, 30, lambda: log_of(site))

    assert hook.titles() == [f"gpuq: job {well} (well) has started", f"gpuq: job {well} (well) COMPLETED"]
    assert hook.got[0][0] == f"/{TOKEN}"
    [mail] = mailbox.got
    assert mail.rcpt_tos == ["ann@example.org"]
    assert f"job {bad}" in mail.content.decode()
    assert site.wait(quiet)["state"] == "FAILED"
    shown = json.loads(gpuq(site, "show", str(well), "--json").stdout)
    assert shown["notify"] == ["begin,end:hook,away"]
    assert "begin,end:hook,away" in gpuq(site, "show", str(well)).stdout

    # The target that is away delayed nothing, and the log names it without its address.
    wait_for(lambda: "target away did not take a message" in log_of(site), 30, lambda: log_of(site))
    # Neither the record, nor logs, notes, orders or the environment that the job printed.
    assert [path for path, content in contents(site.home) if b"SECRET" in content] == []
    assert len(mailbox.got) == 1, "`--notify none` goes before the default"


def log_of(site: Site) -> str:
    path = site.home / "logs" / "notifier.log"
    return path.read_text() if path.exists() else ""


def test_what_was_not_sent_when_gpuq_ended_is_sent_later(site: Site, hook: Hook) -> None:
    until = f"until [ -e {site.home}/killed ]; do sleep 0.1; done"
    held = int(gpuq(site, "submit", "--notify", "end:hook", "-n", "later", "--", "/bin/sh", "-c", until).stdout)
    site.wait(held, "RUNNING")
    [sender] = [pid for pid, words in site._commands() if "gpuq.notifier" in words]
    kill(sender)
    (site.home / "killed").touch()
    site.wait(held)
    wait_for(lambda: f"gpuq: job {held} (later) COMPLETED" in hook.titles(), 30, lambda: log_of(site))


def test_targets_are_listed_by_name_and_tried(site: Site, hook: Hook, mailbox: Mailbox) -> None:
    listed = gpuq(site, "notify", "list")
    assert listed.returncode == 0
    assert "away, hook, mail, phone" in listed.stdout
    assert "a process of yours sends" in listed.stdout
    before = len(mailbox.got)
    tried = gpuq(site, "notify", "test")
    assert tried.returncode == 1
    assert tried.stderr.splitlines()[:4] == [
        "away: did not take the message", "hook: took the message", "mail: took the message", "phone: took the message",
    ]  # fmt: skip
    assert (hook.titles()[-2:], len(mailbox.got)) == (["gpuq: a test"] * 2, before + 1)
    assert hook.got[-1][1]["topic"] == "jobs"
    assert "SECRET" not in listed.stdout + listed.stderr + tried.stdout + tried.stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("submit", "--notify", "done:hook", "--", "true"), 2, "there is no event `done`"),
        (("submit", "--notify", "end:teams", "--", "true"), 2, "has no target `teams`"),
        (("submit", "--notify", "end:json://tok-SECRET", "--", "true"), 2, "the name of a target and no address"),
        (("notify", "test", "teams"), 2, "has no target `teams`"),
        (("notify", "list", "hook"), 2, "takes no names"),
        (("notify", "run"), 6, "sends notifications already"),
    ],
)
def test_bad_input_is_refused_with_the_fix(site: Site, words: tuple[str, ...], code: int, sentence: str) -> None:
    done = gpuq(site, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert "SECRET" not in done.stderr
