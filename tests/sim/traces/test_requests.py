"""Owners, kinds and load for jobs of which a trace says little."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.sim.traces.requests import (
    TraceJob,
    about_kinds,
    consecutive,
    from_zero,
    imported,
    load_of,
    narrow,
    owned,
    scaled,
    spread,
)


def job(
    submit_s: float = 0.0, duration_s: float = 100.0, devices: int = 1, group: str = "vc", **more: object
) -> TraceJob:
    return TraceJob(submit_s, duration_s, devices, group, **more)  # type: ignore[arg-type]


def test_jobs_come_in_the_order_of_their_submission_and_a_trace_without_any_is_refused() -> None:
    assert [one.submit_s for one in imported("t", [job(5), job(2)], []).jobs] == [2, 5]
    with pytest.raises(BadInput, match="no job to play"):
        imported("t", [], [])


def test_a_job_wider_than_a_host_is_left_out_and_counted_with_its_share_of_the_time() -> None:
    kept, said, missing = narrow([job(), job(devices=9, duration_s=100)], 8)
    assert [one.devices for one in kept] == [1]
    assert said == ["left out: 1 jobs (50.00%, 90% of device time) want more than the 8 devices of a host"]
    assert missing == pytest.approx(0.9)
    with pytest.raises(BadInput, match="more than 8 devices"):
        narrow([job(devices=9)], 8)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(1, 1e5), st.integers(1, 8)), min_size=2),
    st.floats(0.1, 2.0),
    st.integers(1, 100),
)
def test_scaling_gives_the_requested_load(rows: list[tuple[float, float, int]], load: float, devices: int) -> None:
    jobs = imported("t", [job(*row) for row in rows], []).jobs
    if jobs[-1].submit_s - jobs[0].submit_s < 1:
        return
    found, _ = scaled(jobs, devices, load)
    assert found[0].submit_s == 0
    assert load_of(found, devices) == pytest.approx(load)


def test_jobs_submitted_at_once_cannot_be_scaled() -> None:
    found, said = scaled([job(7), job(7)], 4, 0.9)
    assert [one.submit_s for one in found] == [0, 0]
    assert "cannot be set" in said


def test_a_deadline_keeps_its_distance_from_the_submission() -> None:
    found = from_zero([job(100), job(200, deadline_s=260)], 2.0)
    assert (found[1].submit_s, found[1].deadline_s) == (200, 260)


def test_jobs_of_a_burst_have_one_owner_and_one_kind() -> None:
    burst = [job(second) for second in range(0, 400, 10)]
    elsewhere = [job(second, group="other") for second in range(0, 400, 10)]
    found = owned(burst + elsewhere, np.random.default_rng(1))
    assert len({one.owner for one in found[:40]}) == 1
    assert {one.kind for one in found} == {"vc-1 100s x1", "other-1 100s x1"}


def test_a_group_of_many_jobs_has_several_owners() -> None:
    found = owned([job(1000.0 * number) for number in range(300)], np.random.default_rng(1))
    assert {one.owner for one in found} == {"vc-1", "vc-2", "vc-3"}


def test_owner_and_kind_of_the_trace_are_kept() -> None:
    (found,) = owned([job(owner="ada", kind="resnet")], np.random.default_rng(1))
    assert (found.owner, found.kind) == ("ada", "resnet")
    (found,) = owned([job(owner="ada", share_pct=50.0)], np.random.default_rng(1))
    assert found.kind == "ada 100s x1 50%"
    assert about_kinds([found], [found]) == ["1 owners, as in the trace", "1 kinds, as in the trace"]


def test_durations_of_a_kind_lie_within_its_decade() -> None:
    found = owned([job(duration_s=seconds) for seconds in (1, 9.9, 10, 99, 1000)], np.random.default_rng(1))
    assert [one.kind for one in found] == ["vc-1 1s x1", "vc-1 1s x1", "vc-1 10s x1", "vc-1 10s x1", "vc-1 1000s x1"]


def test_the_spread_is_that_of_kinds_with_enough_jobs() -> None:
    often = [job(duration_s=seconds, kind="a") for seconds in (10, 10, 10, 20, 30)]
    assert spread([*often, job(kind="b")]) == (3.0, 5 / 6)
    assert spread([job(kind="b")]) == (None, 0.0)


def test_a_drawn_start_gives_jobs_in_a_row() -> None:
    jobs = [job(float(number)) for number in range(20)]
    found, _ = consecutive(jobs, 5, np.random.default_rng(3))
    first = int(found[0].submit_s)
    assert found == jobs[first : first + 5]
    assert consecutive(jobs, 50, np.random.default_rng(3)) == (jobs, [])
