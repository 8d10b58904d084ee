"""Trains the small digit classifier that onnxc ships, in plain NumPy, and writes it as ONNX with its held-out images.

    python examples/train_digits.py [--out onnxc/data] [--epochs 40]

The images are the 1,797 handwritten digits (8 x 8, 0 to 16) that come with scikit-learn; a quarter is held out. Needs
scikit-learn and onnx (extra `dev`).
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, checker, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Weights = dict[str, np.ndarray]
Saved = dict[str, np.ndarray]

SEED = 7
BATCH = 64
LEARNING_RATE = 2e-3
SHAPES = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "dense1": (256, 32), "dense2": (32, 10)}


def initial_weights(rng: np.random.Generator) -> Weights:
    """He-normal weights, zero biases."""
    weights: Weights = {}
    for name, shape in SHAPES.items():
        outputs = shape[0] if len(shape) == 4 else shape[1]
        fan_in = int(np.prod(shape)) // outputs
        weights[f"{name}.weight"] = rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(outputs, np.float32)
    return weights


def forward(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, Saved]:
    """x: f32[N, 1, 8, 8] in [0, 16] -> logits f32[N, 10], and what the backward pass needs."""
    saved: Saved = {"x0": x / 16}
    for i, name in enumerate(("conv1", "conv2")):
        saved[f"x{i + 1}"] = np.maximum(convolve(saved[f"x{i}"], weights[f"{name}.weight"], weights[f"{name}.bias"]), 0)
    n = len(x)
    tiles = saved["x2"].reshape(n, 16, 4, 2, 4, 2)
    saved["pooled"] = tiles.max(axis=(3, 5))
    saved["flat"] = saved["pooled"].reshape(n, -1)
    saved["hidden"] = np.maximum(saved["flat"] @ weights["dense1.weight"] + weights["dense1.bias"], 0)
    return saved["hidden"] @ weights["dense2.weight"] + weights["dense2.bias"], saved


def backward(weights: Weights, saved: Saved, d_logits: np.ndarray) -> Weights:
    """The gradient of the loss with respect to every weight."""
    gradients: Weights = {}
    gradients["dense2.weight"], gradients["dense2.bias"] = saved["hidden"].T @ d_logits, d_logits.sum(axis=0)
    d_hidden = (d_logits @ weights["dense2.weight"].T) * (saved["hidden"] > 0)
    gradients["dense1.weight"], gradients["dense1.bias"] = saved["flat"].T @ d_hidden, d_hidden.sum(axis=0)
    d_pooled = (d_hidden @ weights["dense1.weight"].T).reshape(saved["pooled"].shape)
    tiles = saved["x2"].reshape(len(d_pooled), 16, 4, 2, 4, 2)
    is_largest = tiles == saved["pooled"][:, :, :, None, :, None]
    d_x = (is_largest * d_pooled[:, :, :, None, :, None]).reshape(saved["x2"].shape)
    for i, name in ((1, "conv2"), (0, "conv1")):
        d_x = d_x * (saved[f"x{i + 1}"] > 0)
        gradients[f"{name}.bias"] = d_x.sum(axis=(0, 2, 3))
        gradients[f"{name}.weight"] = np.einsum("nmhw,nchwij->mcij", d_x, patches(saved[f"x{i}"]), optimize=True)
        flipped = weights[f"{name}.weight"][:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        d_x = convolve(d_x, flipped, np.float32(0))
    return gradients


def patches(x: np.ndarray) -> np.ndarray:
    """x: [N, C, H, W] -> [N, C, H, W, 3, 3], zeros around."""
    return sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))


def convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """x: [N, C, H, W], weight: [M, C, 3, 3] -> [N, M, H, W]"""
    y = np.einsum("nchwij,mcij->nmhw", patches(x), weight, optimize=True)
    return y + np.reshape(bias, (1, -1, 1, 1))


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> Weights:
    """Adam on the cross entropy, with a falling learning rate."""
    rng = np.random.default_rng(SEED)
    weights = initial_weights(rng)
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    second = {name: np.zeros_like(value) for name, value in weights.items()}
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            logits, saved = forward(weights, images[chosen])
            d_logits = (softmax(logits) - np.eye(10, dtype=np.float32)[labels[chosen]]) / len(chosen)
            step += 1
            rate = LEARNING_RATE * (1 - epoch / epochs) * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            for name, gradient in backward(weights, saved, d_logits).items():
                first[name] += 0.1 * (gradient - first[name])
                second[name] += 0.001 * (gradient**2 - second[name])
                weights[name] -= (rate * first[name] / (np.sqrt(second[name]) + 1e-8)).astype(np.float32)
    return weights


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def accuracy(weights: Weights, images: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(forward(weights, images)[0].argmax(axis=1) == labels))


def onnx_model(weights: Weights) -> bytes:
    """pixels: f32[batch, 1, 8, 8] in [0, 16] -> probabilities: f32[batch, 10]"""
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
    tensors = {"white": np.array(16, np.float32)} | weights
    initializers = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "digits", [pixels], [probabilities], initializers)
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="examples/train_digits.py")
    checker.check_model(model, full_check=True)
    return model.SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "onnxc" / "data")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    split = train_test_split(images, digits.target, test_size=450, random_state=SEED, stratify=digits.target)
    train_images, held_images, train_labels, held_labels = split
    weights = train(train_images, train_labels, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "digits.onnx").write_bytes(onnx_model(weights))
    held = {"images": held_images, "labels": held_labels.astype(np.int64)}
    np.savez_compressed(options.out / "digits.npz", **held)
    print(f"accuracy: {accuracy(weights, train_images, train_labels):.2%} of {len(train_images)} images learned from,")
    print(f"          {accuracy(weights, held_images, held_labels):.2%} of {len(held_images)} held out")


if __name__ == "__main__":
    main()
