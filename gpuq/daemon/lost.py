"""What the record has lost: its database was replaced by a copy without the last commits, such as a replica that was promoted.

Two things outlive the record. Redis has the mark of the last commit, which the leader writes before it sends the orders that
follow from it. Each host has the number of the last event that was acknowledged to it, and sends those that the record lacks once
more. What runs on a host without being in the record is ended (`unrecorded.py`).

After a loss, new attempts get numbers that no host has seen. So nothing that a host still has of a lost attempt is taken for a
later one of the same job, or of another job with the same id.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from gpuq.adapters.redis.stream import Stream
from gpuq.core.state.events import WentBack
from gpuq.core.state.state import State
from gpuq.errors import Unreachable
from gpuq.messages.wire import CommitMark, HostKeys

log = logging.getLogger(__name__)

# More than any job has attempts.
_NUMBERS_SKIPPED = 1000
_SENTENCES_KEPT = 20


class LostCommits:
    """Finds out what was lost, and keeps one sentence about each loss. Nothing is to be launched until `may_launch`: what was
    lost may be running."""

    def __init__(self, keys: HostKeys, hosts: Iterable[str], wait_s: float) -> None:
        """`hosts`: those that the record has. After a loss their reports are waited for, for at most `wait_s`."""
        self._keys = keys
        self._awaited = frozenset(hosts)
        self._wait_s = wait_s
        self._compared = False
        self._launch_at = float("-inf")
        self._marked: CommitMark | None = None
        self._found = False
        self.sentences: dict[str, list[str]] = defaultdict(list)
        """By host, the latest last."""

    async def compare(self, stream: Stream, seq: int, last_job: int, now: float) -> None:
        """Compare the record with the mark in Redis, once: `seq` and `last_job` are the record's."""
        if self._compared:
            return
        try:
            raw = await stream.committed()
        except Unreachable as error:
            log.warning("the mark of the last commit: %s", error.message, extra={"action": "compare"})
            return
        self._compared = True
        mark = self._keys.genuine_mark(raw or b"")
        if mark is None or mark.seq <= seq:
            return
        self._launch_at = now + self._wait_s
        self.note(
            self._awaited,
            f"the record lacks its journal entries {seq + 1} to {mark.seq}, which were committed in epoch {mark.epoch}: its "
            "database was replaced by one without them",
        )
        if mark.last_job > last_job:
            jobs = (
                f"job {mark.last_job}" if mark.last_job == last_job + 1 else f"jobs {last_job + 1} to {mark.last_job}"
            )
            self.note(self._awaited, f"{jobs} had been submitted, and the record lost them: submit them again")

    async def mark(self, stream: Stream, mark: CommitMark) -> None:
        """Write the mark of a commit, before any order that follows from it is sent.

        Raises Unreachable, also while `compare` has had no answer: it is to read the mark of an earlier dispatcher, which this
        would replace.
        """
        if not self._compared:
            raise Unreachable("The mark of the last dispatcher's last commit was not read yet.")
        if mark != self._marked:
            await stream.set_committed(self._keys.sealed_mark(mark))
            self._marked = mark

    def may_launch(self, state: State, now: float) -> bool:
        """Whether the mark was compared and, after a loss, all hosts have reported what runs on them, or are not heard."""
        return self._compared and (now >= self._launch_at or self._awaited <= state.hosts.keys())

    def note_events(self, host: str, numbers: range) -> None:
        """The record lacks the events of a host with these numbers, which were acknowledged to it."""
        which = f"events {numbers[0]} to {numbers[-1]} of host {host}"
        self.note([host], f"{which} had been committed, and the record lost them: the host sends them again")

    def note(self, hosts: Collection[str], sentence: str) -> None:
        """Log a loss, and keep it for these hosts."""
        log.error("%s", sentence, extra={"action": "lost"})
        self._found = True
        for host in hosts:
            self.sentences[host] = [*self.sentences[host], sentence][-_SENTENCES_KEPT:]

    def renumbering(self, state: State) -> WentBack | None:
        """The event to apply after the first loss that was found; None without one."""
        if not self._found:
            return None
        self._found = False
        return WentBack(state.first_attempt + _NUMBERS_SKIPPED)
