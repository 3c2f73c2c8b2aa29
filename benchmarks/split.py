"""Shares of CGO'17's kernels, predicted from its table: `python -m benchmarks.split`.

680 runs of 256 kernels on a CPU and on each of two GPUs. A share is derived from the two times alone; no split was run.
Random rows leak: 546 rows have another row of their kernel. With programs held out, the time over that of the best share counts;
there the training programs' rows of the other GPU are known too, as to a host with both.

In both, the form of the model is chosen for each fold by folds inside its training rows; the rows that it is judged by take no
part. Judged beside it is one form for all folds: all columns of the table, and for held-out programs the product's model.
"""

from __future__ import annotations

import csv
import sys
from itertools import product

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import GroupKFold, StratifiedKFold

from gpuq.lab.public import folder
from gpuq.split.predict import LEAST_SHARE, best_share, log_loss, model_shares, pooled

COUNTS = ("comp", "rational", "mem", "localmem", "coalesced", "atomic", "transfer", "wgsize", "src_chars")
NAMES = ("suite", "benchmark", "dataset")
TREES, INNER_FOLDS = 100, 4
LEAF_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


def tables(rows):
    """Counts, as logarithms because trees' cuts are even then; with the ratios of Grewe et al.; with numbers for the names."""
    raw = np.array([[float(row[name]) for name in COUNTS] for row in rows])
    comp, _, mem, localmem, coalesced, _, transfer, wgsize, _ = raw.T
    ratios = np.stack(
        [transfer / np.maximum(1, comp + mem), coalesced / np.maximum(1, mem), localmem / np.maximum(1, mem) * wgsize],
        axis=1,
    )
    names = [np.unique([row[name] for row in rows], return_inverse=True)[1] for name in NAMES]
    return {
        "counts": np.log1p(raw),
        "counts, ratios": np.log1p(np.concatenate([raw, ratios], axis=1)),
        "all 12 columns": np.column_stack([np.log1p(raw), *names]),
    }


def by_rows(classes):
    return lambda rows, folds: StratifiedKFold(folds, shuffle=True, random_state=204).split(rows, classes[rows])


def by_programs(programs):
    return lambda rows, folds: GroupKFold(folds).split(rows, groups=programs[rows])


def nested(losses_of, forms, folds_of, count):
    """The loss of each row with the form that has the least mean loss in folds inside its training rows, and the forms chosen.

    `losses_of(form, training, test)`: the loss of each test row.
    """
    losses, chosen = np.zeros(count), []
    for training, test in folds_of(np.arange(count), 10):
        inner = [(training[one], training[other]) for one, other in folds_of(training, INNER_FOLDS)]
        means = [np.mean(np.concatenate([losses_of(form, *fold) for fold in inner])) for form in forms]
        chosen.append(forms[int(np.argmin(means))])
        losses[test] = losses_of(chosen[-1], training, test)
    return losses, max(chosen, key=chosen.count)


def folded(losses_of, form, folds_of, count):
    """The loss of each row with one form."""
    losses = np.zeros(count)
    for training, test in folds_of(np.arange(count), 10):
        losses[test] = losses_of(form, training, test)
    return losses


def random_rows(rows):
    """Accuracy of the better device, and the error of the share in points."""
    shares, mapping, _ = targets(rows)
    features = tables(rows)

    def is_wrong(table, training, test):
        trees = ExtraTreesClassifier(TREES, max_features=None, random_state=0, n_jobs=1)
        trees.fit(features[table][training], mapping[training])
        return trees.predict(features[table][test]) != mapping[test]

    def error(table, training, test):
        trees = ExtraTreesRegressor(TREES, random_state=0, n_jobs=1).fit(features[table][training], shares[training])
        found = medians(trees, features[table][training], shares[training], features[table][test])
        return 100 * np.abs(found - shares[test])

    fixed = [folded(losses, "all 12 columns", by_rows(mapping), len(rows)).mean() for losses in (is_wrong, error)]
    print(f"all 12 columns: accuracy {1 - fixed[0]:.3f}, share error {fixed[1]:.1f}", flush=True)
    wrong, classifier = nested(is_wrong, list(features), by_rows(mapping), len(rows))
    errors, regressor = nested(error, list(features), by_rows(mapping), len(rows))
    return {
        f"accuracy (most often {classifier})": f"{1 - wrong.mean():.3f}",
        f"share error (most often {regressor})": f"{errors.mean():.1f}",
    }


