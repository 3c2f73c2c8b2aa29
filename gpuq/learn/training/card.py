"""The card of a model version: what it was made from, how it was judged, what it holds.

A dictionary for programs, Markdown and one HTML page for people, with the plots beside them. `{version}` in the texts stands
for the version, which is known when the shelf publishes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gpuq.document import render
from gpuq.format import UNKNOWN, gib, percent
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.history.quarantine import TrainingSet
from gpuq.learn.serving.model import Model
from gpuq.learn.training import plots
from gpuq.learn.training.score import Judgement, ScoredForecast

_SHARES = {"answered_share", "memory_under_share", "slowdown_error", "slowdown_under_share"}
Table = tuple[list[str], list[list[str]]]


def card(
    model: Model,
    judgement: Judgement,
    attempts: TrainingSet,
    *,
    held_out: Sequence[Outcome],
    at: float,
    previous: str | None,
) -> dict[str, Any]:
    """The card's values. `at` is Unix seconds."""
    outcomes = attempts.outcomes
    return {
        "made_at": at,
        "previous": previous,
        "attempts": model.attempts,
        "held_out": len(held_out),
        "trained_until": model.trained_until,
        "quantile": model.quantile,
        "reason": judgement.reason,
        "data": {
            "kinds": len({outcome.kind for outcome in outcomes}),
            "owners": len({outcome.owner for outcome in outcomes}),
            "device_types": dict(sorted(Counter(outcome.device_type for outcome in outcomes).items())),
            "from": outcomes[0].ended_at,
            "until": outcomes[-1].ended_at,
            "left_out": dict(attempts.left_out),
            "misdated": attempts.misdated,
        },
        "figures": {
            "candidate": msgspec.to_builtins(judgement.candidate),
            "serving": msgspec.to_builtins(judgement.serving),
        },
        "guards": msgspec.to_builtins(judgement.guards),
        "calibration": msgspec.to_builtins(model.calibration),
        "clusters": {
            device_type: [
                {
                    "kinds": len(cluster.members),
                    "utilization_upper_pct": cluster.utilization_upper_pct,
                    "memory_upper_bytes": cluster.memory_upper_bytes,
                }
                for cluster in clusters
            ]
            for device_type, clusters in model.clusters.items()
        },
    }


def card_files(values: dict[str, Any], rows: Sequence[ScoredForecast]) -> dict[str, bytes]:
    """`card.md`, `card.html` and the plots. Without matplotlib there are no plots, and the page says so."""
    try:
        images, missing = plots.draw(rows, values["quantile"]), None
    except ImportError as error:
        images, missing = {}, f"Not drawn: {error}. The `train` extra brings it."
    page = card_page(values, images, missing)
    return {"card.md": card_text(values).encode(), "card.html": page.encode(), **images}


def card_text(values: dict[str, Any]) -> str:
    """The card as Markdown."""
    lines = ["# Model {version}", "", _summary(values)]
    for title, (head, rows) in _tables(values):
        lines += ["", f"## {title}", "", _markdown_row(head), "|---" * len(head) + "|", *map(_markdown_row, rows)]
    return "\n".join([*lines, "", _calibration(values), ""])


def card_page(values: dict[str, Any], images: dict[str, bytes], missing: str | None = None) -> str:
    """The card as one HTML page that needs no other file."""
    return render(
        Path(__file__).with_name("card.html"),
        title="Model {version}",
        summary=_summary(values),
        images=images,
        missing=missing,
        tables=_tables(values),
        calibration=_calibration(values),
    )


def _summary(values: dict[str, Any]) -> str:
    made = _day(values["made_at"])
    return (
        f"Made {made} UTC from {values['attempts']} finished attempts, judged on {values['held_out']} later ones against "
        f"{values['previous'] or 'no model'}: {values['reason']}."
    )


def _tables(values: dict[str, Any]) -> list[tuple[str, Table]]:
    both = values["figures"]["candidate"], values["figures"]["serving"]
    previous, data = values["previous"] or "no model", values["data"]
    figures = [
        [name.replace("_", " ").replace("utilization", "utilisation"), *(_shown(name, each[name]) for each in both)]
        for name in values["figures"]["candidate"]
    ]
    guards = [
        [
            guard["name"],
            _shown("", guard["candidate"]),
            _shown("", guard["serving"]),
            str(guard["count"]),
            "stands against it"
            if guard["vetoes"]
            else f"passes ({guard['chance']:.0%})"
            if guard["count"]
            else "not measured",
        ]
        for guard in values["guards"]
    ]
    made_from = [
        ["attempts, judging ones included", str(values["attempts"] + values["held_out"])],
        ["kinds", str(data["kinds"])],
        ["owners", str(data["owners"])],
        ["types of device (attempts)", ", ".join(f"{name} ({n})" for name, n in data["device_types"].items())],
        ["ended", f"{_day(data['from'])} to {_day(data['until'])} UTC"],
        ["left out", ", ".join(f"{count} {reason}" for reason, count in data["left_out"].items()) or "none"],
        ["ordered by number, for their clock was wrong", str(data["misdated"])],
    ]
    clusters = [
        [device_type, str(one["kinds"]), percent(one["utilization_upper_pct"]), gib(one["memory_upper_bytes"])]
        for device_type, found in values["clusters"].items()
        for one in found
    ]
    guarded = ["guarded", "this model", previous, "attempts", "verdict (as bad by chance)"]
    return [
        ("How it did on attempts it had not seen", (["figure", "this model", previous], figures)),
        *([("What must not get worse", (guarded, guards))] if guards else []),
        ("What it was made from", (["what", "value"], made_from)),
        ("Clusters", (["type of device", "kinds in the cluster", "peak utilisation up to", "memory up to"], clusters)),
    ]


def _calibration(values: dict[str, Any]) -> str:
    factors = ", ".join(f"{level} {factor:.3f}" for level, factor in values["calibration"].items())
    return f"Memory bounds are multiplied by: {factors}."


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if name in _SHARES:
        return f"{value:.1%}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
