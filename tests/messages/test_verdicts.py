"""One table of sentences for the API and the command."""

from __future__ import annotations

import time

import pytest

from gpuq.core.state.verdict import Rule
from gpuq.messages.verdicts import RULES, WHAT_HELPS, calculation, quantity, sentence


def test_every_rule_has_a_sentence_and_no_other_has() -> None:
    assert set(RULES) == set(Rule)
    assert set(WHAT_HELPS) <= set(Rule)


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
