"""Products of bytes that lie side by side along k, added up in a lane of 32: one instruction, or a few.

Four at once, where an instruction multiplies them: it wants one operand without sign and the other with it. Operands
that agree in their sign are made to differ: flipping the top bit of x adds 128 to it, or takes 128 from it, which
changes its sums by 128 times those of the other operand. Elsewhere two at once, in 16 bits, whatever their signs are:
rows are widened when they are packed, panels as they are read. Codes of few bits beside bytes need not be widened for
that, as two products of theirs are no more than 16 bits hold. No sum saturates.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import I8, I16, U8, DType
from onnxc.compiler.planning.bit_layouts import GROUP
from onnxc.compiler.target import Target

__all__ = [
    "FLIPPED_ZERO",
    "GROUP",
    "PAIR",
    "add_code_dots",
    "add_dots",
    "add_pairs",
    "dotted_codes",
    "has_dots",
    "multiplied_type",
]

PAIR = 2
"""How many are in 16 bits."""

FLIPPED_ZERO = 0x80
"""The bits that 0 has once its top bit is flipped."""

_MULTIPLY_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}

_MULTIPLY_BYTES = {
    512: ("avx512bw", "llvm.x86.avx512.pmaddubs.w.512"),
    256: ("avx2", "llvm.x86.avx2.pmadd.ub.sw"),
    128: ("ssse3", "llvm.x86.ssse3.pmadd.ub.sw.128"),
}

FEW_BITS = 4
"""Of codes two of whose products with bytes are added up in 16 bits: more than 6 would saturate."""


def dotted_codes(target: Target) -> tuple[int, ...]:
    """The bits of codes that a few instructions multiply by bytes, in groups: none where there are no such."""
    if has_dots(target):
        return (2, 4, 8)
    feature, _ = _MULTIPLY_BYTES[target.vector_bits]
    return (2, FEW_BITS) if target.arch == "x86_64" and target.has(feature) else ()


def multiplied_type(other: DType, target: Target) -> DType:
    """The type in which rows are multiplied with a panel of bytes of `other` type, which stay as they are."""
    if not has_dots(target):
        return I16
    return U8 if other == I8 else I8


def has_dots(target: Target) -> bool:
    """Whether one instruction multiplies and adds up groups in the vectors of a target."""
    return target.has("avx512vnni") or (target.vector_bits == 256 and target.has("avxvnni"))


def add_dots(f: FunctionBuilder, x: Reg, y: Reg, total: Reg, dtypes: tuple[DType, DType], target: Target) -> Reg:
    """`total` and in each lane of i32 the products of the four bytes of `x` and `y`, of which one has a sign."""
    unsigned, signed = (x, y) if dtypes[0] == U8 else (y, x)
    bytes_of = vector_type("i8", GROUP * total.lanes)
    name = f"llvm.x86.avx512.vpdpbusd.{target.vector_bits}"
    return f.intrinsic(
        name, total.type, total, *(register(f.convert("bitcast", z, bytes_of)) for z in (unsigned, signed))
    )


def add_pairs(f: FunctionBuilder, x: Reg, y: Reg, total: Reg, target: Target) -> Reg:
    """`total` and in each lane of i32 the products of the two elements of i16 of `x` and `y`.

    Each is added by itself: sums of several products, which LLVM would make first, want more registers than there are.
    """
    if target.arch == "x86_64":
        products = f.intrinsic(_MULTIPLY_PAIRS[target.vector_bits], total.type, x, y)
        return f.held(register(f.add(total, products)), "v")
    x, y = (register(f.convert("bitcast", z, total.type)) for z in (x, y))
    low = f.mul(f.ashr(f.shl(x, 16), 16), f.ashr(f.shl(y, 16), 16))
    return register(f.add(total, f.add(low, f.mul(f.ashr(x, 16), f.ashr(y, 16)))))


def add_code_dots(f: FunctionBuilder, codes: Reg, bits: int, y: Reg, total: Reg, target: Target) -> Reg:
    """`total` and in each lane of i32 the products of four codes of so many bits, without sign, and the bytes of `y`.

    bits: of `dotted_codes`.
    """
    if has_dots(target):
        return add_dots(f, codes, y, total, (U8, I8), target)
    bytes_of, pairs_of = vector_type("i8", GROUP * total.lanes), vector_type("i16", PAIR * total.lanes)
    _, name = _MULTIPLY_BYTES[target.vector_bits]
    pairs = f.intrinsic(name, pairs_of, *(register(f.convert("bitcast", z, bytes_of)) for z in (codes, y)))
    return add_pairs(f, pairs, f.constant(pairs_of, 1), total, target)
