"""The public traces, as far as they are here."""

from itertools import pairwise
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.public import folder
from gpuq.lab.traces import alibaba, muri, philly

DATA = folder()
needs_data = pytest.mark.skipif(DATA is None, reason="needs the measured public data (GPUQ_DATA)")


@pytest.fixture
def data() -> Path:
    assert DATA is not None
    return DATA


@needs_data
def test_philly_is_whole_and_its_stretches_do_not_overlap(data: Path) -> None:
    assert len(philly.jobs(data)) == 82_247
    days = [[job.submit_s for job in philly.stretch(data, 1500, 8, seed).jobs] for seed in (1, 2, 3)]
    ranges = sorted((min(one), max(one)) for one in days)
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))


@needs_data
def test_a_stretch_is_after_the_sparse_weeks_and_without_what_would_outlast_it(data: Path) -> None:
    found = philly.stretch(data, 1500, 8, 1)
    assert min(job.submit_s for job in found.jobs) >= 14 * 86_400
    assert max(job.duration_s for job in found.jobs) <= 7 * 86_400
    assert any("0.35%" in note for note in found.notes), "jobs of more than eight GPUs are left out, and counted"


@needs_data
def test_more_jobs_than_bring_enough_work_are_refused(data: Path) -> None:
    with pytest.raises(BadInput, match="enough work"):
        philly.stretch(data, 80_000, 8, 1)


@needs_data
def test_pods_that_never_ran_are_left_out_and_parts_of_a_gpu_kept(data: Path) -> None:
    found = alibaba.pods(data)
    assert any("never scheduled" in note for note in found.notes)
    assert all(job.duration_s > 0 and 0 < (job.share_pct or 0) <= 100 for job in found.jobs)
    assert sum(job.share_pct != 100 for job in found.jobs) > 1000


@needs_data
def test_muris_kinds_are_models_with_batch_sizes_that_keep_a_part_of_a_gpu_busy(data: Path) -> None:
    found = muri.trace(data, "trace2")
    shares = {job.kind: job.share_pct for job in found.jobs}
    assert all(share is not None for share in shares.values())
    assert (shares["a2c:64"] or 0) < 10 < (shares["vgg16:16"] or 0)
    with pytest.raises(BadInput, match="no trace `trace9`"):
        muri.trace(data, "trace9")
