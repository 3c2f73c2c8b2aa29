#!/usr/bin/env python
"""Incremental principal components with scikit-learn."""
import os

import numpy as np
from sklearn.decomposition import IncrementalPCA

N = int(os.environ["N_ROWS"])
F = int(os.environ.get("N_FEATURES", "300"))
C = int(os.environ.get("N_COMPONENTS", "20"))
B = int(os.environ.get("BATCH", "1000"))
PASSES = int(os.environ.get("N_PASSES", "2"))
RUN = os.environ.get("RUN_NAME", "first")
x = np.random.default_rng(0).standard_normal((N, F), dtype=np.float32)
pca = IncrementalPCA(n_components=C)
for p in range(PASSES):
    for i in range(0, N, B):
        if len(x[i : i + B]) >= C:
            pca.partial_fit(x[i : i + B])
print(RUN, pca.explained_variance_ratio_[:3])
