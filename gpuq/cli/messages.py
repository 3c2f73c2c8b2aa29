"""Sentences on verdicts and expected starts, shared by `show`, `explain` and `predict`.

The texts of verdicts are in `gpuq.messages.verdicts`.
"""

from __future__ import annotations

import time

from gpuq import format as fmt
from gpuq.cli.client import Record
from gpuq.messages.verdicts import WHAT_HELPS, calculation, sentence


def lines(verdict: Record) -> list[str]:
    """What settled it, with the numbers; then what would change it. Where this version has no calculation for the rule, the
    server's own sentence is shown."""
    rule, admitted, device = verdict["rule"], verdict["admitted"], fmt.device_name(verdict)
    found = calculation(rule, admitted, verdict["numbers"])
    if found is None:
        first = verdict.get("sentence") or sentence(rule, verdict["numbers"], device)
    else:
        where = f" on {device}" if device else ""
        first = found if admitted else f"{rule}{where}: {found}"
    helps = WHAT_HELPS.get(rule)
    return [fmt.clean(first), *([helps] if helps and not admitted else [])]


def expected_start(answer: Record) -> str:
    """When a waiting job probably starts."""
    found = fmt.expected_start(answer.get("expected_start"), time.time())
    return found or "unknown, there is no calibrated estimate yet"
