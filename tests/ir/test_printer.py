"""The text of programs: what it looks like, and that reading it back gives the same program, to the bit."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size, floordiv
from onnxc.compiler.ir.dtypes import BF16, DTYPES, F16, F32, F64, I64, DType
from onnxc.compiler.ir.module import Attribute, Block, Function, Module, Op, walk
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import (
    attribute_text,
    constants_of,
    digest_of,
    location_text,
    print_block,
    print_function,
    print_module,
    print_op,
    read_float,
)
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from tests.ir.cases import CASES, STRUCTURAL, Case
from tests.ir.programs import modules

N = Size.symbol("N")


def test_a_module_reads_as_in_the_design() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (N, 2)))
    with build.at(Location("main", 3, "block1/Add", "ai.onnx.Add-14")):
        y = build.add(x, build.constant(np.array([0.1, -0.0], np.float32)))
    with build.at(Location("main/body", None)):
        values, places = build.sort(y, 1, descending=True)
    function = Function("main", build.block([x], [values, places]), ("sorted", "where/is"), {"N": (1, None)})
    assert print_module(Module("head", (function,))) == (
        'module "head" {\n'
        'function main(%x: f32[N, 2]) -> ("sorted", "where/is") where N in [1, ...] {\n'
        "  %0 = constant {value = f32[2] [0.1, -0.0]} : f32[2]                   "
        '// 3 "block1/Add" (ai.onnx.Add-14)\n'
        "  %1 = broadcast %0 {axes = [1], shape = [N, 2]} : f32[N, 2]            "
        '// 3 "block1/Add" (ai.onnx.Add-14)\n'
        "  %2 = add %x, %1 : f32[N, 2]                                           "
        '// 3 "block1/Add" (ai.onnx.Add-14)\n'
        '  %3, %4 = sort %2 {axis = 1, descending = true} : f32[N, 2], i64[N, 2]  // - in "main/body"\n'
        "  return %3, %4\n"
        "}\n"
        "}"
    )


def round_trip(module: Module) -> Module:
    """The module read from its text, after asserting that it prints to the same text."""
    text = print_module(module)
    again = parse_module(text, constants_of(module))
    assert print_module(again) == text
    return again


def module_of(case: Case) -> Module:
    op = case.op()
    names = tuple(f"y{index}" for index in range(len(op.results)))
    body = Builder().block(op.operands, op.results)
    return Module("one", (Function("main", type(body)(body.parameters, (op,), op.results), names),))


@pytest.mark.parametrize("name", CASES)
def test_every_primitive_round_trips(name: str) -> None:
    for case in CASES[name]:
        module = module_of(case)
        (op,) = round_trip(module).main.body.ops
        assert op.attributes.keys() == case.attributes.keys()
        assert (op.name, op.result_types) == (name, case.op().result_types)


def test_structural_primitives_round_trip() -> None:
    module = parse_module(STRUCTURAL)
    verify_module(module)
    assert print_module(module) == STRUCTURAL


@pytest.mark.parametrize(
    "size", [Size.symbol("inf"), -Size.symbol("inf"), -Size.symbol("true"), Size.symbol("f32")], ids=str
)
def test_a_size_named_like_a_value_stays_a_size(size: Size) -> None:
    module = Module("", (Function("", Block((), (Op("host", (), {"function": "", "axis": size}, (), ()),), ()), ()),))
    (op,) = walk(round_trip(module).functions[0].body)
    assert op.attributes["axis"] == size


@given(modules())
@settings(max_examples=120, deadline=None)
def test_any_module_round_trips(module: Module) -> None:
    again = round_trip(module)
    assert [function.result_names for function in again.functions] == [f.result_names for f in module.functions]
    for function, other in zip(module.functions, again.functions, strict=True):
        assert function.symbols == other.symbols
        assert [p.producer.name for p in function.body.parameters] == [p.producer.name for p in other.body.parameters]
        for op, copy in zip(walk(function.body), walk(other.body), strict=True):
            assert (op.name, op.result_types, op.location) == (copy.name, copy.result_types, copy.location)
            assert op.attributes.keys() == copy.attributes.keys()
            for key in op.attributes:
                assert_same_attribute(op.attributes[key], copy.attributes[key])


def assert_same_attribute(a: Attribute, b: Attribute) -> None:
    """The same type, and the same bits."""
    assert type(a) is type(b)
    match a:
        case float():
            assert struct.pack("<d", a) == struct.pack("<d", b)
        case np.ndarray():
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
        case tuple():
            assert len(a) == len(b)
            for left, right in zip(a, b, strict=True):
                assert_same_attribute(left, right)
        case _:
            assert a == b


# Numbers


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.is_float and dtype.bits <= 16], ids=str)
def test_every_narrow_float_reads_back_bit_for_bit(dtype: DType) -> None:
    bits = np.arange(2**dtype.bits, dtype=np.uint16 if dtype.bits == 16 else np.uint8)
    array = bits.view(dtype.numpy)
    texts = [attribute_text(element.reshape(())).split("] ")[1] for element in array.reshape(-1, 1)]
    back = np.array([read_float(text, dtype).view(bits.dtype) for text in texts])
    np.testing.assert_array_equal(back, bits)


def test_random_f32_reads_back_bit_for_bit() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 20_000, np.uint32)
    for place in range(0, bits.size, 10):
        array = bits[place : place + 10].view(np.float32)
        texts = attribute_text(array).split("[")[2].rstrip("]").split(", ")
        back = np.array([read_float(text, F32).view(np.uint32) for text in texts])
        np.testing.assert_array_equal(back, array.view(np.uint32))


@pytest.mark.parametrize(
    ("bits", "dtype", "text"),
    [
        (0x7FC00000, F32, "nan"),
        (0xFFC00000, F32, "0xffc00000"),
        (0x7F800001, F32, "0x7f800001"),
        (0x80000000, F32, "-0.0"),
        (0x00000001, F32, "1e-45"),
        (0x7F7FFFFF, F32, "3.4028235e+38"),
        (0xFF800000, F32, "-inf"),
        (0x7FF8000000000001, F64, "0x7ff8000000000001"),
        (0x3FB999999999999A, F64, "0.1"),
        (0x0001, F16, "6e-08"),
        (0x7F7F, BF16, "3.3895313892515355e+38"),
    ],
)
def test_floats_are_written_shortly_and_exactly(bits: int, dtype: DType, text: str) -> None:
    array = np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype.numpy).reshape(())
    assert attribute_text(array) == f"{dtype}[] {text}"
    assert read_float(text, dtype).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-(2**63), "-9223372036854775808"),
        (3.0, "3.0"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (True, "true"),
        ("a\nb", '"a\\nb"'),
        (F32, "f32"),
        (Size.symbol("f32"), "`f32`"),
        (Size.symbol("seq len") * 2, "2*`seq len`"),
        (floordiv(N, 2), "floordiv(N, 2)"),
        ((), "[]"),
        ((1, (N, "x")), '[1, [N, "x"]]'),
        (np.zeros((0, 2), np.float32), "f32[0, 2] []"),
        (np.array([1 - 0j, complex(float("inf"), 2)], np.complex64), "c64[2] [(1.0, 0.0), (inf, 2.0)]"),
        (np.array(["a", "é"], object), 'string[2] ["a", "\\u00e9"]'),
        (np.array([[True]]), "bool[1, 1] [true]"),
    ],
)
def test_attributes_are_written(value: Attribute, text: str) -> None:
    assert attribute_text(value) == text


# Large arrays


def test_an_array_of_more_than_16_elements_stands_by_its_digest() -> None:
    array = np.arange(17, dtype=np.float32)
    assert attribute_text(array) == f"f32[17] #{digest_of(array)}"
    assert attribute_text(array[:16]).endswith("15.0]")


def test_a_digest_depends_on_type_shape_and_elements_only() -> None:
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    assert digest_of(array) == digest_of(np.asfortranarray(array)) == digest_of(array.copy())
    others = [array.reshape(6, 4), array.view(np.uint32), array + 1, array.view(np.float32)]
    assert len({digest_of(other) for other in [array, *others]}) == 5


def test_a_digest_of_strings_keeps_them_apart() -> None:
    assert digest_of(np.array(["ab", "c"], object)) != digest_of(np.array(["a", "bc"], object))


def test_constants_are_those_that_the_text_names() -> None:
    build = Builder()
    small, large = np.zeros(16, np.float32), np.arange(20, dtype=np.int64)
    inner = build.nested()
    inner.constant(large)
    blocks = [inner.block((), ()), build.nested().block((), ())]
    build.if_(build.scalar(True, DTYPES["bool"]), (), blocks, ())
    build.constant(small)
    x = build.parameter("x", TensorType(I64, (20,)))
    function = Function("main", build.block([x], [x]), ("y",), {}, {"x": large + 1})
    assert list(constants_of(Module("m", (function,)))) == [digest_of(large + 1), digest_of(large)]


# Names, layout, parts


def test_parameters_keep_their_exact_names() -> None:
    build = Builder()
    names = ["x", "x:0", "x_0", "0", "", 'a "quoted" name']
    parameters = [build.parameter(name, TensorType(F32, ())) for name in names]
    module = Module("m", (Function("main", build.block(parameters, ()), ()),))
    header = print_module(module).split("\n")
    assert [line.strip() for line in header[2:8]] == [
        "%x: f32[],",
        '%x_0 "x:0": f32[],',
        '%x_0_1 "x_0": f32[],',
        '%_0 "0": f32[],',
        '%_ "": f32[],',
        '%a__quoted__name "a \\"quoted\\" name": f32[]',
    ]
    assert [value.producer.name for value in round_trip(module).main.body.parameters] == names


def test_symbols_are_listed_by_name_whatever_their_order() -> None:
    body = Builder().block((), ())
    ranges = {"b": (0, None), "a c": (1, 8)}
    assert print_function(Function("f", body, (), ranges)).split("\n")[0] == (
        "function f() -> () where `a c` in [1, 8], b in [0, ...] {"
    )


def test_attributes_are_listed_by_name_whatever_their_order() -> None:
    op = Op("host", (), {"z": 1, "function": "f", "a b": 2}, (), ())
    assert print_op(op) == 'host {"a b" = 2, function = "f", z = 1}'


def test_an_op_alone_numbers_its_operands_first() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (2,)))
    y = build.add(build.exp(x), x)
    assert y.op is not None
    assert print_op(y.op) == "%1 = add %0, %x : f32[2]"


def test_a_block_alone_reads_as_within_an_op() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (2,)))
    assert print_block(build.block([x], [build.exp(x)])) == (
        "block(%x: f32[2]) {\n  %0 = exp %x : f32[2]\n  return %0\n}"
    )


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(), "-"),
        (Location("main", 0), "0"),
        (Location("main", 12, "n/Add", "ai.onnx.Add-14"), '12 "n/Add" (ai.onnx.Add-14)'),
        (Location("main", None, "", "com.x y.F-1"), '- ("com.x y.F-1")'),
        (Location('a "b"', 1, "\n"), '1 "\\n" in "a \\"b\\""'),
    ],
)
def test_locations_are_written(location: Location, text: str) -> None:
    assert location_text(location) == text


def test_printing_twice_gives_the_same_text() -> None:
    for name in ("dot", "attention", "scatter_nd"):
        case = CASES[name][0]
        assert print_module(module_of(case)) == print_module(module_of(case))
