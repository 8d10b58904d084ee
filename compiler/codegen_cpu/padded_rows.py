"""Rows with paddings at their ends: what lies between these needs no masks, and is most of a row."""

from collections.abc import Callable
from functools import reduce

from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_values import Int
from onnxc.compiler.planning.loops.inner_columns import InnerColumns


def write_padded_row(
    frame: KernelFrame, inner: InnerColumns, start: Int, stop: Int, write: Callable[[Evaluator, Index], None]
) -> None:
    """`write` at vectors of columns from `start` to `stop`, those next to an end of the inner columns one by one.

    The last inner vector ends with these, and writes some elements again.
    """
    f, lanes = frame.f, frame.lanes
    first = f.smin(reduce(f.smax, map(frame.size, inner.starts), start), stop)
    last = f.smax(reduce(f.smin, map(frame.size, inner.stops), stop), first)
    is_wide = as_reg(f.icmp("sge", f.sub(last, first), lanes))
    # Fewer inner columns than a vector has are written with what lies before them.
    first, last = f.select(is_wide, as_reg(first), as_reg(stop)), f.select(is_wide, as_reg(last), as_reg(stop))

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

    f.loop(0, 2, 1, part)
    f.loop(first, last, lanes, vector)
