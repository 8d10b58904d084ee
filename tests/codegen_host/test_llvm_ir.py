"""The IR builder: its text, and what the text computes."""

import ctypes
import itertools
import mmap
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_module import ModuleBuilder
from onnxc.compiler.codegen_host.llvm_values import as_reg, literal
from onnxc.compiler.target import Target
from tests.codegen_host.native import NATIVE_TARGETS, load, module, native, write

NUMPY_TYPES = {
    "float": np.float32, "double": np.float64, "half": np.float16, "bfloat": ml_dtypes.bfloat16,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
INTEGERS = ("i8", "i16", "i32", "i64")


def scale(f: FunctionBuilder, x: Reg, n: Reg, s: Reg) -> None:
    def body(i: Int, total: Reg) -> Sequence[Reg]:
        at = f.gep(x, i, "float")
        product = f.fmul(f.load("float", at, 4), s, "contract")
        f.store(product, at, 4)
        return [f.fadd(total, product)]

    (total,) = f.loop(0, n, 1, body, [f.constant("float", 0)])
    f.if_(f.icmp("sgt", n, 3), lambda: f.store(total, x, 4))


SCALE = """\
define void @scale(ptr noalias %x, i64 %n, float %s) nounwind {
entry:
  %.1 = icmp slt i64 0, %n
  br i1 %.1, label %loop.1, label %end.2
loop.1:
  %.2 = phi i64 [ 0, %entry ], [ %.8, %loop.1 ]
  %.3 = phi float [ 0x0000000000000000, %entry ], [ %.7, %loop.1 ]
  %.4 = getelementptr float, ptr %x, i64 %.2
  %.5 = load float, ptr %.4, align 4
  %.6 = fmul contract float %.5, %s
  store float %.6, ptr %.4, align 4
  %.7 = fadd float %.3, %.6
  %.8 = add i64 %.2, 1
  %.9 = icmp slt i64 %.8, %n
  br i1 %.9, label %loop.1, label %end.2
end.2:
  %.10 = phi float [ 0x0000000000000000, %entry ], [ %.7, %loop.1 ]
  %.11 = icmp sgt i64 %n, 3
  br i1 %.11, label %then.3, label %end.4
then.3:
  store float %.10, ptr %x, align 4
  br label %end.4
end.4:
  ret void
}

"""


def test_text_of_a_loop_and_a_branch() -> None:
    assert module(write("scale", [("ptr noalias", "x"), ("i64", "n"), ("float", "s")], scale)) == SCALE


def test_module_lists_constants_then_functions_then_what_they_call() -> None:
    builder = ModuleBuilder()
    builder.global_constant("table", "i16", [1, -1], align=16)
    builder.global_constant("name", "i8", b"a\0", align=1)

    def caller(f: FunctionBuilder) -> Reg:
        f.call("callee", "void")
        return f.call("expf", "float", f.constant("float", 1))

    builder.add(write("caller", [], caller, "float"))
    builder.add(write("callee", [], lambda f: None, internal=True))
    assert builder.text() == (
        "@table = internal unnamed_addr constant [2 x i16] [i16 1, i16 -1], align 16\n"
        '@name = internal unnamed_addr constant [2 x i8] c"\\61\\00", align 1\n'
        "define float @caller() nounwind {\nentry:\n  call void @callee()\n"
        "  %.1 = call float @expf(float 0x3FF0000000000000)\n  ret float %.1\n}\n\n"
        "define internal void @callee() nounwind {\nentry:\n  ret void\n}\n\n"
        "declare float @expf(float)\n"
    )


def test_a_function_without_ret_is_refused() -> None:
    with pytest.raises(AssertionError, match="does not end in ret"):
        FunctionBuilder("f", []).text()


def test_shape_of_types() -> None:
    vector, scalar = Reg("%v", "<16 x float>"), Reg("%s", "i64")
    assert (vector.lanes, vector.element, vector.is_float) == (16, "float", True)
    assert (scalar.lanes, scalar.element, scalar.is_float) == (1, "i64", False)


# Numbers


@pytest.mark.parametrize("op", ["add", "sub", "mul", "sdiv", "srem", "udiv", "urem", "and_", "or_", "xor",
                                "smin", "smax", "umin", "umax"])  # fmt: skip
def test_two_numbers_fold_to_what_the_instruction_gives(op: str) -> None:
    def computed(f: FunctionBuilder, a: Reg, b: Reg) -> Reg:
        return getattr(f, op)(a, b)

    run = native(["i64", "i64"], computed, "i64")
    f = FunctionBuilder("f", [])
    values = [0, 1, -1, 2, 7, -7, 2**31, -(2**63), 2**63 - 1]
    for a, b in itertools.product(values, values):
        if ("div" in op or "rem" in op) and (b == 0 or (a == -(2**63) and b == -1)):
            continue  # traps or is undefined
        folded = getattr(f, op)(a, b)
        assert isinstance(folded, int)
        assert folded == run(a & (2**64 - 1), b & (2**64 - 1)), (op, a, b)


@pytest.mark.parametrize("op", ["shl", "ashr", "lshr"])
def test_shifts_of_numbers_fold(op: str) -> None:
    run = native(["i64", "i64"], lambda f, a, b: getattr(f, op)(a, b), "i64")
    f = FunctionBuilder("f", [])
    for a, b in itertools.product([0, 1, -1, 5, -(2**63), 2**63 - 1], [0, 1, 31, 63]):
        assert getattr(f, op)(a, b) == run(a & (2**64 - 1), b)


@pytest.mark.parametrize(
    ("op", "number"),
    [("add", 0), ("sub", 0), ("mul", 1), ("sdiv", 1), ("udiv", 1), ("and_", -1), ("or_", 0), ("xor", 0), ("shl", 0)],
)
def test_identities_write_nothing(op: str, number: int) -> None:
    f = FunctionBuilder("f", [("i64", "x"), ("<4 x i32>", "v")])
    for x in f.parameters:
        assert getattr(f, op)(x, number) is x


def test_identities_hold_with_the_number_first() -> None:
    f = FunctionBuilder("f", [("i64", "x")])
    (x,) = f.parameters
    assert f.add(0, x) is x
    assert f.mul(1, x) is x
    assert f.mul(0, x) == 0


@pytest.mark.parametrize(("op", "number"), [("mul", 0), ("and_", 0), ("srem", 1), ("urem", 1)])
def test_products_with_zero_are_numbers_only_as_i64(op: str, number: int) -> None:
    f = FunctionBuilder("f", [("i64", "x"), ("<4 x i32>", "v"), ("i8", "b")])
    x, v, b = f.parameters
    assert getattr(f, op)(x, number) == 0
    assert getattr(f, op)(v, number) == Reg("splat (i32 0)", "<4 x i32>")
    assert getattr(f, op)(b, number) == Reg("0", "i8")


def test_comparisons_of_numbers_choose_the_branch_while_writing() -> None:
    f = FunctionBuilder("f", [])
    assert f.if_(f.icmp("slt", -1, 0), lambda: [1], lambda: [2]) == (Reg("1", "i64"),)
    assert f.if_(f.icmp("ult", -1, 0), lambda: [1], lambda: [2]) == (Reg("2", "i64"),)
    assert f.select(f.icmp("eq", 1, 1), 3, 4) == Reg("3", "i64")
    f.ret()
    assert f.text().count("\n") == 4


def test_what_follows_a_branch_that_certainly_leaves_is_written_and_never_reached() -> None:
    def body(f: FunctionBuilder, x: Reg) -> Reg:
        f.if_(f.icmp("eq", 1, 1), lambda: f.ret(7))
        f.store(1, x, 8)
        return f.load("i64", x, 8)

    x = np.zeros(1, np.int64)
    assert native(["ptr"], body, "i64")(x.ctypes.data) == 7
    assert x[0] == 0


# Constants


@pytest.mark.parametrize("type", ["float", "double", "half", "bfloat"])
def test_float_constants_are_exact(type: str) -> None:
    dtype = NUMPY_TYPES[type]
    info = ml_dtypes.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.5, 0.1, np.pi, 1e30, -1e-30, np.inf, -np.inf, np.nan, 1e300,
              float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)]  # fmt: skip
    with np.errstate(over="ignore"):
        expected = np.array(values, dtype)
    width = f"u{expected.itemsize}"
    values_ = [values[k % len(values)] for k in range(16)]

    def body(f: FunctionBuilder, out: Reg) -> None:
        for k, value in enumerate(values):
            f.store(f.constant(type, value), f.gep(out, k, type))
        f.store(f.constant(f"<16 x {type}>", values_), f.gep(out, 16, type))
        f.store(f.constant(f"<2 x {type}>", 0.1), f.gep(out, 32, type))

    out = np.zeros(34, dtype)
    native(["ptr"], body)(out.ctypes.data)
    np.testing.assert_array_equal(out[: len(values)].view(width), expected.view(width))
    np.testing.assert_array_equal(out[16 : 16 + len(values)].view(width), expected.view(width))
    np.testing.assert_array_equal(out[32:], np.array([0.1, 0.1], dtype))


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("i1", 1, "true"),
        ("i1", True, "true"),
        ("<2 x i1>", 0, "splat (i1 false)"),
        ("i8", 255, "-1"),
        ("i8", -128, "-128"),
        ("i64", 2**63, "-9223372036854775808"),
        ("<2 x i16>", [1, -2], "<i16 1, i16 -2>"),
        ("ptr", 0, "null"),
        ("float", -0.0, "0x8000000000000000"),
        ("half", 1.0, "0xH3C00"),
        ("bfloat", 1.0, "0xR3F80"),
    ],
)
def test_text_of_constants(type: str, value: float | Sequence[float], text: str) -> None:
    assert literal(type, value) == text


