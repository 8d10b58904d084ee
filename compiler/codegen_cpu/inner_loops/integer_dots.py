"""Products of four neighbours along k, of 8 bits each, added up in a lane of 32: one instruction, or a few.

The instruction wants one operand without sign and the other with it. Operands that agree in their sign are made to
differ: flipping the top bit of x adds 128 to it, or takes 128 from it, which changes its sums by 128 times those of the
other operand. Without the instruction, even and odd neighbours are multiplied in 16 bits, whatever their signs are.
No sum saturates.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import I8, U8, DType
from onnxc.compiler.target import Target

__all__ = ["FLIPPED_ZERO", "GROUP", "add_dots", "multiplied_type"]

GROUP = 4
"""How many neighbours along k are multiplied at once."""

FLIPPED_ZERO = 0x80
"""The bits that 0 has once its top bit is flipped."""

_MULTIPLY_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}


def multiplied_type(own: DType, other: DType, target: Target) -> DType:
    """The type in which elements of `own` type are multiplied with those of `other`, whose bits stay as they are."""
    if not _has_dots(target):
        return own
    return U8 if other == I8 else I8


def _has_dots(target: Target) -> bool:
    """Whether one instruction multiplies and adds up groups in the vectors of a target."""
    return target.has("avx512vnni") or (target.vector_bits == 256 and target.has("avxvnni"))


def add_dots(f: FunctionBuilder, x: Reg, y: Reg, total: Reg, dtypes: tuple[DType, DType], target: Target) -> Reg:
    """`total` and in each lane of i32 the products of the four bytes of `x` and `y`, which are of `dtypes`."""
    if _has_dots(target):
        unsigned, signed = (x, y) if dtypes[0] == U8 else (y, x)
        bytes_of = vector_type("i8", GROUP * total.lanes)
        name = f"llvm.x86.avx512.vpdpbusd.{target.vector_bits}"
        return f.intrinsic(
            name, total.type, total, *(register(f.convert("bitcast", z, bytes_of)) for z in (unsigned, signed))
        )
    for odd in (False, True):
        pairs = [_sixteen_bits(f, z, dtype, odd=odd) for z, dtype in zip((x, y), dtypes, strict=True)]
        total = f.add(total, _multiply_pairs(f, pairs[0], pairs[1], total.type, target))
    return total


def _sixteen_bits(f: FunctionBuilder, x: Reg, dtype: DType, *, odd: bool) -> Reg:
    """The even or the odd bytes of each lane, widened where they are."""
    halves = register(f.convert("bitcast", x, vector_type("i16", 2 * x.lanes)))
    high = halves if odd else f.shl(halves, 8)
    return f.ashr(high, 8) if dtype.is_signed else f.lshr(high, 8)


def _multiply_pairs(f: FunctionBuilder, x: Reg, y: Reg, wanted: str, target: Target) -> Reg:
    """In each lane of 32 bits the sum of two products of 16."""
    if target.arch == "x86_64":
        return f.intrinsic(_MULTIPLY_PAIRS[target.vector_bits], wanted, x, y)
    x, y = (register(f.convert("bitcast", z, wanted)) for z in (x, y))
    low = register(f.mul(f.ashr(f.shl(x, 16), 16), f.ashr(f.shl(y, 16), 16)))
    return f.add(low, f.mul(f.ashr(x, 16), f.ashr(y, 16)))
