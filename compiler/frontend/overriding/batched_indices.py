"""Indices that a model holds for a batch of one: each element of a larger batch is indexed as the one was.

A batch that an axis holds as its slower index shifts the indices by the size that the axis had, once for each element.
Of a result the first axis holds the batch then, as it is that of the indices.
"""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.frontend.overriding.renewal import Operands, Renewal
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Value

__all__ = ["gathered", "gathered_by_tuples", "scattered"]


def gathered(at: Renewal) -> Operands:
    """data, indices of Gather."""
    axis, data, indices = at.axis(0), at.shapes(0), at.shapes(1)
    batch = at.leading_batch(0, axis)
    if batch is None or data is None or indices is None:
        _expect_not_all(at, {axis: constant_of(at.operands[1])} if at.operands[1] is not None else {})
        return at.operands
    if not indices[1] or at.changed(1):
        at.refuse(f"Gather takes elements of axis {axis}, which now holds a batch of {batch}")
    sizes = at.ir.size(data[0][axis])
    return at.with_operand(1, _shifted(at.operands[1], batch, sizes, at.ir))


def gathered_by_tuples(at: Renewal) -> Operands:
    """data, indices of GatherND, whose last axis tells an index for each of the first axes of data."""
    data, indices = at.shapes(0), at.shapes(1)
    if data is None or indices is None or at.node.attributes.get("batch_dims"):
        return at.operands
    depth = indices[1][-1] if indices[1] else 0
    batches = {axis: at.leading_batch(0, axis) for axis in at.changed(0) if isinstance(depth, int) and axis < depth}
    taken = {axis: batch for axis, batch in batches.items() if batch is not None}
    if not taken:
        tuples = constant_of(at.operands[1]) if at.operands[1] is not None else None
        _expect_not_all(at, {axis: None if tuples is None else tuples[..., axis] for axis in batches})
        return at.operands
    if len(taken) > 1 or len(indices[1]) < 2 or not isinstance(depth, int) or at.changed(1):
        at.refuse(f"GatherND takes elements of axes {list(taken)}, which now hold a batch")
    ((axis, batch),) = taken.items()
    sizes = at.ir.sizes([data[0][axis] if other == axis else 0 for other in range(depth)])
    return at.with_operand(1, _shifted(at.operands[1], batch, sizes, at.ir))


def scattered(at: Renewal) -> Operands:
    """data, indices of ScatterElements and ScatterND: none may tell elements of a batch, or leave all but one alone."""
    data, indices = at.shapes(0), at.shapes(1)
    if data is None or indices is None:
        return at.operands
    by_tuples = at.node.operator == "ScatterND"
    depth = indices[1][-1] if by_tuples and indices[1] else 0
    for axis in at.changed(0):
        is_taken = (
            isinstance(depth, int) and axis < depth if by_tuples else axis == at.axis(0) or axis not in at.changed(1)
        )
        if is_taken and at.batch(0, axis) is not None:
            at.refuse(f"{at.node.operator} writes elements of axis {axis}, which now holds a batch")
    return at.operands


def _expect_not_all(at: Renewal, indices: Mapping[int, np.ndarray | None]) -> None:
    """Refuses constants that index every element which an axis had that has another number of them now."""
    shapes = at.shapes(0)
    for axis, constant in indices.items():
        if shapes is None or constant is None or axis not in at.changed(0):
            continue
        old, new = shapes[0][axis], shapes[1][axis]
        if isinstance(old, int) and old > 1 and np.unique(constant % old).size == old:
            at.refuse(f"{at.node.operator} takes each of the {old} elements that axis {axis} had, which now has {new}")


def _shifted(indices: Value | None, batch: Dim, sizes: Value, ir: Builder) -> Value:
    """The indices for each of a batch: those of the next one are by `sizes` larger, along the last axis."""
    assert indices is not None, batch
    wide = ir.cast(indices, I64)
    counted = ir.select(ir.less(wide, 0), ir.add(wide, sizes), wide)
    shape = (batch, *indices.shape)
    spread = ir.broadcast_to(counted, shape)
    shifted = ir.add(spread, ir.mul(ir.iota(shape, 0, I64), ir.broadcast_to(sizes, shape)))
    return ir.reshape(shifted, (batch * indices.shape[0], *indices.shape[1:]))