def medians(trees, known, shares, asked):
    """The median share in the leaves of each row asked, which has less absolute error than the mean."""
    leaves = trees.apply(known)
    weights = [(leaves == row) / (leaves == row).sum(axis=0) for row in trees.apply(asked)]
    order = np.argsort(shares)
    return np.array([shares[order][np.searchsorted(np.cumsum(one.mean(axis=1)[order]), 0.5)] for one in weights])


def held_out(rows, others):
    """Time over that of the best share, of the product's model and of a form that was chosen in the training rows."""
    shares, _, programs = targets(rows)
    features = tables(rows)
    both = ((rows, features, shares), (others, tables(others), targets(others)[0]))
    kept = {}

    def models(table, training, test):
        key = table, training.tobytes(), test.tobytes()
        if key not in kept:
            own, other = (
                {
                    (some[row]["benchmark"], some[row]["dataset"]): (found[table][row], share[row], programs[row])
                    for row in training
                }
                for some, found, share in both
            )
            asked = np.column_stack([features[table][test], np.zeros(len(test))])
            kept[key] = model_shares(*pooled(own, [other]), asked)
        return kept[key]

    def losses(form, training, test):
        table, weight = form
        found = [at_weight(one, weight) for one in models(table, training, test)]
        return np.array([log_loss(share, shares[row : row + 1])[0] for share, row in zip(found, test, strict=True)])

    forms = list(product(("counts", "counts, ratios"), LEAF_WEIGHTS))
    product_losses, inside = np.zeros(len(rows)), np.zeros(len(rows), bool)
    for training, test in by_programs(programs)(np.arange(len(rows)), 10):
        product_losses[test] = losses(("counts, ratios", 0.5), training, test)
        intervals = [one.interval for one in models("counts, ratios", training, test)]
        inside[test] = [low <= shares[row] <= high for row, (low, high) in zip(test, intervals, strict=True)]
    chosen_losses, form = nested(losses, forms, by_programs(programs), len(rows))
    return {
        "the product's: geo, p95": geo_and_p95(product_losses),
        "90% covers": f"{inside.mean():.2f}",
        f"chosen (most often {form}): geo, p95": geo_and_p95(chosen_losses),
    }


def at_weight(one, weight):
    """The share with the least expected loss for a weight of the leaves against the residuals; the model's own is a half."""
    leaves = np.arange(len(one.samples)) < len(one.samples) // 2
    return best_share(one.samples, one.weights * np.where(leaves, weight, 1 - weight), LEAST_SHARE)


def geo_and_p95(losses):
    return f"{np.exp(losses.mean()):.2f}, {np.quantile(np.exp(losses), 0.95):.1f}"


def targets(rows):
    """The CPU's share, whether the CPU is the better device, and the program of each row."""
    shares = np.array([float(row["cpu_share_pct"]) / 100 for row in rows])
    mapping = np.array([row["oracle"] == "CPU" for row in rows])
    return shares, mapping, np.array([row["benchmark"].rsplit("-", 1)[0] for row in rows])


KINDS = {"random rows (leaks)": lambda own, _: random_rows(own), "programs held out": held_out}


def main() -> int:
    kinds = sys.argv[1:] or list(KINDS)
    data = folder()
    if data is None:
        print("skipped: no measured data; set GPUQ_DATA to the folder that holds it")
        return 0
    with (data / "cgo17_devmap.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Both platforms have the same launches in the same order.
    amd, nvidia = ([row for row in rows if row["platform"] == platform] for platform in ("amd", "nvidia"))
    for platform, own, others in (("amd", amd, nvidia), ("nvidia", nvidia, amd)):
        for kind in kinds:
            found = KINDS[kind](own, others)
            print(
                f"{platform:<7}{kind:<21}" + "  ".join(f"{name} {value}" for name, value in found.items()), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
