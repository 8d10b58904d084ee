"""Writes graphs in the manner of either torch exporter: the same model, the node patterns of one or the other.

`dynamo` writes Shape with start and end, constants as initializers, LayerNormalization and Gelu; `legacy` writes
Shape-Gather-Unsqueeze-Concat chains, Constant nodes, and normalisations and activations in pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper

Style = Literal["dynamo", "legacy"]
STYLES: tuple[Style, ...] = ("dynamo", "legacy")
OPSETS = {"dynamo": 20, "legacy": 14}
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class SizeOf:
    """The size of one axis of a value, to be computed in the graph."""

    value: str
    axis: int


Part = int | SizeOf | str


class Writer:
    """A graph under construction; every method appends nodes and returns the name of the result."""

    def __init__(self, style: Style, seed: int = 0) -> None:
        self.style = style
        self.is_legacy = style == "legacy"
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.tensors: list[TensorProto] = []

    def input(self, name: str, dtype: type, *shape: int | str) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, dtype: type, *shape: int | str) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], f"output_{name}"))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        return self.node_outputs(operator, 1, *inputs, **attributes)[0]

    def node_outputs(self, operator: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        stem = f"/{operator}_{len(self.nodes)}"
        names = [f"{stem}_output_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, stem, **attributes))
        return names

    def tensor(self, value: np.ndarray) -> str:
        name = f"tensor_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, *shape: int, scale: float | None = None, offset: float = 0.0) -> str:
        """A seeded normal draw; by default as wide as keeps the size of what it multiplies."""
        spread = scale if scale is not None else float(np.sqrt(len(shape) / max(1, np.prod(shape) // shape[-1])))
        return self.tensor((self.rng.standard_normal(shape) * spread + offset).astype(np.float32))

    def constant(self, value: object, dtype: type = np.int64) -> str:
        array = np.array(value, dtype)
        return self.node("Constant", value=numpy_helper.from_array(array)) if self.is_legacy else self.tensor(array)

    def model(self, name: str) -> ModelProto:
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.tensors)
        opset = helper.make_opsetid("", OPSETS[self.style])
        model = helper.make_model(graph, opset_imports=[opset], ir_version=7 if self.is_legacy else 10)
        checker.check_model(model, full_check=True)
        return model

    def size(self, value: str, axis: int) -> str:
        """One size as a scalar."""
        if self.is_legacy:
            return self.node("Gather", self.node("Shape", value), self.constant(axis), axis=0)
        return self.node("Squeeze", self.node("Shape", value, start=axis, end=axis + 1))

    def sizes(self, *parts: Part) -> str:
        """A vector of numbers, sizes of axes, and scalars already computed."""
        return self.node("Concat", *(self.size_vector(part) for part in parts), axis=0)

    def size_vector(self, part: Part) -> str:
        if isinstance(part, int):
            return self.constant([part])
        if isinstance(part, str):
            return (
                self.unsqueeze(part, 0)
                if self.is_legacy
                else self.node("Reshape", part, self.constant([-1]), allowzero=0)
            )
        if self.is_legacy:
            return self.unsqueeze(self.size(part.value, part.axis), 0)
        return self.node("Shape", part.value, start=part.axis, end=part.axis + 1)

    def arange(self, end: str) -> str:
        end = self.node("Cast", end, to=TensorProto.INT64) if self.is_legacy else end
        return self.node("Range", self.constant(0), end, self.constant(1))

    def reshape(self, x: str, *parts: Part) -> str:
        if all(isinstance(part, int) for part in parts):
            return self.node("Reshape", x, self.constant(parts))
        return self.node("Reshape", x, self.sizes(*parts), allowzero=int(not self.is_legacy))

    def transpose(self, x: str, *permutation: int) -> str:
        return self.node("Transpose", x, perm=permutation)

    def unsqueeze(self, x: str, *axes: int) -> str:
        if not self.is_legacy:
            return self.node("Unsqueeze", x, self.constant(axes))
        for axis in axes:
            x = self.node("Unsqueeze", x, self.constant([axis]))
        return x

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        return self.node("Slice", x, *(self.constant([n]) for n in (start, end, axis, 1)))

    def expand(self, x: str, *parts: Part) -> str:
        """Expand; the legacy exporter turns each -1 into 1 first, whether there is one or not."""
        shape = self.sizes(*parts)
        if self.is_legacy:
            shape = self.node("Reshape", shape, self.constant([-1]), allowzero=0)
            one = numpy_helper.from_array(np.array([1], np.int64))
            ones = self.node("ConstantOfShape", self.node("Shape", shape), value=one)
            is_kept = self.node("Equal", shape, self.node("Mul", ones, self.constant(-1)))
            shape = self.node("Where", is_kept, ones, shape)
        return self.node("Expand", x, shape)

    def linear(self, x: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
        y = self.node("MatMul", x, self.weight(inputs, outputs))
        if not bias:
            return y
        offset = self.weight(outputs, scale=0.1)
        return self.node("Add", offset, y) if self.is_legacy else self.node("Add", y, offset)

    def scalar(self, value: float) -> str:
        return self.constant(value, np.float32)

    def layer_norm(self, x: str, width: int) -> str:
        scale, bias = self.weight(width, scale=0.1, offset=1.0), self.weight(width, scale=0.1)
        if not self.is_legacy:
            return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5, stash_type=1)
        centred = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centred, self.scalar(2)), axes=[-1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.scalar(1e-5)))
        return self.node("Add", self.node("Mul", self.node("Div", centred, deviation), scale), bias)

    def rms_norm(self, x: str, width: int) -> str:
        """Neither exporter has an operator for it at these opsets."""
        scale = self.weight(width, scale=0.1, offset=1.0)
        square = self.node("Pow", x, self.scalar(2))
        if self.is_legacy:
            mean = self.node("ReduceMean", square, axes=[-1], keepdims=1)
        else:
            mean = self.node("ReduceMean", square, self.constant([-1]), keepdims=1, noop_with_empty_axes=0)
        root = self.node("Sqrt", self.node("Add", mean, self.scalar(1e-6)))
        inverse = self.node("Div", self.scalar(1), root) if self.is_legacy else self.node("Reciprocal", root)
        return self.node("Mul", scale, self.node("Mul", x, inverse))

    def gelu(self, x: str) -> str:
        if not self.is_legacy:
            return self.node("Gelu", x, approximate="none")
        erf = self.node("Erf", self.node("Div", x, self.scalar(np.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", erf, self.scalar(1)))
        return self.node("Mul", product, self.scalar(0.5))

    def gelu_tanh(self, x: str) -> str:
        """GPT-2's activation, which both exporters write in pieces."""
        cube = self.node("Mul", self.node("Pow", x, self.scalar(3)), self.scalar(0.044715))
        inner = self.node("Mul", self.node("Add", x, cube), self.scalar(np.sqrt(2 / np.pi)))
        half = self.node("Mul", x, self.scalar(0.5))
        return self.node("Mul", half, self.node("Add", self.node("Tanh", inner), self.scalar(1)))

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    def heads(self, x: str, count: int, width: int) -> str:
        """[N, S, count * width] -> [N, count, S, width]"""
        split = self.reshape(x, SizeOf(x, 0), SizeOf(x, 1), -1 if self.is_legacy else count, width)
        return self.transpose(split, 0, 2, 1, 3)

    def merge_heads(self, x: str) -> str:
        merged = self.transpose(x, 0, 2, 1, 3)
        return self.reshape(merged, SizeOf(merged, 0), SizeOf(merged, 1), -1)

    def attention(self, q: str, k: str, v: str, width: int, allowed: str | None) -> str:
        """Softmax(q kᵀ / √width + mask) v over [N, H, S, width]; rows with nothing allowed are zero."""
        root = self.scalar(float(width) ** -0.25)
        scores = self.node("MatMul", self.node("Mul", q, root), self.node("Mul", self.swap_last(k), root))
        if allowed is not None:
            closed = self.constant([-np.inf] if self.is_legacy else LOWEST, np.float32)
            opened = self.constant([0.0] if self.is_legacy else 0.0, np.float32)
            scores = self.node("Add", scores, self.node("Where", allowed, opened, closed))
        weights = self.node("Softmax", scores, axis=-1)
        if allowed is not None:
            weights = self.node("Where", self.node("IsNaN", weights), self.scalar(0), weights)
        return self.node("MatMul", weights, v)

    def swap_last(self, x: str) -> str:
        """[N, H, T, D] -> [N, H, D, T]; the dynamo exporter goes through three dimensions."""
        if self.is_legacy:
            return self.transpose(x, 0, 1, 3, 2)
        shape = self.node("Shape", x, start=0)
        first, last, largest = self.constant([-(2**63)]), self.constant([-1]), self.constant([2**63 - 1])
        middle = self.constant([-2])
        width = self.node("Slice", shape, last, largest)
        length = self.node("Slice", shape, middle, last)
        batch = self.node("Slice", shape, first, middle)
        flat = self.node("Reshape", x, self.node("Concat", last, length, width, axis=0), allowzero=0)
        swapped = self.transpose(flat, 0, 2, 1)
        return self.node("Reshape", swapped, self.node("Concat", batch, width, length, axis=0), allowzero=0)

    def allowed(self, mask: str, queries: str, keys: str, *, causal: bool) -> str:
        """The attention mask [N, 1, S, T] of booleans from a padding mask [N, T]: positions are scalars or vectors."""
        is_kept = self.node("Cast", mask, to=TensorProto.BOOL)
        rows = self.unsqueeze(self.arange(self.size(mask, 0)), 1, 2, 3)
        columns = self.unsqueeze(keys, 0, 1, 2)
        if causal:
            seen = self.node("LessOrEqual", columns, self.unsqueeze(queries, 0, 1, 3))
        else:
            seen = self.node("GreaterOrEqual", self.unsqueeze(queries, 0, 1, 3), self.constant(0))
        kept = self.gather_legacy(is_kept, rows, columns) if self.is_legacy else self.gather_nd(is_kept, rows, columns)
        both = self.node("And", self.node("And", self.constant(True, np.bool_), seen), kept)
        return self.expand(both, SizeOf(mask, 0), -1 if self.is_legacy else 1, SizeOf(queries, 0), SizeOf(keys, 0))

    def gather_nd(self, mask: str, rows: str, columns: str) -> str:
        shape = self.node("Shape", self.node("Max", rows, columns), start=0)
        pairs = [self.unsqueeze(self.node("Expand", x, shape), -1) for x in (rows, columns)]
        return self.node("GatherND", mask, self.node("Concat", *pairs, axis=-1), batch_dims=0)

    def gather_legacy(self, mask: str, rows: str, columns: str) -> str:
        """The same through one flat gather, as the legacy exporter indexes with several tensors."""
        width = self.node("Gather", self.node("Shape", mask), self.constant([1]), axis=0)
        flat = self.node("Flatten", mask, axis=2)
        index = self.node("Add", columns, self.node("Mul", rows, width))
        picked = self.node("Gather", flat, index, axis=0)
        shape = self.node("Concat", self.node("Shape", index), axis=0)
        column = self.node("Reshape", picked, self.constant([-1]), allowzero=0)
        return self.node("Cast", self.node("Reshape", column, shape, allowzero=0), to=TensorProto.BOOL)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> str:
        pads = [kernel // 2] * 4
        weight = self.weight(
            outputs, inputs // groups, kernel, kernel, scale=(inputs // groups * kernel**2 / 2) ** -0.5
        )
        bias = self.weight(outputs, scale=0.1)
        attributes = {"kernel_shape": [kernel] * 2, "pads": pads, "strides": [stride] * 2, "group": groups}
        return self.node("Conv", x, weight, bias, dilations=[1, 1], **attributes)

    def batch_norm(self, x: str, channels: int) -> str:
        """Kept apart from the convolution, as exporters leave it when asked to preserve the training graph."""
        scale, bias = self.weight(channels, scale=0.2, offset=1.0), self.weight(channels, scale=0.2)
        mean = self.weight(channels, scale=0.2)
        variance = self.tensor(self.rng.uniform(0.5, 1.5, channels).astype(np.float32))
        return self.node("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9)

    def global_pool(self, x: str, *, keep: bool = False) -> str:
        """[N, C, H, W] -> [N, C], or [N, C, 1, 1]"""
        if self.is_legacy:
            pooled = self.node("GlobalAveragePool", x)
            return pooled if keep else self.node("Flatten", pooled, axis=1)
        pooled = self.node("ReduceMean", x, self.constant([-1, -2]), keepdims=1, noop_with_empty_axes=0)
        return pooled if keep else self.reshape(pooled, SizeOf(x, 0), -1)

    def gemm(self, x: str, inputs: int, outputs: int) -> str:
        return self.node(
            "Gemm", x, self.weight(outputs, inputs), self.weight(outputs, scale=0.1), alpha=1.0, beta=1.0, transB=1
        )

    def clip(self, x: str, low: float, high: float) -> str:
        return self.node("Clip", x, self.scalar(low), self.scalar(high))

    def concat(self, xs: Sequence[str], axis: int) -> str:
        return self.node("Concat", *xs, axis=axis)
