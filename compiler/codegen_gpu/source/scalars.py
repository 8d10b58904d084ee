"""The pointwise primitives as Triton expressions, for single numbers and tiles alike.

Each function takes the builder, the element type of the operands and the operands; 16-bit floats arrive as f32.
Signed division and remainder of Triton truncate, as the primitives do.
"""

from collections.abc import Callable, Mapping, Sequence
from struct import pack, unpack

import numpy as np

from onnxc.compiler.codegen_gpu.source.element_types import computed_dtype, is_widened, memory_type, register_type
from onnxc.compiler.codegen_gpu.source.narrow_floats import NARROW_FLOATS, narrow_float, widen_float
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, SourceBuilder, dims_of
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, DType
from onnxc.compiler.ir.module import Op

Emit = Callable[..., Expr]


def emit_pointwise(op: Op, operands: Sequence[Expr], b: SourceBuilder) -> Expr:
    """The result of `op` at one index."""
    dtype = op.operands[0].dtype
    match op.name:
        case "select":
            condition, x, y = operands
            return b.let(f"tl.where({condition}, {x}, {y})", dims_of(*operands))
        case "cast":
            return emit_cast(operands[0], dtype, op.dtype(), b, saturate=op.flag("saturate"))
        case "bitcast":
            return _bitcast(operands[0], dtype, op.dtype(), b)
    wide = [widen_float(x, dtype, b) if dtype in NARROW_FLOATS else x for x in operands]
    result = table_of(dtype)[op.name](b, computed_dtype(dtype), *wide)
    narrows = op.results[0].dtype in NARROW_FLOATS
    return narrow_float(result, op.results[0].dtype, b, saturate=False) if narrows else result


def table_of(dtype: DType) -> Mapping[str, Emit]:
    """The pointwise primitives that exist for operands of `dtype`."""
    if dtype.is_float:
        return FLOATS
    return BOOLS if dtype.is_bool else INTEGERS


# Constants


def literal(b: SourceBuilder, value: float, dtype: DType) -> Expr:
    """A number as computed with; the sign of a zero survives, which it does not in a literal of the language."""
    type = register_type(dtype)
    if dtype in NARROW_FLOATS:
        value = int(np.array(value).astype(dtype.numpy).view(np.uint8))
    if not dtype.is_float or dtype in NARROW_FLOATS:
        return b.let(f"tl.full([], {int(value)}, {type})", prefix="c")
    as_float = float(value)
    if as_float != as_float:
        return b.let(f'tl.full([], float("nan"), {type})', prefix="c")
    if as_float in (float("inf"), float("-inf")):
        return b.let(f'tl.full([], float("{as_float}"), {type})', prefix="c")
    if as_float == 0 and str(as_float) == "-0.0":
        integer, word = ("tl.int64", -(1 << 63)) if dtype == F64 else ("tl.int32", -(1 << 31))
        return b.let(f"tl.full([], {word}, {integer}).to({type}, bitcast=True)", prefix="c")
    if dtype != F64:
        (as_float,) = unpack("f", pack("f", as_float))
    return b.let(f"tl.full([], {as_float!r}, {type})", prefix="c")


# Conversions


def emit_cast(x: Expr, source: DType, target: DType, b: SourceBuilder, *, saturate: bool = True) -> Expr:
    """To the nearest float; to an integer truncated and saturated, NaN to 0; integers wrap; to bool what is not 0.

    saturate: whether floats of 8 bits have the largest number in place of infinity, or NaN where they have none.
    """
    if source == target:
        return x
    if source in NARROW_FLOATS:
        return emit_cast(widen_float(x, source, b), F32, target, b, saturate=saturate)
    if target in NARROW_FLOATS:
        return narrow_float(emit_cast(x, source, F32, b), target, b, saturate=saturate)
    if target == BOOL:
        return b.let(f"{x} != 0", x.dims)
    if source.is_float and not target.is_float:
        return _to_integer(x, source, target, b)
    if is_widened(target):
        wide = x if source in (F32, F16, BF16) else b.let(f"{x}.to({register_type(target)})", x.dims)
        rounded = b.let(f"{wide}.to({memory_type(target)})", x.dims)
        return b.let(f"{rounded}.to({register_type(target)})", x.dims)
    return b.let(f"{x}.to({register_type(target)})", x.dims)


def _to_integer(x: Expr, source: DType, target: DType, b: SourceBuilder) -> Expr:
    bits = target.bits - target.is_signed
    low, high = -(1 << bits) if target.is_signed else 0, 1 << bits
    above = b.let(f"{x} >= {literal(b, float(high), source)}", x.dims)
    below = b.let(f"{x} < {literal(b, float(low), source)}", x.dims)
    inside = b.let(f"({x} == {x}) & ({above} == 0) & ({below} == 0)", x.dims)
    converted = b.let(f"tl.where({inside}, {x}, 0.0).to({register_type(target)})", x.dims)
    saturated = b.let(f"tl.where({above}, {literal(b, high - 1, target)}, {converted})", x.dims)
    return b.let(f"tl.where({below}, {literal(b, low, target)}, {saturated})", x.dims)


