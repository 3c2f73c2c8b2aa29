"""The network of the seed, a graph network over a kernel's program, on our own corpus: `python -m benchmarks.split_graph`.

Shares are the best static ones by the costs that `benchmarks.split_costs` measured. As in ProGraML a program is a graph of
instructions and values, with edges of control, data and calls in both directions; messages are summed by kind of edge (segment
sums), a gated unit takes them in. The readout sees the logarithms of work-items and group size too. Kernels are held out; each
pair of devices has models of its own, because shares do not transfer between pairs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

from benchmarks import split_costs
from gpuq.split import llvm_text
from gpuq.split.predict import log_loss, model_shares
from tests.split.corpus import CASES

tf = None  # `main` imports it: that takes seconds, and a test imports every benchmark
STORED = Path(__file__).parent.parent / "tests" / "split" / "corpus.ll"
KINDS = ("control", "data", "call")
WIDTH, STEPS, EPOCHS, FOLDS = 32, 4, 120, 6


def graph_of(function):
    """(a token for each node, edges by kind) of a function."""
    tokens, edges, values = [], {kind: [] for kind in KINDS}, {}

    def node(token):
        tokens.append(token)
        return len(tokens) - 1

    def value(name, token):
        if name not in values:
            values[name] = node(token)
        return values[name]

    first, last = {}, {}
    for kind, name in function.parameters:
        value(name, f"parameter {kind.split()[0]}")
    for label, block in function.blocks.items():
        for one in block.instructions:
            callee = re.search(r"@([\w.$]+)\(", one.text) if one.opcode == "call" else None
            at = node(one.opcode)
            first.setdefault(label, at)
            if label in last:
                edges["control"].append((last[label], at))
            last[label] = at
            if callee:
                edges["call"].append((at, value(callee[0], f"function {callee[1]}")))
            edges["data"] += [(value(name, "value"), at) for name in re.findall(r"%[-\w.$]+", one.text)]
            if one.result:
                edges["data"].append((at, value(one.result, "value")))
    for label, block in function.blocks.items():
        edges["control"] += [(last[label], first[after]) for after in block.successors if after in first]
    return tokens, edges


class Network:
    """A gated graph network and its readout: the logit of the first device's share for each graph."""

    def __init__(self, tokens):
        self.embedding = tf.keras.layers.Embedding(tokens, WIDTH)
        self.messages = [tf.keras.layers.Dense(WIDTH) for _ in range(2 * len(KINDS))]
        self.unit = tf.keras.layers.GRUCell(WIDTH)
        self.gate, self.content = tf.keras.layers.Dense(WIDTH, "sigmoid"), tf.keras.layers.Dense(WIDTH)
        self.hidden, self.logit = tf.keras.layers.Dense(WIDTH, "relu"), tf.keras.layers.Dense(1)

    def __call__(self, batch):
        nodes = start = self.embedding(batch["tokens"])
        count = tf.shape(nodes)[0]
        for _ in range(STEPS):
            heard = sum(
                tf.math.unsorted_segment_sum(tf.gather(layer(nodes), source), target, count)
                for layer, (source, target) in zip(self.messages, batch["edges"], strict=True)
            )
            nodes, _ = self.unit(heard, [nodes])
        both = tf.concat([nodes, start], axis=1)
        graphs = tf.math.unsorted_segment_mean(self.gate(both) * self.content(both), batch["graph"], batch["count"])
        return self.logit(self.hidden(tf.concat([graphs, batch["sizes"]], axis=1)))[:, 0]


def batch_of(graphs, sizes):
    """All graphs as one."""
    known = {token: number for number, token in enumerate(sorted({one for tokens, _ in graphs for one in tokens}))}
    starts = np.cumsum([0, *(len(tokens) for tokens, _ in graphs)])
    edges = []
    for kind in KINDS:
        pairs = [
            np.array(found[kind], np.int32).reshape(-1, 2) + start
            for (_, found), start in zip(graphs, starts, strict=False)
        ]
        source, target = np.concatenate(pairs).T
        edges += [(source, target), (target, source)]
    batch = {
        "tokens": np.array([known[one] for tokens, _ in graphs for one in tokens]),
        "edges": edges,
        "graph": np.repeat(np.arange(len(graphs)), np.diff(starts)),
        "count": len(graphs),
        "sizes": ((sizes - sizes.mean(axis=0)) / np.maximum(1e-6, sizes.std(axis=0))).astype(np.float32),
    }
    return batch, len(known)


def by_network(batch, tokens, shares, training):
    """Shares that a network predicts which was trained on some of the graphs."""
    tf.keras.utils.set_random_seed(0)
    network, optimizer = Network(tokens), tf.keras.optimizers.Adam(3e-3)
    wanted = tf.constant(shares[training], tf.float32)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            found = tf.sigmoid(tf.gather(network(batch), training))
            loss = tf.reduce_mean((found - wanted) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    network(batch)
    layers = [
        network.embedding,
        *network.messages,
        network.unit,
        network.gate,
        network.content,
        network.hidden,
        network.logit,
    ]
    variables = [one for layer in layers for one in layer.trainable_variables]
    optimizer.build(variables)
    for _ in range(EPOCHS):
        step()
    return tf.sigmoid(network(batch)).numpy()


def main() -> int:
    global tf  # noqa: PLW0603
    import tensorflow as tf

    functions = llvm_text.read(STORED.read_text()).functions
    cases = [case for case in CASES if case.name in (costs := split_costs.stored())]
    graphs = [graph_of(functions[f"k_{case.name}"]) for case in cases]
    features = np.array([(np.prod(case.size), np.prod(case.local), len(case.source)) for case in cases])
    features = np.log1p(features.astype(float))
    batch, tokens = batch_of(graphs, features[:, :2])
    for pair in sys.argv[1:] or split_costs.PAIRS:
        shares = np.array(
            [split_costs.best_static(split_costs.of_pair(costs[case.name], pair, 1.0))[0] for case in cases]
        )
        found = {name: np.zeros(len(shares)) for name in ("graph network", "table", "mean share")}
        for training, test in KFold(FOLDS, shuffle=True, random_state=0).split(shares):
            found["graph network"][test] = by_network(batch, tokens, shares, training)[test]
            models = model_shares(features[training], shares[training], training.astype(str), features[test])
            found["table"][test] = [one.best()[0] for one in models]
            found["mean share"][test] = shares[training].mean()
        for name, predicted in found.items():
            lost = np.exp([log_loss(one, shares[at : at + 1])[0] for at, one in enumerate(predicted)])
            print(
                f"{pair:<15}{len(shares)} kernels  {name:<15}error {100 * np.abs(predicted - shares).mean():.1f} points, "
                f"time / best: geometric mean {np.exp(np.log(lost).mean()):.2f}, p95 {np.quantile(lost, 0.95):.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
