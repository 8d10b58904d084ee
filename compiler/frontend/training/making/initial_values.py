"""Random values for weights, by what reads them: the graph of an initialization.

Weights of products are drawn so that what they give is as large as what they read (He: behind a ReLU; Glorot: between
both directions); scales begin at 1, what is added at 0.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt

import numpy as np

from onnxc.compiler.frontend.graph import Graph, GraphNode
from onnxc.compiler.frontend.training.making.graph_maker import AttributeValue, GraphMaker
from onnxc.compiler.frontend.training.making.optimizers import Weight

__all__ = ["SPREADS", "initial_values"]

Fans = tuple[int, int]

SPREADS: Mapping[str, Callable[[Fans], float]] = {
    "he": lambda fans: sqrt(2 / fans[0]),
    "glorot": lambda fans: sqrt(2 / (fans[0] + fans[1])),
}
"""The standard deviation, from how many elements are summed and how many sums an element is in.

Source: He et al., Delving Deep into Rectifiers, 2015; Glorot and Bengio, Understanding the difficulty of training deep
feedforward neural networks, 2010.
"""

_SCALES = {
    ("BatchNormalization", 1), ("GroupNormalization", 1), ("InstanceNormalization", 1), ("LayerNormalization", 1),
    ("RMSNormalization", 1),
}  # fmt: skip

_EMBEDDING_SPREAD, _SLOPE = 0.02, 0.25
"""What exporters' own frameworks draw embeddings with, for transformers, and begin the slopes of PRelu at."""


def initial_values(weights: Sequence[Weight], graph: Graph, spread: str, maker: GraphMaker) -> dict[str, str]:
    """For each weight the output of the initialization that is its first value."""
    readers = _readers(graph)
    first: dict[str, str] = {}
    for weight in weights:
        node, position = readers[weight.name]
        first[weight.name] = _initial(weight, node, position, SPREADS[spread], maker)
        maker.output(first[weight.name], weight.element_type, weight.shape)
    return first


def _readers(graph: Graph) -> dict[str, tuple[GraphNode, int]]:
    """For each name the first node that reads it, here or in a graph within, and as which input."""
    readers: dict[str, tuple[GraphNode, int]] = {}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            readers.setdefault(name, (node, position))
        for inner in node.subgraphs():
            readers = {**_readers(inner), **readers}
    return readers


def _initial(weight: Weight, node: GraphNode, position: int, spread: Callable[[Fans], float], maker: GraphMaker) -> str:
    name, operator = f"{weight.name}.first", node.operator
    if operator == "PRelu":
        return _full(weight, _SLOPE, name, maker)
    if (operator, position) in _SCALES:
        return _full(weight, 1, name, maker)
    if len(weight.shape) < 2 or not prod(weight.shape):
        return _full(weight, 0, name, maker)
    deviation = _EMBEDDING_SPREAD if operator == "Gather" else spread(_fans(weight.shape, node, position))
    drawn: dict[str, AttributeValue] = {"shape": weight.shape, "scale": deviation, "dtype": weight.element_type}
    return maker.one("RandomNormal", (), name, drawn)


def _full(weight: Weight, value: float, name: str, maker: GraphMaker) -> str:
    shape = maker.one("Constant", (), f"{name}.shape", {"value": np.array(weight.shape, np.int64)})
    return maker.one("ConstantOfShape", (shape,), name, {"value": np.array([value]).astype(weight.dtype)})


def _fans(shape: Sequence[int], node: GraphNode, position: int) -> Fans:
    """How many elements a product with this weight sums, and in how many sums an element is.

    Conv: W[M, C/group, k...]; ConvTranspose: W[C, M/group, k...]; Gemm and MatMul as they lie; recurrent: W[D, H, I].
    """
    taps = prod(shape[2:])
    match node.operator:
        case "Conv":
            return shape[1] * taps, shape[0] * taps
        case "ConvTranspose":
            return shape[0] * taps, shape[1] * taps
        case "Gemm":
            is_turned = node.attributes.get("transB" if position == 1 else "transA", 0) != 0
            sums_rows = (position == 1) != is_turned
        case "MatMul":
            sums_rows = position == 1
        case _:
            sums_rows = False
    rows, columns = shape[-2:]
    return (rows, columns) if sums_rows else (columns, rows)
