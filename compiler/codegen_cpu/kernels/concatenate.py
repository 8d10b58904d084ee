"""Concatenation: each operand is computed straight into its part of the result, unless it is there already.

Vectors go along the rows of an operand; where these are short and costly, they have an element of each of several rows.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from onnxc.compiler.codegen_cpu.copies import Span, copy_row
from onnxc.compiler.codegen_cpu.element_types import memory_type, to_memory
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.pointwise import find_positions, write_moved_row, write_row, write_rows
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.sizes import Known, emit_size
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.merged_axes import merged_axes
from onnxc.compiler.planning.loops.views import operand_view, row_major, stays
from onnxc.compiler.planning.schedules import ConcatenateSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a concatenation: a unit of work is one row of the result before the joined axis, or several."""
    frame = open_kernel(kernel, name, target)
    op = frame.root.op
    assert op is not None
    axis = op.int("axis")
    outer = op.results[0].shape[:axis]
    schedule = kernel.scheduled(ConcatenateSchedule)
    if schedule.algorithm == "short":
        units, grain = write_rows(frame, outer, schedule.block, partial(_write_elements, frame, op))
        frame.f.ret()
        return KernelCode(name, (frame.f,), units, grain)
    known: Known = {}
    strides = tuple(emit_size(stride, frame.symbols, frame.f, known) for stride in row_major(op.results[0].shape))
    parts = _parts(frame, op, strides[axis], known)

    def unit(ordinal: Reg) -> None:
        coordinates = frame.split(ordinal, outer)
        for part in parts:
            if part.elsewhere is None:
                _write_part(frame, part, axis, coordinates, strides)
            else:
                frame.f.if_(part.elsewhere, partial(_write_part, frame, part, axis, coordinates, strides))

    frame.f.loop(frame.begin, frame.end, 1, unit)
    frame.f.ret()
    written = (part.operand.shape[axis:] for part in parts if part.elsewhere is None)
    inner = sum((product(shape) for shape in written), start=0)
    return KernelCode(name, (frame.f,), product(outer), frame.grain(inner))


def _write_elements(frame: KernelFrame, op: Op, e: Evaluator, outer: Sequence[Index]) -> None:
    """The elements of the rows at `outer`, one after another."""
    axis, dtype, strides, joined = op.int("axis"), frame.root.dtype, row_major(frame.root.shape), 0
    for operand in op.operands:
        sizes = known_sizes(operand.shape[axis:])
        for position in np.ndindex(*sizes):
            x = to_memory(e.value(operand, (*outer, *map(Index, position))), dtype, frame.f)
            index = (*outer, Index(joined + position[0]), *map(Index, position[1:]))
            e.store(x, frame.output, memory_type(dtype), e.strided(index, strides))
        joined += sizes[0]


@record
class _Part:
    """An operand, where it begins within a row of the result, and its rows, along so many `merged` axes.

    elsewhere: for one that would stay where it is if the result is written into its buffer, whether it is not.
    """

    operand: Value
    merged: int
    offset: Int
    rows: Int
    columns: Int
    elsewhere: Reg | None


def _parts(frame: KernelFrame, op: Op, stride: Int, known: Known) -> tuple[_Part, ...]:
    """The operands of `op`; their sizes are computed here, once, before the loops."""
    f, axis, parts = frame.f, op.int("axis"), list[_Part]()
    offset: Int = 0
    for ordinal, operand in enumerate(op.operands):
        merged = merged_axes([operand], axis)
        sizes = operand.shape[axis], product(operand.shape[axis:-merged]), product(operand.shape[-merged:])
        extent, rows, columns = (emit_size(size, frame.symbols, f, known) for size in sizes)
        kept = _kept(offset, f), _kept(rows, f), _kept(columns, f)
        parts.append(_Part(operand, merged, *kept, _is_elsewhere(frame, op, ordinal)))
        offset = f.add(offset, f.mul(extent, stride))
    return tuple(parts)


def _is_elsewhere(frame: KernelFrame, op: Op, ordinal: int) -> Reg | None:
    view = operand_view(op.operands[ordinal])
    if view is None or not stays(op, ordinal):
        return None
    return frame.f.icmp("ne", frame.inputs[frame.kernel.block.parameters.index(view.base)], frame.output)


def _kept(size: Int, f: FunctionBuilder) -> Int:
    """The size, read back from the stack, so that LLVM does not look for what the symbols in it have in common.

    Its analysis of the loops takes more than the square of their number: 2.8 s for 8 parts and 256 symbols.
    """
    if isinstance(size, int):
        return size
    slot = f.alloca("i64")
    f.store(size, slot, align=8)
    return f.load("i64", slot, align=8)


def _write_part(frame: KernelFrame, part: _Part, axis: int, outer: Sequence[Reg | int], strides: Sequence[Int]) -> None:
    """One operand within one outer row."""
    f, operand = frame.f, part.operand
    view = operand_view(operand)
    inner = operand.shape[axis : -part.merged]
    before = tuple(Index(coordinate) for coordinate in outer)
    after = (Index(),) * (part.merged - 1)

    def write(e: Evaluator, middle: Sequence[Index], column: Index) -> None:
        index = (*before, *middle, *after, column)
        x = to_memory(e.value(operand, index), operand.dtype, f)
        e.store(x, frame.output, memory_type(operand.dtype), e.linear(index, strides, part.offset))

    def row(ordinal: Reg) -> None:
        middle = tuple(Index(coordinate) for coordinate in frame.split(ordinal, inner))

        common = frame.evaluator()
        find_positions(common, operand, (*before, *middle, *after, Index(0, 1)))

        def vector(e: Evaluator, column: Index) -> None:
            e.positions.update(common.positions)
            write(e, middle, column)

        if view is None or view.strides[-1] != 1:
            write_row(frame, 0, part.columns, vector)
            return
        e, start = frame.evaluator(), (*before, *middle, *after, Index())
        source = Span(e.pointers[view.base], e.strided(start, view.strides, view.offset).base)
        target = Span(frame.output, e.linear(start, strides, part.offset).base)
        copy_row(
            f, operand.dtype, source, target, part.columns, lambda: write_moved_row(frame, 0, part.columns, vector)
        )

    f.loop(0, part.rows, 1, row)
