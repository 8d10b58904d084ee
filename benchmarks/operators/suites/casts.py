"""Conversions of element types, and between floats and what they are quantised to."""

from collections.abc import Iterator
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

TYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")
# The numbers of TensorProto.DataType.
CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
}  # fmt: skip
SHAPE = (128, 768)


def cases() -> Iterator[OperatorCase]:
    for source, target in product(TYPES, TYPES):
        if source != target:
            # What a negative float becomes without a sign is not defined.
            fill = "positive" if source.startswith("float") and target.startswith("u") else ""
            yield case(f"Cast<to = {CODES[target]}>(x)", operand("x", source, SHAPE, fill))
    pairs = (
        ("float32", "float16"),
        ("float16", "float32"),
        ("int64", "float32"),
        ("uint8", "float32"),
        ("bool", "float32"),
    )
    viewed = (case(f"Cast<to = {CODES[target]}>(x)", operand("x", source, (1, 64, 56, 56))) for source, target in pairs)
    yield from in_forms(viewed, "symbolic", "transposed", "sliced", "then transposed", "expanded")
    yield from _quantisation()


def _quantisation() -> Iterator[OperatorCase]:
    for dtype, shape in product(("uint8", "int8"), (SHAPE, (1, 64, 56, 56))):
        scale = f"float s = {{0.05}}, {dtype} z = {{3}}"
        made = (
            case("QuantizeLinear(x, s, z)", operand("x", "float32", shape), constants=scale),
            case("DequantizeLinear(x, s, z)", operand("x", dtype, shape), constants=scale),
        )
        yield from in_forms(made, "symbolic", "transposed")
        for axis in range(1, 2):
            per = operand("s", "float32", (shape[axis],), "positive")
            yield case(f"DequantizeLinear<axis = {axis}>(x, s)", operand("x", dtype, shape), per)
            yield case(f"QuantizeLinear<axis = {axis}>(x, s)", operand("x", "float32", shape), per)
    yield case("DynamicQuantizeLinear(x)", operand("x", "float32", SHAPE), outputs="y, s, z")
