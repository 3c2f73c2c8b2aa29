"""The card that goes with a model version: what it was made from, how it was judged, what it holds.

Arrives: the model, the judgement and how the attempts were split. Leaves: a dictionary for machines and Markdown for
people; `{version}` in the text stands for the version, which the shelf gives.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from gpuq.learn.model import Model
from gpuq.learn.score import Judgement


def card(model: Model, judgement: Judgement, *, held_out: int, at: float, previous: str | None) -> dict[str, Any]:
    """The card's values. `held_out` counts attempts, `at` is Unix seconds."""
    return {
        "made_at": at,
        "previous": previous,
        "attempts": model.attempts,
        "held_out": held_out,
        "trained_until": model.trained_until,
        "quantile": model.quantile,
        "reason": judgement.reason,
        "figures": {
            "candidate": msgspec.to_builtins(judgement.candidate),
            "serving": msgspec.to_builtins(judgement.serving),
        },
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


def card_text(values: dict[str, Any]) -> str:
    """The card as Markdown."""
    made = datetime.fromtimestamp(values["made_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        "# Model {version}",
        "",
        f"Made {made} from {values['attempts']} finished attempts, judged on {values['held_out']} later ones against "
        f"{values['previous'] or 'no model'}: {values['reason']}.",
        "",
        "| figure | candidate | serving |",
        "|---|---|---|",
    ]
    candidate, serving = values["figures"]["candidate"], values["figures"]["serving"]
    lines += [f"| {name} | {_shown(candidate[name])} | {_shown(serving[name])} |" for name in candidate]
    lines += ["", "| device type | kinds in the cluster | peak utilisation up to | memory up to |", "|---|---|---|---|"]
    for device_type, clusters in values["clusters"].items():
        lines += [
            f"| {device_type.replace('|', ' ')} | {found['kinds']} | {found['utilization_upper_pct']:.0f}% "
            f"| {found['memory_upper_bytes'] / 2**30:.2f} GiB |"
            for found in clusters
        ]
    factors = ", ".join(f"{level} {factor:.3f}" for level, factor in values["calibration"].items())
    return "\n".join([*lines, "", f"Memory bounds are multiplied by: {factors}.", ""])


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