def _bitcast(x: Expr, source: DType, target: DType, b: SourceBuilder) -> Expr:
    stored = to_memory(x, source, b)
    return from_memory(b.let(f"{stored}.to({memory_type(target)}, bitcast=True)", x.dims), target, b)


def from_memory(x: Expr, dtype: DType, b: SourceBuilder) -> Expr:
    """A loaded element as it is computed with."""
    if dtype == BOOL:
        return b.let(f"{x} != 0", x.dims)
    return b.let(f"{x}.to({register_type(dtype)})", x.dims) if is_widened(dtype) else x


def to_memory(x: Expr, dtype: DType, b: SourceBuilder) -> Expr:
    """A computed element as it is stored."""
    return b.let(f"{x}.to({memory_type(dtype)})", x.dims) if is_widened(dtype) else x


# Tables


def _infix(operator: str) -> Emit:
    return lambda b, dtype, x, y: b.let(f"{x} {operator} {y}", dims_of(x, y))


def _call(function: str) -> Emit:
    return lambda b, dtype, *operands: b.let(f"{function}({', '.join(map(str, operands))})", dims_of(*operands))


def _template(text: str) -> Emit:
    """An expression of {x} and {y}."""
    return lambda b, dtype, *operands: b.let(text.format(**dict(zip("xy", operands, strict=False))), dims_of(*operands))


def _divide(b: SourceBuilder, dtype: DType, x: Expr, y: Expr) -> Expr:
    return (_infix("/") if dtype == F64 else _call("tl.div_rn"))(b, dtype, x, y)


def _root(b: SourceBuilder, dtype: DType, x: Expr) -> Expr:
    return _call("tl.sqrt" if dtype == F64 else "tl.sqrt_rn")(b, dtype, x)


def _extremum(function: str) -> Emit:
    """NaN if either is."""
    return lambda b, dtype, x, y: b.let(f"{function}({x}, {y}, propagate_nan=tl.PropagateNan.ALL)", dims_of(x, y))


def _float_sign(b: SourceBuilder, dtype: DType, x: Expr) -> Expr:
    """-1, 0 or 1; NaN stays."""
    one, minus = (literal(b, value, dtype) for value in (1.0, -1.0))
    return b.let(f"tl.where({x} > 0, {one}, tl.where({x} < 0, {minus}, {x}))", x.dims)


_LIBRARY = (
    "exp", "log", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow",
)  # fmt: skip

ANGLES = ("sin", "cos", "tan")
"""What kernels call of functions of our own, those of compile/angle_library.py."""

FLOATS: dict[str, Emit] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _divide,
    "rem": _call("libdevice.fmod"),
    "min": _extremum("tl.minimum"),
    "max": _extremum("tl.maximum"),
    # A difference from 0 would lose the sign of a zero.
    "neg": _template("{x} * -1.0"),
    "abs": _call("tl.abs"),
    "sign": _float_sign,
    "floor": _call("tl.floor"),
    "ceil": _call("tl.ceil"),
    "round": _call("libdevice.rint"),
    "sqrt": _root,
    "equal": _infix("=="),
    "less": _infix("<"),
    "less_equal": _infix("<="),
    **{name: _call(f"libdevice.{name}") for name in _LIBRARY},
    **{name: _call(f"angles.{name}") for name in ANGLES},
}


def _safe_divisor(b: SourceBuilder, dtype: DType, x: Expr, y: Expr) -> Expr:
    """`y` with 1 where dividing by it is not defined: 0, and -1 below the least integer."""
    if not dtype.is_signed:
        return b.let(f"tl.maximum({y}, {literal(b, 1, dtype)})", y.dims)
    unsafe = f"({y} == 0) | (({x} == {literal(b, -(1 << (dtype.bits - 1)), dtype)}) & ({y} == -1))"
    return b.let(f"tl.where({unsafe}, {literal(b, 1, dtype)}, {y})", dims_of(x, y))


def _integer_divide(b: SourceBuilder, dtype: DType, x: Expr, y: Expr) -> Expr:
    """Truncated; x / 0 = 0, and the least integer divided by -1 is itself."""
    quotient = b.let(f"{x} // {_safe_divisor(b, dtype, x, y)}", dims_of(x, y))
    return b.let(f"tl.where({y} == 0, {literal(b, 0, dtype)}, {quotient})", dims_of(x, y))


def _integer_remainder(b: SourceBuilder, dtype: DType, x: Expr, y: Expr) -> Expr:
    """With the sign of the dividend; x rem 0 = 0."""
    return b.let(f"{x} % {_safe_divisor(b, dtype, x, y)}", dims_of(x, y))


