"""Which evidence there is for a kind that has no runs of its own, from the nearest to the farthest.

The tiers, best first:

- `sizes`: kinds of the same script and the same model (or none shown), so that only sizes and options differ;
- `template`: kinds of the same script with other models;
- `owner`: kinds of the same project, or of the same owner where the job has no project;
- `cluster`: the cluster of the most similar kinds (see `clusters`), of any owner; else kinds of its model's family.

All tiers are answered by the same regression, which weighs everything that is shared. The tier names the best of that
evidence, and each tier's bounds are calibrated apart, on rows left out so that they had no nearer evidence either. A job
without any tier runs alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from gpuq.learn.features.inputs import JobInputs, job_inputs
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.memory.clusters import ClusterIndex
from gpuq.learn.memory.regression import KindRow

TIERS = ("sizes", "template", "owner", "cluster")
# This many kinds of one owner or family are evidence for another one that shares nothing else.
LEAST_ALIKE = 3


@dataclass(frozen=True, slots=True)
class EvidenceTier:
    """The name of a tier (one of `TIERS`), and the evidence in words."""

    name: str
    evidence: str


@dataclass(slots=True)
class _Tally:
    kinds: int = 0
    runs: int = 0

    def __str__(self) -> str:
        return f"{_count(self.runs, 'run')} of {_count(self.kinds, 'kind')}"


class EvidenceTiers:
    """The evidence of one type of device, indexed for quick look-ups."""

    def __init__(self, rows: Sequence[KindRow], clusters: ClusterIndex | None) -> None:
        self._clusters = clusters
        self._tallies: dict[Hashable, _Tally] = {}
        for row in rows:
            for key in filter(None, (*_keys_or_none(row.inputs), row.inputs.family)):
                tally = self._tallies.setdefault(key, _Tally())
                tally.kinds += 1
                tally.runs += row.runs

    def tier(self, known: JobFeatures) -> EvidenceTier | None:
        """The tier at which a kind without runs is answered; None where nothing is similar."""
        job = job_inputs(known)
        sizes, template, owner = (None if key is None else self._tallies.get(key) for key in _keys_or_none(job))
        if sizes is not None:
            return EvidenceTier("sizes", f"script template, {sizes}{', the same model' if job.model else ''}")
        if template is not None:
            return EvidenceTier("template", f"script template, {template}")
        if owner is not None and owner.kinds >= LEAST_ALIKE:
            return EvidenceTier("owner", f"{_who(job).replace(':', ' ', 1)}, {owner}")
        match = None if self._clusters is None else self._clusters.place(known)
        if match is not None:
            found, nearest = match
            cluster = f"cluster of {_count(len(found.members), 'kind')}"
            return EvidenceTier("cluster", f"{cluster}, nearest {nearest.kind}, regressed in log batch")
        # Kinds whose models' names have the same words.
        family = self._tallies.get(job.family) if job.family else None
        if family is None or family.kinds < LEAST_ALIKE:
            return None
        words = " ".join(sorted(word.partition(":")[2] for word in job.family))
        return EvidenceTier("cluster", f"{_count(family.kinds, 'kind')} of the family {words}, regressed in log batch")


def groups_left_out(rows: Sequence[KindRow], tier: str) -> list[Hashable | None]:
    """Per row, the group without which it would be answered at this tier; None where nothing would remain.

    At `sizes` a row is judged without itself; at `template` without its model; at `owner` without its script; at `cluster`
    without its owner, or without its script where there is one owner only.
    """
    keys = [_keys_or_none(row.inputs) for row in rows]
    own: list[Hashable] = list(range(len(rows)))
    script = [key[1] or place for place, key in zip(own, keys, strict=True)]
    who = [key[2] or place for place, key in zip(own, keys, strict=True)]
    group = {
        "sizes": own,
        "template": [key[0] or place for place, key in zip(own, keys, strict=True)],
        "owner": script,
        "cluster": who if len(set(who)) > 1 else script,
    }[tier]
    within = [""] * len(rows) if tier == "cluster" else [key[TIERS.index(tier)] for key in keys]
    together: dict[Hashable, set[Hashable]] = {}
    for inside, left in zip(within, group, strict=True):
        together.setdefault(inside, set()).add(left)
    return [
        left if inside is not None and len(together[inside]) > 1 else None
        for inside, left in zip(within, group, strict=True)
    ]


def _keys_or_none(job: JobInputs) -> tuple[Hashable | None, Hashable | None, Hashable | None]:
    """The keys that kinds of the tiers sizes, template and owner share with this job; None where it has no such key."""
    who = _who(job)
    script = (who, job.script) if job.script else None
    model = None if script is None else (*script, job.model)
    return model, script, who or None


def _who(job: JobInputs) -> str:
    """The project, or else the owner, as a token; empty for none."""
    return max(job.owner, default="")  # "project:" comes after "owner:"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
