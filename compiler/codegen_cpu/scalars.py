"""The pointwise primitives as instructions, for scalars and vectors alike.

Each function takes the builder, the element type of the operands and the operands; 16-bit floats and
narrow types arrive in the type that they are computed in.
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.codegen_cpu.complex_numbers import COMPLEX
from onnxc.compiler.codegen_cpu.conversions import emit_bitcast, emit_cast
from onnxc.compiler.codegen_cpu.element_types import computed_dtype, narrow, note_exact, widen
from onnxc.compiler.codegen_cpu.elementary import ELEMENTARY
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import BF16, F8E8M0, F16, F32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import PRIMITIVES

Emit = Callable[..., Reg]


def emit_pointwise(op: Op, operands: Sequence[Reg], f: FunctionBuilder) -> Reg:
    """The result of `op` on registers of equal lanes."""
    dtype = op.operands[0].dtype
    if op.name == "select":
        return note_exact(f.select(operands[0], operands[1], operands[2]), operands[1:], f)
    if op.name == "cast":
        saturate, round_mode = op.flag("saturate"), op.text("round_mode")
        return emit_cast(operands[0], dtype, op.dtype(), f, saturate=saturate, round_mode=round_mode)
    if op.name == "bitcast":
        return emit_bitcast(operands[0], dtype, op.dtype(), f)
    wide = [widen(operand, dtype, f) for operand in operands]
    result = table_of(dtype)[op.name](f, computed_dtype(dtype), *wide)
    if dtype in (F16, BF16, F32) and PRIMITIVES[op.name].exact:
        return note_exact(result, operands, f)
    has_short_nan = op.name in _ONE_INSTRUCTION and all(operand in f.bfloats for operand in operands)
    return narrow(result, op.results[0].dtype, f, has_short_nan=has_short_nan)


_ONE_INSTRUCTION = frozenset(("add", "sub", "mul", "div", "sqrt"))
"""What gives NaN of an operand that is NaN, quiet, or the processor's own, whose low half is 0."""


def table_of(dtype: DType) -> Mapping[str, Emit]:
    """The pointwise primitives that exist for operands of `dtype`."""
    if dtype == F8E8M0:
        # A scale is only cast and moved; what its arithmetic rounds to is a rule of its own in ml_dtypes.
        return {}
    if dtype.is_float:
        return FLOATS
    if dtype.is_complex:
        return COMPLEX
    return BOOLS if dtype.is_bool else INTEGERS


