"""Logistic regression on streamed data with scikit-learn; click for the options."""
import time

import click
import numpy as np
from sklearn.linear_model import SGDClassifier


@click.command()
@click.option("--n-features", default=2000)
@click.option("--n-samples", default=20_000, help="rows kept in memory")
@click.option("--batch-size", "batch", default=1000)
@click.option("--epochs", default=2)
@click.option("--alpha", default=1e-4)
@click.option("--random-state", default=0)
@click.option("--verbose/--quiet", default=False)
def train(n_features, n_samples, batch, epochs, alpha, random_state, verbose):
    rng = np.random.default_rng(random_state)
    x = rng.random((n_samples, n_features), dtype=np.float32)
    y = rng.integers(0, 2, n_samples)
    model = SGDClassifier(loss="log_loss", alpha=alpha, random_state=random_state)
    for epoch in range(epochs):
        started = time.time()
        for start in range(0, n_samples, batch):
            model.partial_fit(x[start : start + batch], y[start : start + batch], classes=[0, 1])
        if verbose:
            click.echo(f"{epoch}: {time.time() - started:.2f}s")


if __name__ == "__main__":
    train()
