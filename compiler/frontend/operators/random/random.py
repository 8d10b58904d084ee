"""RandomUniform, RandomNormal, their Like forms, Bernoulli and Multinomial, from bits that are counted, not drawn.

The seed is the attribute, else made of the graph of the node and its ordinal there, so a program gives the same values
on every call; unless it is called with a random state, with which every draw without the attribute changes, in each
round of a loop too.

Source: https://onnx.ai/onnx/operators/
"""

import struct
from collections.abc import Callable, Sequence
from math import pi
from zlib import crc32

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value

Draw = Callable[[Node, Builder, Sequence[Dim], DType], Value]


def seed_of(node: Node) -> int:
    """The bits of the attribute `seed`, or the node's own seed."""
    if node.has("seed"):
        return int.from_bytes(struct.pack("<f", node.float("seed")), "little")
    return own_seed(node)


def own_seed(node: Node) -> int:
    """A seed that no attribute gives and no other node of the model has."""
    node_address = f"{node.location.graph}/{node.location.index}"
    return 1 << 32 | crc32(node_address.encode())


def uniform(node: Node, ir: Builder, shape: Sequence[Dim], seed: int, dtype: DType) -> Value:
    """Floats evenly within (0, 1), as many as the type tells apart up to 2^32: the middles of equal intervals."""
    bits = ir.random_bits(shape, seed)
    if node.random_state is not None and not node.has("seed"):
        bits = node.random_state.stir(bits, ir)
    if dtype == F64:
        return ir.mul(ir.add(ir.cast(bits, F64), 0.5), 2.0**-32)
    # 23 bits and the half fill the significand of f32, so that the last value is still below 1.
    return ir.mul(ir.add(ir.cast(ir.shift_right(bits, 9), F32), 0.5), 2.0**-23)


def _computed(dtype: DType) -> DType:
    return F64 if dtype == F64 else F32


def _uniform(node: Node, ir: Builder, shape: Sequence[Dim], dtype: DType) -> Value:
    """low + (high - low) * u"""
    low, high = node.float("low"), node.float("high")
    return ir.add(ir.mul(uniform(node, ir, shape, seed_of(node), _computed(dtype)), high - low), low)


def _normal(node: Node, ir: Builder, shape: Sequence[Dim], dtype: DType) -> Value:
    """mean + scale * sqrt(-2 log u) * cos(2 pi v)

    Source: Box and Muller, A note on the generation of random normal deviates, 1958.
    """
    seed = seed_of(node)
    u, v = (uniform(node, ir, shape, seed | part << 33, _computed(dtype)) for part in (0, 1))
    radius = ir.sqrt(ir.mul(ir.log(u), -2))
    return ir.add(ir.mul(ir.mul(radius, ir.unary("cos", ir.mul(v, 2 * pi))), node.float("scale")), node.float("mean"))


DRAWS: dict[str, Draw] = {"RandomUniform": _uniform, "RandomNormal": _normal}


def _of_shape(draw: Draw) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        shape = node.ints("shape")
        if min(shape, default=0) < 0:
            node.fail("random-shape", f"shape is {list(shape)}", rule=f"ONNX {node.operator}, attribute shape")
        return _drawn(draw, shape, node.dtype("dtype"), node, ir)

    return lower


def _like(draw: Draw) -> Lowering:
    def lower(node: Node, ir: Builder) -> Value:
        x = node.input("input")
        return _drawn(draw, x.shape, node.dtype("dtype") if node.has("dtype") else x.dtype, node, ir)

    return lower


def _drawn(draw: Draw, shape: Sequence[Dim], dtype: DType, node: Node, ir: Builder) -> Value:
    if not dtype.is_float:
        node.fail("output-type", f"dtype is {dtype}, not a float", rule=f"ONNX {node.operator}, attribute dtype")
    return ir.cast(draw(node, ir, shape, dtype), dtype)


for _name, _draw in DRAWS.items():
    operator(_name, since=(1, 22))(_of_shape(_draw))
    operator(f"{_name}Like", since=(1, 22))(_like(_draw))


@operator("Bernoulli", since=(15, 22))
def bernoulli(node: Node, ir: Builder) -> Value:
    """input: T1[...]  ->  T2[...]: 1 with the probability that the input gives, else 0

    Source: https://onnx.ai/onnx/operators/onnx__Bernoulli.html
    """
    x = node.input("input")
    dtype = node.dtype("dtype") if node.has("dtype") else x.dtype
    drawn = uniform(node, ir, x.shape, seed_of(node), _computed(x.dtype))
    return ir.cast(ir.less(drawn, ir.cast(x, drawn.dtype)), dtype)


@operator("Multinomial", since=(7, 22))
def multinomial(node: Node, ir: Builder) -> Value:
    """input: T1[N, C] of unnormalised log-probabilities  ->  T2[N, sample_size] of classes

    The largest of log-probability + Gumbel noise is a class drawn by its probability.
    Source: https://onnx.ai/onnx/operators/onnx__Multinomial.html
    """
    x, count = node.input("input"), node.int("sample_size")
    if x.rank != 2:
        node.fail("multinomial-rank", f"the input has {x.rank} axes, not 2", rule="ONNX Multinomial, input")
    if count < 1:
        node.fail("attribute-range", f"sample_size is {count}, below 1", rule="ONNX Multinomial, attribute sample_size")
    batch, classes = x.shape
    drawn = uniform(node, ir, (batch, count, classes), seed_of(node), _computed(x.dtype))
    noise = ir.neg(ir.log(ir.neg(ir.log(drawn))))
    scores = ir.add(noise, ir.unsqueeze(ir.cast(x, drawn.dtype), [1]))
    return ir.cast(ir.arg_reduce(scores, "max", 2), node.dtype("dtype"))
