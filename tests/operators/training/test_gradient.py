"""Gradient: of which value, with respect to which, where it is taken, and what is refused."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import onnxc
from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.runtime.errors import UnsupportedError
from tests.operators.host_models import TARGETS
from tests.support.arrays import assert_close, assert_same, assert_within
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>\n'
STEP = 1e-5
RANDOM = np.random.default_rng(20)


Run = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def compiled(graph: str, target: str = "interpreter") -> Run:
    """Runs a graph in which `Gradient` stands for the operator of its domain; gives the outputs in order."""
    text = graph.replace("Gradient<", "ai.onnx.preview.training.Gradient<")
    executable = onnxc.compile(model_from_text(HEADER + text), target)
    return lambda inputs: [executable.run(dict(inputs))[info.name] for info in executable.outputs]


def run(graph: str, inputs: Mapping[str, np.ndarray], target: str = "interpreter") -> list[np.ndarray]:
    """The outputs of one call."""
    return compiled(graph, target)(inputs)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


# Which function


@pytest.mark.parametrize("target", TARGETS)
def test_of_a_sum_and_of_a_product(target: str) -> None:
    graph = """g (float a, float b) => (float d, float da, float db) {
        c = Add(a, b) d = Mul(c, a) da, db = Gradient<xs = ["a", "b"], y = "d">(a, b) }"""
    d, da, db = run(graph, {"a": np.float32(3), "b": np.float32(5)}, target)
    assert_same(d, np.float32(24))
    assert_same(da, np.float32(11))
    assert_same(db, np.float32(3))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [0, 1, 3])
def test_of_a_value_with_many_elements_it_is_that_of_their_sum(target: str, size: int) -> None:
    graph = """g (float[N] x, float[1] w) => (float[N] gx, float[1] gw) {
        y = Mul(x, w) gx, gw = Gradient<xs = ["x", "w"], y = "y">(x, w) }"""
    x = np.arange(size, dtype=np.float32)
    gx, gw = run(graph, {"x": x, "w": floats(2)}, target)
    assert_same(gx, np.full(size, 2, np.float32))
    assert_same(gw, x.sum(keepdims=True, dtype=np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_taken_where_the_inputs_say(target: str) -> None:
    graph = """g (float[N] x, float[M] at) => (float[N] y, float[M] gx) {
        p = Mul(x, x) y = Mul(p, x) gx = Gradient<xs = ["x"], y = "y">(at) }"""
    y, gx = run(graph, {"x": floats(1, 2), "at": floats(10, 20, 30)}, target)
    assert_same(y, floats(1, 8))
    assert_same(gx, floats(300, 1200, 2700))


def test_of_a_value_between() -> None:
    graph = """g (float[2] w, float[2] x, float[2] z) => (float[2] gh, float[2] gz) {
        h = Mul(w, x) e = Exp(h) y = Mul(e, z) gh, gz = Gradient<xs = ["h", "z"], y = "y">(h, z) }"""
    w, x, z = floats(1, 2), floats(0.5, 0.25), floats(3, 4)
    gh, gz = run(graph, {"w": w, "x": x, "z": z})
    assert_close(gh, np.exp(w * x) * z)
    assert_close(gz, np.exp(w * x))


def test_of_a_value_between_where_it_has_another_value() -> None:
    graph = """g (float[2] w, float[2] other) => (float[2] gh) {
        h = Exp(w) y = Mul(h, h) gh = Gradient<xs = ["h"], y = "y">(other) }"""
    (gh,) = run(graph, {"w": floats(1, 2), "other": floats(5, 7)})
    assert_same(gh, floats(10, 14))


def test_of_one_of_several_results_of_a_node() -> None:
    graph = """g (float[4] x, float[2] at) => (float[2] gh) {
        h, other = Split<axis = 0, num_outputs = 2>(x) p = Mul(h, h) y = Mul(p, other)
        gh = Gradient<xs = ["h"], zs = ["x"], y = "y">(at, x) }"""
    with pytest.raises(DiagnosedModelError, match='"h" is computed from "x"'):
        compiled(graph)
    (gh,) = run(
        graph.replace(', zs = ["x"]', "").replace("(at, x)", "(at)"), {"x": floats(1, 2, 3, 4), "at": floats(5, 7)}
    )
    assert_same(gh, floats(2 * 5 * 3, 2 * 7 * 4))


def test_a_result_that_is_given_is_not_made_again_beside_another() -> None:
    graph = """g (float[4] x, float[2] at, float[2] w) => (float[2] gk) {
        gk = Gradient<xs = ["k", "l"], y = "y">(at, w)
        v = Mul(w, w) s = Concat<axis = 0>(v, x) h, k, l = Split<axis = 0, num_outputs = 3>(s)
        p = Mul(h, k) q = Mul(p, k) y = Mul(q, l) }"""
    (gk,) = run(graph, {"x": floats(1, 2, 3, 4), "at": floats(5, 7), "w": floats(2, 3)})
    assert_same(gk, floats(4 * 2 * 2 * 5, 9 * 3 * 2 * 7))


@pytest.mark.parametrize("flat", [True, False])
def test_through_a_branch_that_decides_on_the_rank(flat: bool) -> None:
    graph = """g (float[2, 3] x, bool c) => (float[2, 3] gx) {
        k = Constant<value_ints = [-1]>()
        r = If(c) <then_branch = t () => (float[6] a) { a = Reshape(x, k) },
                   else_branch = e () => (float[2, 3] b) { b = Exp(x) }>
        q = Mul(r, r) y = ReduceSum<keepdims = 0>(q) gx = Gradient<xs = ["x"], zs = ["c"], y = "y">(x, c) }"""
    x = RANDOM.normal(0, 1, (2, 3)).astype(np.float32)
    (gx,) = run(graph, {"x": x, "c": np.array(flat)})
    assert_close(gx, 2 * x if flat else 2 * np.exp(2 * x))


def test_of_itself_it_is_one() -> None:
    (g,) = run('g (float[2] x) => (float[2] g) { g = Gradient<xs = ["x"], y = "x">(x) }', {"x": floats(4, 5)})
    assert_same(g, floats(1, 1))


def test_two_inputs_with_one_value_are_two_variables() -> None:
    graph = """g (float a, float b) => (float da, float db) {
        s = Mul(a, a) y = Mul(s, b) da, db = Gradient<xs = ["a", "b"], y = "y">(a, a) }"""
    da, db = run(graph, {"a": np.float32(3), "b": np.float32(100)})
    assert_same(da, np.float32(18))
    assert_same(db, np.float32(9))


def test_what_is_not_named_has_the_value_that_it_has_around() -> None:
    graph = """g (float[2] x, float[2] w) => (float[2] gx)
        <float[2] scale = {2, 3}> {
        p = Mul(x, w) q = Mul(p, scale) y = Exp(q) gx = Gradient<xs = ["x"], y = "y">(x) }"""
    x, w = floats(0.5, -1), floats(1, 2)
    (gx,) = run(graph, {"x": x, "w": w})
    scale = floats(2, 3)
    assert_close(gx, np.exp(x * w * scale) * w * scale)


def test_the_values_of_zs_may_be_integers() -> None:
    graph = """g (float[N] x, int64[K] i) => (float[N] gx) {
        y = Gather(x, i) gx = Gradient<xs = ["x"], zs = ["i"], y = "y">(x, i) }"""
    (gx,) = run(graph, {"x": floats(1, 2, 3), "i": np.array([2, 0, 2])})
    assert_same(gx, floats(1, 0, 2))


def test_zs_have_the_values_that_they_are_given() -> None:
    graph = """g (float x, float z, float other) => (float gx) {
        y = Mul(x, z) gx = Gradient<xs = ["x"], zs = ["z"], y = "y">(x, other) }"""
    (gx,) = run(graph, {"x": np.float32(1), "z": np.float32(2), "other": np.float32(7)})
    assert_same(gx, np.float32(7))


def test_outputs_that_are_not_named_are_not_computed() -> None:
    """The first is of an operator without a derivative."""
    text = """g (float[1, 4, 1] x, float[1, 4, 2] b, int64 i) => (float[1, 4, 2] gb) {
        s = SequenceConstruct(x, x) f = SequenceAt(s, i) m = Mul(b, b) y = Add(f, m)
        gx, gb = ai.onnx.preview.training.Gradient<xs = ["x", "b"], y = "y">(x, b)
    }"""
    model = model_from_text(HEADER + text)
    x, b = RANDOM.normal(0, 1, (1, 4, 1)).astype(np.float32), RANDOM.normal(0, 1, (1, 4, 2)).astype(np.float32)
    with pytest.raises(UnsupportedError, match=r'host takes sequence.* no gradient, at graph "main", node 1 '):
        onnxc.compile(model, "interpreter")
    model.graph.node[4].output[0] = ""
    assert_same(onnxc.compile(model, "interpreter").run({"x": x, "b": b, "i": np.array(1)})["gb"], 2 * b)


def test_a_value_that_is_defined_after_the_node() -> None:
    graph = """g (float x) => (float gx, float y) {
        gx = Gradient<xs = ["x"], y = "y">(x) p = Mul(x, x) y = Mul(p, x) }"""
    gx, y = run(graph, {"x": np.float32(2)})
    assert_same(gx, np.float32(12))
    assert_same(y, np.float32(8))


@pytest.mark.parametrize(("kind", "dtype"), [("double", np.float64), ("float16", np.float16)])
def test_other_floats(kind: str, dtype: type[np.generic]) -> None:
    graph = f'g ({kind}[2] x) => ({kind}[2] g) {{ y = Sqrt(x) g = Gradient<xs = ["x"], y = "y">(x) }}'
    (g,) = run(graph, {"x": np.array([4, 16], dtype)})
    assert_same(g, np.array([0.25, 0.125], dtype))


# Derivatives of derivatives


@pytest.mark.parametrize("target", TARGETS)
def test_the_second_and_third_derivative(target: str) -> None:
    graph = """g (float[N] x) => (float[N] first, float[N] second, float[N] third) {
        p = Mul(x, x) y = Mul(p, x)
        first = Gradient<xs = ["x"], y = "y">(x)
        second = Gradient<xs = ["x"], y = "first">(x)
        third = Gradient<xs = ["x"], y = "second">(x) }"""
    x = floats(1, -2, 0)
    first, second, third = run(graph, {"x": x}, target)
    assert_same(first, 3 * x * x)
    assert_close(second, 6 * x)
    assert_same(third, floats(6, 6, 6))


def test_a_mixed_second_derivative_takes_every_value_from_its_inputs() -> None:
    """As the text of the operator has it: O of X and W with L, then of dO/dW."""
    graph = """g (float X, float W, float L, float X1, float W1, float L1)
        => (float dX, float dW, float dWdX, float dWdW) {
        Y = Mul(W, X) d = Sub(Y, L) O = Mul(d, d)
        dX, dW = Gradient<xs = ["X", "W"], zs = ["L"], y = "O">(X, W, L)
        dWdX, dWdW = Gradient<xs = ["X", "W"], zs = ["L"], y = "dW">(X1, W1, L1) }"""
    inputs = dict(zip(("X", "W", "L", "X1", "W1", "L1"), map(np.float32, (2, 3, 1, 5, 7, 4)), strict=True))
    dx, dw, dwdx, dwdw = run(graph, inputs)
    assert_same(dx, np.float32(2 * (3 * 2 - 1) * 3))
    assert_same(dw, np.float32(2 * (3 * 2 - 1) * 2))
    assert_same(dwdx, np.float32(2 * (2 * 7 * 5 - 4)))
    assert_same(dwdw, np.float32(2 * 5 * 5))


def test_a_second_derivative_by_what_the_first_only_uses() -> None:
    graph = """g (float x, float w) => (float mixed) {
        p = Mul(x, x) y = Mul(p, w) gx = Gradient<xs = ["x"], y = "y">(x)
        mixed = Gradient<xs = ["w"], y = "gx">(w) }"""
    (mixed,) = run(graph, {"x": np.float32(3), "w": np.float32(5)})
    assert_same(mixed, np.float32(6))


def test_a_second_derivative_of_what_is_linear_is_zero() -> None:
    graph = """g (float[2] a, float[2] b) => (float[2] second) {
        c = Add(a, b) first = Gradient<xs = ["a"], zs = ["b"], y = "c">(a, b)
        second = Gradient<xs = ["a"], y = "first">(a) }"""
    (second,) = run(graph, {"a": floats(1, 2), "b": floats(3, 4)})
    assert_same(second, floats(0, 0))


def orders(count: int) -> str:
    nodes = [f'd{k + 1} = Gradient<xs = ["x"], y = "d{k}">(x)' for k in range(count)]
    return f"g (float x) => (float d{count}) {{ d0 = Exp(x) {' '.join(nodes)} }}"


def test_an_order_that_is_too_high_is_unsupported_and_quickly_so() -> None:
    assert_close(run(orders(4), {"x": np.float32(1)})[0], np.exp(np.float32(1)))
    with pytest.raises(UnsupportedError, match="order above"):
        run(orders(40), {"x": np.float32(1)})


def test_gradients_that_define_each_other_are_unsupported() -> None:
    graph = """g (float x) => (float a, float b) {
        a = Gradient<xs = ["x"], y = "b">(x) b = Gradient<xs = ["x"], y = "a">(x) }"""
    with pytest.raises(UnsupportedError, match="order above"):
        run(graph, {"x": np.float32(1)})


# Subgraphs and functions


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("positive", [True, False])
def test_through_a_branch(target: str, positive: bool) -> None:
    graph = """g (float[N] x, bool c) => (float[N] gx) {
        y = If(c) <then_branch = t () => (float[N] a) { a = Mul(x, x) },
                   else_branch = e () => (float[N] b) { b = Exp(x) }>
        gx = Gradient<xs = ["x"], zs = ["c"], y = "y">(x, c) }"""
    x = floats(1, 2, 3)
    (gx,) = run(graph, {"x": x, "c": np.array(positive)}, target)
    assert_close(gx, 2 * x if positive else np.exp(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_through_a_loop(target: str, trips: int) -> None:
    graph = """g (float[N] x, float[N] w, int64 n) => (float[N] gx, float[N] gw) {
        y = Loop(n, , x) <body = b (int64 i, bool c, float[N] s) => (bool c2, float[N] t) {
            c2 = Identity(c) t = Mul(s, w) }>
        gx, gw = Gradient<xs = ["x", "w"], zs = ["n"], y = "y">(x, w, n) }"""
    x, w = floats(1, 2), floats(3, -1)
    gx, gw = run(graph, {"x": x, "w": w, "n": np.array(trips)}, target)
    assert_close(gx, w**trips)
    assert_close(gw, x * trips * w ** max(trips - 1, 0))


@pytest.mark.parametrize("target", TARGETS)
def test_through_a_scan(target: str) -> None:
    graph = """g (float[2] start, float[N, 2] x) => (float[2] gs, float[N, 2] gx) {
        last, all = Scan(start, x) <num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] t, float[2] u)
            { t = Mul(s, e) u = Identity(t) }>
        y = ReduceSum<keepdims = 0>(all)
        gs, gx = Gradient<xs = ["start", "x"], y = "y">(start, x) }"""
    start, x = floats(1, 2), RANDOM.uniform(0.5, 1, (3, 2)).astype(np.float32)
    gs, gx = run(graph, {"start": start, "x": x}, target)
    products = np.cumprod(x, 0)
    assert_close(gs, products.sum(0))
    assert_close(gx, np.stack([start * products[k:].sum(0) / x[k] for k in range(3)]))


@pytest.mark.parametrize("target", TARGETS)
def test_inside_a_loop_that_trains(target: str) -> None:
    """Gradient descent on (w - 3)^2, whose distance shrinks by 1 - 2 * rate each time."""
    graph = """g (float w0, int64 n) => (float w) <float three = {3}, float rate = {0.25}> {
        w = Loop(n, , w0) <body = b (int64 i, bool c, float v) => (bool c2, float u) {
            c2 = Identity(c) d = Sub(v, three) loss = Mul(d, d)
            dv = Gradient<xs = ["v"], y = "loss">(v) s = Mul(dv, rate) u = Sub(v, s) }> }"""
    (w,) = run(graph, {"w0": np.float32(11), "n": np.array(3)}, target)
    assert_same(w, np.float32(3 + 8 * 0.5**3))


def test_inside_a_branch_of_a_value_around_it() -> None:
    graph = """g (float[2] x, bool c) => (float[2] gx) {
        y = Exp(x)
        gx = If(c) <then_branch = t () => (float[2] a) { a = Gradient<xs = ["x"], y = "y">(x) },
                    else_branch = e () => (float[2] b) { n = Neg(x) b = Gradient<xs = ["x"], y = "y">(n) }> }"""
    x = floats(1, 2)
    assert_close(run(graph, {"x": x, "c": np.array(True)})[0], np.exp(x))
    assert_close(run(graph, {"x": x, "c": np.array(False)})[0], np.exp(-x))


def test_inside_a_function_whose_names_are_its_own() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1, "own" : 1]>
        g (float[2] y, float[2] x) => (float[2] r) { r = own.slope(x, y) }
        <domain: "own", opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
        slope (y, x) => (r) { z = Mul(y, y) p = Mul(z, x) q = Exp(z)
            r, s = ai.onnx.preview.training.Gradient<xs = ["y", "x"], y = "p">(y, x) }"""
    r = onnxc.compile(model_from_text(text), "interpreter").run({"x": floats(1, 2), "y": floats(5, 7)})["r"]
    assert_same(r, floats(2 * 1 * 5, 2 * 2 * 7))


