"""Has a job's memory levelled off, so that its peak so far says what such jobs need?

The peak is followed from the first training step on. It is level once it has risen by less than GROWTH over at least the
later half of the time and of the steps since then, and over some minutes and LEAST_STEPS steps. The later half makes the
rule independent of how long a step or an epoch takes, and finds slow growth: memory that grows steadily counts as level no
more once it is one GROWTH higher. A later phase may always need more (the first validation, a larger batch), which no rule
can exclude, so forecasts allow for it (`gpuq.learn.statistics.RUNNING_MEMORY`). A job whose steps are not counted never
counts as level: nothing tells its preparation from its training.
"""

from __future__ import annotations

from dataclasses import dataclass

GROWTH = 0.01
"""Rises of less are the allocator's and the reading's own."""
LEAST_STEPS = 100


@dataclass(slots=True)
class MemoryLevel:
    """The peak as of its last considerable rise, and when that was: seconds and steps since the first step."""

    peak_bytes: int = 0
    rose_s: float = 0.0
    rose_steps: int = 0

    def look(self, peak_bytes: int, age_s: float, steps: int) -> None:
        """Take in the highest memory so far, at this age."""
        if peak_bytes > self.peak_bytes * (1 + GROWTH):
            self.peak_bytes, self.rose_s, self.rose_steps = peak_bytes, age_s, steps

    def level_s(self, age_s: float, steps: int, least_s: float) -> float | None:
        """For how many seconds the peak has been level; None while it is not, or for less than `least_s`."""
        since_s, since_steps = age_s - self.rose_s, steps - self.rose_steps
        is_level = since_s >= max(least_s, self.rose_s) and since_steps >= max(LEAST_STEPS, self.rose_steps)
        return since_s if self.peak_bytes and is_level else None
