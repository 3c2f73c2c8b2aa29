"""Shares of CGO'17's kernels, predicted from its table: `python -m benchmarks.split`.

680 runs of 256 kernels on a CPU and on each of two GPUs. A share is derived from the two times alone; no split was run.
Random rows leak: 546 rows have another row of their kernel. Judged by time over that of the best share.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import GroupKFold, StratifiedKFold

from gpuq.lab.public import folder
from gpuq.split.predict import best_share, log_loss, model_shares

COUNTS = ("comp", "rational", "mem", "localmem", "coalesced", "atomic", "transfer", "wgsize", "src_chars")
TREES = 200
LEAF_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
HALVES = 50


def table(rows):
    """The columns of the table and their ratios, as Grewe et al. use them; logarithms, because trees' cuts are then even."""
    raw = np.array([[float(row[name]) for name in COUNTS] for row in rows])
    comp, _, mem, localmem, coalesced, _, transfer, wgsize, _ = raw.T
    ratios = np.stack(
        [transfer / np.maximum(1, comp + mem), coalesced / np.maximum(1, mem), localmem / np.maximum(1, mem) * wgsize],
        axis=1,
    )
    return np.log1p(np.concatenate([raw, ratios], axis=1))


def folds_of(kind, mapping, programs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if kind == "random rows (leaks)":
        yield from StratifiedKFold(10, shuffle=True, random_state=204).split(mapping, mapping)
    else:
        yield from GroupKFold(10).split(mapping, mapping, programs)


def evaluate(rows, kind):
    """Accuracy of the better device, share error in points, and of time / ideal the geometric mean and the 95th percentile."""
    features = table(rows)
    shares = np.array([float(row["cpu_share_pct"]) / 100 for row in rows])
    mapping = np.array([row["oracle"] == "CPU" for row in rows])
    programs = np.array([row["benchmark"].rsplit("-", 1)[0] for row in rows])
    right = np.zeros(len(rows), bool)
    error, by_mean, by_loss, width = (np.zeros(len(rows)) for _ in range(4))
    inside = np.zeros(len(rows), bool)
    by_weight = np.zeros((len(LEAF_WEIGHTS), len(rows)))
    for training, test in folds_of(kind, mapping, programs):
        classes = ExtraTreesClassifier(TREES, max_features=None, random_state=0).fit(
            features[training], mapping[training]
        )
        right[test] = classes.predict(features[test]) == mapping[test]
        points = ExtraTreesRegressor(TREES, random_state=0).fit(features[training], shares[training])
        error[test] = 100 * np.abs(points.predict(features[test]) - shares[test])
        found = model_shares(features[training], shares[training], programs[training], features[test])
        for row, one in zip(test, found, strict=True):
            mean, (low, high) = np.average(one.samples, weights=one.weights), one.interval
            by_mean[row] = log_loss(mean, shares[row : row + 1])[0]
            by_loss[row] = log_loss(one.best()[0], shares[row : row + 1])[0]
            by_weight[:, row] = [log_loss(share, shares[row : row + 1])[0] for share in at_weights(one)]
            inside[row], width[row] = low <= shares[row] <= high, 100 * (high - low)
    return {
        "accuracy": f"{right.mean():.3f}",
        "share error": f"{error.mean():.1f}",
        "mean share: geo, p95": f"{np.exp(by_mean.mean()):.2f}, {np.quantile(np.exp(by_mean), 0.95):.1f}",
        "least loss: geo, p95": f"{np.exp(by_loss.mean()):.2f}, {np.quantile(np.exp(by_loss), 0.95):.1f}",
        "90% covers, points wide": f"{inside.mean():.2f}, {np.median(width):.0f}",
        "weight of leaves chosen on other programs: geo, p95": chosen_on_halves(by_weight, programs),
    }


def at_weights(one):
    """The share with the least expected loss for each weight of the leaves against the residuals; the model's own is a half."""
    leaves = np.arange(len(one.samples)) < len(one.samples) // 2
    for weight in LEAF_WEIGHTS:
        yield best_share(one.samples, one.weights * np.where(leaves, weight, 1 - weight))


def chosen_on_halves(losses, programs):
    """Choose the weight by the geometric mean on a random half of the programs, judge on the other half: medians over halves."""
    chance, names, found = np.random.default_rng(0), np.unique(programs), []
    for _ in range(HALVES):
        chosen = np.isin(programs, chance.permutation(names)[: len(names) // 2])
        best = losses[:, chosen].mean(axis=1).argmin()
        judged = losses[best, ~chosen]
        found.append((np.exp(judged.mean()), np.quantile(np.exp(judged), 0.95), LEAF_WEIGHTS[best]))
    geo, p95, weight = np.median(found, axis=0)
    return f"{geo:.2f}, {p95:.1f} (median weight {weight:g})"


def main() -> int:
    kinds = [kind for kind in ("random rows (leaks)", "programs held out") if not sys.argv[1:] or kind in sys.argv[1:]]
    data = folder()
    if data is None:
        print("skipped: no measured data; set GPUQ_DATA to the folder that holds it")
        return 0
    with (data / "cgo17_devmap.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for platform in ("amd", "nvidia"):
        for kind in kinds:
            found = evaluate([row for row in rows if row["platform"] == platform], kind)
            print(
                f"{platform:<7}{kind:<21}" + "  ".join(f"{name} {value}" for name, value in found.items()), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
