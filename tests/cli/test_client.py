"""Reaching the daemon: the home's socket, long paths, TCP with the token, and what is never sent."""

from __future__ import annotations

import fcntl
import http.client
import os
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gpuq import __version__
from gpuq.cli.client import HttpClient, Lost, _unreachable
from gpuq.errors import BadInput, GpuqError, NotPermitted, Unreachable
from gpuq.home import Home
from tests.cli import samples
from tests.cli.conftest import Command, Done, FakeApi, Reply, _handler, problem, serve
from tests.support.patience import Stopwatch, wait_for


@pytest.fixture
def port(api: FakeApi) -> Iterator[int]:
    class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", 0), _handler(api))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_over_tcp_the_token_of_the_home_is_sent(gpuq: Command, api: FakeApi, port: int) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    (api.home / "token").write_text("from-the-file\n")
    assert gpuq("--host", f"http://127.0.0.1:{port}", "gpus").code == 0
    assert api.requests[-1].headers["Authorization"] == "Bearer from-the-file"
    assert gpuq("gpus", "--host", f"http://localhost:{port}/", GPUQ_TOKEN="from-env").code == 0
    assert api.requests[-1].headers["Authorization"] == "Bearer from-env"


def test_the_host_may_come_from_the_environment(gpuq: Command, api: FakeApi, port: int) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert gpuq("gpus", GPUQ_HOST=f"http://127.0.0.1:{port}", GPUQ_HOME="/nonexistent").code == 0


