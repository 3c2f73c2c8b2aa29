"""A custom loop of Keras on PyTorch: the optimizer of Keras in the one, that of PyTorch in the other."""

import json

import keras
import numpy as np
import torch

keras.utils.set_random_seed(11)
x = torch.tensor(np.random.default_rng(11).random((16, 4), "f"))
y = x.sum(1, keepdim=True)
losses = []


def model():
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])


one, optimizer = model(), keras.optimizers.Adam(1e-2)
optimizer.build(one.trainable_variables)
for _ in range(100):
    loss = ((one(x) - y) ** 2).mean()
    one.zero_grad()
    loss.backward()
    with torch.no_grad():
        optimizer.apply([v.value.grad for v in one.trainable_weights], one.trainable_weights)
    losses.append(loss.item())
other = model()
theirs = torch.optim.Adam(other.parameters(), lr=1e-2)
for _ in range(50):
    loss = ((other(x) - y) ** 2).mean()
    theirs.zero_grad()
    loss.backward()
    theirs.step()
    losses.append(loss.item())
print(json.dumps({"steps": 150, "losses": losses}))