def test_an_integer_type_refuses_a_fraction() -> None:
    with pytest.raises(AssertionError, match="is no integer"):
        literal("i32", 0.5)


def test_global_constants_are_read_back() -> None:
    builder = ModuleBuilder()
    floats = builder.global_constant("floats", "float", [0.1, -0.0, 3e38])
    raw = builder.global_constant("raw", "i8", bytes(range(256)), align=4)
    builder.add(write("f", [], lambda f: f.convert("ptrtoint", floats, "i64"), "i64"))
    builder.add(write("g", [], lambda f: f.convert("ptrtoint", raw, "i64"), "i64"))
    image = load(builder.text(), ["f", "g"])
    first, second = image.function("f", 0)(), image.function("g", 0)()
    assert first % 64 == 0
    assert (ctypes.c_float * 3).from_address(first)[:] == np.array([0.1, -0.0, 3e38], np.float32).tolist()
    assert bytes((ctypes.c_ubyte * 256).from_address(second)) == bytes(range(256))


# Arithmetic


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("type", INTEGERS)
def test_integer_instructions_wrap(type: str, lanes: int) -> None:
    vector = type if lanes == 1 else f"<{lanes} x {type}>"
    info = np.iinfo(NUMPY_TYPES[type])
    pairs = list(itertools.product([0, 1, -1, 3, info.min, info.max], repeat=2))
    a, b = np.array(pairs, NUMPY_TYPES[type]).T.repeat(16, axis=1).copy()
    ops = ("add", "sub", "mul", "and_", "or_", "xor", "smin", "smax", "umin", "umax")

    def body(f: FunctionBuilder, x: Reg, y: Reg, out: Reg) -> None:
        def step(i: Int) -> None:
            left, right = f.load(vector, f.gep(x, i, type)), f.load(vector, f.gep(y, i, type))
            for k, op in enumerate(ops):
                f.store(getattr(f, op)(left, right), f.gep(out, f.add(i, k * a.size), type))

        f.loop(0, a.size, lanes, step)

    out = np.zeros((len(ops), a.size), a.dtype)
    native(["ptr"] * 3, body)(a.ctypes.data, b.ctypes.data, out.ctypes.data)
    ua, ub = a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")
    unsigned = [np.minimum(ua, ub).view(a.dtype), np.maximum(ua, ub).view(a.dtype)]
    expected = [a + b, a - b, a * b, a & b, a | b, a ^ b, np.minimum(a, b), np.maximum(a, b), *unsigned]
    np.testing.assert_array_equal(out, expected)


