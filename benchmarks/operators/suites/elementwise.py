"""Operators that compute each element from those at its index."""

from collections.abc import Iterator, Sequence
from itertools import product

from benchmarks.inputs import InputSpec
from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

TOKENS, IMAGE = (128, 768), (1, 64, 56, 56)
FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# Each function with what its operand is drawn from.
FUNCTIONS = (
    ("Abs", "normal"), ("Acos", "unit"), ("Acosh", "over one"), ("Asin", "unit"), ("Asinh", "normal"),
    ("Atan", "normal"),
    ("Atanh", "unit"), ("Ceil", "normal"), ("Celu<alpha = 0.5>", "normal"), ("Cos", "normal"), ("Cosh", "normal"),
    ("Elu", "normal"), ("Erf", "normal"), ("Exp", "normal"), ("Floor", "normal"), ("Gelu", "normal"),
    ('Gelu<approximate = "tanh">', "normal"), ("HardSigmoid", "normal"), ("HardSwish", "normal"),
    ("Identity", "normal"),
    ("LeakyRelu<alpha = 0.1>", "normal"), ("Log", "positive"), ("Mish", "normal"), ("Neg", "normal"),
    ("Reciprocal", "positive"), ("Relu", "normal"), ("Round", "normal"), ("Selu", "normal"),
    ("Shrink<lambd = 0.5>", "normal"),
    ("Sigmoid", "normal"), ("Sign", "normal"), ("Sin", "normal"), ("Sinh", "normal"), ("Softplus", "normal"),
    ("Softsign", "normal"), ("Sqrt", "positive"), ("Tan", "unit"), ("Tanh", "normal"),
    ("ThresholdedRelu<alpha = 0.5>", "normal"), ("IsNaN", "normal"), ("IsInf", "normal"),
)  # fmt: skip
OF_INTEGERS = ("Abs", "Neg", "Sign", "Identity", "BitwiseNot", "Relu")
COMMON = ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "HardSwish", "Gelu", "Sqrt")

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Min", "Max")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
# What stands beside [1, 64, 56, 56], [128, 768] and [1, 12, 128, 128]: a scalar, a bias, a channel, a mask.
BROADCASTS = (
    (IMAGE, ()), (IMAGE, (64, 1, 1)), (IMAGE, (1, 64, 1, 1)), (IMAGE, (56, 56)), (IMAGE, (1, 1, 56, 56)),
    (TOKENS, (768,)), (TOKENS, (128, 1)), (TOKENS, (1,)), ((1, 12, 128, 128), (1, 1, 1, 128)),
    ((1, 12, 128, 128), (1, 1, 128, 128)), ((128, 1), (1, 768)), ((32, 1, 128), (1, 64, 128)),
    ((1, 56, 56, 64), (64,)), ((1, 128, 4), (1, 128, 4)), ((8400, 2), (8400, 2)), ((8, 1000), (8, 1)),
)  # fmt: skip


def cases() -> Iterator[OperatorCase]:
    yield from _functions()
    yield from _binary()
    yield from _broadcasts()
    yield from _others()


def _functions() -> Iterator[OperatorCase]:
    for (function, fill), dtype in product(FUNCTIONS, FLOATS):
        yield case(f"{function}(x)", operand("x", dtype, TOKENS, fill))
    for function, dtype in product(OF_INTEGERS, INTEGERS):
        yield case(f"{function}(x)", operand("x", dtype, TOKENS))
    forms = ("symbolic", "sliced", "last sliced", "stepped", "split", "transposed", "then transposed", "expanded")
    for shape, function in product((TOKENS, IMAGE, (1, 56, 56, 64)), COMMON):
        fill = dict(FUNCTIONS)[function]
        yield from in_forms([case(f"{function}(x)", operand("x", "float32", shape, fill))], *forms)


