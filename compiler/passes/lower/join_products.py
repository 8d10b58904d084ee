"""Products of one operand with several constants become one product, of which each result is a slice.

Queries, keys and values are columns of one matrix: one launch reads the operand once, and has as many tiles as all of
them together. What follows each product must be the same for all: a bias, a scale, a cast; identities stand in where
one has none. Whoever reads the results reads slices of rows, which only movements do without losing anything.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.makers import constant_of, unbroadcast
from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.runtime.records import record

PIECE_BYTES = 16
"""Each result begins at a multiple of so much of a row: a thread loads that at once, and block copies want it."""

STORED_TYPES = (F16, BF16)
"""What results are rounded to: of types of 8 bits, casts saturate or not."""

NO_BIAS, NO_SCALE = -0.0, 1.0
"""What changes no float, zeros of either sign included."""


def join_products(module: Module) -> Module:
    """Multiplies an operand by several constants at once, where only movements read the results."""
    return map_bodies(module, _joined)


@record
class _Branch:
    """A product with what follows it: `end` is (x w + bias) * scale, in the element type of `end`.

    equation: with columns last in the weights, as they are here. bias and scale: for each column or for all, None
    where there is none.
    """

    dot: Op
    equation: str
    weights: np.ndarray
    end: Value
    bias: np.ndarray | None = None
    scale: np.ndarray | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is computed with the product."""
        return self.bias is None and self.scale is None

    @property
    def columns(self) -> int:
        return int(self.weights.shape[-1])


Key = tuple[Value, str, DType, DType]
Parts = tuple[tuple[Value, str], ...]


def _joined(body: Block, symbols: SymbolTable) -> Block:
    groups = {group[0].dot: group for group in _groups(body)}
    if not groups:
        return body
    build, values, held = PassBuilder(symbols), dict[Value, Value](), dict[Parts, Value]()
    for op in body.ops:
        if op in groups:
            with build.at(op.location):
                values |= _slices(groups[op], values.get(op.operands[0], op.operands[0]), held, build)
        if any(result in values for result in op.results):
            continue
        copy = _with_operands(op, values)
        build.ops.append(copy)
        if copy is not op:
            values.update(zip(op.results, copy.results, strict=True))
    return prune(build.block(body.parameters, [values.get(result, result) for result in body.results]))


def _with_operands(op: Op, values: Mapping[Value, Value]) -> Op:
    operands = tuple(values.get(operand, operand) for operand in op.operands)
    if operands == op.operands:
        return op
    return Op(op.name, operands, op.attributes, op.blocks, op.result_types, op.location)


# What is joined


def _groups(body: Block) -> list[list[_Branch]]:
    """The products that are one, in the order in which they begin."""
    users: dict[Value, list[Op]] = {}
    for op in body.ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    kept = frozenset(body.results)
    groups: dict[Key, list[_Branch]] = {}
    for op in body.ops:
        branch = _branch(op, users)
        if branch is not None and branch.end not in kept and _is_only_moved(branch.end, users):
            key = (op.operands[0], branch.equation, op.operands[1].dtype, branch.end.dtype)
            groups.setdefault(key, []).append(branch)
    return [group for group in groups.values() if len(group) > 1 and _sum_type(group) is not None]


def _branch(op: Op, users: Mapping[Value, Sequence[Op]]) -> _Branch | None:
    """A product of floats by a constant matrix, with what alone uses it."""
    if op.name != "dot" or not all(operand.dtype.is_float for operand in op.operands):
        return None
    left, right, result = parse_equation(op.text("equation"))
    weights = constant_of(op.operands[1])
    if weights is None or len(right) != 2 or result[-1:] not in [*right] or result[-1] in left:
        return None
    if right[1] != result[-1]:
        right, weights = right[::-1], weights.T
    branch = _Branch(op, f"{left},{right}->{result}", weights, op.result)
    while (longer := _longer(branch, users.get(branch.end, ()))) is not None:
        branch = longer
    is_whole = weights.shape[-1] * branch.end.dtype.itemsize % PIECE_BYTES == 0
    return branch if is_whole else None


def _longer(branch: _Branch, users: Sequence[Op]) -> _Branch | None:
    """The branch with the next op, if it alone uses the end, and may stand there."""
    if len(users) != 1 or branch.end.dtype != branch.dot.result.dtype:
        return None
    (op,) = users
    if op.name == "cast" and op.result.dtype in STORED_TYPES:
        return replace(branch, end=op.result)
    if op.name not in ("add", "mul") or Counter(op.operands)[branch.end] != 1:
        return None
    array = _per_column(next(operand for operand in op.operands if operand != branch.end))
    if array is None or branch.scale is not None:
        return None
    if op.name == "mul":
        return replace(branch, end=op.result, scale=array)
    return replace(branch, end=op.result, bias=array) if branch.bias is None else None


def _per_column(value: Value) -> np.ndarray | None:
    """A constant that is repeated over all axes but perhaps the last."""
    source, axes = unbroadcast(value)
    array = constant_of(source)
    if array is None or array.size == 0:
        return None
    is_of_columns = all(axis == value.rank - 1 or size == 1 for axis, size in zip(axes, array.shape, strict=True))
    return array.reshape(-1) if is_of_columns else None


def _is_only_moved(value: Value, users: Mapping[Value, Sequence[Op]]) -> bool:
    return value in users and all(PRIMITIVES[user.name].is_view for user in users[value])


def _sum_type(group: Sequence[_Branch]) -> DType | None:
    """The type in which all products can be summed without changing any; None where there is none.

    A product that is rounded at once is the same as one summed in f32, as all are, and rounded behind.
    """
    types = {branch.dot.result.dtype for branch in group if not branch.is_plain} or {group[0].dot.result.dtype}
    if len(types) > 1:
        return None
    (dtype,) = types
    others = {branch.dot.result.dtype for branch in group} - {dtype}
    return dtype if not others or dtype == F32 else None


# The one product


def _slices(group: Sequence[_Branch], x: Value, held: dict[Parts, Value], build: PassBuilder) -> dict[Value, Value]:
    """What stands for the end of each branch: the columns of one product.

    held: the weights that were joined before, so that layers which share theirs still do.
    """
    dtype, first = _sum_type(group), group[0]
    assert dtype is not None, first
    parts = tuple((branch.dot.operands[1], branch.dot.text("equation")) for branch in group)
    if parts not in held:
        held[parts] = build.constant(np.concatenate([branch.weights for branch in group], axis=1))
    y = build.dot(x, held[parts], first.equation, dtype)
    if any(branch.bias is not None for branch in group):
        y = build.add(y, _columns([(branch, branch.bias) for branch in group], NO_BIAS, y, build))
    if any(branch.scale is not None for branch in group):
        y = build.mul(y, _columns([(branch, branch.scale) for branch in group], NO_SCALE, y, build))
    y = build.cast(y, first.end.dtype)
    ends: dict[Value, Value] = {}
    start = 0
    for branch in group:
        ends[branch.end] = build.slice_axis(y, y.rank - 1, start, branch.columns)
        start += branch.columns
    return ends


def _columns(
    given: Sequence[tuple[_Branch, np.ndarray | None]], identity: float, like: Value, build: PassBuilder
) -> Value:
    """A number for each column of all branches, in the shape of the product."""
    rows = [
        np.broadcast_to(np.asarray(identity, like.dtype.numpy) if array is None else array, (branch.columns,))
        for branch, array in given
    ]
    return build.broadcast(build.constant(np.concatenate(rows)), (like.rank - 1,), like.shape)
