import argparse

from torch import nn


class SmallNet(nn.Module):
    def __init__(self, hidden=10):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, hidden), nn.ReLU(), nn.Linear(hidden, 2))


def make_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=30)
    parser.add_argument("--bs", type=int, default=12)
    return parser