def test_float_instructions_keep_nan_and_signed_zero() -> None:
    values = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
    a, b = np.array(list(itertools.product(values, repeat=2)), np.float32).T.copy()

    def body(f: FunctionBuilder, x: Reg, y: Reg, out: Reg) -> None:
        def step(i: Int) -> None:
            left, right = f.load("float", f.gep(x, i, "float")), f.load("float", f.gep(y, i, "float"))
            results = [f.fadd(left, right), f.fsub(left, right), f.fmul(left, right), f.fdiv(left, right),
                       f.frem(left, right), f.fneg(left), f.fma(left, right, 1.0)]  # fmt: skip
            for k, result in enumerate(results):
                f.store(result, f.gep(out, f.add(i, k * a.size), "float"))

        f.loop(0, a.size, 1, step)

    out = np.zeros((7, a.size), np.float32)
    native(["ptr"] * 3, body)(a.ctypes.data, b.ctypes.data, out.ctypes.data)
    with np.errstate(all="ignore"):
        expected = np.array([a + b, a - b, a * b, a / b, np.fmod(a, b), -a, a * b + 1], np.float32)
    np.testing.assert_array_equal(out, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_fma_rounds_once(target: Target) -> None:
    x = np.array([1 + 2**-12, -(1 + 2**-11)], np.float32)
    out = np.zeros(1, np.float32)

    def body(f: FunctionBuilder, x: Reg, out: Reg) -> None:
        factor = f.load("float", x)
        f.store(f.fma(factor, factor, f.load("float", f.gep(x, 4))), out)

    native(["ptr", "ptr"], body, target=target)(x.ctypes.data, out.ctypes.data)
    assert out[0] == np.float32(2**-24)


def test_comparisons_and_select() -> None:
    def body(f: FunctionBuilder, a: Reg, b: Reg) -> Reg:
        smaller = f.select(f.icmp("slt", a, b), a, b)
        return f.select(f.icmp("eq", smaller, -1), 100, smaller)

    run = native(["i64", "i64"], body, "i64")
    assert [run(3, 4), run(4, 3), run(2**64 - 1, 5)] == [3, 3, 100]


def test_unordered_comparisons_see_nan() -> None:
    x = np.array([np.nan, 1.0], np.float64)

    def body(f: FunctionBuilder, x: Reg) -> Reg:
        a, b = f.load("double", x), f.load("double", f.gep(x, 1, "double"))
        bits = [f.fcmp("uno", a, b), f.fcmp("oeq", a, a), f.fcmp("ult", a, b), f.fcmp("oge", b, 1.0)]
        total: Reg = f.constant("i64", 0)
        for k, bit in enumerate(bits):
            total = f.or_(total, f.shl(f.convert("zext", bit, "i64"), k))
        return total

    assert native(["ptr"], body, "i64")(x.ctypes.data) == 0b1101


def test_conversions() -> None:
    def body(f: FunctionBuilder, a: Reg) -> Reg:
        as_float = f.convert("sitofp", a, "double")
        halved = f.convert("fptosi", f.fmul(as_float, 0.5), "i64")
        narrow = f.convert("sext", f.convert("trunc", halved, "i8"), "i64")
        return f.add(narrow, f.convert("zext", f.convert("trunc", halved, "i8"), "i64"))

    run = native(["i64"], body, "i64")
    assert [run(3), run(254), run(256), run(510)] == [2, 254, 0, 254]


# Control flow


@pytest.mark.parametrize("step", [1, 3, 16])
@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (0, 5), (5, 5), (7, 5), (-4, 4), (0, 16), (0, 33)])
def test_loops_run_as_range_does(start: int, stop: int, step: int) -> None:
    def total(f: FunctionBuilder, first: Int, last: Int, stride: Int, unroll: bool = False) -> Reg:
        def body(i: Int, count: Reg, total: Reg) -> Sequence[Reg]:
            return [f.add(count, 1), f.add(total, i)]

        count, total = f.loop(first, last, stride, body, [0, 0], unroll=unroll)
        return f.add(f.mul(count, 1000), total)

    numbers = range(start, stop, step)
    expected = 1000 * len(numbers) + sum(numbers)
    assert native(["i64"] * 3, total, "i64")(start & (2**64 - 1), stop, step) == expected
    assert native([], lambda f: total(f, start, stop, step), "i64")() == expected
    assert native([], lambda f: total(f, start, stop, step, unroll=True), "i64")() == expected


