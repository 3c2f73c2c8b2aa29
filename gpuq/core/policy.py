"""What a policy is: a function from the board of one pass to proposals, in the order it prefers them.

A policy may propose anything; `admit` has the last word, so no policy can promise memory twice. A policy that is a
generator sees the board change as its proposals are admitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuq.core.board import Board
from gpuq.core.device import Device
from gpuq.core.job import Job


@dataclass(frozen=True, slots=True)
class Proposal:
    """This job on these devices, all or nothing."""

    job: Job
    devices: tuple[Device, ...]


class Policy(Protocol):
    """Proposes; never disposes."""

    def __call__(self, board: Board) -> Iterator[Proposal]:
        """Proposals, best first."""
        ...


def propose_nothing(board: Board) -> Iterator[Proposal]:  # noqa: ARG001 - it is a policy
    """The policy of a gpuq that is about to end its jobs: nothing new starts."""
    return iter(())
