"""A multilayer perceptron in NumPy."""
import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--log-interval", type=int, default=50)
parser.add_argument("--save-model", action="store_true")
args = parser.parse_args()

rng = np.random.default_rng(args.seed)
sizes = [784] + [args.hidden] * args.layers + [10]
weights = [rng.normal(0, a**-0.5, (a, b)).astype(np.float32) for a, b in zip(sizes, sizes[1:])]
first = [np.zeros_like(w) for w in weights]
second = [np.zeros_like(w) for w in weights]
x = rng.random((4000, 784), dtype=np.float32)
y = rng.integers(0, 10, 4000)
step = 0
for epoch in range(args.epochs):
    order = rng.permutation(len(x))
    for start in range(0, len(x), args.batch_size):
        rows = order[start : start + args.batch_size]
        outputs = [x[rows]]
        for w in weights[:-1]:
            outputs.append(np.maximum(outputs[-1] @ w, 0))
        logits = outputs[-1] @ weights[-1]
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss = -np.log(p[np.arange(len(rows)), y[rows]] + 1e-9).mean()
        d = p
        d[np.arange(len(rows)), y[rows]] -= 1
        d /= len(rows)
        gradients = []
        for w, out in zip(reversed(weights), reversed(outputs)):
            gradients.insert(0, out.T @ d)
            d = (d @ w.T) * (out > 0)
        step += 1
        for w, g, m, v in zip(weights, gradients, first, second):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= args.lr * m / (np.sqrt(v) + 1e-8)
        if step % args.log_interval == 0:
            print(f"epoch {epoch} step {step} loss {loss:.4f}")
if args.save_model:
    np.savez("mlp.npz", *weights)
