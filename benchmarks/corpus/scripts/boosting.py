"""Histogram gradient boosting with scikit-learn, one early option after the other."""
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

options = dict(rows=30000, cols=40, max_iter=20, max_leaf_nodes=31, max_bins=255, seed=0)
i = 1
while i < len(sys.argv):
    options[sys.argv[i].lstrip("-")] = int(sys.argv[i + 1])
    i += 2
rng = np.random.default_rng(options["seed"])
X = rng.random((options["rows"], options["cols"]))
y = (X.sum(1) > options["cols"] / 2).astype(int)
model = HistGradientBoostingClassifier(
    max_iter=options["max_iter"], max_leaf_nodes=options["max_leaf_nodes"], max_bins=options["max_bins"], early_stopping=False
)
model.fit(X, y)
print(model.score(X[:1000], y[:1000]))
