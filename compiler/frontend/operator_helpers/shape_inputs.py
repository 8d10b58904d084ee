"""Inputs that are shapes, sizes and axes: sizes of the program where they are known, else symbols read from data."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size, at_least
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value

LONGEST_VECTOR = 1 << 16
"""How many sizes, axes or parts a vector may give. An estimate, far above what models have."""


def of_shape(value: Value, shape: Sequence[Dim | None], name: str, node: Node, ir: Builder, code: str) -> Value:
    """The input `name`, which must have `shape`; None stands for any size. What is not decided is guarded.

    Raises ModelError with `code` where it certainly has another.
    """
    rule = f"ONNX {node.operator}, {name}"
    expected = ", ".join("?" if size is None else str(size) for size in shape)
    if value.rank != len(shape):
        node.fail(code, f"{name} has rank {value.rank}, expected [{expected}]", rule=rule)
    fitted: list[Dim] = []
    for axis, (size, wanted) in enumerate(zip(value.shape, shape, strict=True)):
        message = f"{name} is {list(value.shape)}, expected [{expected}]: axis {axis} differs"
        if wanted is not None and (at_least(size, wanted + 1) or at_least(wanted, size + 1)):
            node.fail(code, message, rule=rule)
        if wanted is not None:
            ir.require_equal(size, wanted, message, code)
        fitted.append(size if wanted is None else wanted)
    return ir.with_shape(value, fitted)


def as_vector(
    value: Value, name: str, node: Node, ir: Builder, length: int | None = None, code: str = "not-a-vector"
) -> Value:
    """The input `name` as i64[n] for an integer n, which must be `length`, else the error is `code`.

    One of rank 0 comes as a vector of one element.
    """
    if value.rank > 1:
        node.fail("not-a-vector", f"{name} is {value.type}, not a vector", rule=f"ONNX {node.operator}, {name}")
    if value.rank == 0 and length not in (None, 1):
        message = f"{name} is one element, expected a vector of {length}"
        node.fail(code, message, rule=f"ONNX {node.operator}, {name}")
    if value.rank == 1 and length is not None:
        value = of_shape(value, (length,), name, node, ir, code)
    if value.rank == 1 and not isinstance(value.shape[0], int):
        node.split_by_size(value, 0, f"the length of {name} is only known at run time")
    if vector_length(value) > LONGEST_VECTOR:
        node.unsupported(f"{name} has {vector_length(value)} elements, beyond {LONGEST_VECTOR}")
    return ir.cast(ir.reshape(value, (vector_length(value),)), I64)


def vector_input(name: str, node: Node, ir: Builder, length: int | None = None, code: str = "not-a-vector") -> Value:
    """The input `name`, a vector, as i64[n] for an integer n (see `as_vector`); a scalar is none."""
    value = node.input(name)
    if value.rank != 1:
        node.fail("not-a-vector", f"{name} is {value.type}, not a vector", rule=f"ONNX {node.operator}, {name}")
    return as_vector(value, name, node, ir, length, code)


def vector_length(value: Value) -> int:
    """The number of elements of a vector of known length, or of a scalar."""
    length = value.shape[0] if value.rank else 1
    assert isinstance(length, int), value
    return length


def as_scalar(value: Value, name: str, node: Node, ir: Builder) -> Value:
    """The input `name`, which has one element, as a tensor of rank 0."""
    if value.rank > 1 or (value.rank == 1 and isinstance(value.shape[0], int) and value.shape[0] != 1):
        node.fail("not-a-scalar", f"{name} is {value.type}, not one element", rule=f"ONNX {node.operator}, {name}")
    return ir.reshape(value, ())


def only_element(value: Value, name: str, node: Node, ir: Builder) -> Value:
    """The input `name` of one element, whatever its rank, as a tensor of rank 0."""
    if any(size == 0 or at_least(size, 2) for size in value.shape):
        node.fail("not-a-scalar", f"{name} is {value.type}, not one element", rule=f"ONNX {node.operator}, {name}")
    return ir.reshape(value, ())


def zero(dtype: DType, ir: Builder) -> Value:
    """What an element type has where nothing is given: 0, False, the empty text."""
    return ir.constant(np.array("", object)) if dtype.is_string else ir.scalar(0, dtype)


def element(vector: Value, ordinal: int, ir: Builder) -> Value:
    """Element `ordinal` of a vector, at rank 0."""
    return ir.reshape(ir.slice(vector, (ordinal,), (1,)), ())


def known_integers(value: Value, ir: Builder) -> tuple[int, ...] | None:
    """The elements of an integer tensor that are plain integers, all of them, or None."""
    known = ir.known(value)
    if known is None:
        return None
    integers = tuple(dim for dim in known if isinstance(dim, int))
    return integers if len(integers) == len(known) else None


def read_lengths(
    value: Value,
    name: str,
    node: Node,
    ir: Builder,
    count: int | None = None,
    hints: Sequence[Dim | None] | None = None,
    code: str = "negative-size",
) -> tuple[Dim, ...]:
    """The elements of the input `name`, `count` of them, as sizes, which are never negative.

    `hints` are what is known of them already, by default what can be seen of `value`. Raises ModelError with `code`
    where one is certainly negative or their count is not `count`; where only data tells, the call raises InputError.
    """
    vector = as_vector(value, name, node, ir, count, code)
    known = partly_known(vector) if hints is None else tuple(hints)
    message = f"{name} of {node.operator} is negative"
    for dim in known:
        if dim is not None and at_least(-1, dim):
            node.fail(code, f"{name} has an element {dim}", rule=f"ONNX {node.operator}, {name}")
        if dim is not None and not at_least(dim, 0):
            ir.guard(dim, 0, "at_least", message)
    decided = tuple(dim for dim in known if dim is not None)
    if len(decided) == len(known):
        return decided
    bound = _bound_lengths(vector, message, ir)
    return tuple(symbol if dim is None else dim for symbol, dim in zip(bound, known, strict=True))


def _bound_lengths(vector: Value, message: str, ir: Builder) -> tuple[Dim, ...]:
    """Symbols for the elements, and one of any sign for the least of them, which is checked."""
    names = [ir.symbols.fresh(f"length{index}") for index in range(vector_length(vector))]
    least = ir.symbols.fresh("?least")
    ir.symbols.ranges[least] = (-(2**63), None)
    smallest = ir.reduce(vector, "min", (0,), keepdims=True)
    bound = ir.concatenate([ir.max(vector, 0), smallest], 0)
    ir.op("bind_sizes", [bound], {"symbols": (*names, least)})
    ir.guard(Size.symbol(least), 0, "at_least", message)
    return tuple(Size.symbol(name) for name in names)


def wrapped_axes(axes: Value, rank: int, ir: Builder) -> Value:
    """Axes that only data tells, counted from the start."""
    return ir.wrap_negative(axes, rank)


def spread_over_axes(values: Value, axes: Value, defaults: Sequence[int], ir: Builder) -> Value:
    """i64[rank]: `defaults`, with `values` at the indices `axes`, which only data tells."""
    base = ir.constant(np.array(defaults, np.int64))
    return ir.scatter_along(base, wrapped_axes(axes, len(defaults), ir), values, 0, "set")
