"""`python -m benchmarks.dry_run PYTHON`: dry runs of the 12 networks that SchedTune measured, judged with each network left out.

PYTHON has PyTorch and torchvision. What was counted is kept in `build/dry-run.json`, so that a second start only judges.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

from gpuq.cli.dry_run import dry_run
from gpuq.lab.public import folder as data_folder
from gpuq.lab.public.schedtune import trained
from gpuq.learn.memory.footprint import MIB, MeasuredPeak, fit, on_device, traced_terms

KEPT = Path("build/dry-run.json")
SCRIPT = Path(__file__).with_name("dry_run_script.py")
TOO_LOW = 0.9


def counted(python: str, cases: list[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for model, batch in cases:
        if f"{model} {batch}" not in found:
            one = dry_run([python, str(SCRIPT), model, batch], SCRIPT.parent, os.environ, 16 * 2**30)
            found[f"{model} {batch}"] = {
                "reserved_bytes": one.reserved_bytes,
                "convolution_bytes": one.convolution_bytes,
            }
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(found))
            print(model, batch, round(one.reserved_bytes / MIB), "MiB", flush=True)
    return found


def main(python: str) -> int:
    folder = data_folder()
    if folder is None:
        print("There is no measured public data here; GPUQ_DATA names its folder.")
        return 1
    rows = trained(folder)
    found = counted(python, sorted({(row.model, f"{row.batch_size:.0f}") for row in rows}))
    peaks = []
    for row in rows:
        terms = traced_terms({"traced": found[f"{row.model} {row.batch_size:.0f}"]})
        assert terms is not None
        peaks.append(
            (row.model, MeasuredPeak(replace(terms, name=row.model), row.device_type, row.peak_memory_mib * MIB))
        )
    points, bounds = [], []
    for model in sorted({model for model, _ in peaks}):
        coefficients = fit([peak for other, peak in peaks if other != model], 0.95)
        for _, peak in (pair for pair in peaks if pair[0] == model):
            forecast = on_device(peak.parts, peak.device_type, coefficients)
            points.append(forecast.point / peak.peak_bytes)
            bounds.append(forecast.upper / peak.peak_bytes)
    print(f"{len(points)} rows, each network left out")
    print(f"median error {median(abs(ratio - 1) for ratio in points):.1%}")
    print(f"more than 10% too low {sum(ratio < TOO_LOW for ratio in points) / len(points):.1%}")
    print(f"bound: more than 10% too low {sum(ratio < TOO_LOW for ratio in bounds) / len(bounds):.1%}")
    print(
        f"bound holds {sum(ratio >= 1 for ratio in bounds) / len(bounds):.1%}, median {median(bounds):.2f} of the peak"
    )
    print(fit([peak for _, peak in peaks], 0.95))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