def test_the_types_of_values_are_those_that_they_have_around() -> None:
    graph = """g (float[N] x, float[3] at) => (float[3] gx) {
        y = Exp(x) gx = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(at) }"""
    typed = onnxc.infer(model_from_text(HEADER + graph))
    (y,) = typed.graph.value_info
    assert (y.name, [dim.dim_param for dim in y.type.tensor_type.shape.dim]) == ("y", ["N"])


# Operators


SLICED = """i = Constant<value_ints = [3]>() j = Constant<value_ints = [0]>() s = Constant<value_ints = [-2]>()
    t = Slice(a, i, j, j, s)"""
OPERATORS = {
    "Gemm": ("y = Gemm<alpha = 0.5, transB = 1>(a, b, c)", [(2, 3), (4, 3), (4,)]),
    "MatMul": ("y = MatMul(a, b)", [(2, 1, 2, 3), (2, 3, 2)]),
    "Einsum": ('y = Einsum<equation = "ij,kj->ik">(a, b)', [(2, 3), (4, 3)]),
    "Conv": ("y = Conv<strides = [2, 1], pads = [1, 0, 0, 1], group = 2>(a, b, c)", [(1, 2, 4, 4), (2, 1, 3, 2), (2,)]),
    "ConvTranspose": ("y = ConvTranspose<strides = [2]>(a, b)", [(1, 2, 3), (2, 1, 3)]),
    "MaxPool": ("y = MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(a)", [(1, 2, 3, 3)]),
    "AveragePool": ("y = AveragePool<kernel_shape = [3], strides = [2], pads = [1, 1]>(a)", [(1, 2, 5)]),
    "LpPool": ("y = LpPool<kernel_shape = [2]>(a)", [(1, 2, 4)]),
    "GlobalAveragePool": ("y = GlobalAveragePool(a)", [(1, 2, 3, 2)]),
    "BatchNormalization": ("y = BatchNormalization(a, b, c, d, e)", [(2, 3, 2), (3,), (3,), (3,), "positive 3"]),
    "LayerNormalization": ("y = LayerNormalization<epsilon = 0.01>(a, b, c)", [(2, 4), (4,), (4,)]),
    "InstanceNormalization": ("y = InstanceNormalization<epsilon = 0.01>(a, b, c)", [(2, 2, 4), (2,), (2,)]),
    "Softmax": ("y = Softmax(a)", [(2, 3)]),
    "LogSoftmax": ("y = LogSoftmax<axis = 0>(a)", [(3, 2)]),
    "ReduceLogSumExp": ("y = ReduceLogSumExp<keepdims = 0>(a)", [(2, 3)]),
    "ReduceL2": ("y = ReduceL2<keepdims = 0>(a)", [(2, 3)]),
    "ReduceMean": ("y = ReduceMean<keepdims = 0>(a)", [(2, 3)]),
    "Softplus": ("y = Softplus(a)", [(3,)]),
    "Mish": ("y = Mish(a)", [(3,)]),
    "Celu": ("y = Elu<alpha = 2.0>(a)", [(3,)]),
    "Gelu": ("y = Gelu(a)", [(3,)]),
    "HardSwish": ("y = HardSwish(a)", [(3,)]),
    "Pow": ("y = Pow(a, b)", ["positive 3", (3,)]),
    "Mod": ("y = Mod<fmod = 1>(a, b)", ["positive 3", "positive 3"]),
    "Clip": ("low = Constant<value = double {-0.5}>() y = Clip(a, low)", [(4,)]),
    "Where": ("zero = Constant<value = double {0.0}>() p = Less(a, zero) y = Where(p, a, b)", [(4,), (2, 1)]),
    "Transpose": ("t = Transpose<perm = [1, 0]>(a) y = Mul(t, b)", [(2, 3), (3, 2)]),
    "Concat": ("t = Concat<axis = 1>(a, b) y = Mul(t, t)", [(2, 1), (2, 2)]),
    "Split": ("t, u = Split<axis = 0, num_outputs = 2>(a) y = Mul(t, u)", [(4, 2)]),
    "Slice": (f"{SLICED} y = Mul(t, t)", [(4, 2)]),
    "Pad": ('p = Constant<value_ints = [1, 2]>() t = Pad<mode = "reflect">(a, p) y = Mul(t, t)', [(4,)]),
    "Tile": ("r = Constant<value_ints = [2, 3]>() t = Tile(a, r) y = Mul(t, b)", [(1, 2), (2, 6)]),
    "Expand": ("r = Constant<value_ints = [2, 3]>() t = Expand(a, r) y = Mul(t, b)", [(1, 3), (2, 3)]),
    "DepthToSpace": ("y = DepthToSpace<blocksize = 2>(a)", [(1, 4, 1, 2)]),
    "Gather": ("i = Constant<value_ints = [2, 0, -1]>() y = Gather(a, i)", [(3, 2)]),
    "ScatterElements": (
        'i = Constant<value_ints = [1, 1]>() y = ScatterElements<reduction = "add">(a, i, b)',
        [(3,), (2,)],
    ),
    "TopK": ("k = Constant<value_ints = [2]>() y, i = TopK(a, k)", [(2, 4)]),
    "CumSum": ("k = Constant<value = int64 {1}>() t = CumSum<reverse = 1>(a, k) y = Mul(t, t)", [(2, 3)]),
    "Trilu": ("t = Trilu(a) y = Mul(t, t)", [(3, 3)]),
    "Det": ("y = Det(a)", [(2, 3, 3)]),
    "LRN": ("y = LRN<size = 3>(a)", [(1, 4, 2)]),
    "Resize": ('s = Constant<value_floats = [1.0, 2.0]>() y = Resize<mode = "linear">(a, , s)', [(2, 3)]),
    "GridSample": ("y = GridSample(a, b)", [(1, 1, 3, 3), (1, 2, 2, 2)]),
    "RNN": ("y, h = RNN<hidden_size = 2>(a, b, c)", [(3, 1, 2), (1, 2, 2), (1, 2, 2)]),
    "LSTM": ("y, h, l = LSTM<hidden_size = 2>(a, b, c)", [(2, 1, 2), (1, 8, 2), (1, 8, 2)]),
    "GRU": ("y, h = GRU<hidden_size = 2>(a, b, c)", [(2, 1, 2), (1, 6, 2), (1, 6, 2)]),
    "NegativeLogLikelihoodLoss": (
        "t = Constant<value = int64[2] {1, 0}>() y = NegativeLogLikelihoodLoss(a, t, b)",
        [(2, 3), "positive 3"],
    ),
    "SoftmaxCrossEntropyLoss": ("t = Constant<value = int64[2] {1, 0}>() y = SoftmaxCrossEntropyLoss(a, t)", [(2, 3)]),
    "DFT": ("y = DFT<onesided = 1>(a)", [(1, 6, 1)]),
    "STFT": ("k = Constant<value = int64 {2}>() y = STFT(a, k, b)", [(1, 6, 1), (4,)]),
    "PRelu": ("y = PRelu(a, b)", [(2, 3), (3,)]),
    "MeanVarianceNormalization": ("y = MeanVarianceNormalization(a)", [(2, 1, 2, 2)]),
}


