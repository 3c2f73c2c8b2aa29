"""The result of an evaluation: one plain dictionary for programs, and the table and verdict made from it for people.

docs/characterize.md lists the dictionary's keys. Unknown is None there and `-` in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpuq.lab.evaluate.answers import BUDGET, QUANTILE
from gpuq.lab.evaluate.baselines import PAIR_BASELINES, SINGLE_BASELINES
from gpuq.lab.evaluate.clean import CleanTables, clean
from gpuq.lab.evaluate.holdout import SEED, few_of_a_job, few_pairs, hold_out
from gpuq.lab.evaluate.judge import TARGETS, Method, PeakFigures, SlowdownFigures, judge_pairs, judge_singles
from gpuq.lab.evaluate.ours import ours
from gpuq.lab.measured import PairMeasurement, SingleMeasurement

Plain = dict[str, Any]
BASELINES: tuple[Method, ...] = (
    *(Method(name, pairs=fit) for name, fit in PAIR_BASELINES.items()),
    *(Method(name, utilization=fit, memory=fit) for name, fit in SINGLE_BASELINES.items()),
)
# figure -> its title, and whether more is better; None: neither, it is read beside another.
SLOWDOWN: Mapping[str, tuple[str, bool | None]] = {
    "n": ("n", None),
    "error_pct": ("error %", False),
    "median_error_pct": ("median %", False),
    "auc": ("AUC", True),
    "directed_auc": ("AUC each", True),
    "precision": ("precision", True),
    "recall": ("recall", True),
    "coverage_pct": ("coverage %", None),
    "coverage_chance": ("p", None),
    "overshoot": ("bound/truth", None),
}
PEAKS: Mapping[str, tuple[str, bool | None]] = {
    "n": ("n", None),
    "error": ("error", False),
    "coverage_pct": ("coverage %", None),
    "overshoot": ("bound/truth", None),
    "far_below_pct": ("far below %", False),
}
TITLES = {
    "slowdown": "slowdown",
    "utilization": "peak utilisation (error in points)",
    "memory": "peak memory (error in %)",
}
# The figures of the verdict. Precision and recall are left out: each alone says nothing.
_WEIGHED = (("slowdown", "error_pct"), ("slowdown", "auc"), ("utilization", "error"), ("memory", "error"))
# Figures within this share of each other count as equal: a repeated measurement differs by more.
_LEVEL = 0.01


def evaluate(
    singles: Sequence[SingleMeasurement],
    pairs: Sequence[PairMeasurement],
    way: str,
    methods: Sequence[Method] | None = None,
    seed: int = SEED,
    budget: float = BUDGET,
) -> Plain:
    """Refit without what is held out and judge at this budget. The first method is ours; None: gpuq and all baselines. Raises
    BadInput where `way` lacks its column."""
    methods = methods or (ours(budget), *BASELINES)
    table = clean(singles, pairs)
    held = hold_out(table, way, seed)
    by_group = judge_pairs(held.pairs, methods, budget)
    peaks = {target: judge_singles(held.singles, methods, target) for target in TARGETS}
    result: Plain = {
        "holdout": {"by": way, "how": held.how, "seed": seed},
        "singles": len(table.singles),
        "pairs": len(table.pairs),
        "budget": budget,
        **_of_each(methods, by_group.get(None, {}), peaks),
        "groups": [
            {"device_type": group[0], "sharing": group[1], **_of_each(methods, found, {})}
            for group, found in by_group.items()
            if group is not None
        ],
        "sparse": list(_sparse(methods, table, seed, budget)) if way == "pair" else [],
        "notes": [*table.notes, *_not_judged(table, by_group.get(None, {}))],
    }
    return {**result, "verdict": verdict(result)}


def verdict(result: Plain) -> str:
    """One sentence: in which figures gpuq is best, level with the best, or behind, and behind which baseline.

    A baseline that answered less than half of the questions that gpuq answered is not compared.
    """
    best, behind = [], []
    judged = 0
    for part, figure in _WEIGHED:
        more = (SLOWDOWN if part == "slowdown" else PEAKS)[figure][1]
        own = result[part][figure]
        others = {
            name: found[part][figure]
            for name, found in result["baselines"].items()
            if found[part][figure] is not None and 2 * found[part]["n"] >= result[part]["n"]
        }
        if own is None or not others:
            continue
        judged += 1
        name, other = (max if more else min)(others.items(), key=lambda item: item[1])
        label = f"{part} {'AUC' if figure == 'auc' else 'error'}"
        if (own - other) * (1 if more else -1) >= -_LEVEL * abs(other):
            best.append(label)
        else:
            behind.append(f"{label} ({_number(own)} against {_number(other)} of {name})")
    if not judged:
        return "Nothing could be judged: there is no figure that both gpuq and a baseline have an answer to."
    text = f"gpuq is level with or better than every baseline in {len(best)} of {judged} figures"
    return f"{text}; behind in {'; '.join(behind)}." if behind else f"{text} ({', '.join(best)})."


def lines(result: Plain) -> list[str]:
    """The dictionary of `evaluate` as lines of text."""
    text = [
        f"{result['singles']} singles, {result['pairs']} pairs. Held out: {result['holdout']['how']}.",
        "The best of each column is marked *. The bound is the 95% bound; p: how likely a valid one fails as often.",
        f"Pairs are to keep a slowdown budget of {result['budget']:g}.",
    ]
    for part, title in TITLES.items():
        if result[part]["n"] or any(found[part]["n"] for found in result["baselines"].values()):
            text += ["", title, *_table(result, part, SLOWDOWN if part == "slowdown" else PEAKS)]
            text += _narrowest(result) if part == "slowdown" else []
    if len(result["groups"]) > 1:
        for group in result["groups"]:
            text += ["", f"slowdown on {group['device_type']}, {group['sharing'] or 'sharing mode unknown'}"]
            text += _table(group, "slowdown", SLOWDOWN)
    for sparse in result["sparse"]:
        text += ["", f"slowdown, {sparse['how']}", *_table(sparse, "slowdown", SLOWDOWN)]
    if result["notes"]:
        text += ["", "notes", *(f"  - {note}" for note in result["notes"])]
    return [*text, "", result["verdict"]]


def _of_each(
    methods: Sequence[Method], pairs: Mapping[str, SlowdownFigures], peaks: Mapping[str, Mapping[str, PeakFigures]]
) -> Plain:
    """Our figures, and under `baselines` those of each other method with the same keys."""
    found = {
        method.name: {
            "slowdown": asdict(pairs.get(method.name) or SlowdownFigures(0)),
            **{
                target: asdict(peaks[target].get(method.name) or PeakFigures(0))
                for target in TARGETS
                if target in peaks
            },
        }
        for method in methods
    }
    ours = found.pop(methods[0].name)
    return {**ours, "baselines": found}


def _sparse(methods: Sequence[Method], table: CleanTables, seed: int, budget: float) -> Iterator[Plain]:
    """Figures with few pairs known: a fifth of all, and three of one job."""
    for held in (few_pairs(table, seed), few_of_a_job(table, seed)):
        if held.pairs:
            yield {"how": held.how, **_of_each(methods, judge_pairs(held.pairs, methods, budget)[None], {})}


def _not_judged(table: CleanTables, pairs: Mapping[str, SlowdownFigures]) -> Iterator[str]:
    """Notes on why figures are missing."""
    if not table.pairs:
        yield "no pairs: slowdowns are not judged"
    elif not any(found.n for found in pairs.values()):
        yield "no pair could be held out while others stay known: slowdowns are not judged"
    if table.pairs and not any(pair.a.utilization_pct is not None for pair in table.pairs):
        yield "no utilisation of the paired jobs is known: the rule has no answer, and pairs alone must do"
    if not any(single.utilization_pct is not None for single in table.singles):
        yield "no single has utilization_pct: peak utilisation is not judged"
    if not any(single.peak_memory_mib is not None for single in table.singles):
        yield "no single has peak_memory_mib: peak memory is not judged"


def _table(result: Plain, part: str, columns: Mapping[str, tuple[str, bool | None]]) -> list[str]:
    rows = {
        "gpuq": result[part],
        **{name: found[part] for name, found in result["baselines"].items() if found[part]["n"]},
    }
    best = {figure: _best([row[figure] for row in rows.values()], more) for figure, (_, more) in columns.items()}
    cells = [["", *(title for title, _ in columns.values())]]
    for name, row in rows.items():
        cells.append([name, *(_marked(row[figure], best[figure]) for figure in columns)])
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    return [
        "  "
        + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in cells
    ]


def _narrowest(result: Plain) -> list[str]:
    """Which bound of slowdowns is the narrowest of those whose coverage is consistent with what they promise."""
    found = {"gpuq": result["slowdown"], **{name: of["slowdown"] for name, of in result["baselines"].items()}}
    valid = {
        name: of["overshoot"] for name, of in found.items() if of["n"] and (of["coverage_chance"] or 0.0) > 1 - QUANTILE
    }
    if not valid:
        return ["  No bound holds as often as it promises."]
    name = min(valid, key=lambda name: valid[name])
    return [
        f"  The narrowest bound that holds as often as it promises (p above 0.05): {_number(valid[name])}, of {name}."
    ]


def _best(values: Sequence[float | None], more: bool | None) -> float | None:
    known = [value for value in values if value is not None]
    return None if more is None or not known else (max if more else min)(known)


def _marked(value: float | None, best: float | None) -> str:
    mark = "*" if value is not None and best is not None and _number(value) == _number(best) else " "
    return _number(value) + mark


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
