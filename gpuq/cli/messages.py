"""Verdicts on the screen: what settled it, with the numbers, and what would change it. The texts are `gpuq.messages.verdicts`."""

from __future__ import annotations

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
