"""Clusters of a table that is read whole, with scikit-learn."""
from argparse import ArgumentParser

import numpy as np
from sklearn.cluster import MiniBatchKMeans


def get_args():
    p = ArgumentParser(description=__doc__)
    p.add_argument("-n", "--num-rows", type=int, default=60000)
    p.add_argument("-d", "--dim", type=int, default=64)
    p.add_argument("-k", "--clusters", type=int, default=20)
    p.add_argument("--chunk", type=int, default=2048)
    p.add_argument("--passes", type=int, default=2)
    p.add_argument("--double", action="store_true", help="64-bit floats")
    p.add_argument("--tag", default="")
    return p.parse_args()


a = get_args()
x = np.random.default_rng(0).standard_normal((a.num_rows, a.dim), dtype=np.float64 if a.double else np.float32)
km = MiniBatchKMeans(a.clusters, random_state=0, n_init=1)
for _ in range(a.passes):
    for i in range(0, len(x), a.chunk):
        km.partial_fit(x[i : i + a.chunk])
