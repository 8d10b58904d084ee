"""Arithmetic on known sizes while a program is built gives what the program computes when it runs."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F32, F64, I32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.types import TensorType

N, M = Size.symbol("N"), Size.symbol("M")
Step = tuple[str, int, int]

BINARY = ("add", "sub", "mul", "div", "rem", "min", "max", "equal", "less", "less_equal", "and", "or")
UNARY = ("neg", "abs", "sign", "not")
OTHERS = ("gather", "slice", "reverse", "concatenate", "sum", "prod", "max of all", "select", "i32", "pad", "sort")
OTHERS += ("pow", "running sum", "put", "part", "rounded up", "choice", "truths")

steps = st.lists(
    st.tuples(st.sampled_from(BINARY + UNARY + OTHERS), st.integers(0, 3), st.integers(-3, 5)), min_size=1, max_size=6
)


def chain(build: Builder, start: Value, steps: Sequence[Step]) -> list[Value]:
    """The values of a chain of vectors; each step takes the last one, and one before it or a number."""
    values = [start]
    for name, place, number in steps:
        values.append(step(build, values[-1], values[place % len(values)], name, number))
    return values


def step(build: Builder, x: Value, other: Value, name: str, number: int) -> Value:
    size = x.shape[0]
    assert isinstance(size, int)
    operand = other if other.shape == x.shape else build.full((size,), number, I64)
    match name:
        case "gather":
            return build.gather(x, build.constant(np.array([abs(number) % size, 0], np.int64)), 0)
        case "slice":
            return build.slice(x, (size - 1,), (1,))
        case "reverse":
            return build.reverse(x, 0)
        case "concatenate":
            return build.concatenate([x, other], 0) if size < 9 else x
        case "sum" | "prod":
            return build.reduce(x, name, [0], keepdims=True)
        case "max of all":
            return build.reduce(x, "max", [0], keepdims=True)
        case "select":
            return build.select(build.less(x, operand), x, number)
        case "i32":
            return build.cast(build.cast(x, I32), I64)
        case "pad":
            return build.pad(x, (1,), (0,), number) if size < 9 else x
        case "pow":
            return build.pow(x, build.full(x.shape, abs(number), I64)) if size < 9 else x
        case "running sum":
            return build.scan_axis(x, "sum", 0, exclusive=number % 2 == 0, reverse=number < 0)
        case "put":
            where = build.constant(np.array([abs(number) % size], np.int64))
            return build.scatter_along(x, where, build.full((1,), number, I64), 0, "set")
        case "part":
            return build.cast(build.floor(build.mul(build.cast(x, F32), (number or 1) / 4)), I64)
        case "rounded up":
            return build.cast(build.ceil(build.div(build.cast(x, F64), abs(number) + 1.0)), I64)
        case "choice":
            both = build.and_(build.less(x, operand), build.not_(build.equal(x, number)))
            return build.select(both, operand, build.add(x, 1))
        case "truths":
            return build.cast(build.or_(build.less_equal(x, operand), build.equal(x, number)), I64)
        case "sort":
            return build.sort(x, 0)[0]
        case "not":
            return build.cast(build.not_(build.cast(x, BOOL)), I64)
    result = build.unary(name, x) if name in UNARY else build.binary(name, x, operand)
    return build.cast(result, I64)


@given(steps, st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_known_sizes_are_what_the_program_computes(steps: list[Step], n: int, m: int) -> None:
    build = Builder()
    known = [build.known(value) for value in chain(build, build.sizes([N, M, 3]), steps)]
    plain = Builder()
    x = plain.parameter("x", TensorType(I64, (3,)))
    values = chain(plain, x, steps)
    names = tuple(f"y{place}" for place in range(len(values)))
    module = Module("m", (Function("main", plain.block([x], values), names),))
    computed = interpret(module, {"x": np.array([n, m, 3], np.int64)})
    for sizes, array in zip(known, computed, strict=True):
        numbers = None if sizes is None else [evaluate(dim, {"N": n, "M": m}) for dim in sizes]
        if any(abs(number) >= 2**24 for number in (*array.tolist(), *(numbers or ()))):
            return  # sizes do not wrap, and f32 holds no more
        assert numbers is None or numbers == array.tolist()


def test_a_window_that_covers_very_much_is_not_folded() -> None:
    build = Builder()
    ones = build.constant(np.ones((3, 3), np.float32))
    wide = {"strides": (1, 1), "dilations": (1, 1), "high": (0, (1 << 31) - 1)}
    result = build.reduce_window(ones, "sum", (1, 1 << 31), low=(0, 0), **wide)
    assert result.op is not None
    assert result.op.name == "reduce_window"
