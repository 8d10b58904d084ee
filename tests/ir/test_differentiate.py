"""Reverse-mode differentiation: what flows where, sums of several uses, and what has no derivative."""

import numpy as np
import pytest

import onnxc.compiler.ir.differentiation.differentiate  # noqa: F401  (fills the table of rules)
from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS
from onnxc.compiler.ir.differentiation.derivative import DERIVATIVES, NotDifferentiable, derivative
from onnxc.compiler.ir.differentiation.differentiate import gradients
from onnxc.compiler.ir.dtypes import F16, F32, F64, I32, I64, STRING
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value, walk
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.types import OptionalType, SequenceType, TensorType, Type
from onnxc.runtime.errors import UnsupportedError
from tests.ir.finite_differences import M, N, assert_gradients, gradients_at, program

WITHOUT_DERIVATIVE = {
    "results are integers or booleans": (
        *("not", "and", "or", "xor", "shift_left", "shift_right", "equal", "less", "less_equal"),
        *("arg_reduce", "arg_reduce_window", "non_zero"),
    ),
    "has no operands": ("constant", "iota", "sizes", "random_bits", "guard"),
    "has no results": ("bind_sizes",),
    "reads bits as another type": ("bitcast",),
    "made by passes, after what differentiates": (
        *("call", "recurrence", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"),
    ),
}
"""The primitives without a rule, by reason."""


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_a_derivative_or_a_reason_why_not(name: str) -> None:
    has_one = name in DERIVATIVES or name in DECOMPOSITIONS
    reasons = [reason for reason, names in WITHOUT_DERIVATIVE.items() if name in names]
    assert len(reasons) == (0 if has_one else 1), reasons


def test_every_reason_is_for_a_primitive() -> None:
    assert {name for names in WITHOUT_DERIVATIVE.values() for name in names} <= PRIMITIVES.keys()


def test_a_primitive_has_one_rule() -> None:
    with pytest.raises(AssertionError, match="exp"):
        derivative("exp")(DERIVATIVES["exp"])


def test_a_value_that_is_not_used_has_gradient_zero_of_its_type() -> None:
    build = Builder()
    x, other = build.parameter("x", TensorType(F32, (2,))), build.parameter("other", TensorType(F16, (N, 3)))
    found = gradients(build.exp(x), [x, other], build)
    assert [value.type for value in found] == [x.type, other.type]
    body = build.block([x, other], found)
    module = Module("m", (Function("main", body, ("gx", "go"), {"N": (0, None)}),))
    gx, go = interpret(module, {"x": np.zeros(2, np.float32), "other": np.ones((4, 3), np.float16)})
    np.testing.assert_array_equal(gx, np.ones(2, np.float32))
    np.testing.assert_array_equal(go, np.zeros((4, 3), np.float16))


def test_the_gradient_of_a_value_for_itself_is_the_seed() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    seed = build.parameter("seed", x.type)
    assert gradients(x, [x], build, seed) == (seed,)


def test_without_a_seed_it_is_the_gradient_of_the_sum() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    (g,) = gradients(build.mul(x, 2), [x], build)
    module = Module("m", (Function("main", build.block([x], [g]), ("g",)),))
    (found,) = interpret(module, {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(found, np.full(3, 2, np.float32))


def test_what_flows_from_several_uses_is_added() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        shared = b.mul(x, y)
        return b.add(b.add(b.exp(shared), b.mul(shared, x)), b.square(shared))

    random = np.random.default_rng(0)
    for order in (1, 2):
        assert_gradients(make, random.normal(0, 1, (2, 2)), random.normal(0, 1, 2), order=order, tolerance=1e-5)


def test_one_of_the_xs_stops_what_would_flow_on_to_another() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F64, ()))
    middle = build.mul(x, 3)
    y = build.mul(middle, x)
    gx, gm = gradients(y, [x, middle], build)
    module = Module("m", (Function("main", build.block([x], [gx, gm]), ("gx", "gm")),))
    found = interpret(module, {"x": np.array(2.0)})
    assert [float(np.asarray(value)) for value in found] == [6, 2]


def test_of_several_results_one_may_be_among_the_xs() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F64, (3,)))
    ordered, places = build.sort(x, 0)
    y = build.add(ordered, build.cast(places, F64))
    gx, go = gradients(y, [x, ordered], build)
    module = Module("m", (Function("main", build.block([x], [gx, go]), ("gx", "go")),))
    gx_found, go_found = interpret(module, {"x": np.array([3.0, 1, 2])})
    np.testing.assert_array_equal(gx_found, np.zeros(3))
    np.testing.assert_array_equal(go_found, np.ones(3))


