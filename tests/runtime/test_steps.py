"""Bodies step by step: host functions, sizes from data, guards, branches, loops, and launches among them."""

from collections.abc import Mapping

import numpy as np
import pytest

from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.load import make_executable
from onnxc.runtime.program import (
    Binding,
    BindSizes,
    Body,
    Check,
    Constant,
    Guard,
    If,
    Launch,
    Parameter,
    Program,
    Release,
    Step,
    Symbol,
    TensorSpec,
    While,
)
from onnxc.runtime.texts import encode_texts
from tests.runtime.programs import BIAS, FLAG, SCALAR, SCALE, SYMBOLS, X, artifact, body, host, launch, program, vector
from tests.support.arrays import assert_same


def run(content: Program, inputs: Mapping[str, object], weights: np.ndarray | None = None) -> list[np.ndarray]:
    return list(make_executable(artifact(content, weights), threads=1).run(inputs).values())


def one(content: Program, *inputs: object) -> np.ndarray:
    (result,) = run(content, dict(zip((info.name for info in content.inputs), inputs, strict=True)))
    return result


@pytest.mark.parametrize("size", [0, 1, 3])
def test_host_steps_and_launches_follow_each_other(size: int) -> None:
    steps = [host("neg", [0], [1]), launch("affine", [1], [2]), host("abs", [2], [3]), launch("affine", [3], [4])]
    x = X[:size]
    expected = np.abs(-x * np.float32(SCALE) + np.float32(BIAS)) * np.float32(SCALE) + np.float32(BIAS)
    assert_same(one(program(body(5, [0], [4], steps)), x), expected)


def test_a_launch_reads_a_copy_of_what_a_host_step_gives_as_a_view() -> None:
    reverse = host("slice", [0], [1], starts=[{"size": "s[0] - 1"}], shape=[{"size": "s[0]"}], steps=[-1])
    content = program(body(3, [0], [2], [reverse, launch("both", [1], [2, 0])]))
    assert_same(one(content, X), 2 * X[::-1])


def test_a_released_slot_is_empty_and_the_result_is_kept() -> None:
    steps: list[Step] = [host("neg", [0], [1]), Release((0,)), host("neg", [1], [2]), Release((1,))]
    assert_same(one(program(body(3, [0], [2], steps)), X), X)


def test_sizes_in_attributes_are_those_of_the_call() -> None:
    content = program(
        body(2, [0], [1], [host("iota", [], [1], shape=[{"size": "2*s[0]"}], axis=0, dtype={"dtype": "f32"})])
    )
    assert_same(one(content, X), np.arange(6, dtype=np.float32))


def test_constants_lie_in_the_weights() -> None:
    weights = np.array([10.0, 20.0, 30.0], np.float32)
    content = body(3, [0], [2], [host("add", [0, 1], [2])], constants=[Constant(1, 64, TensorSpec("f32", ("3",)))])
    (result,) = run(program(content), {"x": X}, weights)
    assert_same(result, X + weights)


@pytest.mark.parametrize("shape", [(), (0,), (2, 2)])
def test_texts_lie_in_the_weights_too(shape: tuple[int, ...]) -> None:
    texts = np.array(["a", "ü\n", "", "b" * 100], object)[: int(np.prod(shape))].reshape(shape)
    spec = TensorSpec("string", tuple(map(str, shape)))
    content = body(2, [0], [1], [], constants=[Constant(1, 64, spec)])
    (result,) = run(program(content), {"x": X}, encode_texts(texts))
    assert_same(np.asarray(result), texts)


@pytest.mark.parametrize("data", [b"\xff" * 16, b"\2" + bytes(7) + b"[]", b"\2" + bytes(7) + b"[x"])
def test_damaged_texts_are_an_error(data: bytes) -> None:
    content = body(2, [0], [1], [], constants=[Constant(1, 64, TensorSpec("string", ("1",)))])
    with pytest.raises(DeviceError, match="texts at byte 64"):
        make_executable(artifact(program(content), np.frombuffer(data, np.uint8)))


