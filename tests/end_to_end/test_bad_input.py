"""Whatever a person types or a job prints: a clear sentence, a stable exit code, nothing lost, and gpuq goes on.

Real commands against one real gpuq. How it starts, or refuses to, is in tests/faults/test_start.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import forked
from tests.support.patience import Stopwatch
from tests.support.site import Site, wait_for

MIB = 2**20
LOG_LIMIT = 8 * MIB
A_LINE = 32 * LOG_LIMIT


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1, worker_log_limit_bytes=LOG_LIMIT) as site:
        (site.home / "train.py").write_text("print(1)\n")
        (site.home / "plain.sh").write_text("echo\n")
        (site.home / "folder.py").mkdir()
        (site.home / "a-folder").mkdir()
        yield site


def run(site: Site, *words: str | bytes, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """The real command, as a user runs it."""
    return forked.gpuq(*words, env=site.env, cwd=site.home, stdin=stdin)


def said(site: Site, code: int, *words: str | bytes) -> str:
    """What it says of a mistake: two lines on stderr, nothing on stdout, the exit code."""
    done = run(site, *words)
    complaint = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), complaint
    assert "Traceback" not in complaint
    assert complaint.startswith("gpuq: ")
    assert len(complaint.splitlines()) == 2, "a sentence and what to do next"
    return complaint


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("missing.py",), "there is no script"),
        (("./plain.sh",), "has no first line `#!`"),
        (("--", "./plain.sh"), "has no first line `#!`"),
        (("folder.py",), "is a folder, not a script"),
        (("a-folder",), "a-folder"),
        (("--", "./a-folder"), "is a folder"),
        ((b"caf\xe9.py",), "not valid UTF-8"),
        (("train.py", b"--name=caf\xe9"), "not valid UTF-8"),
        (("--", "no-such-program"), "no-such-program"),
        (("--python", "no-such-python", "train.py"), "no-such-python"),
        (("--chdir", "nowhere", "train.py"), "there is no folder"),
        (("--gpu-mem", "10", "train.py"), "`10` is not a size"),
        (("--gpu-mem", "10X", "train.py"), "`10X` is not a size"),
        (("--gpu-mem=-5G", "train.py"), "`-5G` is not a size"),
        (("--gpu-mem", "0G", "train.py"), "makes no sense"),
        (("--time", "soon", "train.py"), "`soon` is not a time"),
        (("--time", "1:99:00", "train.py"), "`1:99:00` is not a time"),
        (("--time", "0", "train.py"), "makes no sense"),
        (("--max-slowdown", "15", "train.py"), "would be 15 times as slow"),
        (("--max-slowdown", "0.5", "train.py"), "below 1"),
        (("--max-slowdown", "much", "train.py"), "`much` is not a slowdown"),
        (("--gpus", "1000", "train.py"), "--gpus `1000` is not a number of devices"),
        (("--priority", "high", "train.py"), "--priority `high` is not a whole number"),
        (("-e", "=x", "train.py"), "names no variable"),
        (("--array", "9-1", "train.py"), "the range `9-1` runs backwards"),
        (("--grid", "lr", "train.py"), "--grid `lr` gives no values"),
        (("--sweep", "missing.csv", "train.py"), "missing.csv cannot be read"),
        (("--after", "done:12", "train.py"), "does not say which end of which job"),
        (("--begin", "yesterday", "train.py"), "is neither a time from now nor a date"),
        (("--retry", "sometimes", "train.py"), "is not an end and a number of retries"),
        (("--signal", "USR9@60", "train.py"), "--signal `USR9` cannot tell a job to save its work"),
        (("--notify", "sometimes", "train.py"), "there is no event `sometimes`"),
        (("--gpu-mem-min", "much", "train.py"), "--gpu-mem-min: `much` is not a size"),
        (("--constraint", ",", "train.py"), "--constraint `,` cannot be read"),
        (("--hosts", "0", "train.py"), "--hosts `0` is not a whole number"),
        ((), "there is nothing to run"),
        (("--tiem", "5", "train.py"), "--tiem"),
    ],
)
def test_what_cannot_be_submitted(site: Site, words: tuple[str | bytes, ...], sentence: str) -> None:
    assert sentence in said(site, 2, "submit", *words)


@pytest.mark.parametrize("verb", ["show", "cancel", "logs", "wait", "explain", "hold", "release"])
def test_a_job_that_does_not_exist(site: Site, verb: str) -> None:
    assert "There is no job 999999." in said(site, 3, verb, "999999")
    assert "`abc` is not a job id, and none of your jobs has this name." in said(site, 3, verb, "abc")
    assert "`4-` is not a job id." in said(site, 2, verb, "4-")
    assert "`@last` is not a job id." in said(site, 2, verb, "@last")


def test_a_verb_that_does_not_exist(site: Site) -> None:
    assert "there is no verb `quue`. Did you mean `queue`?" in said(site, 2, "quue")
    assert "there is no verb `frobnicate`." in said(site, 2, "frobnicate")


def test_a_slowdown_in_percent_and_as_a_ratio(site: Site) -> None:
    for text in ("15%", "1.15"):
        job = int(run(site, "submit", "--hold", "--max-slowdown", text, "--", "/bin/true").stdout)
        assert site.job(job)["max_slowdown"] == pytest.approx(1.15)
        run(site, "cancel", str(job))


def test_a_script_that_is_gone_when_its_turn_comes(site: Site) -> None:
    """The check at submit cannot know the future: the attempt fails as a shell would, and says why in its log."""
    script = site.home / "soon-gone.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    job = int(run(site, "submit", "--hold", "./soon-gone.sh").stdout)
    script.unlink()

    run(site, "release", str(job))

    assert site.wait(job)["state"] == "FAILED"
    assert run(site, "wait", str(job)).returncode == 127
    assert str(script).encode() in run(site, "logs", str(job)).stdout


# --- input ---------------------------------------------------------------------------------------------------------


def test_a_script_on_standard_input_runs_with_its_arguments_an_empty_one_too(site: Site) -> None:
    done = run(site, "run", "-", "--tag", "", stdin=b"import os, sys\nprint(sys.argv, os.getcwd())\n")
    assert (done.returncode, done.stdout.decode()) == (0, f"['-', '--tag', ''] {site.home}\n"), done.stderr.decode()
    done = run(site, "run", "-", "a b", stdin=b"#!/bin/sh\necho $1; exit 3\n")
    assert (done.returncode, done.stdout) == (3, b"a b\n"), done.stderr.decode()


# --- output --------------------------------------------------------------------------------------------------------


def test_output_that_is_no_text_comes_back_byte_for_byte(site: Site) -> None:
    printed = bytes(range(256)) * 500 + b"\xff\xfe\x00\x1b[31m\xc3(" + os.urandom(200_000)
    (site.home / "printed").write_bytes(printed)
    job = site.submit("/bin/cat", "printed")
    site.wait(job)

    assert run(site, "logs", str(job)).stdout == printed
    assert run(site, "logs", "-f", str(job)).stdout == printed
    assert run(site, "show", str(job)).returncode == 0


def test_a_line_without_end_makes_a_bounded_log_and_the_rest_goes_on(site: Site) -> None:
    job = site.submit("/bin/sh", "-c", f"head -c {A_LINE} /dev/zero | tr '\\000' x; printf END; exit 5")
    site.wait(job, "RUNNING")
    slowest = 0.0

    def over() -> bool:
        nonlocal slowest
        watch = Stopwatch()
        state = site.job(job)["state"]
        slowest = max(slowest, watch.seconds)
        return state == "FAILED"

    wait_for(over, 60)

    assert site.job(job)["exit_code"] == 5
    assert slowest < 10, "the endpoint answers meanwhile"
    kept = sum(path.stat().st_size for path in (site.home / "attempts" / f"{job}-1").glob("output.log*"))
    assert LOG_LIMIT / 2 < kept <= LOG_LIMIT
    log = run(site, "logs", str(job)).stdout
    assert log.startswith(b"x" * MIB)
    assert log.endswith(b"x" * MIB + b"END")
    assert b"[gpuq: %d bytes of output were dropped here]" % (A_LINE + 3 - kept) in log
    assert run(site, "logs", "-n", "1", str(job)).stdout.endswith(b"xEND")


# --- very much -----------------------------------------------------------------------------------------------------


def test_ten_thousand_submissions_in_one_request(site: Site) -> None:
    """Last in this file: they stay."""
    body = [
        {"command": ["/bin/true", str(number)], "cwd": str(site.home), "env": {}, "hold": True}
        for number in range(10_000)
    ]
    watch = Stopwatch()
    ids = wait_for(lambda: sent_in_one(site, body))
    assert watch.seconds < 10
    assert len(set(ids)) == 10_000

    beside = site.submit("/bin/true")
    assert site.wait(beside, within_s=30)["state"] == "COMPLETED", "a job behind 10,000 others starts soon"

    assert wait_for(lambda: sent_in_one(site, body)) == ids, "the same batch sent again is the same jobs"
    assert held(site) == 10_000
    assert run(site, "cancel", f"{ids[0]}-{ids[199]}").returncode == 0
    wait_for(lambda: held(site) == 9_800, story=lambda: str(held(site)))
    assert site.job(ids[199])["state"] == "CANCELLED"
    assert site.job(ids[200])["state"] == "HELD"

    rest = run(site, "cancel", "--state", "HELD")
    assert rest.returncode == 0
    assert b"9,800 " in rest.stderr.splitlines()[0]
    assert len(rest.stderr.splitlines()) == 1
    wait_for(lambda: held(site) == 0, story=lambda: str(held(site)))

    status, problem = site.request("POST", "/api/v1/jobs", body + body[:1])
    assert status == 422
    assert "10001" in problem["detail"]


def sent_in_one(site: Site, body: list[dict[str, Any]]) -> list[int]:
    """The ids; none yet where the record has not answered in time, as on a busy machine."""
    status, answer = site.request("POST", "/api/v1/jobs", body, {"Idempotency-Key": "a very large batch"})
    assert status in {201, 503}, answer
    return answer["ids"] if status == 201 else []


def held(site: Site) -> int:
    text = site.get("/metrics")[1].decode()
    return next(
        int(float(line.split()[-1])) for line in text.splitlines() if line.startswith('gpuq_jobs{state="HELD"}')
    )
