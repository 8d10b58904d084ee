"""Broadcasting that is not NumPy's: by the attributes of opsets before 7, and one operand onto the shape of another."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import bcast
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value

NUMPY_SINCE = 7
RULE = "ONNX, Broadcasting.md"


def binary_operands(node: Node, ir: Builder) -> tuple[Value, Value]:
    """Both operands of a binary operator at one shape, by the rule of its version."""
    a, b = node.variadic()
    if node.since < NUMPY_SINCE:
        return _by_attributes(a, b, node, ir)
    a, b = ir.broadcast_together(a, b)
    return a, b


def _by_attributes(a: Value, b: Value, node: Node, ir: Builder) -> tuple[Value, Value]:
    """`b` at the shape of `a`: the same already, one element, or with `broadcast` the axes of `a` from `axis` on."""
    if not node.flag("broadcast"):
        return _of_equal_shape(a, b, node, ir)
    if all(size == 1 for size in b.shape):
        return a, ir.broadcast(ir.reshape(b, ()), (), a.shape)
    start = node.axis("axis", rank=a.rank) if node.has("axis") else a.rank - b.rank
    if start < 0 or start + b.rank > a.rank:
        node.fail("broadcast-mismatch", f"B has {b.rank} axes, {a.rank} - {start} of A are left", rule=RULE)
    axes = range(start, start + b.rank)
    for axis, size in zip(axes, b.shape, strict=True):
        expect_spreads(size, a.shape[axis], f"axis {axis} of A differs from B", ir)
    return a, ir.broadcast(b, axes, a.shape)


def _of_equal_shape(a: Value, b: Value, node: Node, ir: Builder) -> tuple[Value, Value]:
    if a.rank != b.rank:
        node.fail("shapes-differ", f"the ranks differ: {a.rank} and {b.rank}", rule=f"{RULE}, broadcast = 0")
    shape = [
        ir.require_equal(left, right, f"axis {axis} differs", "shapes-differ")
        for axis, (left, right) in enumerate(zip(a.shape, b.shape, strict=True))
    ]
    return ir.with_shape(a, shape), ir.with_shape(b, shape)


def broadcast_onto(
    x: Value, shape: Sequence[Dim], name: str, node: Node, ir: Builder, code: str = "broadcast-mismatch"
) -> Value:
    """The operand `name` at `shape`, which it must not enlarge; else the error is `code`."""
    if x.rank > len(shape):
        node.fail(code, f"{name} has {x.rank} axes, its target {len(shape)}", rule=RULE)
    offset = len(shape) - x.rank
    for axis, size in enumerate(x.shape):
        target = shape[offset + axis]
        expect_spreads(size, target, f"axis {axis} of {name} cannot be broadcast to {target}", ir, code)
    return ir.broadcast_to(x, shape)


def expect_spreads(size: Dim, target: Dim, message: str, ir: Builder, code: str = "broadcast-mismatch") -> None:
    """`size` is 1 or `target`: an error where it cannot be, a guard where that is not decided."""
    if size in (1, target):
        return
    if isinstance(size, int) or target == 1:
        ir.require_equal(size, target, message, code)
        return
    ir.guard(size, target, "broadcast", f"{message}: {size}")
    ir.require_equal(bcast(size, target), target, message, code)