def test_a_loop_that_runs_at_least_once_tests_at_its_end() -> None:
    def body(f: FunctionBuilder, n: Reg) -> Reg:
        return f.loop(0, n, 1, lambda i, total: [f.add(total, i)], [0], at_least_once=True)[0]

    text = module(write("f", [("i64", "n")], body, "i64"))
    assert text.count("icmp") == 1
    assert native(["i64"], body, "i64")(10) == 45


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 11])
def test_rounds_that_are_written_out_and_those_left_over_are_all_rounds(count: int, rounds: int) -> None:
    def body(f: FunctionBuilder, n: Int) -> Reg:
        def step(i: Int, place: int, total: Int) -> Sequence[Int]:
            return [f.add(f.mul(total, 3), f.add(f.mul(i, 10), place))]

        return f.loop_in_steps(n, rounds, step, [1])[0]

    expected = 1
    for i in range(count):
        expected = 3 * expected + 10 * i + (i % rounds if i < count // rounds * rounds else 0)
    assert native(["i64"], body, "i64")(count) == expected
    assert native([], lambda f: body(f, count), "i64")() == expected


def test_what_is_held_in_a_register_is_not_computed_again() -> None:
    def body(f: FunctionBuilder, x: Reg) -> Reg:
        return f.sub(f.held(f.add(x, 5)), x)

    assert native(["i64"], body, "i64")(2**63) == 5
    assert 'asm ""' in module(write("f", [("i64", "x")], body, "i64"))


def test_unrolled_loops_have_no_branch() -> None:
    def body(f: FunctionBuilder, x: Reg) -> Reg:
        return f.loop(0, 4, 1, lambda i, total: [f.add(total, f.mul(x, i))], [0], unroll=True)[0]

    assert "br" not in module(write("f", [("i64", "x")], body, "i64"))
    assert native(["i64"], body, "i64")(5) == 30


def test_what_has_been_computed_is_not_computed_again() -> None:
    def body(f: FunctionBuilder, x: Reg, p: Reg) -> Reg:
        first, address, value = f.add(x, 3), f.gep(p, x, "i64"), f.fmul(f.convert("sitofp", x, "double"), 2.0)
        assert f.add(x, 3) is first
        assert f.add(3, x) is first
        assert f.gep(p, x, "i64") is address
        assert f.fmul(f.convert("sitofp", x, "double"), 2.0) is value
        assert f.smin(x, first) is f.smin(x, first)
        assert f.icmp("slt", x, first) is f.icmp("slt", x, first)
        assert f.fcmp("olt", value, 1.0) is f.fcmp("olt", value, 1.0)
        assert f.fmul(value, value) != f.fmul(value, value, "contract")
        assert f.load("i64", address) != f.load("i64", address)
        assert f.held(x) != f.held(x)
        assert f.call("g", "i64", x) != f.call("g", "i64", x)
        return first

    write("f", [("i64", "x"), ("ptr", "p")], body, "i64").text()


@pytest.mark.parametrize("scope", ["loop", "then", "else", "condition", "while"])
def test_what_only_some_ways_compute_is_computed_again_behind_them(scope: str) -> None:
    def body(f: FunctionBuilder, n: Reg) -> Reg:
        def three_more(*_: Int) -> None:
            f.add(n, 3)

        def is_small(i: Int) -> Reg:
            three_more() if scope == "condition" else None
            return f.icmp("slt", i, 0)

        def next_one(i: Int) -> Sequence[Int]:
            three_more()
            return (f.add(i, 1),)

        match scope:
            case "loop":
                f.loop(0, n, 1, three_more)
            case "then":
                f.if_(f.icmp("sgt", n, 100), three_more)
            case "else":
                f.if_(f.icmp("slt", n, 100), lambda: None, three_more)
            case _:
                f.while_((n,), is_small, next_one)
        return f.add(n, 3)

    assert write("f", [("i64", "n")], body, "i64").text().count("add i64 %n, 3") == 2
    call = native(["i64"], body, "i64")
    assert [call(n) for n in (0, 5, 200)] == [3, 8, 203]


def test_loops_nest_around_branches() -> None:
    def body(f: FunctionBuilder, n: Reg) -> Reg:
        def outer(i: Int, total: Reg) -> Sequence[Reg]:
            def inner(j: Int, total: Reg) -> Sequence[Reg]:
                even = f.icmp("eq", f.urem(f.add(i, j), 2), 0)
                return f.if_(even, lambda: [f.add(total, f.mul(i, j))], lambda: [f.sub(total, 1)])

            return f.loop(i, n, 1, inner, [total])

        return f.loop(0, n, 1, outer, [0])[0]

    expected = sum(i * j if (i + j) % 2 == 0 else -1 for i in range(9) for j in range(i, 9))
    assert native(["i64"], body, "i64")(9) == expected


def test_while_runs_until_its_condition_is_false() -> None:
    def collatz(f: FunctionBuilder, start: Reg) -> Reg:
        def step(x: Reg, steps: Reg) -> Sequence[Reg]:
            odd = f.icmp("ne", f.urem(x, 2), 0)
            (following,) = f.if_(odd, lambda: [f.add(f.mul(x, 3), 1)], lambda: [f.udiv(x, 2)])
            return [following, f.add(steps, 1)]

        return f.while_([start, 0], lambda x, _: f.icmp("ne", x, 1), step)[1]

    run = native(["i64"], collatz, "i64")
    assert [run(1), run(6), run(27)] == [0, 8, 111]


def test_branches_may_leave_the_function() -> None:
    def body(f: FunctionBuilder, n: Reg) -> Reg:
        f.if_(f.icmp("eq", n, 0), lambda: f.ret(100))
        f.if_(f.icmp("eq", n, 1), lambda: f.ret(200), lambda: None)
        (value,) = f.if_(f.icmp("eq", n, 2), lambda: [300], lambda: [n])
        return value

    run = native(["i64"], body, "i64")
    assert [run(k) for k in range(4)] == [100, 200, 300, 3]


def test_a_branch_with_results_needs_the_other_one() -> None:
    f = FunctionBuilder("f", [("i1", "c")])
    with pytest.raises(AssertionError, match="both branches"):
        f.if_(f.parameters[0], lambda: [1])


def test_a_body_has_to_give_what_it_carries() -> None:
    f = FunctionBuilder("f", [("i64", "n")])
    with pytest.raises(AssertionError, match="gives 0 values and carries 1"):
        f.loop(0, f.parameters[0], 1, lambda i, total: None, [0])


def test_calls_by_name_and_by_pointer() -> None:
    twice = write("twice", [("i64", "x")], lambda f, x: f.mul(x, 2), "i64", internal=True)

    def body(f: FunctionBuilder, x: Reg) -> Reg:
        return f.add(f.call("twice", "i64", x), f.call_pointer(f.symbol("twice"), "i64", 50))

    image = load(module(twice, write("f", [("i64", "x")], body, "i64")), ["f"])
    assert image.function("f", 1)(21) == 142


def test_stack_memory_is_aligned_and_reserved_once() -> None:
    def body(f: FunctionBuilder, n: Reg) -> Reg:
        def step(i: Int, _: Reg) -> Sequence[Reg]:
            memory = f.alloca("i64", 100, align=128)
            f.store(as_reg(i), f.gep(memory, 99, "i64"))
            return [f.add(f.load("i64", f.gep(memory, 99, "i64")), f.urem(f.convert("ptrtoint", memory, "i64"), 128))]

        return f.loop(0, n, 1, step, [0])[0]

    assert native(["i64"], body, "i64")(200_000) == 199_999


# Vectors


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64, 128])
def test_tail_mask_is_true_below_the_count(lanes: int, target: Target) -> None:
    def body(f: FunctionBuilder, count: Reg, out: Reg) -> None:
        mask = f.tail_mask(lanes, count)
        f.store(f.convert("zext", mask, "i8" if lanes == 1 else f"<{lanes} x i8>"), out)

    run = native(["i64", "ptr"], body, target=target)
    for count in [-(2**63), -(2**31) - 1, -300, *range(-1, lanes + 2), 2**31, 2**32, 2**32 + 1, 2**63 - 1]:
        out = np.zeros(lanes, np.int8)
        run(count & (2**64 - 1), out.ctypes.data)
        np.testing.assert_array_equal(out, np.arange(lanes) < count)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 4, 5])
