"""Outcomes from rows of the record, and which rows give none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.state.job import JobId, JobState
from gpuq.learn.history.outcome import impossible, outcome_from_rows
from gpuq.messages.job_record import JobRecord
from tests.learn.world import recorded, submission

ACTUAL: dict[str, Any] = {
    "peak_utilization_pct": 53.0,
    "peak_memory_bytes": 10**9,
    "alone_rate": 10.0,
    "shared_rate": 9.0,
    "slowdown": 1.11,
    "slowdown_low": 1.05,
    "slowdown_high": 1.17,
    "partners": [7],
    "partner_kinds": ["other"],
    "device_type": "GPU",
}


def rows(actual: dict[str, Any] | None = None, **changes: Any) -> tuple[JobRow, AttemptRow]:
    record = JobRecord(
        submission=submission("resnet50", 64),
        owner="alice",
        uid=1,
        kind="k",
        signature="k#1",
        features={},
        submitted_at=0.0,
    )
    job = JobRow(
        id=JobId(1), record=record, state=JobState.COMPLETED, state_since=0.0, attempt=1,
        alone=False, cancel_requested=False, verdict=None, reason=None,
    )  # fmt: skip
    values: dict[str, Any] = {
        "job": JobId(1), "number": 1, "host": "h", "devices": ("h/0",), "launched_at": 1.0, "launch": {},
        "features": {"script_sha256": "a" * 64}, "model_version": None, "started_at": 2.0, "ended_at": 62.0,
        "ending": "exited", "exit_code": 0, "actual": recorded({**ACTUAL, **(actual or {})}),
    }  # fmt: skip
    return job, AttemptRow(**{**values, **changes})


def test_completed_attempt_gives_all_fields():
    outcome = outcome_from_rows(*rows(), {})
    assert outcome is not None
    assert (outcome.kind, outcome.signature, outcome.script_sha256) == ("k", "k#1", "a" * 64)
    assert (outcome.peak_utilization_pct, outcome.peak_memory_bytes, outcome.duration_s) == (53.0, 10**9, 60.0)
    assert outcome.slowdowns == (("other", 1.11, 1.05, 1.17),)
    assert outcome.shared
    assert outcome.whole


def test_features_are_read_once_and_changed_features_again():
    outcome = outcome_from_rows(*rows(), {})
    assert outcome is not None
    assert outcome.known is outcome.known
    assert replace(outcome, features={**outcome.features, "batch_log2": 9.0}).known.batch_log2 == 9.0


def test_preallocated_memory_pool_gives_no_peak_memory():
    outcome = outcome_from_rows(*rows({"peak_memory_is_bound": True}), {})
    assert outcome is not None
    assert (outcome.peak_memory_bytes, outcome.peak_utilization_pct) == (None, 53.0)


def test_a_run_that_used_no_gpu_counts_as_one_that_opened_it_and_did_no_more():
    job, attempt = rows({"peak_memory_bytes": 0, "peak_utilization_pct": 0.0})
    outcome = outcome_from_rows(job, attempt, {})
    assert outcome is not None
    assert (outcome.peak_memory_bytes, outcome.peak_utilization_pct) == (600 * 2**20, 0.0)
    assert attempt.actual is not None
    assert impossible(attempt.actual) is None, "0 is a measurement, and no fault of a reader"


def test_foreign_load_keeps_memory_bounds_utilisation_and_marks_duration():
    spoiled = {
        "held_back": 0.3,
        "utilization_is_bound": True,
        "alone_rate": None,
        "shared_rate": None,
        "disturbed_rate": 4.0,
        "slowdown_basis": "beside foreign load",
        "energy_joules": 9000.0,
        "partners": [],
    }
    outcome = outcome_from_rows(*rows(spoiled), {})
    assert outcome is not None
    assert (outcome.peak_utilization_pct, outcome.utilization_at_most) == (None, 53.0)
    assert (outcome.alone_rate, outcome.slowdowns, outcome.power_w) == (None, (), None)
    assert (outcome.peak_memory_bytes, outcome.duration_s, outcome.disturbed) == (10**9, 60.0, True)
    killed = outcome_from_rows(*rows(spoiled, ending="killed", exit_code=137, ended_at=700.0), {})
    assert killed is not None
    assert killed.whole, "it made progress, though at a rate that does not count"


def test_small_foreign_load_changes_nothing():
    outcome = outcome_from_rows(*rows({"held_back": 0.05, "foreign_load": 1.0, "utilization_is_bound": False}), {})
    assert outcome is not None
    assert (outcome.peak_utilization_pct, outcome.utilization_at_most, outcome.disturbed) == (53.0, None, False)


def test_resumed_or_larger_gang_attempts_have_no_duration():
    def duration(attempt: int = 1, devices: int = 1, **asked: Any) -> float | None:
        job, row = rows(number=attempt, devices=tuple(f"h/{n}" for n in range(devices)))
        record = msgspec.structs.replace(job.record, submission=msgspec.structs.replace(job.record.submission, **asked))
        outcome = outcome_from_rows(msgspec.structs.replace(job, record=record), row, {})
        assert outcome is not None
        return outcome.duration_s

    assert duration(attempt=2) == 60.0, "without checkpoints, the second attempt ran from the start"
    assert duration(preemptible=True) == 60.0
    assert duration(attempt=2, preemptible=True) is None
    assert duration(attempt=2, retry=("exit=75:2",)) is None, "such a job goes on from what it saved"
    assert duration(retry=("exit=75:2",)) == 60.0
    assert duration(attempt=2, requeue_on_node_fail=True) is None
    assert duration(devices=2, gpus=2) == 60.0
    assert duration(devices=1, gpus=1, most_gpus=4) == 60.0
    assert duration(devices=3, gpus=1, most_gpus=4) is None


def test_device_type_falls_back_to_the_device_table():
    assert outcome_from_rows(*rows({"device_type": None}), {}) is None
    outcome = outcome_from_rows(*rows({"device_type": None}), {"h/0": "T4"})
    assert outcome is not None
    assert outcome.device_type == "T4"


@pytest.mark.parametrize(
    ("changes", "actual", "whole", "duration"),
    [
        ({"exit_code": 1}, {"alone_rate": None, "shared_rate": None}, False, None),
        ({"ending": "stopped", "exit_code": 143, "ended_at": 700.0}, {}, True, None),
        ({"ending": "stopped", "exit_code": 143}, {}, False, None),
        ({"exit_code": 1}, {}, False, None),
        ({"exit_code": 1, "ended_at": 700.0}, {}, True, None),
        ({"ending": "timed out", "exit_code": 124}, {}, True, None),
        ({"ending": "out of memory", "exit_code": 1}, {}, False, None),
        ({"ending": "host out of memory", "exit_code": 1, "ended_at": 700.0}, {}, True, None),
        ({"ending": "host out of memory", "exit_code": 1}, {"device_type": "cpu-2"}, False, None),
        ({"ending": "killed", "exit_code": 137, "ended_at": 700.0}, {}, True, None),
        ({"ending": "timed out", "exit_code": 124}, {"alone_rate": None, "shared_rate": None}, False, None),
        ({"ended_at": 1.0}, {}, True, None),
    ],
)
def test_unfinished_attempt_is_whole_only_with_measured_progress_for_a_while(
    changes: dict[str, Any], actual: dict[str, Any], whole: bool, duration: float | None
):
    outcome = outcome_from_rows(*rows(actual, **changes), {})
    assert outcome is not None
    assert (outcome.whole, outcome.duration_s) == (whole, duration)


def test_attempt_without_actual_values_gives_no_outcome():
    job, attempt = rows()
    assert outcome_from_rows(job, msgspec.structs.replace(attempt, actual=None), {"h/0": "GPU"}) is None


@pytest.mark.parametrize("changes", [{"ended_at": None}, {"ending": None}, {"ended_at": math.nan}])
def test_rows_without_an_end_give_no_outcome(changes: dict[str, Any]):
    assert outcome_from_rows(*rows(**changes), {"h/0": "GPU"}) is None


@pytest.mark.parametrize(
    ("actual", "field"),
    [
        ({"peak_memory_bytes": -1}, "peak_memory_bytes"),
        ({"peak_memory_bytes": 0}, "peak_memory_bytes"),
        ({"peak_memory_bytes": 2**60}, "peak_memory_bytes"),
        ({"peak_memory_bytes": "many"}, "peak_memory_bytes"),
        ({"peak_memory_bytes": math.inf}, "peak_memory_bytes"),
        ({"peak_utilization_pct": math.nan}, "peak_utilization_pct"),
        ({"peak_utilization_pct": 900.0}, "peak_utilization_pct"),
        ({"peak_utilization_pct": True}, "peak_utilization_pct"),
        ({"alone_rate": 0}, "alone_rate"),
    ],
)
def test_impossible_values_become_unknown(actual: dict[str, Any], field: str):
    outcome = outcome_from_rows(*rows(actual), {})
    assert outcome is not None
    assert getattr(outcome, field) is None


@pytest.mark.parametrize(
    "actual",
    [{"slowdown": None}, {"slowdown": -1.0}, {"slowdown": 1e9}, {"partner_kinds": ["a", "b"]}, {"partner_kinds": None}],
)
def test_slowdown_without_a_single_partner_is_dropped(actual: dict[str, Any]):
    outcome = outcome_from_rows(*rows(actual), {})
    assert outcome is not None
    assert outcome.slowdowns == ()


def test_interval_end_on_the_wrong_side_is_dropped():
    outcome = outcome_from_rows(*rows({"slowdown_low": 1.2, "slowdown_high": 1.0}), {})
    assert outcome is not None
    assert outcome.slowdowns == (("other", 1.11, None, None),)


def test_slowdowns_beside_several_kinds_are_kept_separately():
    each = [
        {"kind": "a", "value": 1.2, "low": 1.1, "high": 1.3},
        {"kind": "b", "value": 1.5, "low": 2.0, "high": None},
        {"kind": "c", "value": -1.0, "low": None, "high": None},
        "rubbish",
    ]
    outcome = outcome_from_rows(*rows({"partner_kinds": ["a", "b", "c"], "slowdowns": each}), {})
    assert outcome is not None
    assert outcome.slowdowns == (("a", 1.2, 1.1, 1.3), ("b", 1.5, None, None))


@pytest.mark.parametrize(
    ("actual", "changes", "watts"),
    [
        ({}, {}, 300.0),
        ({}, {"devices": ("h/0", "h/1")}, 150.0),
        ({"partners": [7]}, {}, None),
        ({"energy_joules": None}, {}, None),
        ({"energy_joules": math.nan}, {}, None),
        ({}, {"ended_at": 12.0}, None),
        ({}, {"started_at": None}, None),
    ],
    ids=["alone", "two devices", "a partner", "no meter", "a broken meter", "too short to tell", "never started"],
)
def test_power_is_known_only_for_attempts_without_partners(
    actual: dict[str, Any], changes: dict[str, Any], watts: float | None
):
    by_itself = {"partners": [], "partner_kinds": [], "energy_joules": 18_000.0}
    outcome = outcome_from_rows(*rows({**by_itself, **actual}, **changes), {})
    assert outcome is not None
    assert outcome.power_w == watts