def _float_max(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """NaN if either is."""
    if _is_literal_but_nan(b):
        return f.select(f.fcmp("olt", a, b), b, a)
    # One maximum and one blend, neither of which waits for the test of b; `a` is what a fold has so far.
    return f.select(f.fcmp("uno", b, b), b, f.select(f.fcmp("ogt", b, a), b, a))


def _float_min(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """NaN if either is."""
    if _is_literal_but_nan(b):
        return f.select(f.fcmp("ogt", a, b), b, a)
    return f.select(f.fcmp("uno", b, b), b, f.select(f.fcmp("olt", b, a), b, a))


def _is_literal_but_nan(x: Reg) -> bool:
    return x.is_literal and "0x7FF8" not in x.text and "poison" not in x.text


def _float_sign(f: FunctionBuilder, dtype: DType, x: Reg) -> Reg:
    """-1, 0 or 1; NaN stays."""
    one = f.intrinsic("llvm.copysign.*", x.type, f.constant(x.type, 1.0), x)
    return f.select(f.fcmp("one", x, 0.0), one, x)


def _intrinsic(name: str) -> Emit:
    return lambda f, dtype, x: f.intrinsic(f"llvm.{name}.*", x.type, x)


def _frem(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    return ELEMENTARY["rem"](f, a, b)


FLOATS: dict[str, Emit] = {
    "add": lambda f, dtype, a, b: f.fadd(a, b),
    "sub": lambda f, dtype, a, b: f.fsub(a, b),
    "mul": lambda f, dtype, a, b: f.fmul(a, b),
    "div": lambda f, dtype, a, b: f.fdiv(a, b),
    "rem": _frem,
    "min": _float_min,
    "max": _float_max,
    "neg": lambda f, dtype, x: f.fneg(x),
    "abs": _intrinsic("fabs"),
    "sign": _float_sign,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("roundeven"),
    "sqrt": _intrinsic("sqrt"),
    "equal": lambda f, dtype, a, b: f.fcmp("oeq", a, b),
    "less": lambda f, dtype, a, b: f.fcmp("olt", a, b),
    "less_equal": lambda f, dtype, a, b: f.fcmp("ole", a, b),
    **{
        name: lambda f, dtype, *operands, _emit=emit: _emit(f, *operands)
        for name, emit in ELEMENTARY.items()
        if name != "rem"
    },
}


def _compare(signed: str, unsigned: str) -> Emit:
    return lambda f, dtype, a, b: f.icmp(signed if dtype.is_signed else unsigned, a, b)


def _signed(signed: str, unsigned: str) -> Emit:
    return lambda f, dtype, a, b: getattr(f, signed if dtype.is_signed else unsigned)(a, b)


def _safe_divisor(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """`b` with 1 where dividing by it is not defined: 0, and -1 below the least integer."""
    unsafe = f.icmp("eq", b, 0)
    if dtype.is_signed:
        least = f.icmp("eq", a, -(1 << (dtype.bits - 1)))
        unsafe = _or(f, unsafe, _and(f, least, f.icmp("eq", b, -1)))
    return f.select(unsafe, f.constant(b.type, 1), b)


def _divide(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """Truncated; x / 0 = 0, and the least integer divided by -1 is itself."""
    quotient = _quotient(f, dtype, a, _safe_divisor(f, dtype, a, b))
    return f.select(f.icmp("eq", b, 0), f.constant(a.type, 0), quotient)


def _quotient(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """a / b, truncated, where that is defined; of vectors by floats, for no vector unit divides integers.

    A quotient that is no integer is 1 / |b| or more away from one, and the float nearest to it is closer than that, as
    it has more bits than a: both are truncated to the same integer.
    """
    if a.lanes == 1 or dtype.bits > 32:
        return register(f.sdiv(a, b) if dtype.is_signed else f.udiv(a, b))
    wide = vector_type("float" if dtype.bits <= 16 else "double", a.lanes)
    extend, truncate = ("sitofp", "fptosi") if dtype.is_signed else ("uitofp", "fptoui")
    quotient = f.fdiv(register(f.convert(extend, a, wide)), register(f.convert(extend, b, wide)))
    whole = f.convert(truncate if dtype.bits == 32 else "fptosi", quotient, vector_type("i32", a.lanes))
    return register(f.convert("trunc", whole, a.type))


def _remainder(f: FunctionBuilder, dtype: DType, a: Reg, b: Reg) -> Reg:
    """With the sign of the dividend; x rem 0 = 0."""
    divisor = _safe_divisor(f, dtype, a, b)
    if a.lanes > 1 and dtype.bits <= 32:
        return register(f.sub(a, f.mul(_quotient(f, dtype, a, divisor), divisor)))
    return f.srem(a, divisor) if dtype.is_signed else f.urem(a, divisor)


def _shift(f: FunctionBuilder, dtype: DType, x: Reg, amount: Reg, *, left: bool) -> Reg:
    """0, or the sign, where the amount is the width or more."""
    inside = f.icmp("ult", amount, dtype.bits)
    if left:
        return f.select(inside, f.shl(x, _clamped(f, dtype, amount)), f.constant(x.type, 0))
    if not dtype.is_signed:
        return f.select(inside, f.lshr(x, _clamped(f, dtype, amount)), f.constant(x.type, 0))
    return f.ashr(x, _clamped(f, dtype, amount))


def _clamped(f: FunctionBuilder, dtype: DType, amount: Reg) -> Reg:
    return f.umin(amount, dtype.bits - 1)


def _integer_abs(f: FunctionBuilder, dtype: DType, x: Reg) -> Reg:
    return f.select(f.icmp("slt", x, 0), f.sub(f.constant(x.type, 0), x), x) if dtype.is_signed else x


def _integer_sign(f: FunctionBuilder, dtype: DType, x: Reg) -> Reg:
    zero, one = (f.constant(x.type, constant) for constant in (0, 1))
    positive = f.select(f.icmp("ne", x, 0), one, zero)
    return f.select(f.icmp("slt", x, 0), f.constant(x.type, -1), positive) if dtype.is_signed else positive


def _integer_power(f: FunctionBuilder, dtype: DType, base: Reg, exponent: Reg) -> Reg:
    """By squaring while a lane has bits left, wrapping; a negative exponent gives the truncated reciprocal."""
    one, zero = f.constant(base.type, 1), f.constant(base.type, 0)

    def has_bits(result: Reg, square: Reg, left: Reg) -> Reg:
        some = f.icmp("ne", left, 0)
        return some if some.lanes == 1 else f.reduce_lanes("or", some)

    def step(result: Reg, square: Reg, left: Reg) -> tuple[Reg, Reg, Reg]:
        odd = f.icmp("ne", f.and_(left, 1), 0)
        return f.select(odd, f.mul(result, square), result), f.mul(square, square), f.lshr(left, 1)

    result, _, _ = f.while_((one, base, exponent), has_bits, step)
    if not dtype.is_signed:
        return result
    unit = f.select(f.icmp("eq", f.and_(exponent, 1), 0), one, base)
    is_unit = _or(f, f.icmp("eq", base, 1), f.icmp("eq", base, -1))
    reciprocal = f.select(is_unit, unit, zero)
    return f.select(f.icmp("slt", exponent, 0), reciprocal, result)


def _and(f: FunctionBuilder, a: Reg, b: Reg) -> Reg:
    return f.and_(a, b)


def _or(f: FunctionBuilder, a: Reg, b: Reg) -> Reg:
    return f.or_(a, b)


INTEGERS: dict[str, Emit] = {
    "add": lambda f, dtype, a, b: f.add(a, b),
    "sub": lambda f, dtype, a, b: f.sub(a, b),
    "mul": lambda f, dtype, a, b: f.mul(a, b),
    "div": _divide,
    "rem": _remainder,
    "pow": _integer_power,
    "min": _signed("smin", "umin"),
    "max": _signed("smax", "umax"),
    "neg": lambda f, dtype, x: f.sub(f.constant(x.type, 0), x),
    "abs": _integer_abs,
    "sign": _integer_sign,
    "floor": lambda f, dtype, x: x,
    "ceil": lambda f, dtype, x: x,
    "round": lambda f, dtype, x: x,
    "and": lambda f, dtype, a, b: f.and_(a, b),
    "or": lambda f, dtype, a, b: f.or_(a, b),
    "xor": lambda f, dtype, a, b: f.xor(a, b),
    "not": lambda f, dtype, x: f.xor(x, -1),
    "shift_left": lambda f, dtype, a, b: _shift(f, dtype, a, b, left=True),
    "shift_right": lambda f, dtype, a, b: _shift(f, dtype, a, b, left=False),
    "equal": lambda f, dtype, a, b: f.icmp("eq", a, b),
    "less": _compare("slt", "ult"),
    "less_equal": _compare("sle", "ule"),
}

BOOLS: dict[str, Emit] = {
    "and": lambda f, dtype, a, b: f.and_(a, b),
    "or": lambda f, dtype, a, b: f.or_(a, b),
    "xor": lambda f, dtype, a, b: f.xor(a, b),
    "not": lambda f, dtype, x: f.xor(x, f.constant(x.type, 1)),
    "equal": lambda f, dtype, a, b: f.xor(f.xor(a, b), f.constant(a.type, 1)),
    "less": lambda f, dtype, a, b: f.and_(f.xor(a, f.constant(a.type, 1)), b),
    "less_equal": lambda f, dtype, a, b: f.or_(f.xor(a, f.constant(a.type, 1)), b),
    "min": lambda f, dtype, a, b: f.and_(a, b),
    "max": lambda f, dtype, a, b: f.or_(a, b),
    "mul": lambda f, dtype, a, b: f.and_(a, b),
    "add": lambda f, dtype, a, b: f.or_(a, b),
}
