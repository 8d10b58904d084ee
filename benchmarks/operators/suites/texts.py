"""Operators of tensors of texts, and conversions between texts and numbers."""

from collections.abc import Iterator

from benchmarks.operators.case import OperatorCase, case, operand

COUNT = 1000
LEARNING = "ai.onnx.ml"


def cases() -> Iterator[OperatorCase]:
    x, other = operand("x", "string", (COUNT,), "words"), operand("z", "string", (COUNT,), "words")
    yield case("StringConcat(x, z)", x, other)
    yield case("StringConcat(x, z)", operand("x", "string", (100, 10), "words"), operand("z", "string", (10,), "words"))
    yield case('StringSplit<delimiter = " ">(x)', x, outputs="y, n")
    yield case("StringSplit<maxsplit = 1>(x)", x, outputs="y, n")
    yield case('RegexFullMatch<pattern = "[a-z]+ [a-z]+">(x)', x)
    for pattern in ("a+", ".*[0-9].*", "(a|bb|nan)?"):
        yield case(f'RegexFullMatch<pattern = "{pattern}">(x)', x)
    yield case("Unique(x)", x)
    yield case("Unique<sorted = 0>(x)", operand("x", "string", (20, COUNT), "words"), outputs="y, a, b, c")
    yield case("Equal(x, z)", x, other)
    yield case("Where(c, x, z)", operand("c", "bool", (COUNT,)), x, other)
    yield case("Gather(x, i)", x, operand("i", "int64", (COUNT // 2,), "integers", COUNT))
    yield case("Concat<axis = 0>(x, z)", x, other)
    for code in (1, 6, 7, 9, 11):
        yield case(f"Cast<to = {code}>(x)", operand("x", "string", (COUNT,), "digits", 10000))
        yield case(f"Cast<to = {code}>(x)", operand("x", "string", (COUNT,), "digits", 9))
    for dtype in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool"):
        yield case("Cast<to = 8>(x)", operand("x", dtype, (COUNT,)))
    yield case("Cast<to = 8>(x)", operand("x", "int64", (COUNT,), high=1 << 40))
    keys = '["a", "bb", "hello world"]'
    yield case(f"LabelEncoder<keys_strings = {keys}, values_int64s = [1, 2, 3]>(x)", x, domain=LEARNING)
    yield case(f"OneHotEncoder<cats_strings = {keys}>(x)", x, domain=LEARNING)
