"""The lines that an op orders: where an element of one lies, and what is written of it."""

from functools import cached_property

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.views import row_major
from onnxc.runtime.records import record

__all__ = ["Lines"]


@record
class Lines:
    """The lines along the axis of a sort or of top_k."""

    op: Op

    @cached_property
    def operand(self) -> Value:
        """What is ordered."""
        return self.op.operands[0]

    @cached_property
    def axis(self) -> int:
        """The axis of the lines."""
        return self.op.int("axis")

    @cached_property
    def descending(self) -> bool:
        """Whether the greatest elements come first."""
        return self.op.flag("descending" if self.op.name == "sort" else "largest")

    @cached_property
    def length(self) -> Dim:
        """The elements of a line."""
        return self.operand.shape[self.axis]

    @cached_property
    def kept(self) -> Dim:
        """How many of them are in the result."""
        return self.op.results[0].shape[self.axis]

    @cached_property
    def count(self) -> Dim:
        """How many lines there are."""
        return product(self.outer)

    @cached_property
    def outer(self) -> tuple[Dim, ...]:
        """The sizes of the other axes."""
        shape = self.operand.shape
        return (*shape[: self.axis], *shape[self.axis + 1 :])

    def at(self, frame: KernelFrame, line: Int, position: Int) -> list[Int]:
        """The index of an element of a line."""
        index = list(unravel(frame.b, line, [frame.size(size) for size in self.outer]))
        return [*index[: self.axis], position, *index[self.axis :]]

    def write(
        self, frame: KernelFrame, e: Evaluator, target: tuple[Int, Int], position: Int, mask: Expr | None = None
    ) -> None:
        """Writes the element at `position` of a line, and this, as the one of this rank: target = line, rank."""
        line, rank = target
        result = e.strided(self.at(frame, line, rank), row_major(self.op.results[0].shape))
        e = e if mask is None else e.wanted(mask)
        for ordinal, value in enumerate(frame.kernel.block.results):
            if value == self.op.results[0]:
                written = e.value(self.operand, self.at(frame, line, position))
            else:
                written = frame.b.let(f"{position}.to(tl.int64)", dims_of(position))
            e.store(written, value.dtype, frame.output(ordinal), result, mask)
