"""Buffers of the heap in native code: they grow to what a call needs, and stay for the calls behind it.

    i64 onnxc_grow(ptr buffer, i64 bytes, i64 kept)

lets a buffer, which has its address in one word and its bytes in the next, hold at least so many bytes; the first
`kept` stay. It gives 0, or 1 where there is no memory. Buffers of 2 MiB and more lie in huge pages where the kernel has
any: in small ones the first call takes a fault for every 4 KiB, and later calls miss addresses again and again.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.planning.place_buffers import ALIGNMENT_BYTES
from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from onnxc.runtime.program import BUFFER_WORDS, HEAP_BUFFERS

__all__ = ["buffer_address", "buffer_of", "call_grow", "exchange", "heap_functions"]

GROW = "onnxc_grow"

_HUGE_PAGES = 14
"""MADV_HUGEPAGE of Linux."""


def heap_functions() -> tuple[FunctionBuilder, ...]:
    """What every image has of it."""
    f = FunctionBuilder(GROW, [("ptr", "buffer"), ("i64", "bytes"), ("i64", "kept")], returns="i64")
    buffer, nbytes, kept = f.parameters
    old, capacity = f.load("ptr", buffer, 8), f.load("i64", f.gep(buffer, 1, "i64"), 8)
    # By half at least, so that what grows with every round is not copied with every round.
    wanted = f.smax(nbytes, f.add(capacity, f.lshr(capacity, 1)))
    rounded = f.and_(f.add(wanted, ALIGNMENT_BYTES - 1), -ALIGNMENT_BYTES)
    is_large = f.icmp("sge", rounded, HUGE_PAGE_BYTES)
    new = f.call("aligned_alloc", "ptr", f.select(is_large, HUGE_PAGE_BYTES, ALIGNMENT_BYTES), rounded)
    f.if_(f.is_null(new), lambda: f.ret(1))

    def advise() -> None:
        # Whole pages alone, so that a buffer is no larger for them. Where the kernel has none the memory is good too.
        f.call("madvise", "i32", new, f.and_(rounded, -HUGE_PAGE_BYTES), f.constant("i32", _HUGE_PAGES))

    f.if_(is_large, advise)

    def keep() -> None:
        f.call("memcpy", "ptr", new, old, kept)

    f.if_(f.icmp("ne", kept, 0), keep)
    f.call("free", "void", old)
    f.store(new, buffer, 8)
    f.store(rounded, f.gep(buffer, 1, "i64"), 8)
    f.ret(0)
    return (f,)


def buffer_of(heap: Reg, ordinal: int, f: FunctionBuilder) -> Reg:
    """Where the words of a buffer are."""
    return f.gep(heap, HEAP_BUFFERS + BUFFER_WORDS * ordinal, "i64")


def buffer_address(heap: Reg, ordinal: int, f: FunctionBuilder) -> Reg:
    """Where a buffer is now."""
    return f.load("ptr", buffer_of(heap, ordinal, f), 8)


def call_grow(buffer: Reg, nbytes: Int, kept: Int, f: FunctionBuilder) -> Reg:
    """i1: whether a buffer, whose words are given, cannot hold so many bytes; the first `kept` stay."""
    is_small = f.icmp("slt", f.load("i64", f.gep(buffer, 1, "i64"), 8), nbytes)
    (failed,) = f.if_(is_small, lambda: (f.call(GROW, "i64", buffer, nbytes, kept),), lambda: (0,))
    return f.icmp("ne", failed, 0)


def exchange(heap: Reg, first: int, second: int, f: FunctionBuilder) -> None:
    """Two buffers change places."""
    pointers = [
        f.gep(buffer_of(heap, each, f), word, "i64") for word in range(BUFFER_WORDS) for each in (first, second)
    ]
    values = [f.load("i64", pointer, 8) for pointer in pointers]
    for k in range(0, len(pointers), 2):
        f.store(values[k + 1], pointers[k], 8)
        f.store(values[k], pointers[k + 1], 8)
