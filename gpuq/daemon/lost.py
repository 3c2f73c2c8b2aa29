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

    def __init__(self, keys: HostKeys, wait_s: float) -> None:
        """After a loss the reports of hosts are waited for, for `wait_s`: the record may have lost hosts, too."""
        self._keys = keys
        self._wait_s = wait_s
        self._compared = False
        self._launch_at = float("-inf")
        self._has_marked = False
        self.is_shared = False
        """Whether another gpuq was seen to write to the same database of Redis. Each of the two takes messages of the other."""
        self._found = False
        self._sentences: dict[str | None, list[str]] = defaultdict(list)

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
            f"the record lacks its journal entries {seq + 1} to {mark.seq}, which were committed in epoch {mark.epoch}: its "
            "database was replaced by one without them",
        )
        if mark.last_job > last_job:
            jobs = (
                f"job {mark.last_job}" if mark.last_job == last_job + 1 else f"jobs {last_job + 1} to {mark.last_job}"
            )
            self.note(f"{jobs} had been submitted, and the record lost them: submit them again")

    async def mark(self, stream: Stream, mark: CommitMark) -> None:
        """Write the mark of a commit, before any order that follows from it is sent.

        Raises Unreachable, also while `compare` has had no answer: it is to read the mark of an earlier dispatcher, which this
        would replace.
        """
        if not self._compared:
            raise Unreachable("The mark of the last dispatcher's last commit was not read yet.")
        # Also where nothing was committed: Redis may have lost the mark.
        replaced = await stream.set_committed(self._keys.sealed_mark(mark))
        # The first one replaces that of an earlier dispatcher, which may have had another key.
        is_foreign = self._has_marked and replaced is not None and self._keys.genuine_mark(replaced) is None
        self._has_marked = True
        if is_foreign and not self.is_shared:
            message = "another gpuq uses the same database of Redis, and each takes messages of the other"
            log.error(message, extra={"action": "share_redis"})
            self.is_shared = True

    def may_launch(self, now: float) -> bool:
        """Whether the mark was compared and, after a loss, hosts had the time to report what runs on them."""
        return self._compared and now >= self._launch_at

    def note_events(self, host: str, numbers: range) -> None:
        """The record lacks the events of a host with these numbers, which were acknowledged to it."""
        which = f"events {numbers[0]} to {numbers[-1]} of host {host}"
        self.note(f"{which} had been committed, and the record lost them: the host sends them again", host)

    def note(self, sentence: str, host: str | None = None) -> None:
        """Log a loss, and keep it; `host` names the one that it is about, if it is about one."""
        log.error("%s", sentence, extra={"action": "lost"})
        self._found = True
        self._sentences[host] = [*self._sentences[host], sentence][-_SENTENCES_KEPT:]

    def of(self, host: str) -> tuple[str, ...]:
        """What was lost on this host, and in the record as a whole, the latest last."""
        return (*self._sentences.get(None, ()), *self._sentences.get(host, ()))

    def renumbering(self, state: State) -> WentBack | None:
        """The event to apply after the first loss that was found; None without one."""
        if not self._found:
            return None
        self._found = False
        return WentBack(state.first_attempt + _NUMBERS_SKIPPED)
