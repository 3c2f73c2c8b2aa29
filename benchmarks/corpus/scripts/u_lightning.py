"""A regression network in PyTorch with options like Lightning's CLI: `fit --model.hidden_dim 64 --trainer.max_epochs 3`."""
import sys

import torch

options = {
    "model.hidden_dim": 256,
    "model.num_layers": 3,
    "data.batch_size": 64,
    "data.num_samples": 20000,
    "trainer.max_epochs": 2,
    "trainer.log_every_n_steps": 50,
    "optimizer.lr": 1e-3,
}
words = sys.argv[2:]
for key, value in zip(words[::2], words[1::2]):
    key = key.removeprefix("--")
    options[key] = type(options[key])(value)
width = options["model.hidden_dim"]
parts = [torch.nn.Linear(100, width), torch.nn.ReLU()]
for _ in range(options["model.num_layers"] - 1):
    parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
net = torch.nn.Sequential(*parts, torch.nn.Linear(width, 1))
adam = torch.optim.Adam(net.parameters(), lr=options["optimizer.lr"])
x = torch.randn(options["data.num_samples"], 100)
for epoch in range(options["trainer.max_epochs"]):
    for rows in torch.randperm(len(x)).split(options["data.batch_size"]):
        loss = (net(x[rows]) - x[rows].sum(1, keepdim=True)).pow(2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