def _binary() -> Iterator[OperatorCase]:
    for operator, dtype in product(ARITHMETIC, (*FLOATS, *INTEGERS)):
        yield case(f"{operator}(a, b)", operand("a", dtype, TOKENS), _divisor("b", dtype, TOKENS))
    for operator, dtype in product(COMPARISONS, ("float32", "float16", "float64", "int32", "int64", "uint8", "int8")):
        yield case(f"{operator}(a, b)", operand("a", dtype, TOKENS), operand("b", dtype, TOKENS))
    for dtype in INTEGERS:
        pair = operand("a", dtype, TOKENS), _divisor("b", dtype, TOKENS)
        yield case("Mod(a, b)", *pair)
        yield case("Mod<fmod = 1>(a, b)", *pair)
        yield from (case(f"Bitwise{name}(a, b)", *pair) for name in ("And", "Or", "Xor"))
        if dtype.startswith("u"):
            shifted = operand("a", dtype, TOKENS), operand("b", dtype, TOKENS, "integers", 7)
            yield from (case(f'BitShift<direction = "{way}">(a, b)', *shifted) for way in ("LEFT", "RIGHT"))
    for dtype in FLOATS:
        yield case("Mod<fmod = 1>(a, b)", operand("a", dtype, TOKENS), operand("b", dtype, TOKENS, "positive"))
    for operator in ("And", "Or", "Xor"):
        yield case(f"{operator}(a, b)", operand("a", "bool", TOKENS), operand("b", "bool", TOKENS))
    yield case("Not(x)", operand("x", "bool", TOKENS))


def _divisor(name: str, dtype: str, shape: Sequence[int]) -> InputSpec:
    """An operand without zeros."""
    return operand(name, dtype, shape, "positive" if dtype.startswith("float") else "divisors", 100)


def _broadcasts() -> Iterator[OperatorCase]:
    short = case("Add(x, z)", operand("x", "float32", (32, 1, 16, 3)), operand("z", "float32", (32, 16, 16, 3)))
    yield from in_forms([short], "open")
    for operator, (left, right) in product(("Add", "Mul", "Sub", "Div"), BROADCASTS):
        yield case(f"{operator}(a, b)", operand("a", "float32", left), operand("b", "float32", right, "positive"))
    for left, right in BROADCASTS:
        yield case("Add(a, b)", operand("a", "float16", left), operand("b", "float16", right))
        yield case("Equal(a, b)", operand("a", "int64", left), operand("b", "int64", right))
        yield case("Pow(a, b)", operand("a", "float32", left, "positive"), operand("b", "float32", right))
    forms = ("symbolic", "sliced", "last sliced", "stepped", "split", "transposed", "then transposed", "expanded")
    for shape in (TOKENS, IMAGE, (4, 197, 384)):
        same = [
            case(f"{operator}(a, b)", operand("a", dtype, shape), operand("b", dtype, shape, fill))
            for operator, dtype, fill in (
                ("Add", "float32", "normal"), ("Mul", "float32", "normal"), ("Div", "float32", "positive"),
                ("Sub", "int64", "integers"), ("Add", "float16", "normal"),
            )
        ]  # fmt: skip
        yield from in_forms(same, *forms)


def _others() -> Iterator[OperatorCase]:
    x = operand("x", "float32", IMAGE)
    for exponent in ("2", "0.5", "3", "-1", "1.5"):
        yield case("Pow(x, e)", operand("x", "float32", TOKENS, "positive"), constants=f"float e = {{{exponent}}}")
    yield case("Pow(x, e)", operand("x", "int64", TOKENS), constants="int64 e = {2}")
    yield case("PRelu(x, s)", x, operand("s", "float32", (64, 1, 1)))
    for dtype in ("float32", "float16", "int8", "uint8", "int32", "int64"):
        bounds = operand("low", dtype, (), "integers", 2), operand("high", dtype, (), "divisors", 90)
        yield case("Clip(x, low, high)", operand("x", dtype, TOKENS), *bounds)
    yield from in_forms(
        [case("Clip(x, low, high)", x, constants="float low = {0}, float high = {6}")], "symbolic", "transposed"
    )
    for operator, dtype in product(("Sum", "Mean", "Max", "Min"), ("float32", "float16")):
        yield case(f"{operator}(a, b, c)", *(operand(name, dtype, TOKENS) for name in "abc"))
    yield from _where()


def _where() -> Iterator[OperatorCase]:
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
        (TOKENS, TOKENS, TOKENS), (TOKENS, (), TOKENS), ((1, 1, 128, 128), (1, 12, 128, 128), ()),
        ((128, 1), TOKENS, (1,)), ((1, 1, 1, 128), (1, 12, 128, 128), (1,)),
    )  # fmt: skip
    for (c, a, b), dtype in product(shapes, ("float32", "float16", "int64", "uint8", "int32", "float64")):
        operands = operand("a", dtype, a), operand("b", dtype, b)
        yield from in_forms([case("Where(c, a, b)", operand("c", "bool", c), *operands)], "symbolic", "transposed")
