"""Slurm's reasons why a job waits that time alone does not change, and what to do about each."""

from __future__ import annotations

import re

_WAITS_FOR_EVER = (
    (
        # Not `RunMinutes`, of which there are more once running jobs have ended.
        r"(Assoc|QOS)Grp((?!\w*RunMinutes)\w*Minutes|Wall)\w*",
        "Its account or QOS has no hours left: add a pool with another one, `gpuq pool add slurm ... -- --account=NAME`.",
    ),
    (
        r"InvalidAccount|InvalidQOS",
        "There is no such account or QOS for you any more; `sacctmgr show associations user=$USER` has those that there are: "
        "add a pool with one of them, `gpuq pool add slurm ... -- --account=NAME`.",
    ),
    (
        r"(Account|QOS)NotAllowed",
        "The partition does not take its account or QOS: add a pool with others, `-- --partition=NAME --account=NAME`.",
    ),
    (
        r"PartitionTimeLimit|(Assoc|QOS)MaxWall\w*",
        "The partition or the QOS ends jobs sooner: add a pool with less `--time` (`sinfo -o '%P %l'`).",
    ),
    (
        r"(Assoc|QOS)Max\w*Per(Job|Node)\w*|PartitionNodeLimit|BadConstraints|PartitionConfig|ReservationDeleted",
        "No such pilot can start: add a pool with less `--gpus`, or other options behind `--`.",
    ),
    (
        r"(Assoc|QOS)Min\w*",
        "The account or the QOS is for larger jobs: add a pool with more `--gpus`, or with another one behind `--`.",
    ),
    # A job whose start failed on its node waits in held state, with words in place of the reason.
    (
        r"JobHeld\w*|JobHoldMaxRequeue|.*\bheld\b.*",
        "It is held: `scontrol release ID` lets it start, or ask your site why they held it.",
    ),
)


def fix_of(reason: str) -> str | None:
    """Against a reason for which Slurm does not start a job, and which time alone does not change; None for others."""
    return next((fix for words, fix in _WAITS_FOR_EVER if re.fullmatch(words, reason)), None)