@pytest.mark.parametrize(
    ("results", "steps"),
    [([0], []), ([1], []), ([2, 2], [host("neg", [0], [2])]), ([2], [host("reshape", [0], [2], shape=[1, 3])])],
    ids=["an input", "a constant", "twice the same", "a view"],
)
def test_results_are_the_callers_own(results: list[int], steps: list[Step]) -> None:
    content = body(3, [0], results, steps, constants=[Constant(1, 0, TensorSpec("f32", ("2",)))])
    x = X.copy()
    exe = make_executable(artifact(program(content, outputs=[vector(f"y{k}") for k in range(len(results))])))
    found = list(exe.run({"x": x}).values())
    before = [y.copy() for y in found]
    for y in found:
        assert y.flags.owndata
        assert y.flags.c_contiguous
        y += 1
    assert_same(x, X)
    for y, again in zip(before, exe.run({"x": x}).values(), strict=True):
        assert_same(again, y)


def test_data_become_sizes() -> None:
    content = body(2, [0], [1], [BindSizes(0, (0, 1)), host("iota", [], [1], shape=[{"size": "s[0] + s[1]"}], axis=0,
                                                           dtype={"dtype": "i64"})], bindings=[])  # fmt: skip
    numbers = Parameter("k", "i64", ("2",), "i64[2]")
    assert_same(one(program(content, [numbers]), np.array([2, 3])), np.arange(5))
    with pytest.raises(InputError, match="N is -1 by the data, expected 0 or more") as refused:
        one(program(content, [numbers]), np.array([-1, 3]))
    assert refused.value.code == "impossible-size"


def test_a_number_of_any_sign_may_be_negative() -> None:
    steps = [BindSizes(0, (0,)), host("iota", [], [1], shape=[{"size": "5 + s[0]"}], axis=0, dtype={"dtype": "i64"})]
    numbers = Parameter("k", "i64", ("1",), "i64[1]")
    content = program(body(2, [0], [1], steps, bindings=[]), [numbers], symbols=[Symbol("?k", 0, None)])
    assert_same(one(content, np.array([-2])), np.arange(3))


def sized_by_data() -> Program:
    """y: f32[k], the affine of as many zeros."""
    zeros = host("constant", [], [1], value={"array": ["f32", [0], ""]})
    steps = [BindSizes(0, (0,)), zeros, launch("affine", [1], [2])]
    numbers = Parameter("k", "i64", ("1",), "i64[1]")
    symbols = [Symbol("?k", -(2**63), None), Symbol("K", 0, None)]
    return program(body(3, [0], [2], steps, bindings=[]), [numbers], symbols=symbols)


def test_a_size_of_0_by_data_is_legal() -> None:
    assert_same(one(sized_by_data(), np.array([0])), np.empty(0, np.float32))


def test_an_output_without_elements_whose_strides_nothing_counts_is_refused() -> None:
    shape = ("0", "2305843009213693952")
    wide = Launch("affine", (0,), (1,), (TensorSpec("f32", shape),), "0")
    y = Parameter("y", "f32", shape, "f32[0, 2^61]")
    with pytest.raises(DeviceError) as refused:
        one(program(body(2, [0], [1], [wide]), outputs=[y]), X)
    assert refused.value.code == "out-of-memory"


@pytest.mark.parametrize("size", [-1, -(2**63)])
def test_a_negative_size_by_data_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"a size of {size}") as refused:
        one(sized_by_data(), np.array([size]))
    assert refused.value.code == "impossible-size"


@pytest.mark.parametrize("size", [2**50, 2**61, 2**63 - 1])
def test_a_size_that_no_memory_holds_is_refused(size: int) -> None:
    with pytest.raises(DeviceError) as refused:
        one(sized_by_data(), np.array([size]))
    assert refused.value.code == "out-of-memory"


def test_what_non_zero_finds_binds_a_size() -> None:
    found = host("non_zero", [0], [1], Binding(1, 1, 1))
    content = body(
        3, [0], [2], [found, host("iota", [], [2], shape=[{"size": "s[1]"}], axis=0, dtype={"dtype": "f32"})]
    )
    assert_same(one(program(content), np.array([0.0, 2.0, -0.0, np.nan], np.float32)), np.arange(2, dtype=np.float32))


