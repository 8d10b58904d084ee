"""Trains the small digit classifier that onnxc ships from random weights, and writes it with its held-out images.

    python examples/train_digits.py [--out FOLDER] [--epochs 40] [--seed 1]

The network is an ONNX model; `onnxc.make_training` gives it a loss and Adam, `onnxc.compile_training` makes native code
of a step. The images are the 1,797 handwritten digits (8 x 8, 0 to 16) that come with scikit-learn; a quarter is held
out. Needs scikit-learn and onnx (extra `dev`).
"""

import argparse
import time
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import onnxc
from onnxc.compiler.trainer import Trainer

SPLIT_SEED = 7
BATCH = 64
LEARNING_RATE = 2e-3
SHAPES = {
    "conv1.weight": (8, 1, 3, 3), "conv1.bias": (8,), "conv2.weight": (16, 8, 3, 3), "conv2.bias": (16,),
    "dense1.weight": (256, 32), "dense1.bias": (32,), "dense2.weight": (32, 10), "dense2.bias": (10,),
}  # fmt: skip


def network() -> ModelProto:
    """pixels: f32[batch, 1, 8, 8] in [0, 16] -> probabilities: f32[batch, 10]; all weights are 0."""
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Div", ["pixels", "white"], ["x0"], "scale"),
        helper.make_node("Conv", ["x0", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **conv),
        helper.make_node("Relu", ["c1"], ["x1"], "relu1"),
        helper.make_node("Conv", ["x1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **conv),
        helper.make_node("Relu", ["c2"], ["x2"], "relu2"),
        helper.make_node("MaxPool", ["x2"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "dense1.weight", "dense1.bias"], ["d1"], "dense1"),
        helper.make_node("Relu", ["d1"], ["hidden"], "relu3"),
        helper.make_node("Gemm", ["hidden", "dense2.weight", "dense2.bias"], ["logits"], "dense2"),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    tensors = {"white": np.array(16, np.float32)} | {name: np.zeros(SHAPES[name], np.float32) for name in SHAPES}
    initializers = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "digits", [pixels], [probabilities], initializers)
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="examples/train_digits.py")


def accuracy(trainer: Trainer, images: np.ndarray, labels: np.ndarray) -> float:
    probabilities = trainer.evaluate({"pixels": images})["probabilities"]
    return float(np.mean(np.asarray(probabilities).argmax(axis=1) == labels))


def train(trainer: Trainer, images: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> None:
    """Steps over shuffled batches, with a learning rate that falls to 0."""
    random = np.random.default_rng(seed)
    trainer.initialize(seed)
    for epoch in range(epochs):
        rate = np.float32(LEARNING_RATE * (1 - epoch / epochs))
        order = random.permutation(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            trainer.step({"pixels": images[chosen], "labels": labels[chosen], "learning_rate": rate})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where digits.onnx and digits.npz are written; nowhere without it")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    split = train_test_split(images, digits.target, test_size=450, random_state=SPLIT_SEED, stratify=digits.target)
    train_images, held_images, train_labels, held_labels = split
    trainer = onnxc.compile_training(onnxc.make_training(network(), "cross_entropy", "adam"))
    start = time.perf_counter()
    train(trainer, train_images, train_labels, options.epochs, options.seed)
    print(f"trained:  {options.epochs} epochs in {time.perf_counter() - start:.1f} s")
    print(f"accuracy: {accuracy(trainer, train_images, train_labels):.2%} of {len(train_images)} images learned from,")
    print(f"          {accuracy(trainer, held_images, held_labels):.2%} of {len(held_images)} held out")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        trainer.save_model(options.out / "digits.onnx")
        checker.check_model(options.out / "digits.onnx", full_check=True)
        held = {"images": held_images, "labels": held_labels.astype(np.int64)}
        np.savez_compressed(options.out / "digits.npz", **held)


if __name__ == "__main__":
    main()
