"""Why do they wait? Everybody who waits has a verdict; one is sent when it is the first, or when its rule is another.

A verdict that names a device stays as long as that device would say the same: that another one refused as well, first this time,
is no news. So what was said last is true, but for its numbers, which are those of the moment when it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from gpuq.core.scheduling.context import Board
from gpuq.core.state.actions import Hold
from gpuq.core.state.index import Likeness, likeness
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Verdict


def holds(board: Board, cause: int) -> Iterator[Hold]:
    """One Hold per new verdict, for all the jobs it is new for."""
    fresh: dict[Verdict, list[JobId]] = {}
    otherwise = board.nothing_open()
    stands: dict[tuple[Likeness, Verdict], bool] = {}
    for job in _to_tell(board, otherwise):
        if board.placed(job):
            continue
        like = likeness(job)
        memo = board.known.memos.get(like)
        own = board.known.never_fits(job) or board.kept_back.get(job.id)
        verdict = own or (memo and memo.reason) or _for_all_its_devices(job, otherwise)
        said = board.state.verdicts.get(job.id)
        if said is not None and said.rule is verdict.rule and said.device != verdict.device:
            if (like, said) not in stands:
                stands[like, said] = _stands(board, job, said)
            if stands[like, said]:
                continue
        if said is None or (said.rule, said.device) != (verdict.rule, verdict.device):
            fresh.setdefault(verdict, []).append(job.id)
    for verdict, jobs in fresh.items():
        yield Hold(tuple(jobs), verdict, cause)


def _to_tell(board: Board, otherwise: Verdict) -> Iterable[Job]:
    """Those who may have to hear something new; and from here on nobody is restless."""
    known, index = board.known, board.state.index
    board.renew_reasons()
    everybody = known.everybody or known.otherwise is not otherwise.rule
    restless = sorted(known.restless, key=repr)
    known.everybody, known.otherwise = False, otherwise.rule
    known.restless.clear()
    policys = sorted({*known.kept_back, *board.kept_back} & index.waiting.keys())
    known.kept_back = set(board.kept_back)
    if everybody:
        return list(index.waiting.values())
    groups = (group for like in restless for group in index.alike.get(like, {}).values())
    by_themselves = (index.waiting[job] for job in (*index.unsaid, *policys))
    told = {job.id: job for job in chain((job for group in groups for job in group.jobs), by_themselves)}
    return told.values()


def _stands(board: Board, job: Job, said: Verdict) -> bool:
    """Whether the device of an earlier verdict would say the same."""
    if said.device is None or said.device not in board.state.devices:
        return False
    verdict = board.judge(job, said.device)
    return not verdict.admitted and verdict.rule is said.rule


def _for_all_its_devices(job: Job, otherwise: Verdict) -> Verdict:
    """For a job on several devices: what it wants, beside what there is."""
    if job.device_count == 1:
        return otherwise
    return replace(otherwise, numbers=(("wanted_devices", job.device_count), *otherwise.numbers))
