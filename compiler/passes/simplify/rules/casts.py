"""Casts: chains of them, where the step between loses nothing."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.makers import made_by, splat_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule

# The bits of the significand, the leading one included, and the largest exponent of types that hold wide ranges.
SIGNIFICANDS = {"f64": (53, 1023), "f32": (24, 127), "f16": (11, 15), "bf16": (8, 127)}


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide == narrow:
        return True
    if narrow.is_bool:
        return wide.is_integer or wide.name in SIGNIFICANDS
    if narrow.is_integer:
        bits = narrow.bits - narrow.is_signed
        if wide.is_integer:
            return wide.bits - wide.is_signed >= bits and (wide.is_signed or not narrow.is_signed)
        return wide.name in SIGNIFICANDS and bits <= SIGNIFICANDS[wide.name][0] and bits <= SIGNIFICANDS[wide.name][1]
    if narrow.name in SIGNIFICANDS and wide.name in SIGNIFICANDS:
        pairs = zip(SIGNIFICANDS[wide.name], SIGNIFICANDS[narrow.name], strict=True)
        return all(mine >= theirs for mine, theirs in pairs)
    return False


@rule("cast")
def cast_once(op: Op, build: Builder) -> Value | None:
    """cast(cast(x, B), C) = cast(x, C) where B holds every x

    Not for integers through a float to integers too narrow for them: those saturate, while integers wrap.
    """
    inner = made_by(op.operands[0], "cast")
    if inner is None:
        return None
    x, middle, target = inner.operands[0], inner.dtype(), op.dtype()
    if x.dtype.is_string or not holds(middle, x.dtype):
        return None
    if x.dtype.is_integer and middle.is_float and target.is_integer and not holds(target, x.dtype):
        return None
    return build.cast(x, target, op.flag("saturate"), op.text("round_mode"))


@rule("cast")
def cast_to_own_type(op: Op, build: Builder) -> Value | None:
    """cast(x, T) = x for x of T"""
    x = op.operands[0]
    return x if x.dtype == op.dtype() else None


@rule("cast")
def cast_choice(op: Op, build: Builder) -> Value | None:
    """cast(c ? a : b, T) = c ? cast(a, T) : cast(b, T) for two splats"""
    choice = made_by(op.operands[0], "select")
    if choice is None or any(splat_of(operand) is None for operand in choice.operands[1:]):
        return None
    attributes = (op.dtype(), op.flag("saturate"), op.text("round_mode"))
    condition, a, b = choice.operands
    return build.select(condition, build.cast(a, *attributes), build.cast(b, *attributes))


@rule("bitcast")
def bitcast_once(op: Op, build: Builder) -> Value | None:
    """bitcast(bitcast(x, B), C) = bitcast(x, C), and x for its own type; bools are left alone, not all bits are one"""
    x = op.operands[0]
    inner = made_by(x, "bitcast")
    source = x if inner is None else inner.operands[0]
    if x.dtype.is_bool or source.dtype.is_bool or op.dtype().is_bool:
        return None
    if source.dtype == op.dtype():
        return source
    return None if inner is None else build.bitcast(source, op.dtype())
