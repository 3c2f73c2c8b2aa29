"""One table of sentences for the API and the command."""

from __future__ import annotations

import time

import pytest

from gpuq.core.state.verdict import Rule
from gpuq.format import local_time
from gpuq.messages import verdicts
from gpuq.messages.verdicts import calculation, quantity, sentence, title, what_helps


def test_every_rule_has_a_sentence_and_no_other_has() -> None:
    assert set(verdicts._TITLES) == set(Rule)
    assert set(verdicts._WHAT_HELPS) <= set(Rule)


def test_where_fewer_devices_are_free_than_a_job_wants_not_all_are_called_taken() -> None:
    gang = {"wanted_devices": 8, "devices": 8, "busy_devices": 3}
    assert title("Resources", gang) == "Fewer devices of one host are free than it wants"
    assert what_helps("Resources", gang) == "It starts when as many devices of one host are free at the same time."
    assert title("Resources", {"devices": 8, "busy_devices": 8}) == "Every device is taken"


def test_a_kind_with_many_runs_is_not_called_unknown() -> None:
    text = sentence("FirstRunExclusive", {"newcomer": "63", "evidence": "own history, 62 runs"}, "gpu3")
    assert text.startswith("Too little is known of its kind to share a device")
    assert "a job on the device" in title("FirstRunExclusive", {"resident": "41", "evidence": "none"})


def test_a_compute_mode_is_not_taken_for_a_job_that_does_not_share() -> None:
    assert "compute mode" in title("Exclusive", {"compute_mode": "exclusive"})
    assert "nvidia-smi -c DEFAULT" in (what_helps("Exclusive", {"compute_mode": "exclusive"}) or "")


def test_sentence_has_all_known_numbers_with_their_units() -> None:
    numbers = {
        "sum_pct": 131.0,
        "needed_bytes": 3 * 2**29,
        "wait_s": 90.0,
        "ratio": 1.234,
        "beside": "#44",
        "missing": None,
    }
    assert sentence("PredictedLoad", numbers, "gpu3") == (
        "Together, the predicted peak utilisations exceed the limit: device gpu3, sum 131%, needed 1.5 GiB, wait 1:30, "
        "ratio 1.23, beside #44."
    )


def test_rule_of_a_newer_daemon_is_shown_by_its_name() -> None:
    assert sentence("OfTomorrow", {}, None) == "OfTomorrow."
    assert calculation("OfTomorrow", False, {}) is None
    assert quantity("of_tomorrow", None) == "unknown"


def test_calculation_lacks_where_a_number_is_missing_or_null() -> None:
    numbers = {"newcomer_pct": 60.0, "committed_pct": 30.0, "limit_pct": 80.0, "residents": "4 5"}
    assert calculation("PredictedLoad", False, numbers) == (
        "peak utilisation 60% + 30% = 90% > 80%, beside job 4 and 5."
    )
    assert calculation("PredictedLoad", False, {**numbers, "limit_pct": None}) is None
    assert calculation("PredictedLoad", False, {"newcomer_pct": 60.0}) is None
    assert calculation("PredictedLoad", True, numbers) is None


def test_moments_are_in_the_readers_zone_and_in_utc_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        begin = {"begin_at": 1_790_000_000.949}
        assert calculation("BeginTime", False, begin) == "it is not to start before 2026-09-21 16:13:20."
        assert quantity("begin_at", begin["begin_at"]) == "2026-09-21 16:13:20"
        assert sentence("BeginTime", begin, None) == (
            "It was submitted to start later: begin at 2026-09-21T14:13:20.949Z."
        )
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_reason_of_a_quota_names_the_limit_the_use_and_when_it_falls_below() -> None:
    devices = {"user": "ann", "limit_devices": 4, "used_devices": 4, "wanted_devices": 2}
    assert calculation("DeviceQuota", False, devices) == "user ann has 4 of 4 devices, and the job wants 2."
    kept = {**devices, "used_devices": 2, "kept_devices": 2, "kept_for": "7", "wanted_devices": 1}
    said = "user ann has 2 of 4 devices, 2 are kept for job 7, and the job wants 1."
    assert calculation("DeviceQuota", False, kept) == said
    hours = {
        "project": "nlp",
        "limit_device_hours": 100.0,
        "used_device_hours": 100.25,
        "window_s": 604_800.0,
        "free_at": 1_790_000_000.0,
    }
    said = calculation("DeviceHoursQuota", False, hours)
    assert said is not None
    assert said.startswith("project nlp has had 100.25 of 100 device-hours in 7-00:00:00; below the limit at 2026-09-2")
    unknown = calculation("DeviceHoursQuota", False, {**hours, "free_at": None})
    assert unknown == "project nlp has had 100.25 of 100 device-hours in 7-00:00:00."


def test_a_host_that_starts_nothing_is_named_with_its_reason_and_its_next_try() -> None:
    numbers = {"host": "node2", "why": "The database does not answer.", "since_at": 1000.0}
    assert calculation("NoStarts", False, numbers) == (
        f"host node2 starts no job since {local_time(1000.0)}: The database does not answer."
    )
    waits = {**numbers, "why": "no process is left", "again_at": 1060.0}
    assert (calculation("NoStarts", False, waits) or "").endswith(
        f": no process is left; it tries again at {local_time(1060.0)}."
    )
