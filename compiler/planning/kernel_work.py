"""What a kernel of the plan reads, writes and computes, as sizes in its own symbols.

Every buffer is counted once: what a kernel reads again is expected in the cache. Where elements are picked, no more is
counted than what comes out. What loops do beyond that, and what goes through scratch memory, the schedule says.
"""

from collections.abc import Mapping

from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim, product, sum_of
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.compiler.planning.bit_layouts import PackedCodes, PackedGroups, PackedRuns
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import operand_view, stays
from onnxc.runtime.records import record

__all__ = ["KernelWork", "work_of"]

_PICKING = ("gather", "gather_along", "gather_nd", "slice")

_STEPS_PER_ELEMENT = {"softmax": 5, "masked_softmax": 6, "log_softmax": 5, "layer_norm": 8, "rms_norm": 5, "gelu": 8}
"""Operations for each element of composites."""


@record
class KernelWork:
    """Bytes from and to memory; operations, a multiply-add being two."""

    read_bytes: Dim
    written_bytes: Dim
    flops: Dim

    def at(self, sizes: Mapping[str, Dim]) -> "KernelWork":
        """The same where the symbols of the kernel have these sizes."""
        amounts = (self.read_bytes, self.written_bytes, self.flops)
        return KernelWork(*(substitute(amount, sizes) for amount in amounts))


def work_of(kernel: Kernel, *, in_place: bool = False) -> KernelWork:
    """The work of one launch of a kernel; one that writes into what it reads leaves alone what stays there."""
    block, schedule = kernel.block, kernel.schedule
    staying = _staying(block) if in_place else {}
    read = sum_of(_read_bytes(kernel, parameter) for parameter in block.parameters if parameter not in staying)
    return KernelWork(
        read_bytes=read + schedule.loop_bytes,
        written_bytes=sum_of(map(_bytes, block.results)) - sum_of(staying.values()),
        flops=sum_of(map(_flops, block.ops)) + schedule.loop_operations,
    )


def _staying(block: Block) -> dict[Value, Dim]:
    """The buffers of which parts stay where they are in concatenations, with the bytes that do."""
    staying: dict[Value, Dim] = {}
    for op in (result.op for result in block.results):
        if op is None or op.name != "concatenate":
            continue
        for ordinal, operand in enumerate(op.operands):
            view = operand_view(operand)
            if view is not None and stays(op, ordinal):
                staying[view.base] = staying.get(view.base, 0) + _bytes(operand)
    return staying


def _bytes(value: Value) -> Dim:
    return value.tensor.elements * value.dtype.itemsize


def _read_bytes(kernel: Kernel, value: Value) -> Dim:
    """All of a parameter, or what is picked from it where nothing else reads it; codes of few bits packed."""
    layout = kernel.schedule.layout_of(kernel.block.parameters.index(value))
    if isinstance(layout, PackedCodes | PackedGroups | PackedRuns):
        return product(layout.shape)
    users = [op for op in kernel.block.ops if value in op.operands]
    if users and all(op.name in _PICKING and op.operands[0] == value for op in users):
        picked = sum_of(op.result.tensor.elements * value.dtype.itemsize for op in users)
        return minimum(_bytes(value), picked)
    return _bytes(value)


def _flops(op: Op) -> Dim:
    """The operations of an op; movements have none."""
    elements = op.results[0].tensor.elements
    match op.name:
        case "dot":
            return 2 * _dot_products(op)
        case "convolution":
            filters, axis = op.operands[1].shape, parse_dimensions(op.text("dimensions")).w.output
            return 2 * elements * product(filters[:axis] + filters[axis + 1 :])
        case "recurrence":
            return op.dim("trips") * sum_of(_flops(inner) for block in op.blocks for inner in block.ops)
        case "attention":
            q, k, v = (operand.shape for operand in op.operands[:3])
            return 2 * product(q[:-1]) * k[-2] * (q[-1] + v[-1])
        case "block_product" | "byte_block_product":
            return 2 * elements * op.operands[0].shape[-1]
        case "reduce_window" | "arg_reduce_window":
            return elements * product(op.dims("window"))
    kind = PRIMITIVES[op.name].kind
    if kind in ("reduction", "ordering"):
        return op.operands[0].tensor.elements
    if kind == "composite":
        return elements * _STEPS_PER_ELEMENT.get(op.name, 1)
    return elements if kind in ("pointwise", "random", "indexed") and op.name not in _PICKING else 0


def _dot_products(op: Op) -> Dim:
    left, right, _ = parse_equation(op.attributes["equation"])
    sizes = dict(zip(left, op.operands[0].shape, strict=True)) | dict(zip(right, op.operands[1].shape, strict=True))
    return product(sizes.values())
