"""`runs.jsonl`: what was measured is there after any end of the campaign, and nothing that was not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuq.errors import BadInput, Failure
from gpuq.lab.campaign.ledger import Ledger
from gpuq.lab.campaign.session import session
from tests.lab.campaign.jobs import a_job, a_run
from tests.support.nouns import a_device


def test_runs_and_sessions_come_back_in_their_order(tmp_path: Path):
    ledger = Ledger(tmp_path / "new" / "runs.jsonl")
    ledger.add(session(a_device(), (0,), ["list.toml"], 1e9))
    ledger.add(a_run(a_job()))
    ledger.add(a_run(a_job(), a_job(size=64)))
    ledger.close()
    again = Ledger(ledger.path)
    assert again.runs == ledger.runs
    assert again.sessions == ledger.sessions
    assert again.sessions[0].at == "2001-09-09T01:46:40+00:00"
    again.close()


def test_summary_of_a_job_is_read_back(tmp_path: Path):
    ledger = Ledger(tmp_path / "runs.jsonl")
    run = a_run(a_job())
    ledger.add(replace(run, parts=(replace(run.parts[0], summary={"steps": 3, "asked": {"lr": 0.1}}),)))
    ledger.close()
    again = Ledger(ledger.path)
    assert again.runs == ledger.runs
    assert again.runs[0].parts[0].summary == {"steps": 3, "asked": {"lr": 0.1}}
    again.close()


def test_each_line_is_on_the_disk_before_the_next_run_begins(tmp_path: Path, monkeypatch):
    synced = []
    ledger = Ledger(tmp_path / "runs.jsonl")
    monkeypatch.setattr("os.fsync", lambda _: synced.append(ledger.path.read_bytes().count(b"\n")))
    ledger.add(a_run(a_job()))
    ledger.add(a_run(a_job()))
    ledger.close()
    assert synced == [1, 2]


def test_a_disk_that_takes_half_a_line_is_full_and_that_line_was_not_kept(tmp_path: Path, monkeypatch):
    ledger = Ledger(tmp_path / "runs.jsonl")
    ledger.add(a_run(a_job()))
    write = os.write
    monkeypatch.setattr("os.write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(Failure):
        ledger.add(a_run(a_job(size=64)))
    monkeypatch.undo()
    ledger.close()
    again = Ledger(ledger.path)
    assert again.runs == ledger.runs
    assert len(again.runs) == 1
    again.close()


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_half_a_line_of_a_killed_campaign_is_cut_off_and_the_next_is_whole(tmp_path: Path, cut: int):
    ledger = Ledger(tmp_path / "runs.jsonl")
    ledger.add(a_run(a_job()))
    ledger.add(a_run(a_job(size=64)))
    ledger.close()
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[:-cut])
    after = Ledger(ledger.path)
    assert [run.parts[0].job for run in after.runs] == ["net 8"]
    after.add(a_run(a_job(size=32)))
    after.close()
    assert [run.parts[0].job for run in Ledger(ledger.path).runs] == ["net 8", "net 32"]


def test_file_of_another_program_is_not_changed(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"epoch": 1}\n')
    with pytest.raises(BadInput, match="line 1"):
        Ledger(path)
    assert path.read_text() == '{"epoch": 1}\n'


def test_unwritable_folder_is_an_error_with_a_fix(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="cannot be written"):
        Ledger(tmp_path / "file" / "runs.jsonl")