def graphs_of(name: str, kind: str, symbolic: bool) -> tuple[dict[str, np.ndarray], str, str]:
    """Inputs, and the graphs that give a loss over the operator's output, and the gradient of it."""
    body, kinds = OPERATORS[name]
    inputs = {letter: _elements(kind) for letter, kind in zip("abcde", kinds, strict=False)}
    types = ", ".join(f"{kind}[{_axes(key, x, symbolic)}] {key}" for key, x in inputs.items())
    nodes = (
        f"{body.replace('double', kind)} sine = Sin(y) weighted = Mul(sine, y) loss = ReduceSum<keepdims = 0>(weighted)"
    )
    xs, names = (", ".join(form.format(key) for key in inputs) for form in ('"{}"', "g{}"))
    outputs = ", ".join(f"{kind}[{_axes(key, x, False)}] g{key}" for key, x in inputs.items())
    gradient = f'{names} = Gradient<xs = [{xs}], y = "loss">({", ".join(inputs)})'
    forward, backward = (
        f"g ({types}) => ({kind} loss) {{ {nodes} }}",
        f"g ({types}) => ({outputs}) {{ {nodes} {gradient} }}",
    )
    return inputs, forward, backward


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_operators_agree_with_differences(name: str, symbolic: bool) -> None:
    inputs, forward, backward = graphs_of(name, "double", symbolic)
    for (key, x), actual in zip(inputs.items(), run(backward, inputs), strict=True):
        differences = _differences(compiled(forward), inputs, key, x)
        assert_within(actual, differences, relative=1e-6, absolute=1e-8, why="differences over steps of finite length")


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_of_operators_on_the_cpu(name: str) -> None:
    inputs, _, backward = graphs_of(name, "float", symbolic=True)
    narrow = {key: x.astype(np.float32) for key, x in inputs.items()}
    for actual, expected in zip(run(backward, narrow, "cpu"), run(backward, narrow), strict=True):
        assert_within(actual, expected, relative=1e-3, absolute=1e-4, why="f32 of what cancels within the operators")


