"""A kernel whose code a caller wrote, called for ranges of elements, for ranges of rows, or once."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.native_module import native_module
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.native import scalars_of
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import NativeCallSchedule
from onnxc.compiler.target import Target


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The function that calls the caller's own, with pointers to where its range begins, sizes, and scalars."""
    frame = open_kernel(kernel, name, target)
    f, access = frame.f, kernel.scheduled(NativeCallSchedule).algorithm
    (op,) = (op for op in kernel.block.ops if op.name == "native_call")
    tensors, scalars = (*op.operands, *op.results), scalars_of(op)
    inner = {"elements": 0, "rows": 1}.get(access)
    pointers = [*(operand_in_memory(frame, operand)[0] for operand in op.operands), *frame.outputs]
    if inner is not None:
        pointers = [_at(frame, *pair, inner) for pair in zip(pointers, tensors, strict=True)]
    sizes = _sizes(frame, tensors, inner)
    types = ["i64" if isinstance(scalar, int) else "double" for scalar in scalars]
    parameters = (*("ptr",) * len(pointers), *("i64",) * len(sizes), *types)
    module = native_module(op.text("llvm"), parameters, op.text("operator"), target)
    values = [f.constant(type, scalar) for type, scalar in zip(types, scalars, strict=True)]
    f.call(module.entry, "void", *pointers, *sizes, *values)
    f.ret()
    units, work = _units(op, inner)
    return KernelCode(name, (f,), units, frame.grain(work), modules=(module.text,))


def _units(op: Op, inner: int | None) -> tuple[Dim, Dim]:
    """How many units of work there are, and about how many elements each has."""
    if inner is None:
        return 1, 1
    shape = op.results[0].shape
    return product(shape[: len(shape) - inner]), product(shape[len(shape) - inner :])


def _at(frame: KernelFrame, base: Reg, tensor: Value, inner: int) -> Reg:
    """Where the first unit of the range begins; a unit has the last `inner` axes."""
    elements = frame.size(product(tensor.shape[tensor.rank - inner :]) * tensor.dtype.itemsize)
    return frame.f.gep(base, frame.f.mul(frame.begin, elements))


def _sizes(frame: KernelFrame, tensors: Sequence[Value], inner: int | None) -> list[Int]:
    """How many units the range has, and what each tensor has of the rest; or all sizes of all tensors."""
    if inner is None:
        return [frame.size(size) for tensor in tensors for size in tensor.shape]
    count = frame.f.sub(frame.end, frame.begin)
    return [count, *(frame.size(tensor.shape[-1]) for tensor in tensors if inner)]