@pytest.mark.parametrize("lanes", [1, 4])
def test_tail_mask_of_a_number_is_a_constant(lanes: int, count: int) -> None:
    f = FunctionBuilder("f", [])
    mask = f.tail_mask(lanes, count)
    texts = ["true" if lane < count else "false" for lane in range(lanes)]
    assert mask.text == (texts[0] if lanes == 1 else "<" + ", ".join(f"i1 {text}" for text in texts) + ">")


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("type", ["i8", "half", "float", "double"])
def test_masked_tails_touch_nothing_behind_the_end(type: str, target: Target) -> None:
    """Every remainder of 16 lanes, with a page behind the data that may not be read or written."""
    dtype = np.dtype(NUMPY_TYPES[type])
    vector = f"<16 x {type}>"

    def body(f: FunctionBuilder, x: Reg, n: Reg, out: Reg) -> None:
        def step(i: Int) -> None:
            mask = f.tail_mask(16, f.sub(n, i))
            values = masked_load(f, vector, f.gep(x, i, type), mask, passthru=f.constant(vector, 7))
            f.store(values, f.gep(out, i, type))
            masked_store(f, f.constant(vector, 3), f.gep(x, i, type), mask)

        f.loop(0, n, 16, step)

    run = native(["ptr", "i64", "ptr"], body, target=target)
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    memory = np.frombuffer(pages, np.uint8)
    guard = memory.ctypes.data + mmap.PAGESIZE
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) == 0
    for n in range(34):
        data = memory[mmap.PAGESIZE - n * dtype.itemsize : mmap.PAGESIZE].view(dtype)
        data[:] = np.arange(n)
        before = memory[: mmap.PAGESIZE - n * dtype.itemsize].copy()
        out = np.zeros(48, dtype)
        run(guard - n * dtype.itemsize, n, out.ctypes.data)
        whole = -(-n // 16) * 16
        expected = [*range(n), *[7] * (whole - n), *[0] * (48 - whole)]
        np.testing.assert_array_equal(out, np.array(expected, dtype))
        np.testing.assert_array_equal(data, np.full(n, 3, dtype))
        np.testing.assert_array_equal(memory[: before.size], before)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("type", ["i8", "half", "float", "double"])
def test_masks_that_are_known_store_their_lanes_alone(type: str, target: Target) -> None:
    """The first lanes, and others."""
    dtype = np.dtype(NUMPY_TYPES[type])
    masks = [[lane < count for lane in range(8)] for count in range(9)]
    masks += [[lane % 3 == 0 for lane in range(8)], [lane > 4 for lane in range(8)]]
    for mask in masks:

        def body(f: FunctionBuilder, x: Reg, y: Reg, mask: Sequence[bool] = mask) -> None:
            values = f.load(f"<8 x {type}>", x)
            masked_store(f, values, y, f.constant("<8 x i1>", mask))

        x, y = np.arange(1, 9).astype(dtype), np.zeros(8, dtype)
        native(["ptr", "ptr"], body, target=target)(x.ctypes.data, y.ctypes.data)
        np.testing.assert_array_equal(y, np.where(mask, x, 0).astype(dtype))


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("index_type", ["i32", "i64"])
def test_gather_and_scatter_leave_masked_lanes_alone(index_type: str, target: Target) -> None:
    table = np.arange(100, dtype=np.float32)
    indices = np.array([5, -3, 99, 0, 7, 7, 1, 2], NUMPY_TYPES[index_type])
    indices_type = f"<8 x {index_type}>"

    def body(f: FunctionBuilder, table: Reg, indices: Reg, count: Reg, out: Reg) -> None:
        at, mask = f.load(indices_type, indices), f.tail_mask(8, count)
        base = f.gep(table, 3, "float")
        safe = f.select(f.icmp("sgt", at, 96), f.constant(indices_type, 0), at)
        passthru = f.constant("<8 x float>", -1)
        f.store(f.gather("<8 x float>", base, safe, mask, 4, passthru), out)
        f.store(f.gather("<8 x float>", base, safe), f.gep(out, 8, "float"))
        f.scatter(f.constant("<8 x float>", range(8)), f.gep(out, 16, "float"), at, mask, 4)

    out = np.full(32, 50, np.float32)
    native(["ptr", "ptr", "i64", "ptr"], body, target=target)(
        table.ctypes.data, indices.ctypes.data, 2, out.ctypes.data
    )
    np.testing.assert_array_equal(out[:8], np.array([8, 0, *[-1] * 6], np.float32))
    np.testing.assert_array_equal(out[8:13], np.array([8, 0, 3, 3, 10], np.float32))
    # Lane 0 goes to 16 + 5, lane 1 to 16 - 3; the other lanes are masked.
    np.testing.assert_array_equal(out[13:], np.array([1, 4, 5, *[50] * 5, 0, *[50] * 10], np.float32))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", ["fadd", "fmul", "fmin", "fmax", "fminimum", "fmaximum"])
def test_float_reductions(kind: str, ordered: bool) -> None:
    x = np.array([1.5, -2.0, 4.0, 0.5, -8.0, 1.0, 2.0, -0.25], np.float32)
    out = np.zeros(1, np.float32)

    def body(f: FunctionBuilder, x: Reg, out: Reg) -> None:
        f.store(f.reduce_lanes(kind, f.load("<8 x float>", x), ordered=ordered), out)

    native(["ptr", "ptr"], body)(x.ctypes.data, out.ctypes.data)
    function = {"fadd": np.sum, "fmul": np.prod}.get(kind, np.min if "min" in kind else np.max)
    assert out[0] == function(x)


def test_sums_of_nothing_but_minus_zero_keep_the_sign() -> None:
    x, out = np.full(8, -0.0, np.float32), np.zeros(1, np.float32)
    run = native(["ptr", "ptr"], lambda f, x, out: f.store(f.reduce_lanes("fadd", f.load("<8 x float>", x)), out))
    run(x.ctypes.data, out.ctypes.data)
    assert np.signbit(out[0])


@pytest.mark.parametrize(
    ("kind", "expects_nan"), [("fmin", False), ("fmax", False), ("fminimum", True), ("fmaximum", True)]
)
def test_reductions_with_nan(kind: str, expects_nan: bool) -> None:
    x, out = np.array([1, np.nan, 2, 3], np.float32), np.zeros(1, np.float32)
    run = native(["ptr", "ptr"], lambda f, x, out: f.store(f.reduce_lanes(kind, f.load("<4 x float>", x)), out))
    run(x.ctypes.data, out.ctypes.data)
    assert np.isnan(out[0]) == expects_nan


def test_ordered_sums_go_from_lane_to_lane() -> None:
    x = np.array([1e8, 1, -1e8, 1], np.float32)
    out = np.zeros(1, np.float32)
    run = native(
        ["ptr", "ptr"], lambda f, x, out: f.store(f.reduce_lanes("fadd", f.load("<4 x float>", x), ordered=True), out)
    )
    run(x.ctypes.data, out.ctypes.data)
    assert out[0] == 1


@pytest.mark.parametrize("type", INTEGERS)
def test_integer_reductions(type: str) -> None:
    info = np.iinfo(NUMPY_TYPES[type])
    x = np.array([3, -7, info.min, info.max, 5, 0, -1, 90], NUMPY_TYPES[type])
    kinds = ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")

    def body(f: FunctionBuilder, x: Reg, out: Reg) -> None:
        vector = f.load(f"<8 x {type}>", x)
        for k, kind in enumerate(kinds):
            f.store(f.reduce_lanes(kind, vector), f.gep(out, k, type))

    out = np.zeros(len(kinds), x.dtype)
    native(["ptr", "ptr"], body)(x.ctypes.data, out.ctypes.data)
    unsigned = x.view(f"u{x.itemsize}")
    expected = [np.add.reduce(x, dtype=x.dtype), np.multiply.reduce(x, dtype=x.dtype), np.bitwise_and.reduce(x),
                np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x), x.min(), x.max(),
                unsigned.min().view(x.dtype), unsigned.max().view(x.dtype)]  # fmt: skip
    np.testing.assert_array_equal(out, np.array(expected, x.dtype))


