"""Operators that work on each element: one operand, two that broadcast, any number, and those with parameters."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, Shape
from tests.differential.kinds import NAMES_TO_NUMBERS, inside
from tests.differential.recipes.registry import recipe

# The interval that arguments are drawn from, where [-10, 10] would leave the domain or overflow.
DOMAINS = {
    "Acos": (-1.2, 1.2),
    "Asin": (-1.2, 1.2),
    "Atanh": (-1.1, 1.1),
    "Acosh": (0.5, 10),
    "Log": (-1, 20),
    "Sqrt": (-1, 20),
    "Cosh": (-6, 6),
    "Sinh": (-6, 6),
    "Exp": (-8, 8),
}


@recipe(
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "Sqrt", "Tan", "Tanh", "Mish", "HardSwish", "Identity",
)  # fmt: skip
def unary(d: Draw) -> Parts:
    constraint = d.schema.inputs[0].type_str
    kind = d.types[constraint]
    low, high = DOMAINS.get(d.schema.name, (-10, 10))
    if kind.startswith("tensor"):
        value: object = d.tensor(kind, d.shape(), low, high, special=0.4)
    else:
        value, kind = container(d, kind)
    consumed = d.exactly(consumed_inputs=[0]) if d.flag(0.3) else {}
    return Parts([value], consumed, input_kinds={0: kind})


def container(d: Draw, kind: str) -> tuple[object, str]:
    """A value of a sequence or an optional type."""
    if kind.startswith("optional("):
        return (None, kind) if d.flag(0.0) else (container(d, inside(kind))[0], kind)
    if kind.startswith("seq("):
        return [d.tensor(inside(kind), d.shape(0, 3)) for _ in range(d.int(1, 3))], kind
    return d.tensor(kind, d.shape(0, 3)), kind


@recipe("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "ThresholdedRelu", "Shrink", "Swish", "IsInf", "Gelu")
def unary_with_parameters(d: Draw) -> Parts:
    x = d.tensor(d.schema.inputs[0].type_str, d.shape(), -5, 5, special=0.4)
    named = d.attributes(
        alpha=d.real(0.1, 2),
        beta=d.real(0.1, 1),
        gamma=d.real(0.5, 2),
        lambd=d.real(0.1, 2),
        bias=d.real(-1, 1),
        detect_negative=d.int(0, 1),
        detect_positive=d.int(0, 1),
        approximate=d.pick(["none", "tanh"]),
        consumed_inputs=[0],
    )
    # Near its zeros Gelu is a difference of numbers of the size of its argument.
    return Parts([x], named, accumulates=d.schema.name == "Gelu")


@recipe("SwiGLU")
def swiglu(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    inputs = [d.tensor(formal.type_str, shape, -5, 5) for formal in d.schema.inputs]
    return Parts(inputs, d.attributes(alpha=d.real(0.5, 2)))


BINARY = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Greater",
    "Less",
    "GreaterOrEqual",
    "LessOrEqual",
)


@recipe(*BINARY)
def binary(d: Draw) -> Parts:
    left, right = (formal.type_str for formal in d.schema.inputs)
    a_shape, b_shape, named = operand_shapes(d)
    name = d.schema.name
    special = 0.3 if name != "Pow" else 0.15
    low = (0, 4) if name == "Pow" else (-10, 10)
    a = d.tensor(left, a_shape, *low, special=special)
    b = d.tensor(right, b_shape, *((-2, 3) if name == "Pow" else low), special=special)
    if name == "Pow" and d.dtype(left).kind in "iu":
        b = d.tensor(right, b_shape, 0, 4)
    if name == "Div" and "int" in b.dtype.name:
        b = np.where(b == 0, np.ones_like(b), b)
        b = np.where((b == -1) if b.dtype.kind == "i" else False, np.ones_like(b), b).astype(b.dtype)
    if (
        name in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
        and a.size
        and b.size
        and a.dtype != object
    ):
        a.reshape(-1)[0] = b.reshape(-1)[0]
    return Parts([a, b], named)


def operand_shapes(d: Draw) -> tuple[Shape, Shape, dict[str, object]]:
    """Shapes of two operands; below opset 7 the second one broadcasts from an axis on, if the attribute says so."""
    if not d.has("broadcast"):
        first, second = d.broadcast(2)
        return first, second, {}
    consumed = d.exactly(consumed_inputs=[0, 0]) if d.flag(0.2) else {}
    full = d.shape(0, 4)
    if d.flag(0.3):
        return full, full, consumed | ({"broadcast": 0} if d.flag() else {})
    if d.flag(0.3):
        return full, d.pick([(), (1,)]) if full else (), consumed | {"broadcast": 1}
    start = d.int(0, len(full))
    if d.flag() or not full:
        return full, full[start:], consumed | {"broadcast": 1}
    stop = d.int(start, len(full))
    if stop == start:
        return full, full, consumed | {"broadcast": 1}
    return full, full[start:stop], consumed | {"broadcast": 1, "axis": start}


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(d: Draw) -> Parts:
    first, second = d.broadcast(2)
    return Parts([d.tensor("T", first, -100, 100, special=0.3), d.tensor("T", second, -100, 100, special=0.3)])


@recipe("BitShift")
def bit_shift(d: Draw) -> Parts:
    first, second = d.broadcast(2)
    bits = d.dtype("T").itemsize * 8
    x = d.tensor("T", first, 0, 120, special=0.3)
    return Parts([x, d.tensor("T", second, 0, bits - 1)], d.exactly(direction=d.pick(["LEFT", "RIGHT"])))


@recipe("Mod")
def mod(d: Draw) -> Parts:
    first, second = d.broadcast(2)
    dtype = d.dtype("T")
    b = d.tensor("T", second, -6, 6)
    b = np.where(b == 0, np.ones_like(b), b).astype(dtype)
    if "int" in dtype.name:
        return Parts([d.tensor("T", first, -20, 20, special=0.2), b], d.attributes(fmod=d.int(0, 1)))
    return Parts([d.tensor("T", first, -20, 20), b], {"fmod": 1})


@recipe("Max", "Min", "Sum", "Mean")
def variadic(d: Draw) -> Parts:
    constraint = d.schema.inputs[0].type_str
    count = d.int(1, 4)
    shapes = d.broadcast(count, 4) if d.since >= 8 else [d.shape(0, 4)] * count
    values = [d.tensor(constraint, shape, special=0.2) for shape in shapes]
    consumed = d.exactly(consumed_inputs=[0]) if d.flag(0.2) else {}
    return Parts(values, consumed, accumulates=d.schema.name in ("Sum", "Mean"))


@recipe("Clip")
def clip(d: Draw) -> Parts:
    x = d.tensor("T", d.shape(0, 4), special=0.3)
    if d.has("min"):
        return Parts([x], d.attributes(min=d.real(-6, 0), max=d.real(0.5, 6), consumed_inputs=[0]))
    low = Parameter(d.tensor("T", (), -6, 1)) if d.flag(0.6) else None
    high = Parameter(d.tensor("T", (), 2, 6)) if d.flag(0.6) else None
    return Parts([x, low, high] if high is not None or d.flag() else [x] if low is None else [x, low])


@recipe("PRelu")
def prelu(d: Draw) -> Parts:
    if d.since < 7:
        shape = d.shape(2, 4)
        slope: Shape = (shape[1],) if d.flag() else (1,)
    elif d.since < 9 or d.flag():
        shape = d.shape(0, 4)
        slope = d.part_of(shape)
    else:
        shape = d.shape(1, 4)
        slope = d.part_of(shape)
    return Parts([d.tensor("T", shape, special=0.2), d.tensor("T", slope, -2, 2)])


@recipe("Where")
def where(d: Draw) -> Parts:
    condition, x, y = d.broadcast(3)
    return Parts([d.tensor("B", condition), d.tensor("T", x, special=0.2), d.tensor("T", y, special=0.2)])


@recipe("Dropout")
def dropout(d: Draw) -> Parts:
    outputs = d.int(1, 2)
    x = d.tensor("T", d.shape(0, 4), special=0.2)
    if not d.takes("ratio"):
        named = d.attributes(ratio=d.real(0, 0.9), is_test=1, consumed_inputs=[0])
        if d.has("is_test"):
            named["is_test"] = 1
        return Parts([x], named, outputs)
    ratio = Parameter(d.tensor("T1", (), 0, 0.9)) if d.flag(0.7) else None
    training = Parameter(np.array(False)) if d.flag() else None
    if training is not None and d.flag(0.2):
        ratio, training = Parameter(np.zeros((), d.dtype("T1"))), Parameter(np.array(True))
    return Parts(
        [x, ratio, training] if training or d.flag(0.2) else [x, ratio] if ratio else [x], d.attributes(seed=3), outputs
    )


@recipe("BitCast")
def bit_cast(d: Draw) -> Parts:
    sizes = [
        kind for kind in d.schema.type_constraints[1].allowed_type_strs if same_width(d.dtype("T1"), d.dtype(kind))
    ]
    target = d.pick(sorted(sizes))
    x = d.tensor("T1", d.shape(0, 4), special=0.4)
    return Parts([x], {"to": NAMES_TO_NUMBERS[d.dtype(target)]}, kinds={0: target})


def same_width(first: np.dtype, second: np.dtype) -> bool:
    return bit_width(first) == bit_width(second)


def bit_width(dtype: np.dtype) -> int:
    """Bits of an element, also where ml_dtypes keeps fewer in a byte."""
    bits = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "bool": 1}
    return bits.get(dtype.name, dtype.itemsize * 8)
