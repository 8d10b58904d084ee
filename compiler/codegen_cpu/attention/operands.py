"""The operands of an attention on a CPU: where queries, keys, values and masks begin, and where results go."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type, round_register, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.layouts import PackedPanels
from onnxc.compiler.planning.loops.views import View, operand_views, row_major
from onnxc.compiler.planning.schedules import AttentionSchedule
from onnxc.runtime.records import record


@record
class Strided:
    """A view of a buffer: its axes are batch, head, row and column; `strides` count elements."""

    view: View
    base: Reg
    strides: tuple[Int, ...]

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.view.base.dtype


@record
class AttentionOperands:
    """An attention kernel that is being written."""

    frame: KernelFrame
    op: Op
    schedule: AttentionSchedule
    q: Strided
    k: Strided
    v: Strided
    mask: Strided | None

    @property
    def shape(self) -> tuple[Dim, Dim, Dim, Dim]:
        """Batch, heads, queries and keys."""
        q, k = self.op.operands[:2]
        return q.shape[0], q.shape[1], q.shape[2], k.shape[2]

    @property
    def widths(self) -> tuple[int, int]:
        """The widths of a query and a value."""
        return self.schedule.widths

    @property
    def sums(self) -> DType:
        """The type of scores and sums."""
        return self.schedule.arithmetic.sums

    @property
    def bias_panels(self) -> PackedPanels | None:
        """How the mask lies where it is a constant that was packed."""
        if self.mask is None:
            return None
        layout = self.schedule.layout_of(self.frame.kernel.block.parameters.index(self.mask.view.base))
        assert layout is None or isinstance(layout, PackedPanels), layout
        return layout

    @property
    def element(self) -> str:
        """The register of a score."""
        return register_type(self.sums)

    @property
    def heads_of_group(self) -> int:
        """How many heads of queries share one of keys and values."""
        heads, groups = self.op.operands[0].shape[1], self.op.operands[1].shape[1]
        assert isinstance(heads, int), heads
        assert isinstance(groups, int), groups
        return heads // groups

    @property
    def order(self) -> Sequence[int]:
        """The axes of the result in the order in which they lie."""
        result = self.op.result
        turns = (op for op in self.frame.kernel.block.ops if op.name == "transpose" and op.operands == (result,))
        return next((op.ints("permutation") for op in turns), range(result.rank))

    def at(self, operand: Strided, *index: Int) -> Reg:
        """The address of an element."""
        f = self.frame.f
        offset = self.frame.size(operand.view.offset)
        for position, stride in zip(index, operand.strides, strict=True):
            offset = f.add(offset, f.mul(position, stride))
        return f.gep(operand.base, offset, memory_type(operand.dtype))

    def write(self, x: Reg, index: Sequence[Index], mask: Reg | None) -> None:
        """Stores a vector of the result, which may lie with its axes in another order, and in another shape."""
        frame, result, order = self.frame, self.op.result, self.order
        e = frame.evaluator(x.lanes, mask)
        offset = e.strided([index[axis] for axis in order], row_major([result.shape[axis] for axis in order]))
        rounded = round_register(x, result.dtype, frame.f)
        e.store(to_memory(rounded, result.dtype, frame.f), frame.output, memory_type(result.dtype), offset)


def attention_operands(frame: KernelFrame) -> AttentionOperands:
    """The operands of a kernel."""
    op = next(op for op in frame.kernel.block.ops if op.name == "attention")
    q, k, v, *masks = (_strided(frame, view) for view in operand_views(op))
    sizes = (*op.operands[0].shape[:3], op.operands[1].shape[2])
    mask = _repeated(frame, masks[0], sizes) if masks else None
    return AttentionOperands(frame, op, frame.kernel.scheduled(AttentionSchedule), q, k, v, mask)


def filled(size: int, lanes: int) -> int:
    """A size filled up to whole vectors."""
    return -(-size // lanes) * lanes


def _strided(frame: KernelFrame, view: View) -> Strided:
    base = frame.inputs[frame.kernel.block.parameters.index(view.base)]
    return Strided(view, base, tuple(frame.size(stride) for stride in view.strides))


def _repeated(frame: KernelFrame, mask: Strided, sizes: Sequence[Dim]) -> Strided:
    """The mask with strides of 0 along what it is repeated along, where only a call may know that."""
    f, strides = frame.f, list(mask.strides)
    for axis, (own, size) in enumerate(zip(mask.view.shape, sizes, strict=True)):
        if own == 1:
            strides[axis] = 0
        elif own != size:
            strides[axis] = f.mul(strides[axis], f.convert("zext", f.icmp("ne", frame.size(own), 1), "i64"))
    return Strided(mask.view, mask.base, tuple(strides))