def test_a_scalar_is_its_own_reduction_and_splat() -> None:
    f = FunctionBuilder("f", [("float", "x")])
    assert f.reduce_lanes("fadd", f.parameters[0]) is f.parameters[0]
    assert f.splat(f.parameters[0], 1) is f.parameters[0]
    assert f.lane_ids("i64") == Reg("0", "i64")


def test_lanes_are_moved_by_extract_insert_shuffle_and_splat() -> None:
    x = np.arange(10, 18, dtype=np.int32)

    def body(f: FunctionBuilder, x: Reg, lane: Reg, out: Reg) -> None:
        vector = f.load("<8 x i32>", x)
        chosen = f.extract(vector, lane)
        results = [
            f.insert(vector, chosen, 0),
            f.shuffle(vector, vector, [0, 8, 1, 9, 7, 15, 3, 2]),
            f.splat(chosen, 8),
            f.splat(f.constant("i32", 9), 8),
            f.insert(vector, f.shuffle(vector, None, [3]), lane),
            f.lane_ids("<8 x i32>"),
        ]
        for k, result in enumerate(results):
            f.store(result, f.gep(out, 8 * k, "i32"))

    out = np.zeros((6, 8), np.int32)
    native(["ptr", "i64", "ptr"], body)(x.ctypes.data, 5, out.ctypes.data)
    expected = [[15, *range(11, 18)], [10, 10, 11, 11, 17, 17, 13, 12], [15] * 8, [9] * 8,
                [10, 11, 12, 13, 14, 13, 16, 17], list(range(8))]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


