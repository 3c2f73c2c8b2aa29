"""Shadow mode with real processes on a CPU device: nothing shares, and the report says what sharing would have done."""

from __future__ import annotations

import json
import sys

from tests.end_to_end.test_ring import STEPS, gpuq, show
from tests.support.site import Site

# One mean of utilisation takes one second here.
SECONDS = 3


def test_jobs_run_alone_and_the_report_says_what_sharing_would_have_saved() -> None:
    with Site(
        window_s=1,
        worker_sample_every_s=0.2,
        devices_cpu_count=1,
        devices_cpu_cores=2,
        admission_utilization_pct=400,
        admission_risk=1,
        scheduling_shadow="true",
    ) as site:
        assert "No waiting job could have joined one that ran alone" in gpuq(site, "report", "shadow")

        submit = ("submit", "--parsable", "--python", sys.executable, str(STEPS), str(SECONDS))
        first = gpuq(site, *submit).strip()
        gpuq(site, "wait", first)
        second, third = (gpuq(site, *submit).strip() for _ in range(2))
        gpuq(site, "wait", second, third)

        assert [show(site, job)["actual"]["partners"] for job in (second, third)] == [[], []]
        found = json.loads(gpuq(site, "report", "shadow", "--json", "--days", "1"))
        assert found["on"] is True
        assert (found["chances"], found["counted"], found["open"]) == (1, 1, 0)
        (pair,) = found["pairs"]
        assert pair["times"] == 1
        assert 1.0 <= pair["newcomer_slowdown"] < 1.3
        # Two side by side: most of the later one is saved, and it would not have waited for the other.
        later = max((show(site, job) for job in (second, third)), key=lambda job: job["started_at_unix"])
        ran_s = later["ended_at_unix"] - later["started_at_unix"]
        waited_s = later["started_at_unix"] - later["submitted_at_unix"]
        assert 0.4 * SECONDS < found["gpu_hours_saved"] * 3600 < 1.3 * ran_s
        assert 0.4 * SECONDS < found["wait_avoided_mean_s"] < waited_s + 0.5
        assert "Sharing would have saved" in gpuq(site, "report", "shadow")
