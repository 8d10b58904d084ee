"""The indices of what is not zero, by ops that have kernels: counted, the count bound as a size, then written."""

from onnxc.compiler.ir.building.sizes import Operand
from onnxc.compiler.ir.dims import Size, product
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def count_non_zero(module: Module) -> Module:
    """Takes the search for what is not zero apart, so that it needs no host."""
    return rewrite(module, [counted])


@rule("non_zero")
def counted(op: Op, build: Rewriter) -> Outcome:
    """non_zero(x) = the coordinates of true_positions(x != 0), as many as there are"""
    (x,) = op.operands
    elements = product(x.shape)
    flat = build.reshape(x, (elements,))
    hits = flat if x.dtype == BOOL else build.not_(build.equal(flat, 0))
    name = op.text("symbol")
    count = build.reduce(build.cast(hits, I64), "sum", [0], keepdims=True)
    build.op("bind_sizes", [count], {"symbols": (name,)})
    return (_coordinates(build.true_positions(hits, Size.symbol(name)), x, build),)


def _coordinates(indices: Value, x: Value, build: Rewriter) -> Value:
    """i64[rank, n]: what flat indices i64[n] into `x` are along each axis."""
    rows = []
    for axis, size in enumerate(x.shape):
        stride, along = product(x.shape[axis + 1 :]), indices
        if stride != 1:
            along = build.div(along, _whole(stride, build))
        if axis:
            along = build.rem(along, _whole(size, build))
        rows.append(build.unsqueeze(along, [0]))
    return build.concatenate(rows, 0) if rows else build.full((0, *indices.shape), 0, I64)


def _whole(size: int | Size, build: Rewriter) -> Operand:
    return size if isinstance(size, int) else build.size(size)
