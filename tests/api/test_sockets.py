"""The listening sockets: what happens to a stale one, what a taken port and a wrong address say."""

from __future__ import annotations

import errno
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gpuq.api.contract.problem import Unauthenticated, response
from gpuq.api.sockets import inherited_tcp, open_shared, open_tcp, open_unix
from gpuq.errors import BadSettings, Failure
from gpuq.settings import Api


def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Failure) as reply:
        open_tcp(Api(port=taken.getsockname()[1]))
    assert reply.value.exit_code == 1
    assert "taken" in reply.value.message
    assert "--port" in reply.value.fix


def test_a_shared_socket_is_not_where_every_user_may_make_files(tmp_path: Path) -> None:
    """The sticky bit keeps a socket from being replaced, but not from being made while gpuq is down."""
    tmp_path.chmod(0o1777)
    with pytest.raises(BadSettings, match="every user may make files"):
        open_shared(tmp_path / "api.sock")
    tmp_path.chmod(0o755)
    with open_shared(tmp_path / "api.sock"):
        assert (tmp_path / "api.sock").stat().st_mode & 0o777 == 0o666
    with pytest.raises(Failure, match="Cannot listen on"):
        open_shared(tmp_path / "missing" / "api.sock")


def test_a_port_that_another_gpuq_has_says_so() -> None:
    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()
            self.wfile.write(response(Unauthenticated("A token is needed.")).body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusal) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        with pytest.raises(Failure, match="is taken by another gpuq, with another home"):
            open_tcp(Api(port=other.server_port))


@pytest.mark.parametrize(
    "api", [Api(host="no.such.host.invalid"), Api(port=70_000), Api(port=-1), Api(host="192.0.2.1")]
)
def test_an_address_that_is_not_ours_is_a_clear_error(api: Api) -> None:
    with pytest.raises((BadSettings, Failure)):
        open_tcp(api)


def test_the_socket_is_private_from_its_first_moment_and_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with open_unix(path):
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))


def test_a_disk_without_room_for_a_socket_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(socket.socket):
        def bind(self, _address: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(socket, "socket", Full)
    with pytest.raises(Failure, match="has no room, or no inode") as refused:
        open_unix(tmp_path / "api.sock")
    assert "107 characters" not in refused.value.fix
    assert f"df -i {tmp_path}" in refused.value.fix


def test_a_path_that_is_too_long_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Failure) as reply:
        open_unix(tmp_path / ("x" * 120))
    assert "GPUQ_HOME" in reply.value.fix


def test_a_socket_of_the_parent_is_taken_over_and_not_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as parents, inherited_tcp(os.dup(parents.fileno())) as ours:
        assert ours.getsockname() == parents.getsockname()
        assert not ours.get_inheritable()


def test_a_descriptor_that_is_no_listening_tcp_socket_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, socket.socket() as idle, open_unix(tmp_path / "s") as local:
        for other in (file, idle, local):
            with pytest.raises(BadSettings, match="no listening TCP socket"):
                inherited_tcp(os.dup(other.fileno()))
    with pytest.raises(BadSettings, match="no listening TCP socket"):
        inherited_tcp(9999)
