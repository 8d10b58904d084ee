"""Constant folding: ops on constants become constants, where that does not make the program much larger.

What repeats a scalar (a broadcast, a counter) stays what it is, however it is used: a model file of one scalar per
weight stays small. What constant indices pick from a constant may be larger than both.
"""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.meanings import apply_meaning
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.compiler.ir.rewriter import Rule, rewrite
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.limits import limits_in_force
from onnxc.compiler.passes.notes import note

SMALL_BYTES = 64 * 1024
"""A result up to this size may be larger than its operands. An estimate: in no model is it much beside the weights."""

PICKED_BYTES = 8 * 1024 * 1024
"""A result up to this size may be larger than the constants that it is picked from, as the biases of attention are,
which stand in a table by relative positions. An estimate: those of 512 positions and 8 heads of f32."""

WORK_PER_OP = 1 << 26
"""Bound of the elementary operations that folding one op takes; the limits have one for all of them. They are counted,
not timed, so that the result is always the same."""

FLOAT_PRODUCTS = 16
"""Multiply-adds of a matrix product of floats that count as one elementary operation. NumPy's took 0.10 ns each, where
adding long arrays took 3.1 ns an element and a product of integers 2.9 ns each, on a Xeon with AVX-512."""

PICKS = ("gather", "gather_along", "gather_nd")

KINDS_KEPT = ("generator", "control", "collective", "random", "host")


def fold_constants(module: Module) -> Module:
    """Computes what depends on constants only."""
    return rewrite(module, [_folding()])


def _folding() -> Rule:
    limits = limits_in_force()
    work_left, bytes_left = limits.folding_work, limits.folding_bytes

    def fold(op: Op, build: Builder) -> tuple[Value, ...] | None:
        """f(constants) = constants"""
        nonlocal work_left, bytes_left
        # Movement of what repeats or counts is for `canonicalize`, which keeps it small.
        read = constant_of if PRIMITIVES[op.name].kind == "movement" else evaluated
        arrays = [read(operand) for operand in op.operands]
        known = [array for array in arrays if array is not None]
        work = _work(op)
        if len(known) != len(arrays) or work is None or work > WORK_PER_OP or not _pays(op):
            return None
        made = sum(_bytes(result) for result in op.results)
        for what, needed, left in (("folding_work", work, work_left), ("folding_bytes", made, bytes_left)):
            if needed > left:
                note("folding-limit", f"an op on constants stays for the run: the limit {what} is reached", op.location)
                return None
        work_left, bytes_left = work_left - work, bytes_left - made
        results = apply_meaning(op.name, known, op.attributes, {})
        return tuple(build.constant(np.asarray(result, order="C")) for result in results)

    foldable = tuple(
        name
        for name, primitive in PRIMITIVES.items()
        if name != "broadcast" and primitive.kind not in KINDS_KEPT and not primitive.structural
    )
    return Rule("fold_constants", foldable, fold)


def evaluated(value: Value) -> np.ndarray | None:
    """The elements of a constant, of a short counter, or of one of them broadcast, which takes no memory."""
    op = value.op
    if op is None:
        return None
    if op.name == "broadcast":
        inner = evaluated(op.operands[0])
        static = isinstance(value.type, TensorType) and value.type.is_static
        return None if inner is None or not static else apply_meaning("broadcast", [inner], op.attributes, {})[0]
    if op.name == "iota" and value.tensor.is_static and _bytes(value) <= SMALL_BYTES:
        return apply_meaning("iota", [], op.attributes, {})[0]
    return constant_of(value)


def _bytes(value: Value) -> int:
    elements = value.tensor.elements
    assert isinstance(elements, int), value
    return elements * value.dtype.itemsize


def _pays(op: Op) -> bool:
    """Whether the results are small, no larger than the constants that they replace, or picked from such."""
    constants = [array.nbytes for operand in op.operands if (array := _stored(operand)) is not None]
    results = sum(_bytes(result) for result in op.results)
    picked = op.name in PICKS and all(constant_of(operand) is not None for operand in op.operands)
    return results <= max(PICKED_BYTES if picked else SMALL_BYTES, sum(constants))


def _stored(value: Value) -> np.ndarray | None:
    repeated = made_by(value, "broadcast")
    return constant_of(value if repeated is None else repeated.operands[0])


def _work(op: Op) -> int | None:
    """About how many elementary operations `op` takes; None where its shapes are not static."""
    types = [value.type for value in (*op.operands, *op.results)]
    if not all(isinstance(type, TensorType) and type.is_static for type in types):
        return None
    largest = max((_count(type.known_shape) for type in types if isinstance(type, TensorType)), default=0)
    if op.name == "dot":
        left, right, _ = parse_equation(op.text("equation"))
        sizes = dict(zip(left + right, op.operands[0].shape + op.operands[1].shape, strict=True))
        products = _count(tuple(sizes.values()))
        floats = any(operand.dtype.kind == "float" for operand in op.operands)
        return max(products // FLOAT_PRODUCTS, largest) if floats else products
    if op.name == "convolution":
        filters, axis = op.operands[1].shape, parse_dimensions(op.text("dimensions")).w.output
        return _count(op.result.shape) * _count(filters[:axis] + filters[axis + 1 :])
    if op.name == "reduce_window":
        return _count(op.result.shape) * _count(op.ints("window"))
    return largest


def _count(shape: tuple[Dim, ...]) -> int:
    total = 1
    for size in shape:
        assert isinstance(size, int), shape
        total *= size
    return total