def test_a_deep_program_needs_no_deep_stack() -> None:
    def make(b: Builder, x: Value) -> Value:
        for _ in range(3000):
            x = b.unary("sin", x)
        return x

    (g,) = gradients_at(make, np.array([0.1]))
    assert 0 < g[0] < 1


def test_the_same_program_gives_the_same_gradients() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        return b.mul(b.softmax(b.dot(x, y, "mk,kn->mn"), 1), b.reduce(x, "sum", (1,), keepdims=True))

    texts = {print_module(program(make, [(N, 3), (3, M)], order=2)) for _ in range(3)}
    assert len(texts) == 1


def test_ops_of_the_way_back_are_located_where_those_of_the_way_forward_are() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    with build.at(Location("main", 4, "there", "Exp")):
        y = build.exp(x)
    before = len(build.ops)
    gradients(y, [x], build, y)
    assert {op.location.index for op in build.ops[before:] if op.location is not None} == {4}


def test_what_has_no_derivative_is_named_with_its_place() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    with build.at(Location("main", 2, "bits", "Cast")):
        y = build.bitcast(build.bitcast(x, I32), F32)
    assert gradients(y, [x], build)
    half = build.parameter("half", TensorType(F16, (3,)))
    with build.at(Location("main", 2, "transform", "Own")):
        (y,) = build.host("optional_get", [half], [half.type], {})
    with pytest.raises(
        UnsupportedError,
        match=r'host function optional_get has no derivative\n  --> graph "main", node 2 "transform"',
    ) as caught:
        gradients(y, [half], build)
    assert isinstance(caught.value, NotDifferentiable)
    assert caught.value.location == Location("main", 2, "transform", "Own")


@pytest.mark.parametrize(
    "type", [SequenceType(TensorType(F32, (3,))), OptionalType(TensorType(F32, (3,))), TensorType(F32, None)], ids=str
)
def test_what_goes_through_host_values_is_no_zero_but_unsupported(type: Type) -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    (packed,) = build.host("pack", [x], [type], {})
    (y,) = build.host("unpack", [packed], [x.type], {})
    with pytest.raises(NotDifferentiable, match=r"host takes .*, which has no gradient"):
        gradients(y, [x], build)


def test_what_goes_through_texts_has_no_slope() -> None:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (3,)))
    (texts,) = build.host("texts", [x], [TensorType(STRING, (3,))], {})
    (y,) = build.host("numbers", [texts], [x.type], {})
    (g,) = gradients(y, [x], build)
    np.testing.assert_array_equal(build.known_array(g), np.zeros(3, np.float32))


def test_what_has_no_derivative_does_no_harm_beside_the_way() -> None:
    build = Builder()
    x, n = build.parameter("x", TensorType(F32, (3,))), build.parameter("n", TensorType(I64, (3,)))
    (weights,) = build.host("anything", [n], [x.type], {})
    (g,) = gradients(build.mul(x, weights), [x], build)
    assert g.op is not None
    assert g.op.name == "mul"


@pytest.mark.parametrize("dtype", [I64, I32], ids=str)
def test_integers_have_no_gradient(dtype: object) -> None:
    build = Builder()
    x, n = build.parameter("x", TensorType(F32, ())), build.parameter("n", TensorType(I64, ()))
    with pytest.raises(AssertionError, match=r"i64\[\] has no gradient"):
        gradients(x, [n], build)
    with pytest.raises(AssertionError, match=r"i64\[\] has no gradient"):
        gradients(n, [x], build)


def test_only_wanted_ways_are_walked() -> None:
    build = Builder()
    x, w = (build.parameter(name, TensorType(F32, (3, 3))) for name in "xw")
    before = len(build.ops) + 1
    gradients(build.dot(x, w, "mk,kn->mn"), [w], build)
    block = build.block([x, w], [])
    assert [op.name for op in walk(block)][before:].count("dot") == 1
