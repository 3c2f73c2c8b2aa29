"""The journal: in order, filtered, pruned; entries found by any of the jobs they name."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.journal import contains, pack, unpack
from gpuq.adapters.store.row_types import Commit, Entry
from gpuq.core.state.job import JobId
from tests.adapters.store.samples import an_entry


def seqs(entries: list[Entry]) -> list[int]:
    return [entry.seq for entry in entries]


def test_entries_round_trip(store: Store) -> None:
    entries = [
        an_entry(1, name="HostReported", body={"host": "é", "used": None, "nested": [1, 2.5, "\x00"]}),
        an_entry(2, 5, name="Started", body=[1]),
        an_entry(3, 9, 4, 5, 6, 2, name="Hold", body="text"),
    ]
    store.commit(Commit(entries=entries))
    assert store.journal(after=0, limit=10) == entries
    assert store.last_seq() == 3


def test_an_empty_journal(store: Store) -> None:
    assert store.last_seq() == 0
    assert store.journal(after=0, limit=10) == []
    assert store.prune_journal(10, epoch=0) == 0


def test_after_and_limit_page_through(store: Store) -> None:
    store.commit(Commit(entries=[an_entry(seq) for seq in (1, 2, 3, 7, 8)]))
    assert seqs(store.journal(after=0, limit=2)) == [1, 2]
    assert seqs(store.journal(after=2, limit=2)) == [3, 7]
    assert seqs(store.journal(after=7, limit=2)) == [8]


def test_only_jobs_leaves_out_entries_without_jobs(store: Store) -> None:
    store.commit(Commit(entries=[an_entry(1), an_entry(2, 1), an_entry(3), an_entry(4, 1, 2)]))
    assert seqs(store.journal(after=0, limit=10, only_jobs=True)) == [2, 4]
    assert seqs(store.journal(after=2, limit=10, only_jobs=True)) == [4]


def test_entries_are_found_by_their_names(store: Store) -> None:
    names = ("Launch", "Stop", "Launch", "Hold", "Stop")
    entries = [Entry(seq=seq, at=0.0, name=name, body={}, jobs=(7,)) for seq, name in enumerate(names, 1)]
    store.commit(Commit(entries=entries))
    assert seqs(store.journal(after=0, limit=10, names={"Stop", "Hold"})) == [2, 4, 5]
    assert seqs(store.journal(after=2, limit=1, names={"Stop", "Hold"})) == [4]
    assert store.journal(after=0, limit=10, names={"Other"}) == []
    assert seqs(store.journal(after=1, until=4, limit=10, names={"Stop", "Hold"})) == [2, 4]
    assert seqs(store.journal(after=0, limit=10)) == [1, 2, 3, 4, 5]


def test_a_job_is_found_alone_and_among_others(store: Store) -> None:
    spoken_of = [(1,), (1, 2, 3), (), (2,), (1, 3), (3, 9), (5, 1, 2), (2, 20)]
    store.commit(Commit(entries=[an_entry(seq, *jobs) for seq, jobs in enumerate(spoken_of, 1)]))
    assert seqs(store.journal(after=0, limit=10, job=JobId(2))) == [2, 4, 7, 8]
    assert seqs(store.journal(after=2, limit=2, job=JobId(2))) == [4, 7]
    assert seqs(store.journal(after=0, limit=10, job=JobId(4))) == []
    assert seqs(store.journal(after=0, limit=10, job=JobId(10**30))) == []


def test_every_page_of_a_job_agrees_with_a_plain_search(store: Store) -> None:
    chance = random.Random(7)
    entries = [an_entry(seq, *chance.sample(range(1, 30), chance.choice((0, 1, 1, 2, 12)))) for seq in range(1, 1201)]
    store.commit(Commit(entries=entries))
    for job in (1, 15, 29):
        expected = [entry for entry in entries if job in entry.jobs]
        found: list[Entry] = []
        while page := store.journal(after=found[-1].seq if found else 0, limit=97, job=JobId(job)):
            found += page
        assert found == expected


def test_prune_deletes_older_entries_and_counts_them(store: Store) -> None:
    store.commit(Commit(entries=[an_entry(seq, 1, 2) for seq in range(1, 8)]))
    assert store.prune_journal(before=4, epoch=0) == 3
    assert store.prune_journal(before=4, epoch=0) == 0
    assert seqs(store.journal(after=0, limit=10)) == [4, 5, 6, 7]
    assert seqs(store.journal(after=0, limit=10, job=JobId(2))) == [4, 5, 6, 7]


def test_prune_keeps_the_newest_entry(store: Store) -> None:
    store.commit(Commit(entries=[an_entry(1), an_entry(2)]))
    assert store.prune_journal(before=100, epoch=0) == 1
    assert store.last_seq() == 2


@pytest.mark.parametrize(
    ("jobs", "text"),
    [((), None), ((5,), ",5,"), ((5, 6, 7, 3), ",5-7,3,"), ((3, 2, 1), ",3,2,1,"), ((1, 2, 10, 11), ",1-2,10-11,")],
)
def test_ids_are_packed_in_runs(jobs: tuple[int, ...], text: str | None) -> None:
    assert pack(jobs) == text


@given(st.lists(st.integers(1, 60), min_size=1))
def test_packed_ids_round_trip_and_are_found(jobs: list[int]) -> None:
    text = pack(jobs)
    assert text is not None
    assert list(unpack(text)) == jobs
    assert [job for job in range(70) if contains(text, job)] == sorted(set(jobs))