def _shift(operator: str) -> Emit:
    def emit(b: SourceBuilder, dtype: DType, x: Expr, amount: Expr) -> Expr:
        """0, or the sign, where the amount is the width or more."""
        dims = dims_of(x, amount)
        inside = b.let(f"({amount} >= 0) & ({amount} < {dtype.bits})", dims)
        outside = literal(b, dtype.bits - 1, dtype)
        shifted = b.let(f"{x} {operator} tl.where({inside}, {amount}, {outside})", dims)
        if operator == ">>" and dtype.is_signed:
            return shifted
        return b.let(f"tl.where({inside}, {shifted}, {literal(b, 0, dtype)})", dims)

    return emit


def _integer_power(b: SourceBuilder, dtype: DType, base: Expr, exponent: Expr) -> Expr:
    """By squaring, wrapping; a negative exponent gives the truncated reciprocal."""
    dims = dims_of(base, exponent)
    zero, one = (literal(b, value, dtype) for value in (0, 1))
    start = b.let(f"{base} * {one} + {exponent} * {zero}", dims)
    result, square = b.variable(f"{start} * {zero} + {one}", dims), b.variable(start.text, dims)
    left = b.variable(f"{exponent} + {start} * {zero}", dims)
    with b.loop(0, dtype.bits):
        b.assign(result, f"tl.where(({left} & 1) != 0, {result} * {square}, {result})")
        b.assign(square, f"{square} * {square}")
        b.assign(left, f"{left} >> 1")
    if not dtype.is_signed:
        return result
    minus = literal(b, -1, dtype)
    odd = b.let(f"tl.where(({exponent} & 1) != 0, {minus}, {one})", dims)
    reciprocal = b.let(f"tl.where({base} == 1, {one}, tl.where({base} == -1, {odd}, {zero}))", dims)
    return b.let(f"tl.where({exponent} < 0, {reciprocal}, {result})", dims)


def _integer_extremum(function: str) -> Emit:
    def emit(b: SourceBuilder, dtype: DType, x: Expr, y: Expr) -> Expr:
        """Of 16 bits as f32, which holds them: of integers of 16 bits it takes 8 to 16 bytes of stack, in both Tritons.

        Integers of 32 bits become such of 16 again.
        """
        if dtype.bits != 16:
            return _call(function)(b, dtype, x, y)
        wide = ", ".join(f"{operand}.to(tl.float32)" for operand in (x, y))
        return b.let(f"{function}({wide}).to({register_type(dtype)})", dims_of(x, y))

    return emit


def _same(b: SourceBuilder, dtype: DType, x: Expr) -> Expr:
    return x


def _integer_sign(b: SourceBuilder, dtype: DType, x: Expr) -> Expr:
    zero, one = (literal(b, value, dtype) for value in (0, 1))
    positive = b.let(f"tl.where({x} > 0, {one}, {zero})", x.dims)
    if not dtype.is_signed:
        return positive
    return b.let(f"tl.where({x} < 0, {literal(b, -1, dtype)}, {positive})", x.dims)


def _integer_abs(b: SourceBuilder, dtype: DType, x: Expr) -> Expr:
    return b.let(f"tl.where({x} < 0, 0 - {x}, {x})", x.dims) if dtype.is_signed else x


INTEGERS: dict[str, Emit] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _integer_divide,
    "rem": _integer_remainder,
    "pow": _integer_power,
    "min": _integer_extremum("tl.minimum"),
    "max": _integer_extremum("tl.maximum"),
    "neg": lambda b, dtype, x: b.let(f"{literal(b, 0, dtype)} - {x}", x.dims),
    "abs": _integer_abs,
    "sign": _integer_sign,
    "floor": _same,
    "ceil": _same,
    "round": _same,
    "and": _infix("&"),
    "or": _infix("|"),
    "xor": _infix("^"),
    "not": lambda b, dtype, x: b.let(
        f"{x} ^ {literal(b, -1 if dtype.is_signed else (1 << dtype.bits) - 1, dtype)}", x.dims
    ),
    "shift_left": _shift("<<"),
    "shift_right": _shift(">>"),
    "equal": _infix("=="),
    "less": _infix("<"),
    "less_equal": _infix("<="),
}

BOOLS: dict[str, Emit] = {
    "and": _infix("&"),
    "or": _infix("|"),
    "xor": _infix("^"),
    "not": _template("{x} == 0"),
    "equal": _template("({x} ^ {y}) == 0"),
    "less": _template("({x} == 0) & {y}"),
    "less_equal": _template("({x} == 0) | {y}"),
    "min": _infix("&"),
    "max": _infix("|"),
    "mul": _infix("&"),
    "add": _infix("|"),
}
