"""The copies between host and device inside of a call, as a report tells them: what is copied, and why."""

from typing import Literal

from onnxc.compiler.codegen_gpu.source.element_types import NATIVE_DTYPES
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, is_host_type
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.residency import Copy, copies_of
from onnxc.runtime.records import record

__all__ = ["Direction", "ReportedCopy", "find_transfers", "host_reason", "op_text"]

Direction = Literal["upload", "download"]


@record
class ReportedCopy:
    """A copy of a value of `bytes`.

    reason: the op that has no kernel. is_certain: False where it depends on where an input lies or on which branch was
    taken. in_loop: once in each iteration of a loop.
    """

    direction: Direction
    value: str
    bytes: Dim
    reason: str
    is_certain: bool = True
    in_loop: bool = False


def find_transfers(plan: KernelPlan) -> tuple[ReportedCopy, ...]:
    """The copies of a call, in order."""
    return tuple(map(_reported, copies_of(plan)))


def _reported(copy: Copy) -> ReportedCopy:
    direction: Direction = "upload" if copy.to == "device" else "download"
    nbytes = copy.value.tensor.elements * copy.value.dtype.itemsize
    return ReportedCopy(direction, _value_text(copy.value), nbytes, _reason(copy), copy.is_certain, copy.in_loop)


def _reason(copy: Copy) -> str:
    """The op of the host that reads the value, or the one that has made it."""
    op = copy.reader or copy.value.op
    return "a loop or a branch was given it on the host" if op is None else host_reason(op)


def host_reason(op: Op) -> str:
    """Why an op runs on the host."""
    if op.name == "bind_sizes":
        return "sizes that data decides are needed on the host"
    if PRIMITIVES[op.name].kind == "control":
        return "control flow is decided on the host"
    types = [operand.type for operand in op.operands] + list(op.result_types)
    if any(map(is_host_type, types)):
        return f"{op_text(op)} has values that are no arrays of numbers of known rank"
    dtypes = (type.dtype for type in types if isinstance(type, TensorType))
    others = dict.fromkeys(str(dtype) for dtype in dtypes if dtype not in NATIVE_DTYPES)
    return f"there is no kernel for {op_text(op)}" + (f" of {', '.join(others)}" if others else "")


def op_text(op: Op) -> str:
    """The name of a primitive, or of the function of a host op."""
    return op.text("function") if op.name == "host" else op.name


def _value_text(value: Value) -> str:
    if value.op is None:
        return f"{value.producer.name}: {value.type}"
    return f"the result of {op_text(value.op)}: {value.type}"
