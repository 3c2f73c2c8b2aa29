"""Random features for kernel regression, NumPy; click with short options."""
import click
import numpy as np


@click.command(context_settings={"show_default": True})
@click.option("-n", "--points", default=20000)
@click.option("-m", "--random-features", default=400)
@click.option("-d", "--dimension", default=20)
@click.option("--sweeps", default=12)
@click.option("--block", default=2000)
@click.option("--ridge", default=1e-3)
@click.option("--plot/--no-plot", default=False)
def main(points, random_features, dimension, sweeps, block, ridge, plot):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((points, dimension))
    y = np.sin(x.sum(1))
    w = rng.standard_normal((dimension, random_features))
    b = rng.random(random_features) * 6.28
    gram = np.zeros((random_features, random_features))
    right = np.zeros(random_features)
    for _ in range(sweeps):
        for i in range(0, points, block):
            phi = np.cos(x[i : i + block] @ w + b)
            gram += phi.T @ phi
            right += phi.T @ y[i : i + block]
    theta = np.linalg.solve(gram + ridge * np.eye(random_features), right)
    print(float(np.abs(theta).mean()))


main()
