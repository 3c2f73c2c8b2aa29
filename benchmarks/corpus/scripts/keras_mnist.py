"""A small convolutional network with Keras on images made up here."""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
from keras import layers


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--filters", type=int, default=16)
    ap.add_argument("--img-size", type=int, default=28)
    ap.add_argument("-b", "--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--train-size", type=int, default=640)
    ap.add_argument("--dropout", type=float, default=0.5)
    ap.add_argument("--run-name", default="mnist")
    args = ap.parse_args()
    x = np.random.rand(args.train_size, args.img_size, args.img_size, 1).astype("float32")
    y = np.random.randint(0, 10, args.train_size)
    model = keras.Sequential(
        [
            layers.Input((args.img_size, args.img_size, 1)),
            layers.Conv2D(args.filters, 3, activation="relu"),
            layers.Conv2D(args.filters * 2, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(args.dropout),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=0)


if __name__ == "__main__":
    main()
