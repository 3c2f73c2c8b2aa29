"""A graph network on a random graph, NumPy and SciPy."""
import argparse

import numpy as np
import scipy.sparse as sp

p = argparse.ArgumentParser()
p.add_argument("--num-nodes", type=int, default=20000)
p.add_argument("--avg-degree", type=int, default=10)
p.add_argument("--hidden-channels", type=int, default=64)
p.add_argument("--num-layers", type=int, default=2)
p.add_argument("--epochs", type=int, default=10)
p.add_argument("--lr", type=float, default=0.01)
p.add_argument("--log-dir", default="logs")
args = p.parse_args()
rng = np.random.default_rng(0)
edges = args.num_nodes * args.avg_degree
a = sp.csr_matrix(
    (np.full(edges, 1 / args.avg_degree, np.float32), (rng.integers(0, args.num_nodes, edges), rng.integers(0, args.num_nodes, edges))),
    shape=(args.num_nodes, args.num_nodes),
)
x = rng.standard_normal((args.num_nodes, 128), dtype=np.float32)
dims = [128] + [args.hidden_channels] * (args.num_layers - 1) + [16]
ws = [rng.standard_normal((i, o), dtype=np.float32) / np.float32(i**0.5) for i, o in zip(dims, dims[1:])]
at = a.T.tocsr()
for epoch in range(args.epochs):
    hs = [x]
    for w in ws:
        hs.append(np.maximum(a @ (hs[-1] @ w), 0))
    g = hs[-1] / args.num_nodes
    for i in reversed(range(len(ws))):
        g = at @ (g * (hs[i + 1] > 0))
        gw = hs[i].T @ g
        g = g @ ws[i].T
        ws[i] -= args.lr * gw