# Atomics


def test_atomics_give_what_was_there() -> None:
    def body(f: FunctionBuilder, cell: Reg, out: Reg) -> None:
        results = [f.atomic_rmw("add", cell, 5), f.atomic_rmw("xchg", cell, 100)]
        found, swapped = f.compare_exchange(cell, 100, 200)
        again, refused = f.compare_exchange(cell, 100, 300)
        f.fence()
        results += [found, f.convert("zext", swapped, "i64"), again, f.convert("zext", refused, "i64")]
        f.atomic_store(f.constant("i32", 77), f.gep(cell, 8))
        results.append(f.convert("zext", f.atomic_load("i32", f.gep(cell, 8)), "i64"))
        for k, result in enumerate(results):
            f.store(result, f.gep(out, k, "i64"))

    cell, out = np.array([1, 0], np.int64), np.zeros(7, np.int64)
    native(["ptr", "ptr"], body)(cell.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, [1, 6, 100, 1, 200, 0, 77])
    np.testing.assert_array_equal(cell, [200, 77])


@pytest.mark.parametrize(
    ("type", "vector_bytes", "stored"),
    [
        ("<16 x i64>", 64, ["<8 x i64>"] * 2), ("<16 x i64>", 32, ["<4 x i64>"] * 4),
        ("<20 x float>", 64, ["<16 x float>", "<4 x float>"]), ("<16 x i32>", 64, ["<16 x i32>"]),
        ("<9 x double>", 64, ["<8 x double>", "double"]), ("<64 x i8>", 64, ["<64 x i8>"]), ("i64", 32, ["i64"]),
    ],
)  # fmt: skip
def test_what_fills_several_registers_is_stored_from_the_lowest_address_on(
    type: str, vector_bytes: int, stored: list[str]
) -> None:
    f = FunctionBuilder("copy", [("ptr", "x"), ("ptr", "y")], vector_bytes=vector_bytes)
    x, y = f.parameters
    f.store(f.load(type, x), y, 4)
    f.ret()
    lines = [line.strip() for line in f.text().splitlines() if "getelementptr" in line or "store" in line]
    assert [line.removeprefix("store ").rsplit(" %", 2)[0] for line in lines if "store" in line] == stored
    offsets = [int(line.rsplit(" ", 1)[1]) for line in lines if "getelementptr" in line]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("type", ["double", "i64"])
