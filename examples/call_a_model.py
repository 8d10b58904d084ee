"""Compiles a model and calls it: the digit classifier that comes with onnxc reads its first held-out images."""

from importlib.resources import files

import numpy as np

import onnxc


def main() -> None:
    data = files("onnxc") / "data"
    with (data / "digits.npz").open("rb") as file, np.load(file) as held_out:
        images, labels = held_out["images"], held_out["labels"]
    with (data / "digits.onnx").open("rb") as file:
        classify = onnxc.compile(file)
    print(*classify.inputs, *classify.outputs, sep="\n")
    probabilities = classify(images[:10])
    print("read:", probabilities.argmax(axis=1))
    print("true:", labels[:10])


if __name__ == "__main__":
    main()
