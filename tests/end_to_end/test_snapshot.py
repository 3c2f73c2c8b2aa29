"""The files as they were submitted, by the real command and a real job."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from tests.support import forked
from tests.support.site import Site


def test_a_job_runs_the_submitted_files_after_edits_and_the_printed_command_runs_them_again(tmp_path: Path) -> None:
    tree = tmp_path / "project"
    (tree / "results").mkdir(parents=True)
    for name, text in {
        "train.sh": "#!/bin/sh\ncat width\necho $0 >results/$GPUQ_JOB_ID\ngit diff --stat HEAD\n",
        "width": "64\n",
        ".gitignore": "results/\n",
    }.items():
        (tree / name).write_text(text)
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run(["git", *who, *words], cwd=tree, check=True)
    (tree / "width").write_text("128\n")
    with Site(devices_cpu_count=1, admission_memory_headroom=0.95) as site:
        done = forked.gpuq("submit", "--snapshot", "--hold", "train.sh", env=site.env, cwd=tree, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        (tree / "width").write_text("256\n")
        (tree / "train.sh").write_text("exit 1\n")
        forked.gpuq("release", done.stdout.strip(), env=site.env, cwd=tree)
        first = site.wait(int(done.stdout))
        assert first["exit_code"] == 0
        output = Path(first["log_path"]).read_text()
        assert output.startswith("128\n")
        assert "width" in output, "git knows the change"
        assert (tree / "results" / str(first["id"])).exists(), "what git ignores is where it was"

        shown = forked.gpuq("show", str(first["id"]), env=site.env, cwd=tree, text=True).stdout
        command = shown.partition("run again\n")[2].splitlines()[0].strip()
        folder, _, words = command.removeprefix("cd ").partition(" && gpuq ")
        again = forked.gpuq(*shlex.split(words), env=site.env, cwd=folder, text=True)
        assert (again.returncode, again.stderr) == (0, "")
        second = site.wait(int(again.stdout))
        assert Path(second["log_path"]).read_text() == output
        assert second["kind"] == first["kind"]
