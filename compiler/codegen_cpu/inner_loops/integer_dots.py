"""Products of bytes that lie side by side along k, added up in a lane of 32: one instruction, or a few.

Four at once, where an instruction multiplies them: it wants one operand without sign and the other with it. Operands
that agree in their sign are made to differ: flipping the top bit of x adds 128 to it, or takes 128 from it, which
changes its sums by 128 times those of the other operand. Elsewhere two at once, in 16 bits, whatever their signs are:
rows are widened when they are packed, panels as they are read. No sum saturates.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import I8, I16, U8, DType
from onnxc.compiler.target import Target

__all__ = ["FLIPPED_ZERO", "GROUP", "PAIR", "add_dots", "add_pairs", "has_dots", "multiplied_type"]

GROUP = 4
"""How many neighbours along k are multiplied at once by one instruction."""

PAIR = 2
"""How many are in 16 bits."""

FLIPPED_ZERO = 0x80
"""The bits that 0 has once its top bit is flipped."""

_MULTIPLY_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}


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
