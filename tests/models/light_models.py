"""The nine light models of the official tests with seeded random weights in place of their constant ones.

As shipped, every weight is a ConstantOfShape node of 0.02, and the outputs say little about the arithmetic.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
# Factors of the last layer that keep its softmax from saturating: residual sums double the variance in every block.
LAST_GAIN = {
    "bvlc_alexnet": 0.3,
    "densenet121": 0.3,
    "inception_v1": 10.0,
    "inception_v2": 0.15,
    "resnet50": 2e-4,
    "shufflenet": 1.5e-5,
    "vgg19": 0.4,
}
SCALE, OFFSET, VARIANCE, WEIGHT = "scale", "offset", "variance", "weight"
ROLES = {
    ("BatchNormalization", 1): SCALE,
    ("BatchNormalization", 2): OFFSET,
    ("BatchNormalization", 3): OFFSET,
    ("BatchNormalization", 4): VARIANCE,
    ("Mul", 1): SCALE,
    ("Add", 1): OFFSET,
    ("Conv", 2): OFFSET,
    ("Gemm", 2): OFFSET,
}


def random_light_model(name: str) -> ModelProto:
    """The light model with its weights as initializers, drawn by what they are for."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph = model.graph
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {node.output[0]: given[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    shapes = {key: tuple(map(int, shape)) for key, shape in made.items()}
    shapes |= {key: value.shape for key, value in given.items() if value.dtype == np.float32}
    rng = np.random.default_rng(0)
    drawn = {key: draw(role_of(key, list(graph.node)), shape, rng) for key, shape in shapes.items()}
    last = [node for node in graph.node if node.op_type in ("Gemm", "Conv")][-1]
    reshaped = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Reshape"}
    for key in last.input[1:]:
        drawn[reshaped.get(key, key)] *= np.float32(LAST_GAIN.get(name, 1.0))
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    inputs = [value for value in graph.input if value.name not in given]
    tensors = [numpy_helper.from_array(drawn.get(key, value), key) for key, value in (given | drawn).items()]
    for field, values in ((graph.node, kept), (graph.input, inputs), (graph.initializer, tensors)):
        del field[:]
        field.extend(values)
    # Below version 4 every initializer must also be an input.
    model.ir_version = 4
    return model


def role_of(tensor: str, nodes: list[NodeProto]) -> str:
    """What the first node that reads the tensor, seen through Unsqueeze and Reshape, does with it."""
    node = next((node for node in nodes if tensor in node.input), None)
    if node is None:
        return WEIGHT
    if node.op_type in ("Unsqueeze", "Reshape"):
        return role_of(node.output[0], nodes)
    return ROLES.get((node.op_type, list(node.input).index(tensor)), WEIGHT)


def draw(role: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if role == SCALE:
        return rng.uniform(0.7, 1.3, shape).astype(np.float32)
    if role == VARIANCE:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if role == OFFSET:
        return (0.1 * rng.standard_normal(shape)).astype(np.float32)
    fan_in = np.prod(shape[1:]) if len(shape) > 1 else 1
    return rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))