def test_an_endpoint_of_another_release_that_refuses_something_is_named(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", problem(422, 2, "The submission is not sound.", "Correct it."))
    api.on("GET", "/version", {"version": __version__, "api": "v1"})
    assert gpuq("submit", "--", "true").err.endswith("Correct it.\n")
    api.on("GET", "/version", {"version": "0.0.9", "api": "v1"})
    assert f"Correct it. This is gpuq {__version__}, and gpuq 0.0.9 answers" in gpuq("submit", "--", "true").err


def logged_in(gpuq: Command, *words: str, token: str = "a-token\n") -> Done:
    gpuq.env.pop("GPUQ_HOME", None)
    return gpuq("login", *words, stdin=token)


def test_after_a_login_commands_go_there_with_its_token(gpuq: Command, api: FakeApi, port: int) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    address = f"http://127.0.0.1:{port}"
    assert logged_in(gpuq, address).code == 0
    kept = gpuq.cwd / ".config" / "gpuq" / "login.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert gpuq("gpus").code == 0
    assert api.requests[-1].headers["Authorization"] == "Bearer a-token"
    kept.chmod(0o644)
    done = gpuq("gpus")
    assert (done.code, "others may read it" in done.err, "chmod 600" in done.err) == (5, True, True)
    kept.chmod(0o600)
    assert gpuq("logout").code == 0
    assert "a-token" not in kept.read_text()
    assert (gpuq("logout").code, gpuq("gpus").code) == (2, 4)


def test_a_token_that_is_refused_is_not_kept(gpuq: Command, api: FakeApi, port: int) -> None:
    api.on("GET", "/api/v1/jobs", problem(401, 5, "The token is wrong.", "Make one."))
    done = logged_in(gpuq, f"http://127.0.0.1:{port}")
    assert (done.code, "does not accept this token" in done.err) == (5, True)
    for url, token, sentence in (
        ("gpuq.example.org", "x\n", "is no address on a network"),
        (f"http://127.0.0.1:{port}", "\n", "this is no token"),
        ("http://example.org", "x\n", "Use https"),
    ):
        done = logged_in(gpuq, url, token=token)
        assert (done.code, sentence in done.err) == (2, True), done.err
    assert not (gpuq.cwd / ".config" / "gpuq" / "login.json").exists()


def test_a_certificate_is_checked_against_the_authority_that_is_named(
    gpuq: Command, api: FakeApi, tmp_path: Path
) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = tmp_path / "ca.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(private)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, tmp_path / "key.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        address = f"https://localhost:{server.server_address[1]}"
        done = logged_in(gpuq, address)
        assert (done.code, "certificate" in done.err, "--ca-file" in done.err) == (4, True, True), done.err
        assert logged_in(gpuq, address, "--ca-file", str(certificate)).code == 0
        assert gpuq("queue").code == 0
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_user_without_a_gpuq_uses_the_socket_that_all_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared.sock"
    monkeypatch.setattr("gpuq.cli.client.SHARED_SOCKET", shared)
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    own = f"unix://{tmp_path}/state/gpuq/run/api.sock"
    assert HttpClient(None, environ).address == own
    shared.touch()
    assert HttpClient(None, environ).address == f"unix://{shared}"
    (tmp_path / "state" / "gpuq" / "checkpoints").mkdir(parents=True)  # a job of the user made it, no `gpuq up`
    assert HttpClient(None, environ).address == f"unix://{shared}"
    Home(tmp_path / "state" / "gpuq").create()
    assert HttpClient(None, environ).address == own
    assert HttpClient(None, {"GPUQ_HOME": "/nonexistent"}).address == "unix:///nonexistent/run/api.sock"


def test_over_the_socket_no_token_is_sent(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    (api.home / "token").write_text("secret")
    gpuq("gpus", GPUQ_TOKEN="secret")
    assert "Authorization" not in api.requests[-1].headers


@pytest.mark.parametrize("host", ["http://example.com:8780", "http://10.0.0.1", "http://[fe80::1]:1"])
def test_the_token_is_never_sent_over_plain_http_to_another_host(host: str) -> None:
    with pytest.raises(BadInput, match="could be read on the way"):
        HttpClient(host, {"GPUQ_TOKEN": "secret", "GPUQ_HOME": "/nonexistent"})


def test_the_token_of_the_home_goes_to_this_machine_only(home: Path) -> None:
    (home / "token").write_text("of-this-home\n")

    def sent(host: str, **env: str) -> str | None:
        return HttpClient(host, {"GPUQ_HOME": str(home), **env})._headers.get("Authorization")

    assert sent("https://gpu.lab") is None
    assert sent("https://127.0.0.1.gpu.lab") is None
    assert sent("https://gpu.lab", GPUQ_TOKEN="of-that-gpuq") == "Bearer of-that-gpuq"
    assert sent("https://localhost:8443") == "Bearer of-this-home"


@pytest.mark.parametrize(
    "host", ["", "localhost:8780", "ftp://x", "http://", "http://a/b", "http://h:port", "unix://relative"]
)
def test_an_invalid_address_is_refused(host: str) -> None:
    if host:
        with pytest.raises(BadInput, match="no address"):
            HttpClient(host, {"GPUQ_HOME": "/nonexistent"})


def test_a_home_with_a_path_too_long_for_a_socket_is_reached(gpuq: Command, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    (deep / "run").mkdir(parents=True)
    fake = FakeApi(deep)
    fake.on("GET", "/api/v1/gpus", samples.DEVICES)
    # The server is bound by a short name for the same folder, as the kernel wants it.
    (tmp_path / "s").symlink_to(deep / "run")
    with serve(fake, tmp_path / "s" / "api.sock"):
        done = gpuq("gpus", GPUQ_HOME=str(deep))
    assert done.code == 0, done.err


def test_a_socket_of_another_user_is_not_permitted(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    client = HttpClient(environ={"GPUQ_HOME": str(home)})
    monkeypatch.setattr("gpuq.cli.client.UnixConnection.connect", refuse)
    with pytest.raises(NotPermitted, match="another user"):
        client.get("/api/v1/gpus")


def test_a_get_on_a_connection_that_went_stale_is_sent_again(api: FakeApi) -> None:
    """The server may close an idle connection at any time; a read is safe to repeat."""
    api.on("GET", "/one", {"a": 1})
    api.on("GET", "/two", Reply(cut=True), Reply({"b": 2}))
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        assert client.get("/one") == {"a": 1}
        assert client.get("/two") == {"b": 2}


def test_a_connection_that_the_endpoint_closed_while_it_was_idle_is_replaced(home: Path) -> None:
    """It does after 75 s. A notebook is idle for longer, and a request without a key is not sent twice."""

    def answer_and_close(listening: socket.socket) -> None:
        for _ in range(2):
            with listening.accept()[0] as connection:
                while not connection.recv(65_536).endswith((b"\r\n\r\n", b"null")):
                    pass
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        server = threading.Thread(target=answer_and_close, args=(listening,), daemon=True)
        server.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with closing(HttpClient(address, {"GPUQ_HOME": str(home), "GPUQ_TOKEN": "t"})) as client:
            assert client.get("/one") == {}
            wait_for(lambda: select.select([client._connection.sock], [], [], 0)[0])
            assert client.post("/two") == {}


@pytest.mark.parametrize("at", ["getresponse", "read"])
def test_a_call_after_one_that_was_interrupted_is_made_as_any(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """As in a notebook, where Ctrl-C ends a wait and the next cell cancels the jobs."""
    api.on("GET", "/one", {"a": 1})
    api.on("POST", "/two", {"b": 2})
    of = http.client.HTTPConnection if at == "getresponse" else http.client.HTTPResponse
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        with monkeypatch.context() as pressed:
            pressed.setattr(of, at, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                client.get("/one")
        assert client.post("/two") == {"b": 2}


def test_a_truncated_answer_is_an_error(api: FakeApi) -> None:
    api.on("GET", "/one", Reply(cut_after=b'{"a": 1}'))
    with pytest.raises(Unreachable, match="broke off"):
        HttpClient(environ={"GPUQ_HOME": str(api.home)}).get("/one")


def test_a_query_is_escaped(api: FakeApi) -> None:
    api.on("GET", "/one", {})
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        client.get("/one", state="A&B=C", limit=None, flag=1)
    assert api.requests[0].query == {"state": "A&B=C", "flag": "1"}


def test_a_word_that_is_no_utf8_is_refused_before_it_is_sent(gpuq: Command, api: FakeApi) -> None:
    for words in (("show", b"\xff"), ("queue", "--name", b"\xff"), ("logs", "--grep", b"\xff", "3")):
        done = gpuq(*words)
        assert (done.code, "is not valid UTF-8" in done.err) == (2, True), done.err


def test_an_error_without_a_problem_document_still_has_its_code(api: FakeApi) -> None:
    codes = {401: 5, 403: 5, 404: 3, 409: 6, 413: 2, 422: 2, 500: 1, 502: 4, 503: 4, 504: 4}
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        for status, code in codes.items():
            for raw in (b"<html>", b"", b"[1]", b'{"exit_code": "x"}'):
                api.on("GET", "/one", Reply(raw=raw, status=status))
                with pytest.raises(GpuqError, match=str(status)) as caught:
                    client.get("/one")
                assert caught.value.exit_code == (1 if b"exit_code" in raw else code)
                assert caught.value.fix


def test_the_callers_own_closed_home_differs_from_another_users(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    address = f"unix://{home}/run/api.sock"
    said = _unreachable(address, PermissionError())
    assert said.message == f"{address} belongs to another user."
    home.chmod(0)
    said = _unreachable(address, PermissionError())
    home.chmod(0o700)
    assert (said.message, said.fix) == (f"You may not enter your own folder {home}.", f"chmod u+rwx {home}")


def locked(home: Path, name: str) -> int:
    """The lock of a part of gpuq that is alive; released by closing what is returned."""
    descriptor = os.open(home / "run" / name, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@pytest.mark.parametrize("part", ["up.lock", "dispatcher.lock", "worker.lock"])
def test_calls_wait_for_an_absent_endpoint_while_another_service_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    said: list[str] = []
    waits = threading.Event()
    monkeypatch.setattr("gpuq.cli.client._NOTE_AFTER_S", 0.0)
    monkeypatch.setattr("gpuq.cli.console.note", lambda text: (said.append(text), waits.set()))
    lock, fake, answers = locked(home, part), FakeApi(home), []
    fake.on("GET", "/api/v1/gpus", samples.DEVICES)
    client = HttpClient(environ={"GPUQ_HOME": str(home)}, away_s=20)
    asking = threading.Thread(target=lambda: answers.append(client.get("/api/v1/gpus")))
    try:
        asking.start()
        assert waits.wait(60)
        with serve(fake, home / "run" / "api.sock"):
            asking.join(60)
            client.close()
    finally:
        os.close(lock)
    assert answers == [samples.DEVICES]
    assert said == ["gpuq: the endpoint does not answer; waiting for it, up to 20 s."]


def test_calls_do_not_wait_if_no_service_runs(home: Path) -> None:
    """Its files may lie about as a killed one leaves them."""
    for left in ("up.lock", "dispatcher.lock"):
        os.close(locked(home, left))
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(home / "run" / "api.sock"))
    watch = Stopwatch()
    with pytest.raises(Unreachable, match="No gpuq is running"):
        HttpClient(environ={"GPUQ_HOME": str(home)}).get("/api/v1/gpus")
    assert watch.seconds < 10


def test_calls_wait_for_an_absent_endpoint_at_most_away_s(home: Path) -> None:
    lock = locked(home, "up.lock")
    try:
        with pytest.raises(Unreachable, match="No gpuq is running"):
            HttpClient(environ={"GPUQ_HOME": str(home)}, away_s=0.3).get("/api/v1/gpus")
    finally:
        os.close(lock)


def test_a_database_that_stays_away_is_reported_after_the_last_try(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpuq.cli.client.RETRY_S", 0.5)
    monkeypatch.setattr("gpuq.cli.client._NOTE_AFTER_S", 0.0)
    away = problem(503, 4, "The database has not answered for 4 s.", "See `gpuq queue`.")
    api.on("POST", "/api/v1/jobs", away)
    api.on("POST", "/api/v1/jobs/1/cancel", away)
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        with pytest.raises(Unreachable, match="not answered") as error:
            client.post("/api/v1/jobs", {}, key="k")
        assert error.value.fix == "See `gpuq queue`."
        assert len(api.requests) > 1
        assert capsys.readouterr().err.count("The database has not answered for 4 s. Trying again") == 1
        asked = len(api.requests)
        with pytest.raises(Unreachable):
            client.post("/api/v1/jobs/1/cancel")
        assert len(api.requests) == asked + 1, "without a key it might be done twice"


def test_a_submission_through_a_proxy_is_sent_again_when_gpuq_restarts_behind_it(api: FakeApi) -> None:
    api.on("POST", "/api/v1/jobs", Reply(raw=b"<html>Bad Gateway", status=502), Reply({"id": 7}, status=201))
    with closing(HttpClient(environ={"GPUQ_HOME": str(api.home)})) as client:
        assert client.post("/api/v1/jobs", {}, key="k") == {"id": 7}


def test_a_network_that_goes_away_without_a_word_ends_a_stream(api: FakeApi, port: int) -> None:
    """As while a laptop sleeps. Nothing is sent to the endpoint any more, so only the kernel can find out."""
    api.on("GET", "/one", Reply(raw=b"x"))
    with closing(HttpClient(f"http://127.0.0.1:{port}", {"GPUQ_TOKEN": "t"})) as client:
        pieces = client.stream("/one")
        next(pieces)
        connection = client._connection.sock
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        lasts_s = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert lasts_s + connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1000 <= 90


def test_what_was_sent_before_the_endpoint_went_away_may_have_been_done(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Unreachable] = [Lost(), Unreachable("No gpuq is running.")]
    monkeypatch.setattr("gpuq.cli.client.RETRY_S", 0.1)

    def fails(*_: object) -> None:
        raise errors.pop(0) if len(errors) > 1 else errors[0]

    client = HttpClient(environ={"GPUQ_HOME": str(home)})
    monkeypatch.setattr(client, "_call", fails)
    with pytest.raises(Lost, match="No gpuq is running"):
        client.post("/api/v1/jobs", {}, key="k")
    with pytest.raises(Unreachable) as error:
        client.post("/api/v1/jobs", {}, key="k")
    assert not isinstance(error.value, Lost), "nothing was sent"


def test_a_stale_dispatcher_is_noted_once(gpuq: Command, api: FakeApi) -> None:
    jobs = [samples.job(1, dispatcher="stale"), samples.job(2, dispatcher="stale")]
    api.on("GET", "/api/v1/jobs", {"jobs": jobs, "next": None})
    done = gpuq("queue")
    assert (done.code, done.err.count("no sign of life")) == (0, 1)
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1, dispatcher="ok")], "next": None})
    assert gpuq("queue").err == ""