def test_a_binding_of_a_known_symbol_changes_nothing() -> None:
    twice = host("concatenate", [0, 0], [1], Binding(1, 0, 0), axis=0)
    content = body(
        3, [0], [2], [twice, host("iota", [], [2], shape=[{"size": "s[0]"}], axis=0, dtype={"dtype": "f32"})]
    )
    assert one(program(content), X).shape == (3,)


@pytest.mark.parametrize(
    ("relation", "left", "right", "holds"),
    [
        ("equal", "s[0]", "3", True),
        ("equal", "s[0]", "4", False),
        ("broadcast", "s[0]", "1", True),
        ("broadcast", "1", "s[0]", True),
        ("broadcast", "s[0]", "0", False),
        ("at_least", "s[0]", "3", True),
        ("at_least", "s[0]", "4", False),
    ],
)
def test_guards(relation: str, left: str, right: str, holds: bool) -> None:
    content = program(body(1, [0], [0], [Guard(left, right, relation, "the sizes differ", "node 7")]))
    if holds:
        assert_same(one(content, X), X)
        return
    with pytest.raises(InputError, match=r"the sizes differ \(here 3 and \d\)\n  --> node 7") as refused:
        one(content, X)
    assert refused.value.code == "sizes-disagree"


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_binds_its_sizes_anew_and_its_results_afterwards(flag: bool) -> None:
    parts = [
        body(2, [0], [1], [host("concatenate", [0] * count, [1], axis=0)], bindings=[Binding(0, 0, 1)])
        for count in (2, 3)
    ]
    steps = [
        If(1, (0,), (2,), parts[0], parts[1], (Binding(2, 0, 1),)),
        host("iota", [], [3], shape=[{"size": "s[1]"}], axis=0, dtype={"dtype": "f32"}),
    ]
    content = program(body(4, [0, 1], [3], steps), [vector("x"), FLAG])
    assert_same(one(content, X, np.array(flag)), np.arange(6 if flag else 9, dtype=np.float32))


def test_a_launch_inside_a_branch_has_the_sizes_of_the_branch() -> None:
    inner = body(2, [0], [1], [launch("affine", [0], [1])])
    joined = host("concatenate", [0, 0], [2], axis=0)
    content = body(4, [0, 1], [3], [joined, If(1, (2,), (3,), inner, inner)])
    x = np.concatenate([X, X])
    expected = x * np.float32(SCALE) + np.float32(BIAS)
    assert_same(one(program(content, [vector("x"), FLAG]), X, np.array(True)), expected)


def test_an_argument_that_a_branch_does_not_expect_is_refused() -> None:
    inner = body(1, [0], [0], [], bindings=[], checks=[Check(0, 0, "s[0] + 1")])
    content = program(body(3, [0, 1], [2], [If(1, (0,), (2,), inner, inner)]), [vector("x"), FLAG])
    with pytest.raises(InputError, match="is 3, expected 4") as refused:
        one(content, X, np.array(True))
    assert refused.value.code == "sizes-disagree"


def doubling(limit: int | None = None) -> Program:
    """While below the limit and not past 100: x doubles, and every x is stacked."""
    steps = [
        host("add", [1, 1], [2]),
        host("reduce", [2], [3], kind="max", axes=[0]),
        host("constant", [], [4], value={"array": ["f32", [], "0000c842"]}),
        host("less", [3, 4], [5]),
    ]
    inner = body(6, [0, 1], [5, 2, 1], steps, bindings=[Binding(1, 0, 0)])
    loop = While(1, 2, (0,), (), (3, 4), (TensorSpec("f32", ("s[1]", "s[0]")),), inner, 1, ())
    sizes = host("sizes", [], [5], values=[{"size": "s[1]"}], dtype={"dtype": "i64"}, scalar=True)
    outputs = [vector("y"), Parameter("all", "f32", ("K", "N"), "f32[K, N]"), SCALAR]
    return program(body(6, [0, 1, 2], [3, 4, 5], [loop, sizes]), [vector("x"), SCALAR, FLAG], outputs)


