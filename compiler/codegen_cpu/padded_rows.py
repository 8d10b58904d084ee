"""Rows with paddings at their ends: what lies between these needs no masks, and is most of a row."""

from collections.abc import Callable, Sequence
from functools import reduce

from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.inner_columns import InnerColumns


def write_padded_row(
    frame: KernelFrame,
    inner: InnerColumns,
    start: Int,
    stop: Int,
    write: Callable[[Evaluator, Index], None],
    otherwise: Callable[[], None],
) -> None:
    """`write` at vectors of columns from `start` to `stop`, those next to an end of the inner columns one by one.

    The last inner vector ends with these, and writes some elements again. Rows of fewer are for `otherwise`.
    """
    f, lanes = frame.f, frame.lanes
    first, last = _inner_part(frame, inner, start, stop)

    def part(side: Int) -> None:
        is_before = f.icmp("eq", side, 0)
        begin, end = f.select(is_before, as_reg(start), last), f.select(is_before, first, as_reg(stop))
        whole = f.add(begin, f.mul(f.sdiv(f.sub(end, begin), lanes), lanes))
        f.loop(begin, whole, lanes, lambda column: write(frame.evaluator(), Index(column, 1)))
        f.loop(whole, end, 1, lambda column: write(frame.evaluator(lanes=1), Index(column)))

    def vector(column: Int) -> None:
        e = frame.evaluator()
        e.inner = inner.pads
        write(e, Index(f.smin(column, f.sub(last, lanes)), 1))

    def wide() -> None:
        f.loop(0, 2, 1, part)
        f.loop(first, last, lanes, vector)

    f.if_(as_reg(f.icmp("sge", f.sub(last, first), lanes)), wide, otherwise)


def framed_pad(root: Value, inner: InnerColumns) -> Op | None:
    """The padding that `root` is the result of, if columns reach no other one."""
    return root.op if root.op is not None and inner.pads == {root.op} else None


def write_framed_row(
    frame: KernelFrame,
    inner: InnerColumns,
    pad: Op,
    row: tuple[Sequence[Index], Int, Int],
    put: Callable[[Evaluator, Index, Reg], None],
    otherwise: Callable[[], None],
) -> None:
    """Writes a row of the result of `pad`, by its coordinates, from a column to another.

    Paddings are stored first, as whole vectors, of which the inner columns write over what lies among them. A row that
    is outside along another axis is padding alone. put: stores a vector at a column. Narrow rows are for `otherwise`.
    """
    f, lanes, (outer, start, stop) = frame.f, frame.lanes, row
    first, last = _inner_part(frame, inner, start, stop)
    operand, fill = pad.operands
    before = [f.sub(own.base, frame.size(low)) for own, low in zip(outer, pad.dims("low")[:-1], strict=True)]
    is_inside = [
        f.icmp("ult", position, frame.size(size))
        for position, size, low, high in zip(before, operand.shape, pad.dims("low"), pad.dims("high"), strict=False)
        if (low, high) != (0, 0)
    ]

    def padding(begin: Int, end: Int, greatest: Int) -> None:
        e = frame.evaluator()
        x = e.spread(e.value(fill, ()))
        f.loop(begin, end, lanes, lambda column: put(e, Index(f.smin(column, greatest), 1), x))

    def copied(column: Int) -> None:
        e, column = frame.evaluator(), f.smin(column, f.sub(last, lanes))
        shifted = Index(f.sub(column, frame.size(pad.dims("low")[-1])), 1)
        put(e, Index(column, 1), e.spread(e.value(operand, (*map(Index, before), shifted))))

    def inside() -> None:
        padding(start, first, f.sub(last, lanes))
        padding(last, stop, f.sub(stop, lanes))
        f.loop(first, last, lanes, copied)

    def wide() -> None:
        if is_inside:
            f.if_(f.conjunction(is_inside), inside, lambda: padding(start, stop, f.sub(stop, lanes)))
        else:
            inside()

    f.if_(f.icmp("sge", f.sub(last, first), lanes), wide, otherwise)


def _inner_part(frame: KernelFrame, inner: InnerColumns, start: Int, stop: Int) -> tuple[Int, Int]:
    """The first of the inner columns from `start` to `stop`, and the one behind the last."""
    f = frame.f
    first = f.smin(reduce(f.smax, map(frame.size, inner.starts), start), stop)
    return first, f.smax(reduce(f.smin, map(frame.size, inner.stops), stop), first)
