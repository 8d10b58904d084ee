"""Contractions: by panels of columns, by lines along k, by panels of bytes, or each element alone.

What decides is the schedule; the fast forms are in product_panels.py, product_lines.py and product_bytes.py.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import register_type
from onnxc.compiler.codegen_cpu.evaluate import Evaluator, Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.kernels.pointwise import write_rows
from onnxc.compiler.codegen_cpu.products.bytes import emit_bytes
from onnxc.compiler.codegen_cpu.products.lines import emit_lines
from onnxc.compiler.codegen_cpu.products.panels import emit_panels
from onnxc.compiler.codegen_cpu.products.shallow import emit_shallow
from onnxc.compiler.codegen_cpu.products.sweeps import emit_sweeps
from onnxc.compiler.codegen_cpu.write_result import write_result
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import ContractionSchedule
from onnxc.compiler.target import Target

_FORMS = {
    "panels": emit_panels,
    "shallow": emit_shallow,
    "lines": emit_lines,
    "sweeps": emit_sweeps,
    "bytes": emit_bytes,
}


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a contraction."""
    emit_form = _FORMS.get(kernel.scheduled(ContractionSchedule).algorithm, _emit_general)
    return emit_form(open_kernel(kernel, name, target), name)


def _emit_general(frame: KernelFrame, name: str) -> KernelCode:
    """Any contraction of any type: each result element, a vector of them at once, sums its products in order."""
    dot = next(op for op in frame.kernel.block.ops if op.name == "dot")
    left, right, result = parse_equation(dot.attributes["equation"])
    sizes = dict(zip(left + right, dot.operands[0].shape + dot.operands[1].shape, strict=True))
    summed = [letter for letter in dict.fromkeys(left + right) if letter not in result]

    def write(e: Evaluator, index: Sequence[Index]) -> None:
        write_result(e, frame, dot, _sum_products(e, frame, dot, index, (left, right, result), summed, sizes), index)

    units, grain = write_rows(
        frame, dot.results[0].shape, frame.kernel.scheduled(ContractionSchedule).tile.columns, write
    )
    frame.f.ret()
    return KernelCode(name, (frame.f,), units, grain)


def _sum_products(
    e: Evaluator,
    frame: KernelFrame,
    dot: Op,
    index: Sequence[Index],
    terms: tuple[str, str, str],
    summed: Sequence[str],
    sizes: Mapping[str, Dim],
) -> Reg:
    f, (left, right, result) = frame.f, terms
    kept = dict(zip(result, index, strict=True))
    type = vector_type(register_type(dot.dtype()), e.lanes)
    lengths = tuple(sizes[letter] for letter in summed)

    def step(ordinal: Int, total: Reg) -> tuple[Reg]:
        positions = kept | dict(zip(summed, map(Index, frame.split(ordinal, lengths)), strict=True))
        inner = frame.evaluator(e.lanes, e.mask)
        a, b = (
            widened(inner.vector(operand, [positions[letter] for letter in letters]), operand.dtype, dot.dtype(), inner)
            for operand, letters in zip(dot.operands, (left, right), strict=True)
        )
        if dot.dtype().is_float:
            return (f.multiply_add(a, b, total),)
        return (f.add(total, f.mul(a, b)),)

    zero = f.constant(type, 0)
    (total,) = f.loop(0, frame.size(product(lengths)), 1, step, (zero,))
    return total


def widened(x: Reg, source: DType, target: DType, e: Evaluator) -> Reg:
    """An operand in the type of the sum."""
    wanted = vector_type(register_type(target), x.lanes)
    if x.type == wanted:
        return x
    if source.is_float:
        name = "fpext"
    else:
        name = "sext" if source.is_signed else "zext"
    result = e.f.convert(name, x, wanted)
    assert isinstance(result, Reg)
    return result