def _elements(kind: str | tuple[int, ...]) -> np.ndarray:
    if isinstance(kind, str):
        return RANDOM.uniform(0.5, 2, int(kind.split()[1]))
    return RANDOM.uniform(-1, 1, kind)


def _axes(name: str, x: np.ndarray, symbolic: bool) -> str:
    return ", ".join(f"{name}{axis}" if symbolic else str(size) for axis, size in enumerate(x.shape))


def _differences(forward: Run, inputs: Mapping[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        sides = []
        for by in (STEP, -STEP):
            moved = x.copy()
            moved[index] += by
            (loss,) = forward({**inputs, name: moved})
            sides.append(loss)
        result[index] = (sides[0] - sides[1]) / (2 * STEP)
    return result


# Refusals


def refused(graph: str) -> str:
    """The code of the first finding."""
    with pytest.raises(DiagnosedModelError) as caught:
        compiled(graph)
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ('xs = ["x", "nothing"], y = "y"', "undefined-name"),
        ('xs = ["x", "w"], y = "nothing"', "undefined-name"),
        ('xs = ["x"], zs = ["nothing"], y = "y"', "undefined-name"),
        ('xs = ["x", "x"], y = "y"', "gradient-names"),
        ('xs = ["x"], zs = ["x"], y = "y"', "gradient-names"),
        ('xs = ["h", "x"], y = "y"', "gradient-dependence"),
        ('xs = ["x"], zs = ["h"], y = "y"', "gradient-dependence"),
        ('xs = ["x"], y = "y"', "gradient-inputs"),
        ('xs = ["x", "w", "free"], y = "y"', "gradient-inputs"),
        ('xs = ["x", "free"], y = "y"', "gradient-of-constant"),
        ('xs = ["y", "free"], y = "y"', "gradient-of-constant"),
        ('xs = ["x", "n"], y = "both"', "gradient-type"),
        ('xs = ["x"], zs = ["w"], y = "rounded"', "gradient-type"),
        ('xs = ["x"], zs = ["w"], y = "y"', "gradient-outputs"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(attributes: str, code: str) -> None:
    operands = "x, n" if '"n"' in attributes else "x, w"
    outputs = "a, b" if code in ("gradient-outputs", "gradient-type") and "rounded" not in attributes else "a"
    graph = f"""g (float[2] x, float[2] w, float[2] free, int64[2] n) => (float[2] a) {{
        h = Mul(x, x) y = Mul(h, w) rounded = Cast<to = 7>(y) k = Cast<to = 1>(n) both = Mul(y, k)
        {outputs} = Gradient<{attributes}>({operands}) }}"""
    assert refused(graph) == code


def test_a_failure_on_the_way_is_reported_once() -> None:
    graph = """g (float[2] x, float[3] w) => (float[2] gx) {
        y = Mul(x, w) gx = Gradient<xs = ["x"], y = "y">(x) }"""
    with pytest.raises(DiagnosedModelError) as caught:
        compiled(graph)
    assert [finding.location.index for finding in caught.value.diagnostics if finding.location is not None] == [0]


def test_a_value_that_the_fed_shape_does_not_suit_is_refused_where_it_is_computed() -> None:
    graph = """g (float[2] x, float[2] w, float[3] at) => (float[3] gx) {
        y = Mul(x, w) gx = Gradient<xs = ["x"], y = "y">(at) }"""
    assert refused(graph) == "broadcast-mismatch"
