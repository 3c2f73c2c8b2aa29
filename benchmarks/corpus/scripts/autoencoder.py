"""An autoencoder in NumPy; a YAML file has all its settings."""
import argparse

import numpy as np
import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--output", default="runs/ae")
args = parser.parse_args()
with open(args.config) as f:
    cfg = yaml.safe_load(f)

model, train = cfg["model"], cfg["training"]
rng = np.random.default_rng(cfg.get("seed", 0))
dims = [model["input_dim"], model["hidden_dim"], model["latent_dim"], model["hidden_dim"], model["input_dim"]]
ws = [rng.standard_normal((a, b), dtype=np.float32) * np.float32(a**-0.5) for a, b in zip(dims, dims[1:])]
data = rng.random((cfg["data"]["num_samples"], model["input_dim"]), dtype=np.float32)
velocity = [np.zeros_like(w) for w in ws]
for epoch in range(train["epochs"]):
    for i in range(0, len(data), train["batch_size"]):
        xs = [data[i : i + train["batch_size"]]]
        for w in ws:
            xs.append(np.tanh(xs[-1] @ w))
        d = (xs[-1] - xs[0]) / len(xs[0])
        for j in reversed(range(len(ws))):
            d = d * (1 - xs[j + 1] ** 2)
            g = xs[j].T @ d
            d = d @ ws[j].T
            velocity[j] = 0.9 * velocity[j] + g
            ws[j] -= train["lr"] * velocity[j]
