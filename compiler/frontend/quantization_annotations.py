"""Quantization annotations as hints: which tensors hold the scale and zero point of another, and what it then spans.

They are for people and tools. What a model computes, and in which precision, never depends on them.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from onnxc.compiler.frontend.functions import subgraphs
from onnxc.compiler.frontend.graph import CheckedModel, Graph, Tensor
from onnxc.compiler.frontend.proto.onnxc_pb2 import GraphProto, TensorAnnotation
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.ir.dtypes import DType
from onnxc.runtime.records import record

__all__ = ["QuantizationHint", "quantization_hints"]

_MOST_ELEMENTS = 1 << 20
"""Scales that are read; more are no scales."""


@record
class QuantizationHint:
    """What the graph at `path` says of the tensor `name`; a parameter that is not told is empty.

    `low` and `high` are the least and the greatest number that the quantized type can stand for, over all scales; None
    where the parameters are no integers of a known type, or are not stored in the model.
    """

    path: str
    name: str
    scale: str
    zero_point: str
    quantized: DType | None = None
    low: float | None = None
    high: float | None = None


def quantization_hints(loaded: LoadedModel, checked: CheckedModel) -> tuple[QuantizationHint, ...]:
    """The annotations of all graphs of a model, in order; those in functions belong to no single call."""
    stored = {name: tensor for graph in _graphs(checked.graph) for name, tensor in graph.initializers.items()}
    return tuple(_hint(path, annotation, stored) for path, annotation in _annotations(loaded.outline.graph, "main"))


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _graphs(inner)


def _annotations(graph: GraphProto, path: str) -> Iterator[tuple[str, TensorAnnotation]]:
    yield from ((path, annotation) for annotation in graph.quantization_annotation)
    for index, node in enumerate(graph.node):
        for label, inner in subgraphs(node):
            yield from _annotations(inner, f"{path}/{node.op_type}_{index}.{label}")


def _hint(path: str, annotation: TensorAnnotation, stored: Mapping[str, Tensor]) -> QuantizationHint:
    named = {entry.key: entry.value for entry in annotation.quant_parameter_tensor_names}
    scale, zero_point = named.get("SCALE_TENSOR", ""), named.get("ZERO_POINT_TENSOR", "")
    hint = QuantizationHint(path, annotation.tensor_name, scale, zero_point)
    scales, zeros = stored.get(scale), stored.get(zero_point)
    if scales is None or zeros is None or not zeros.dtype.is_integer:
        return hint
    # Wide zero points are those of sums, which nothing is stored as.
    if zeros.dtype.bits > 16 or max(np.prod(scales.shape), np.prod(zeros.shape)) > _MOST_ELEMENTS:
        return hint
    span = _span(scales.array().astype(np.float64), zeros.array().astype(np.int64), zeros.dtype)
    return QuantizationHint(path, annotation.tensor_name, scale, zero_point, zeros.dtype, *(span or (None, None)))


def _span(scales: np.ndarray, zeros: np.ndarray, dtype: DType) -> tuple[float, float] | None:
    """(q - zero) * scale for the least and the greatest q, over all channels; None where the two do not go together."""
    if not scales.size or not zeros.size or (scales.shape not in (zeros.shape, ()) and zeros.shape != ()):
        return None
    least, greatest = (
        (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    )
    ends = np.stack([(least - zeros) * scales, (greatest - zeros) * scales])
    return float(ends.min()), float(ends.max())
