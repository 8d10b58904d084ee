"""Results that are written with their axes in another order and shape than they are computed in."""

from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.source_builder import Int
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.views import row_major, split_axes


def computed_value(root: Value) -> Value:
    """What a result is before it is arranged."""
    return _arranged(root)[0]


def offset_in_result(e: Evaluator, root: Value, index: Sequence[Int]) -> Int:
    """Where in the buffer of a result the element lies that is computed at an index of `computed_value`."""
    value, movements = _arranged(root)
    shape = value.shape
    while movements and movements[-1].name == "reshape":
        # What comes last only gives dense memory another shape.
        movements.pop()
    for op in movements:
        index = _turned(op, index) if op.name == "transpose" else _split(e, shape, op.dims("shape"), index)
        shape = op.result.shape
    return e.strided(tuple(index), row_major(shape))


def _arranged(root: Value) -> tuple[Value, list[Op]]:
    """The computed value, and the movements to the result in order."""
    movements: list[Op] = []
    while root.op is not None and root.op.name in ("transpose", "reshape"):
        movements.insert(0, root.op)
        root = root.op.operands[0]
    return root, movements


def _turned(op: Op, index: Sequence[Int]) -> list[Int]:
    return [index[axis] for axis in op.ints("permutation")]


def _split(e: Evaluator, before: Sequence[Dim], after: Sequence[Dim], index: Sequence[Int]) -> list[Int]:
    """The index where some axes are split into several."""
    runs = split_axes(before, after)
    assert runs is not None, (before, after)
    positions: list[Int] = []
    for position, run in zip(index, runs, strict=True):
        positions += [position] if len(run) == 1 else e.unlinear(position, [after[axis] for axis in run])
    return positions
