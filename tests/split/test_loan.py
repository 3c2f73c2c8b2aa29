import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuq.split.loan import LoanFollower, lent_cores

BUSY = """
import threading
work = lambda: [0 for _ in iter(int, 1)]
threading.Thread(target=work, daemon=True).start()
print(1, flush=True)
work()
"""


def lend(path, cores, seconds=60.0):
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"cores": cores, "until": time.monotonic() + seconds}))
    draft.replace(path)


def affinities(pid):
    return {tuple(sorted(os.sched_getaffinity(int(one.name)))) for one in Path(f"/proc/{pid}/task").glob("*")}


def until(condition, limit_s=60.0):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit_s
        time.sleep(0.002)
    return time.monotonic() - began


@pytest.fixture
def busy():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_loan_holds_until_its_end(tmp_path):
    path = tmp_path / "loan.json"
    assert lent_cores(None, 0.0) == lent_cores(path, 0.0) == ()
    lend(path, [2, 3], 10)
    assert lent_cores(path, time.monotonic()) == (2, 3)
    assert lent_cores(path, time.monotonic() + 11) == ()
    path.write_text("{")
    assert lent_cores(path, 0.0) == ()


def test_all_threads_of_a_process_follow_the_loan(tmp_path, busy):
    own = tuple(sorted(os.sched_getaffinity(0)))
    if len(own) < 2:
        pytest.skip("one core cannot be lent")
    path = tmp_path / "loan.json"
    follower = LoanFollower(busy, path)
    assert affinities(busy) == {own}
    lend(path, [own[-1]])
    until(lambda: affinities(busy) == {(own[-1],)})
    until(lambda: follower.cores == (own[-1],))  # it sets this after the threads have moved
    lend(path, [])
    until(lambda: affinities(busy) == {own})
    follower.end()
    assert follower.has_ended
