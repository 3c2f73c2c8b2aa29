"""Images made on the fly, or all kept in memory with --cache."""
import argparse

import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--num-images", type=int, default=1500)
ap.add_argument("--resolution", type=int, default=96)
ap.add_argument("--cache", action="store_true", help="keep decoded images in memory")
ap.add_argument("--workers", type=int, default=1)
ap.add_argument("--epochs", type=int, default=2)
ap.add_argument("--batch-size", type=int, default=50)
ap.add_argument("--print-freq", type=int, default=10)
args = ap.parse_args()


def load(i):
    return np.random.default_rng(i).random((args.resolution, args.resolution, 3), dtype=np.float32)


store = {}
w = np.zeros((args.resolution * args.resolution * 3, 10), np.float32)
for epoch in range(args.epochs):
    for start in range(0, args.num_images, args.batch_size):
        images = []
        for i in range(start, min(start + args.batch_size, args.num_images)):
            image = store[i] if i in store else load(i)
            if args.cache:
                store[i] = image
            images.append(image.ravel())
        x = np.stack(images)
        p = x @ w
        w -= 1e-4 * (x.T @ (p - 0.1)) / len(x)
        if start // args.batch_size % args.print_freq == 0:
            print(epoch, start, float(np.abs(p).mean()))
