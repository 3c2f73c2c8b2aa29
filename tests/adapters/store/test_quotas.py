"""Quotas are kept by the record, and a job beyond one does not get in."""

from __future__ import annotations

import pytest

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.job import JobState
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.errors import OverQuota
from gpuq.messages.submission import ArrayTasks
from tests.adapters.store.samples import a_change, a_record


def test_quotas_are_kept_until_they_are_removed(store: Store) -> None:
    ann, nlp = Account(QuotaScope.USER, "ann"), Account(QuotaScope.PROJECT, "nlp")
    store.commit(
        Commit(quotas={ann: Quota(ann, running_devices=4), nlp: Quota(nlp, device_hours=1.5, window_s=3600.0)})
    )
    store.commit(Commit(quotas={nlp: Quota(nlp, waiting_jobs=9), ann: None}))
    assert store.quotas() == [Quota(nlp, waiting_jobs=9)]


def test_jobs_beyond_a_waiting_limit_are_not_added(store: Store) -> None:
    everyone, nlp = Account(QuotaScope.USER, "*"), Account(QuotaScope.PROJECT, "nlp")
    store.commit(Commit(quotas={everyone: Quota(everyone, waiting_jobs=2), nlp: Quota(nlp, waiting_jobs=1)}))
    first, _ = store.add_jobs([a_record("key", project="nlp"), a_record(hold=True)])
    for refused in ([a_record()], [a_record(owner="bob"), a_record(owner="bob", project="nlp")]):
        with pytest.raises(OverQuota):
            store.add_jobs(refused)
    assert store.add_jobs([a_record("key", project="nlp")]) == [first], "it is in already"
    store.commit(Commit(jobs=[a_change(first, JobState.STARTING)]))
    assert len(store.add_jobs([a_record()])) == 1
    assert len(store.jobs()) == 3


def test_jobs_are_counted_and_listed_by_project(store: Store) -> None:
    one, two, _ = store.add_jobs([a_record(project="nlp"), a_record(project="nlp"), a_record()])
    store.commit(Commit(jobs=[a_change(two, JobState.COMPLETED)]))
    assert store.count_unended() == {("ada", "nlp", JobState.PENDING): 1, ("ada", None, JobState.PENDING): 1}
    assert [row.id for row in store.jobs(project="nlp")] == [one, two]


def test_what_has_not_ended_counts_by_its_size(store: Store) -> None:
    large = a_record(stdin="x" * 10_000)
    one, *_ = store.add_jobs([large, large, a_record(owner="bob")])
    assert 20_000 < store.record_bytes("ada") < 25_000
    assert 0 < store.record_bytes("bob") < 5000
    store.add_jobs([a_record(array=ArrayTasks(tasks="0-3", params={"x": ("y" * 10_000,) * 4}))])
    assert 60_000 < store.record_bytes("ada") < 70_000, "an array once, however many tasks it has"
    store.commit(Commit(jobs=[a_change(one, JobState.CANCELLED)]))
    assert 50_000 < store.record_bytes("ada") < 60_000
    assert store.record_bytes("eve") == 0