@pytest.mark.parametrize(
    ("limit", "flag", "trips"), [(4, True, 4), (2**63 - 1, True, 6), (0, True, 0), (-5, True, 0), (4, False, 0)]
)
def test_a_loop_runs_until_its_limit_or_condition(limit: int, flag: bool, trips: int) -> None:
    x = np.array([2.0, 0.0], np.float32)
    last, stacked, count = run(doubling(), {"x": x, "k": np.array(limit), "flag": np.array(flag)})
    assert_same(last, x * np.float32(2**trips))
    assert_same(stacked, np.array([x * 2.0**k for k in range(trips)], np.float32).reshape(trips, 2))
    assert_same(count, np.array(trips))


def test_elements_of_different_shapes_are_not_stacked() -> None:
    inner = body(
        3, [0, 1], [2, 1, 1], [host("concatenate", [1, 1], [1], axis=0), host("equal", [0, 0], [2])], bindings=[]
    )
    spec = TensorSpec("f32", ("s[1]", "s[0]"))
    loop = While(1, 2, (0,), (), (3, 4), (spec,), inner, 1, (), "node 7")
    content = program(body(5, [0, 1, 2], [4], [loop]), [vector("x"), SCALAR, FLAG])
    message = r"iteration 1 gives an element of shape \(12,\) to stack, the first one \(6,\)\n  --> node 7"
    with pytest.raises(InputError, match=message) as refused:
        one(content, X, np.array(2), np.array(True))
    assert refused.value.code == "sizes-disagree"


def test_a_stack_of_nothing_has_size_0_where_only_an_iteration_would_have_told() -> None:
    inner = body(2, [0], [1, 0], [host("equal", [0, 0], [1])], bindings=[])
    spec = TensorSpec("f32", ("s[1]", "s[0]", "s[2] + 5"))
    content = body(4, [0, 1, 2], [3], [While(1, 2, (), (), (3,), (spec,), inner, 1, ())])
    symbols = [*SYMBOLS, Symbol("M", 0, None)]
    result = one(program(content, [vector("x"), SCALAR, FLAG], symbols=symbols), X, np.array(0), np.array(True))
    assert_same(result, np.empty((0, 3, 0), np.float32))


def test_a_loop_carries_through_native_code() -> None:
    inner = body(
        4, [0, 1], [2, 3], [host("equal", [0, 0], [2]), launch("affine", [1], [3])], bindings=[Binding(1, 0, 0)]
    )
    content = body(4, [0, 1, 2], [3], [While(1, 2, (0,), (), (3,), (), inner, 1, ())])
    expected = X
    for _ in range(5):
        expected = expected * np.float32(SCALE) + np.float32(BIAS)
    assert_same(one(program(content, [vector("x"), SCALAR, FLAG]), X, np.array(5), np.array(True)), expected)


def test_illegal_data_in_a_launch_raises_and_the_next_call_is_fine() -> None:
    steps = [launch("pick", [0], [1]), host("neg", [1], [2])]
    exe = make_executable(artifact(program(body(3, [0], [2], steps))))
    with pytest.raises(InputError, match=r"index 200 is outside of an axis of size 100\n  --> node 1") as refused:
        exe(np.array([1, 200, 300], np.float32))
    assert refused.value.code == "index-out-of-range"
    assert_same(exe(X), -X)


def test_a_function_that_this_runtime_lacks_is_named() -> None:
    with pytest.raises(DeviceError, match="no host function levitate") as refused:
        make_executable(artifact(program(body(2, [0], [1], [host("levitate", [0], [1])]))))
    assert refused.value.code == "unknown-host-function"


def test_a_program_of_host_steps_needs_no_image() -> None:
    content = Body(2, (0,), (1,), (), (), (), (host("neg", [0], [1]),))
    exe = make_executable(artifact(Program("p", (), (vector("x", "3"),), (vector("y", "3"),), content)))
    assert_same(exe(X), -X)
    assert exe.stats.launches == 0
