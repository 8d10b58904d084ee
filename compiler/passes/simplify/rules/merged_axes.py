"""Reshapes that merge axes or add units, moved behind what does not mind: there they meet the reshape that undoes them.

Exporters flatten rows before a matrix product and unflatten them after its bias, and keep reduced axes as units.
"""

from string import ascii_letters

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.makers import made_by, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.ir.primitives.pointwise import is_widening
from onnxc.compiler.ir.rewriter import rule
from onnxc.compiler.passes.analysis.matching import axis_groups
from onnxc.compiler.passes.simplify.rules.broadcasts import ELEMENTWISE


def _merged(value: Value) -> tuple[Value, dict[int, tuple[int, ...]]] | None:
    """For a reshape that only merges axes and adds units: what it reshapes, and the axes that each axis was."""
    reshape = made_by(value, "reshape")
    if reshape is None:
        return None
    x = reshape.operands[0]
    groups = axis_groups(x.shape, value.shape)
    if groups is None or 1 in x.shape or any(len(after) != 1 for _, after in groups):
        return None
    return x, {after[0]: before for before, after in groups}


@rule("dot")
def contract_before_merging(op: Op, build: Builder) -> Value | None:
    """dot(merge(a), b) = merge(dot(a, b)) for axes that only a has and that are not summed"""
    left, right, result = parse_equation(op.text("equation"))
    merge = _merged(op.operands[0])
    if merge is None:
        return None
    x, runs = merge
    if len(runs) != len(left):
        return None
    unused = (letter for letter in ascii_letters if letter not in left + right)
    names: dict[str, str] = {}
    shape: list[Dim] = []
    for axis, letter in enumerate(left):
        is_row = letter not in right and letter in result
        names[letter] = "".join(next(unused) for _ in runs[axis]) if is_row and len(runs[axis]) > 1 else letter
        shape += [x.shape[old] for old in runs[axis]] if len(names[letter]) > 1 else [op.operands[0].shape[axis]]
    if all(len(name) == 1 for name in names.values()):
        return None
    terms = ["".join(names.get(letter, letter) for letter in term) for term in (left, right, result)]
    product = build.dot(build.with_shape(x, shape), op.operands[1], f"{terms[0]},{terms[1]}->{terms[2]}", op.dtype())
    return build.with_shape(product, op.result.shape)


@rule(*ELEMENTWISE)
def compute_before_merging(op: Op, build: Builder) -> Value | None:
    """f(merge(x), y) = merge(f(x, y)) for y that are merged alike, or repeat along the merged axes

    Not for a cast that widens: what is merged is in memory, and better there in 16 bits.
    """
    if is_widening(op):
        return None
    merge = next((merged for merged in map(_merged, op.operands) if merged is not None), None)
    if merge is None:
        return None
    x, runs = merge
    operands = [_unmerged(operand, x, runs, build) for operand in op.operands]
    known = [operand for operand in operands if operand is not None]
    if len(known) != len(operands):
        return None
    return build.with_shape(build.op(op.name, known, op.attributes)[0], op.result.shape)


def _unmerged(value: Value, x: Value, runs: dict[int, tuple[int, ...]], build: Builder) -> Value | None:
    """`value` in the shape of `x`."""
    reshape = made_by(value, "reshape")
    if reshape is not None and reshape.operands[0].shape == x.shape:
        return reshape.operands[0]
    if made_by(value, "broadcast") is None:
        return None
    source, axes = unbroadcast(value)
    own = [(axis, size) for axis, size in zip(axes, source.shape, strict=True) if size != 1]
    if any(len(runs[axis]) > 1 for axis, _ in own):
        return None
    dense = build.with_shape(source, [size for _, size in own])
    return build.broadcast(dense, [runs[axis][0] for axis, _ in own], x.shape)
