"""Logits of the last token alone: what leads to the others, and to nothing else, is not computed.

By the axes rules: op after op, upwards from the logits, is made on the last row of what it reads, as far as nothing
else needs the rows before it.
"""

from collections.abc import Mapping
from dataclasses import replace

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.module import Attribute, Block, Function, Op, Value
from onnxc.compiler.ir.op_facts import declared_types
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import symbols_in_use

__all__ = ["keep_last_rows"]

SEQUENCE = 1
"""The axis of the tokens in logits of [batch, sequence, vocabulary]."""

OperandAxes = tuple[int | None, ...]


def keep_last_rows(function: Function, logits: str) -> Function:
    """The function whose `logits` are those of the last token, [batch, vocabulary]."""
    ordinal = function.result_names.index(logits)
    value = function.body.results[ordinal]
    build = PassBuilder(symbols_in_use(function))
    last = _LastRows(build, function.body, value)
    for op in function.body.ops:
        build.ops.append(op)
        last.visit(op)
    build.guard(value.shape[SEQUENCE], 1, "at_least", "a call needs at least one token")
    row = last.row(value, SEQUENCE)
    results = list(function.body.results)
    results[ordinal] = build.reshape(row, (value.shape[0], value.shape[2]))
    return replace(function, body=prune(Block(function.body.parameters, tuple(build.ops), tuple(results))))


class _LastRows:
    """Makes the ops of which one row is wanted on one row of their operands."""

    def __init__(self, build: PassBuilder, body: Block, logits: Value) -> None:
        self.build = build
        self.operand_axes = _one_row_ops(body, logits)
        self.rows: dict[Value, Value] = {}

    def visit(self, op: Op) -> None:
        """Makes the op on rows, where it is one of those."""
        axes = self.operand_axes.get(op)
        if axes is None:
            return
        pairs = zip(op.operands, axes, strict=True)
        operands = [value if axis is None else self.row(value, axis) for value, axis in pairs]
        attributes = dict(op.attributes)
        shape = list(op.result.shape)
        shape[SEQUENCE] = 1
        if op.name == "broadcast":
            attributes["shape"] = tuple(shape)
        with self.build.at(op.location):
            types = declared_types(op, [shape])
            (self.rows[op.result],) = self.build.op(op.name, operands, attributes, (), types)

    def row(self, value: Value, axis: int) -> Value:
        """The last row of a value: made as such, or taken from all."""
        if value not in self.rows:
            self.rows[value] = self.build.slice_axis(value, axis, value.shape[axis] - 1, 1)
        return self.rows[value]


def _one_row_ops(body: Block, logits: Value) -> Mapping[Op, OperandAxes]:
    """The ops of whose results only the last row is wanted, with the axis of the rows in each operand."""
    users: dict[Value, list[Op | None]] = {}
    for op in body.ops:
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    for result in body.results:
        users.setdefault(result, []).append(None)
    operand_axes: dict[Op, OperandAxes] = {}
    if users[logits] != [None]:
        return operand_axes
    wanted = {logits}
    for op in reversed(body.ops):
        if len(op.results) != 1 or op.result not in wanted:
            continue
        others = [user for user in users[op.result] if user not in operand_axes]
        axes = _operand_axes(op) if not others or op.result == logits else None
        if axes is not None:
            operand_axes[op] = axes
            wanted.update(value for value, axis in zip(op.operands, axes, strict=True) if axis is not None)
    return operand_axes


def _operand_axes(op: Op) -> OperandAxes | None:
    """Where the rows of the result are in each operand; None where one row is not a function of one row alone.

    All values on the way have their rows on the same axis, so that no two ops can want different ones of a value.
    """
    primitive = PRIMITIVES[op.name]
    if op.blocks or primitive.kind == "random" or primitive.effects or (op.name != "broadcast" and _names_sizes(op)):
        return None
    for link in primitive.axes_rule(op):
        if link.kind == "map" and link.results == (SEQUENCE,):
            return link.operands if {*link.operands} <= {SEQUENCE, None} else None
    return (None,) * len(op.operands) if op.name == "broadcast" else None


def _names_sizes(op: Op) -> bool:
    """Whether an attribute has sizes in it, which may be those of all rows."""
    return any(_has_size(value) for value in op.attributes.values())


def _has_size(value: Attribute) -> bool:
    return isinstance(value, Size) or (isinstance(value, tuple) and any(map(_has_size, value)))
