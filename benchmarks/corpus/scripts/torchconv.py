"""A convolutional network, PyTorch, with settings in a JSON file that --set overrides."""
import argparse
import json

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--config")
ap.add_argument("--set", nargs="*", default=[])
ap.add_argument("--resume", default=None)
args = ap.parse_args()
cfg = json.load(open(args.config))
for one in args.set:
    k, v = one.split("=")
    cfg[k] = int(v)
layers, channels = [], 3
for i in range(cfg["depth"]):
    layers += [nn.Conv2d(channels, cfg["width"], 3, padding=1), nn.BatchNorm2d(cfg["width"]), nn.ReLU()]
    channels = cfg["width"]
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
sgd = torch.optim.SGD(net.parameters(), lr=cfg["lr"], momentum=0.9)
for epoch in range(cfg["epochs"]):
    for _ in range(3):
        x = torch.rand(cfg["batch_size"], 3, cfg["image_size"], cfg["image_size"])
        loss = nn.functional.cross_entropy(net(x), torch.randint(0, 10, (len(x),)))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
