"""The second of two long jobs of one kind shares the device of the first, which has not ended."""

from __future__ import annotations

from pathlib import Path

from tests.support import forked
from tests.support.site import Site, wait_for

STEPS = str(Path(__file__).with_name("steps.py"))


def test_a_job_joins_another_of_its_kind_that_goes_on_once_that_ones_memory_is_level() -> None:
    # Whatever else this machine does counts as foreign load; what is shown here is memory.
    limits = {"admission_utilization_pct": 400, "admission_risk": 1}
    with Site(devices_cpu_count=1, learning_level_after_s=3, worker_grace_s=1, **limits) as site:

        def gpuq(*words: str) -> str:
            done = forked.gpuq(*words, env=site.env, cwd=site.home)
            assert done.returncode == 0, done.stderr
            return done.stdout.decode()

        first, second = (int(gpuq("submit", STEPS, "600", "--lr", rate)) for rate in ("0.1", "0.2"))
        story = lambda: str((site.job(first)["live"], site.job(second)["verdict"]))  # noqa: E731
        wait_for(lambda: site.job(second)["state"] == "RUNNING", 60, story)
        assert site.job(first)["state"] == "RUNNING"
        # The live view, which has the partners, is a moment behind the record.
        wait_for(lambda: site.job(second)["partners"] == [first], 20, story)
        assert site.job(second)["forecast"]["evidence"] == "own history, 1 run that goes on, memory level so far"
        assert "level for" in gpuq("show", str(first))
        predicted = gpuq("predict", STEPS, "600", "--lr", "0.3")
        assert "that goes on, memory level so far" in " ".join(predicted.split())
        for job in (first, second):
            gpuq("cancel", str(job))
            assert site.wait(job)["state"] == "CANCELLED"
