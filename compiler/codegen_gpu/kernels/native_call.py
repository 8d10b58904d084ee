"""A kernel whose code a caller wrote: a function of Triton, called with tiles of elements, with tiles of rows, or once.

Blocks come in the type that kernels compute with, so 16-bit floats in f32; what the function returns is converted to
it, and rounded where it is stored. Pointers are to elements as they are in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, power_of_two, unravel
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.native import no_triton, scalars_of
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import is_dense, operand_view, row_major
from onnxc.compiler.planning.schedules import NativeCallSchedule
from onnxc.compiler.target import Target

ROW, COLUMN = 0, 1
"""The dimensions of a tile of rows."""


def is_native(op: Op) -> bool:
    """Whether the code is for a GPU; where it is not, a pass has put the function on the host in its place."""
    return not no_triton(op)


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a kernel that calls the caller's function."""
    (op,) = (op for op in kernel.block.ops if op.name == "native_call")
    schedule = kernel.scheduled(NativeCallSchedule)
    frame = open_kernel(kernel, target, rank=2 if schedule.algorithm == "rows" else 1)
    frame.b.helper(op.text("triton"))
    code = _EMIT[schedule.algorithm](frame, op, schedule.block)
    (step,) = code.steps
    return replace(code, steps=(replace(step, source=replace(step.source, operator=op.text("operator"))),))


def _emit_elements(frame: KernelFrame, op: Op, block: int) -> KernelCode:
    """Flat tiles: a block of each operand."""

    def write(e: Evaluator, offset: Int) -> None:
        operands = [e.everywhere(_element(e, operand, offset)) for operand in op.operands]
        for ordinal, (x, result) in enumerate(zip(_called(frame, op, operands), op.results, strict=True)):
            e.store(_converted(e, x, result.dtype), result.dtype, frame.output(ordinal), offset)

    return frame.flat(product(op.results[0].shape), write, block)


def _element(e: Evaluator, operand: Value, offset: Int) -> Expr:
    """The elements of an operand at flat indices; as they lie, where they lie in this order."""
    view = operand_view(operand)
    if view is not None and is_dense(view):
        return e.read(view.base, offset)
    return e.value(operand, unravel(e.b, offset, [e.size(size) for size in operand.shape]))


def _emit_rows(frame: KernelFrame, op: Op, rows: int) -> KernelCode:
    """Tiles of whole rows: a block of each operand, then which of its lanes exist and how many, of all tensors."""
    b, outer = frame.b, op.results[0].shape[:-1]
    count = product(outer)
    row = b.add(b.mul(b.program(), rows), b.lanes(ROW, rows))
    index = unravel(b, row, [frame.size(size) for size in outer])
    tensors = (*op.operands, *op.results)
    widths = [size for tensor in tensors if isinstance(size := tensor.shape[-1], int)]
    evaluators = [_row_evaluator(frame, rows, row, width) for width in widths]
    given = list(zip(evaluators, op.operands, strict=False))
    blocks = [e.everywhere(e.value(operand, (*index, e.lanes[COLUMN]))) for e, operand in given]
    masks = [b.compare(e.lanes[COLUMN], "<", width) for e, width in zip(evaluators, widths, strict=True)]
    results = _called(frame, op, [*blocks, *masks, *widths])
    written = zip(evaluators[len(op.operands) :], op.results, results, strict=True)
    for ordinal, (e, result, x) in enumerate(written):
        offset = e.strided((*index, e.lanes[COLUMN]), row_major(result.shape))
        e.store(_converted(e, x, result.dtype), result.dtype, frame.output(ordinal), offset)
    return frame.code((floordiv(count + rows - 1, rows),))


def _row_evaluator(frame: KernelFrame, rows: int, row: Int, width: int) -> Evaluator:
    """An evaluator of rows of so many elements, in a block of a power of two."""
    b = frame.b
    lanes = {ROW: b.lanes(ROW, rows), COLUMN: b.lanes(COLUMN, power_of_two(width))}
    count = frame.size(product(frame.root.shape[:-1]))
    return frame.evaluator(lanes, {ROW: b.compare(row, "<", count), COLUMN: b.compare(lanes[COLUMN], "<", width)})


def _emit_whole(frame: KernelFrame, op: Op, programs: int) -> KernelCode:
    """One program: pointers to all tensors, and all their sizes."""
    pointers = [_pointer(frame, operand) for operand in op.operands]
    pointers += [frame.output(ordinal) for ordinal in range(len(op.results))]
    sizes = [frame.size(size) for tensor in (*op.operands, *op.results) for size in tensor.shape]
    frame.b.line(_call(op, [*pointers, *sizes]))
    return frame.code((programs,))


def _pointer(frame: KernelFrame, operand: Value) -> Expr:
    """The buffer of an operand, which the target reads no other views of."""
    view = operand_view(operand)
    assert view is not None, operand
    assert is_dense(view), operand
    return frame.input(view.base)


def _converted(e: Evaluator, x: Expr, dtype: DType) -> Expr:
    """What the function returned as kernels compute with it, in every lane."""
    block = e.everywhere(x)
    return e.b.let(f"{block} != 0" if dtype.is_bool else f"{block}.to({register_type(dtype)})", block.dims)


def _called(frame: KernelFrame, op: Op, operands: Sequence[Int]) -> list[Expr]:
    """What a call of the function returns, one value for each result."""
    names = [frame.b.fresh("r") for _ in op.results]
    frame.b.line(f"{', '.join(names)} = {_call(op, operands)}")
    return [Expr(name) for name in names]


def _call(op: Op, operands: Sequence[Int]) -> str:
    """The call, with the attributes behind what it computes with."""
    arguments = [*map(str, operands), *map(_number, scalars_of(op))]
    return f"custom({', '.join(arguments)})"


def _number(value: float) -> str:
    """An attribute as a literal."""
    return repr(value) if isinstance(value, int) or isfinite(value) else f'float("{value}")'


_EMIT: Mapping[str, Callable[[KernelFrame, Op, int], KernelCode]] = {
    "elements": _emit_elements,
    "rows": _emit_rows,
    "whole": _emit_whole,
}
"""The code of each access, for so many elements or rows in a program."""