def test_parts_of_a_vector_land_where_they_belong(type: str) -> None:
    x, y = np.arange(20).astype(NUMPY_TYPES[type]), np.zeros(20, NUMPY_TYPES[type])

    def body(f: FunctionBuilder, source: Reg, target: Reg) -> None:
        f.store(f.load(f"<20 x {type}>", source), target)

    native(["ptr", "ptr"], body)(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("registers", "lanes", "reads"), [(16, 8, True), (32, 8, False), (16, 1, False)])
def test_constants_of_vectors_are_in_memory_where_registers_are_few(registers: int, lanes: int, reads: bool) -> None:
    type = f"<{lanes} x float>" if lanes > 1 else "float"
    f = FunctionBuilder("f", [("ptr", "x")], vector_registers=registers)
    (x,) = f.parameters
    for number in (0.1, -0.0, 0.1):
        f.store(f.fadd(f.load(type, x), f.constant_operand(type, number)), x)
    f.ret()
    text = module(f)
    assert text.count("internal unnamed_addr constant <8 x float>") == (2 if reads else 0)
    values = np.arange(lanes, dtype=np.float32)
    expected = (values + np.float32(0.1)) + np.float32(0.1)
    load(text.replace("define void @f", "define void @g"), ["g"]).function("g", 1)(values.ctypes.data)
    assert np.array_equal(values, expected)
