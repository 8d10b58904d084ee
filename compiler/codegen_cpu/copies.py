"""Rows that are copied as they lie in memory: long ones by the C library, others by vectors."""

from collections.abc import Callable

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.ir.dtypes import BOOL, DType
from onnxc.runtime.records import record

LEAST_COPIED_BYTES = 4096
"""Longer rows are for memcpy, which does not read the lines that it writes whole.

i64[128, 128] repeated 12 times, rows of 64 KiB: 90 us in place of 170; 128 times 6 KiB: 36 in place of 40."""


@record
class Span:
    """Where elements begin: an offset in a buffer."""

    buffer: Reg
    offset: Int


def copy_row(
    f: FunctionBuilder, dtype: DType, source: Span, target: Span, count: Int, otherwise: Callable[[], None]
) -> None:
    """Copies so many elements that lie side by side on both sides; `otherwise` writes a short row."""
    if dtype == BOOL:
        # Whatever is not 0 becomes 1.
        otherwise()
        return
    memory = memory_type(dtype)
    nbytes = f.mul(count, dtype.itemsize)

    def copy() -> None:
        to, origin = (f.gep(span.buffer, span.offset, memory) for span in (target, source))
        f.call("memcpy", "ptr", to, origin, nbytes)

    f.if_(f.icmp("sge", nbytes, LEAST_COPIED_BYTES), copy, otherwise)
