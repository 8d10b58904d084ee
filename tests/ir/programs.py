"""Random modules for property tests: well-typed programs with odd names, attributes, constants and locations."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import bcast, maximum, minimum
from onnxc.compiler.ir.dims import Dim, Size, floordiv, mod
from onnxc.compiler.ir.dtypes import DTYPES, F32, I64, STRING, DType
from onnxc.compiler.ir.module import Attribute, Function, Module, Value
from onnxc.compiler.ir.types import (
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
    type_symbols,
)

texts = st.text(max_size=6) | st.sampled_from(["x", "x", "x_1", "a/b:0", '"', "\\", "\n", "`", "//", "f32", "%0", "é"])
symbol_names = st.sampled_from(
    ["N", "M", "seq len", "a//b", "f32", "true", "inf", "`", "", "Min", "?n", "x.1", "\n", "in"]
)
attribute_names = st.sampled_from(["axis", "z", "a b", "true", "é", "A"])


@composite
def dims(draw: DrawFn, symbols: st.SearchStrategy[str] = symbol_names, depth: int = 3) -> Dim:
    """A size made of symbols, numbers and every function of sizes."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.integers(-5, 9) | symbols.map(Size.symbol))
    a, b = (draw(dims(symbols, depth - 1)) for _ in "ab")
    function = draw(st.sampled_from([floordiv, mod, minimum, maximum, bcast, *[_add, _subtract, _multiply] * 2]))
    return function(a, b)


def _add(a: Dim, b: Dim) -> Dim:
    return a + b


def _subtract(a: Dim, b: Dim) -> Dim:
    return a - b


def _multiply(a: Dim, b: Dim) -> Dim:
    return a * b


@composite
def arrays(draw: DrawFn, dtype: DType | None = None, shape: Sequence[int] | None = None) -> np.ndarray:
    """An array of any element type, its bits drawn at random: every NaN, infinity and -0.0 comes up."""
    dtype = dtype or draw(st.sampled_from(list(DTYPES.values())))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)) if shape is None else shape)
    count = int(np.prod(shape))
    if dtype == STRING:
        strings = np.empty(count, object)
        strings[:] = [draw(texts) for _ in range(count)]
        return strings.reshape(shape)
    data = np.frombuffer(draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize)), np.uint8)
    # What is narrower than a byte has that many bits of it; the others must be 0.
    width = min(max(dtype.bits, 1), 8)
    return (data & (2**width - 1)).astype(np.uint8).view(dtype.numpy).reshape(shape)


def _types(depth: int) -> st.SearchStrategy[Type]:
    shapes = st.none() | st.lists(dims(depth=1), max_size=3).map(tuple)
    dtypes = st.sampled_from(list(DTYPES.values()))
    tensors = st.builds(TensorType, dtypes, shapes) | st.builds(SparseTensorType, dtypes, shapes)
    if depth == 0:
        return tensors
    inner = _types(depth - 1)
    maps = st.builds(MapType, st.sampled_from([I64, STRING]), inner)
    return tensors | st.builds(SequenceType, inner) | st.builds(OptionalType, inner) | maps


types = _types(2)
locations = st.none() | st.builds(
    Location, st.just("main") | texts, st.none() | st.integers(0, 10**6), texts, st.just("ai.onnx.Add-14") | texts
)
attributes: st.SearchStrategy[Attribute] = st.recursive(
    st.integers()
    | st.floats(allow_nan=True)
    | st.booleans()
    | texts
    | st.sampled_from(list(DTYPES.values()))
    | dims(depth=2)
    | arrays(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@composite
def modules(draw: DrawFn) -> Module:
    """One or two functions of `host` ops, arithmetic, constants and nested blocks."""
    names = draw(st.lists(texts, min_size=1, max_size=2, unique=True))
    return Module(draw(texts), tuple(draw(_functions(name)) for name in names))


@composite
def _functions(draw: DrawFn, name: str) -> Function:
    build = Builder()
    parameter_names = draw(st.lists(texts, max_size=3, unique=True))
    parameters = [build.parameter(parameter, draw(types)) for parameter in parameter_names]
    bound = sorted({symbol for parameter in parameters for symbol in type_symbols(parameter.type)})
    values = list(parameters)
    for _ in range(draw(st.integers(0, 4))):
        with build.at(draw(locations)):
            values += draw(_results(build, values))
    results = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    result_names = draw(st.lists(texts, min_size=len(results), max_size=len(results), unique=True))
    ranges = {symbol: draw(st.sampled_from([(0, None), (1, 1), (2, 2**40)])) for symbol in bound}
    defaults = {parameter.producer.name: draw(arrays()) for parameter in parameters if draw(st.booleans())}
    return Function(name, build.block(parameters, results), tuple(result_names), ranges, defaults)


@composite
def _results(draw: DrawFn, build: Builder, values: Sequence[Value]) -> tuple[Value, ...]:
    """The results of a new op."""
    match draw(st.sampled_from(["constant", "host", "if", "chain"])):
        case "constant":
            return (build.constant(draw(arrays())),)
        case "host":
            given = draw(st.lists(st.sampled_from(values), max_size=2)) if values else []
            others = draw(st.dictionaries(attribute_names, attributes, max_size=3))
            return build.host(draw(texts), given, draw(st.lists(types, max_size=3)), others)
        case "if":
            captures = values[:2]
            blocks = []
            for _ in range(2):
                inner = build.nested()
                taken = [inner.parameter(draw(texts) + f"{place}", value.type) for place, value in enumerate(captures)]
                made = draw(_results(inner, taken))
                blocks.append(inner.block(taken, [*taken, *made][:1]))
            condition = build.scalar(draw(st.booleans()), DTYPES["bool"])
            return build.if_(condition, captures, blocks, draw(st.lists(types, max_size=2)))
    x = build.constant(draw(arrays(F32, (2, 3))))
    return build.sort(build.reduce(build.mul(x, 0.1), "sum", [1], keepdims=True), 0)
