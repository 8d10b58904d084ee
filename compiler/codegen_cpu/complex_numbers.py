"""Complex numbers in registers: an integer that holds both parts as memory does, taken apart to compute.

So that a register is one LLVM scalar or vector, and what only moves an element moves its bits.
"""

from collections.abc import Callable

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import C64, F32, F64, DType

Parts = tuple[Reg, Reg]


def part_dtype(dtype: DType) -> DType:
    """The element type of the real and of the imaginary part."""
    return F32 if dtype == C64 else F64


def split_complex(x: Reg, dtype: DType, f: FunctionBuilder) -> Parts:
    """(real part, imaginary part)"""
    bits = part_dtype(dtype).bits
    halves = (x, register(f.lshr(x, bits)))
    integers = [register(f.convert("trunc", half, vector_type(f"i{bits}", x.lanes))) for half in halves]
    real, imaginary = (register(f.convert("bitcast", each, _float(dtype, x.lanes))) for each in integers)
    return real, imaginary


def join_complex(parts: Parts, dtype: DType, f: FunctionBuilder) -> Reg:
    """The register of both parts."""
    bits, lanes = part_dtype(dtype).bits, parts[0].lanes
    integers = [register(f.convert("bitcast", part, vector_type(f"i{bits}", lanes))) for part in parts]
    real, imaginary = (register(f.convert("zext", each, vector_type(f"i{dtype.bits}", lanes))) for each in integers)
    return register(f.or_(real, f.shl(imaginary, bits)))


def _float(dtype: DType, lanes: int) -> str:
    return vector_type("float" if dtype == C64 else "double", lanes)


def _add(f: FunctionBuilder, a: Parts, b: Parts) -> Parts:
    return f.fadd(a[0], b[0]), f.fadd(a[1], b[1])


def _sub(f: FunctionBuilder, a: Parts, b: Parts) -> Parts:
    return f.fsub(a[0], b[0]), f.fsub(a[1], b[1])


def _mul(f: FunctionBuilder, a: Parts, b: Parts) -> Parts:
    real = f.fsub(f.fmul(a[0], b[0]), f.fmul(a[1], b[1]))
    return real, f.fadd(f.fmul(a[0], b[1]), f.fmul(a[1], b[0]))


def _div(f: FunctionBuilder, a: Parts, b: Parts) -> Parts:
    """Smith's method, as in NumPy: by the larger part of the divisor, so that nothing overflows on the way."""
    by_real = f.fcmp("oge", _magnitude(f, b[0]), _magnitude(f, b[1]))
    large, small = f.select(by_real, b[0], b[1]), f.select(by_real, b[1], b[0])
    ratio = f.fdiv(small, large)
    scale = f.fdiv(f.constant(large.type, 1.0), f.fadd(large, f.fmul(small, ratio)))
    # With c, d the larger and the smaller part of the divisor: (p + q d/c) and (q - p d/c), or the negative of it.
    p, q = f.select(by_real, a[0], a[1]), f.select(by_real, a[1], a[0])
    real = f.fmul(f.fadd(p, f.fmul(q, ratio)), scale)
    imaginary = f.fmul(f.fsub(q, f.fmul(p, ratio)), scale)
    imaginary = f.select(by_real, imaginary, f.fneg(imaginary))
    is_zero = f.fcmp("oeq", _magnitude(f, large), 0.0)
    return (
        f.select(is_zero, f.fdiv(a[0], _magnitude(f, b[0])), real),
        f.select(is_zero, f.fdiv(a[1], _magnitude(f, b[0])), imaginary),
    )


def _magnitude(f: FunctionBuilder, x: Reg) -> Reg:
    return f.intrinsic("llvm.fabs.*", x.type, x)


def _neg(f: FunctionBuilder, x: Parts) -> Parts:
    return f.fneg(x[0]), f.fneg(x[1])


def _equal(f: FunctionBuilder, x: Parts, y: Parts) -> Reg:
    return f.and_(f.fcmp("oeq", x[0], y[0]), f.fcmp("oeq", x[1], y[1]))


def _ordered(predicate: str) -> Callable[[FunctionBuilder, Parts, Parts], Reg]:
    """By the real part, then by the imaginary one, as NumPy has it; false where any part is NaN."""

    def emit(f: FunctionBuilder, x: Parts, y: Parts) -> Reg:
        by_real = f.and_(f.fcmp("olt", x[0], y[0]), f.fcmp("ord", x[1], y[1]))
        return f.or_(by_real, f.and_(f.fcmp("oeq", x[0], y[0]), f.fcmp(predicate, x[1], y[1])))

    return emit


def _comparison(function: Callable[..., Reg]) -> Callable[..., Reg]:
    """The function of registers that compares their parts."""
    return lambda f, dtype, *operands: function(f, *(split_complex(x, dtype, f) for x in operands))


def _on_parts(function: Callable[..., Parts]) -> Callable[..., Reg]:
    """The function of registers that computes both parts."""

    def emit(f: FunctionBuilder, dtype: DType, *operands: Reg) -> Reg:
        return join_complex(function(f, *(split_complex(x, dtype, f) for x in operands)), dtype, f)

    return emit


COMPLEX: dict[str, Callable[..., Reg]] = {
    "add": _on_parts(_add),
    "sub": _on_parts(_sub),
    "mul": _on_parts(_mul),
    "div": _on_parts(_div),
    "neg": _on_parts(_neg),
    "equal": _comparison(_equal),
    "less": _comparison(_ordered("olt")),
    "less_equal": _comparison(_ordered("ole")),
}
