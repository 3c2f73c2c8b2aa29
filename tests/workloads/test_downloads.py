"""Fetching a set from a server that breaks in every way: one sentence each time, and never half a file that counts as whole.

The server is a real one, on this machine; the jobs that fetch at the same time or are killed are real processes.
"""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workloads.datasets.source import Archive, Source

CONTENT = bytes(range(256)) * 4096
HALF, LENGTH, MD5 = len(CONTENT) // 2, str(len(CONTENT)), hashlib.md5(CONTENT).hexdigest()
FETCH = """
import json, sys
from workloads.datasets.source import Archive, Source
url, md5, data = json.loads(sys.argv[1])
print(Source("Set", "set", (Archive(url, md5),)).find(data))
"""


class Server(ThreadingHTTPServer):
    """Answers as `answer` does, which gets the handler."""

    daemon_threads = True

    def __init__(self):
        self.answer = whole
        self.asked = 0
        super().__init__(("127.0.0.1", 0), Handler)

    def source(self, md5=MD5):
        return Source("Set", "set", (Archive(f"http://127.0.0.1:{self.server_port}/set.zip", md5),))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked += 1
        self.close_connection = True
        self.server.answer(self)

    def log_message(self, *_):
        pass

    def promise(self, name="Content-Length", value=LENGTH):
        self.send_response(200)
        self.send_header(name, value)
        self.end_headers()


def whole(handler):
    handler.promise()
    handler.wfile.write(CONTENT)


def cut_off(handler):
    handler.promise()
    handler.wfile.write(CONTENT[:HALF])


def cut_off_in_a_chunk(handler):
    handler.promise("Transfer-Encoding", "chunked")
    handler.wfile.write(b"ffff\r\n" + CONTENT[:100])


def other_content(handler):
    handler.promise()
    handler.wfile.write(CONTENT[::-1])


def gone(handler):
    handler.send_error(404)


def hung_up(handler):
    handler.connection.close()


def no_http(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


@pytest.fixture
def server():
    with Server() as made:
        serving = threading.Thread(target=made.serve_forever, args=[0.02])
        serving.start()
        yield made
        made.shutdown()
        serving.join()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of the set in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "gpuq-workloads" / "set"


def names(folder):
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def job(server, data):
    (archive,) = server.source().archives
    asked = json.dumps([archive.url, archive.md5, data])
    return subprocess.Popen([sys.executable, "-c", FETCH, asked], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (cut_off, r"MD5 is \w+ and not \w+: cut off, or another file"),
        (cut_off_in_a_chunk, "IncompleteRead"),
        (other_content, "MD5"),
        (gone, "404"),
        (hung_up, "closed connection|reset"),
        (no_http, "SSH-2.0"),
    ],
)
def test_what_is_not_the_file_is_not_kept_and_the_way_out_is_said(server, kept, answer, said):
    server.answer = answer
    with pytest.raises(
        SystemExit, match=rf"cannot fetch http.*({said}).*into {kept} yourself, or say --data synthetic"
    ):
        server.source().find("download")
    assert names(kept) == []
    assert server.source().find("auto") is None


def test_without_a_network_it_ends_and_says_so(server, kept):
    source = server.source()
    server.shutdown()
    server.server_close()
    with pytest.raises(SystemExit, match=r"cannot fetch .*refused.* --data synthetic"):
        source.find("download")


def test_a_full_disk_leaves_nothing_behind_and_says_where(server, kept):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, before[1]))
    try:
        with pytest.raises(SystemExit, match=rf"cannot write {kept}/set.zip: File too large. Make room there"):
            server.source().find("download")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(kept) == []


def test_a_cache_that_cannot_be_written_to_ends_a_download_and_not_a_training(server, kept, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/sys")  # refuses even root
    with pytest.raises(SystemExit, match=r"cannot write /sys/gpuq-workloads.* XDG_CACHE_HOME"):
        server.source().find("download")
    assert server.source().find("auto") is None
    assert server.asked == 0


def test_what_is_kept_is_not_asked_for_again(server, kept):
    assert server.source().find("download") == server.source().find("download") == server.source().find("auto") == kept
    assert server.asked == 1


def test_two_jobs_may_fetch_the_same_at_the_same_time(server, kept):
    both = threading.Barrier(2, timeout=60)

    def both_half_first(handler):
        handler.promise()
        handler.wfile.write(CONTENT[:HALF])
        both.wait()
        handler.wfile.write(CONTENT[HALF:])

    server.answer = both_half_first
    jobs = [job(server, "download") for _ in range(2)]
    paths = [one.communicate(timeout=60)[0].splitlines()[-1] for one in jobs]
    assert paths == [str(kept)] * 2
    assert names(kept) == ["set.zip"]
    assert (kept / "set.zip").read_bytes() == CONTENT


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_that_is_ended_while_it_fetches_leaves_nothing_that_counts(server, kept, ending):
    halfway, over = threading.Event(), threading.Event()

    def half(handler):
        cut_off(handler)
        halfway.set()
        over.wait(60)

    server.answer = half
    fetching = job(server, "download")
    assert halfway.wait(60)
    os.kill(fetching.pid, ending)
    fetching.communicate(timeout=60)
    over.set()
    assert "set.zip" not in names(kept)
    assert server.source().find("auto") is None
    server.answer = whole
    assert (server.source().find("download") / "set.zip").read_bytes() == CONTENT
