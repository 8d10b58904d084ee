"""Precision lowering: which types there are afterwards, what stays f32 and why, and how large the errors are."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.inputs import make_inputs
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I64, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op, Value, walk
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.lower.lower_precision import LARGEST, lower_precision_to, rounded
from onnxc.compiler.passes.lower.precision_policy import POLICIES
from onnxc.compiler.passes.pipeline import run_pipeline, verify_step
from onnxc.compiler.passes.pipelines import OPTIMIZE
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from onnxc.compiler.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.models.builders import BUILDERS
from tests.models.writer import STYLES, Style
from tests.passes.golden import M, N, Pair, boolean, built, f16, f32, f64, i64, text_of
from tests.passes.programs import programs

LOW = pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
BOUNDS = {BF16: 2e-2, F16: 3e-3}
PRODUCTS = ("dot", "convolution", "attention")
MASKED = float(np.finfo(np.float32).min)

Make = Callable[..., Value | tuple[Value, ...]]


def lowered(types: Sequence[object], make: Make, dtype: DType) -> tuple[Module, Module]:
    """A program, and what becomes of it."""
    before = built(types, make)  # type: ignore[arg-type]
    return before, run_pipeline(before, (lower_precision_to(dtype), canonicalize), [verify_step])


def ops(module: Module, *names: str) -> list[Op]:
    return [op for op in walk(module.main.body) if op.name in names]


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, 0.5, shape).astype(np.float32)


def outputs(module: Module, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The results for the parameters x, y, ..., with one of the rest for the symbols."""
    names = [parameter.producer.name for parameter in module.main.body.parameters]
    feed = dict(zip(names, arrays, strict=False))
    sizes = tuple(size for array in arrays[:1] for size in array.shape[:2]) or (1, 1)
    rest = {"sizes": np.zeros((*sizes, 1)[:2], np.bool_)} if "sizes" in names else {}
    return tuple(np.asarray(result) for result in interpret(module, {**rest, **feed}))


# What becomes of one program


def two_layers(b: Builder, x: Value) -> Value:
    hidden = b.max(b.add(b.dot(x, b.constant(weights(4, 8)), "nk,km->nm"), b.constant(weights(8))), 0.0)
    return b.dot(hidden, b.constant(weights(8, 2)), "nk,km->nm")


def two_layers_low(b: Builder, x: Value) -> Value:
    first, second = (b.constant(rounded(weights(*shape), BF16)) for shape in ((4, 8), (8, 2)))
    sums = b.dot(b.cast(x, BF16), first, "nk,km->nm", F32)
    hidden = b.cast(b.max(b.add(sums, b.constant(weights(8))), 0.0), BF16)
    return b.dot(hidden, second, "nk,km->nm", F32)


def shared(b: Builder, x: Value) -> Value:
    """A product that two read is stored once."""
    y = b.dot(x, b.constant(weights(4, 4)), "nk,km->nm")
    return b.mul(b.tanh(y), y)


def shared_low(b: Builder, x: Value) -> Value:
    y = b.dot(b.cast(x, BF16), b.constant(rounded(weights(4, 4), BF16)), "nk,km->nm")
    return b.cast(b.mul(b.tanh(y), y), F32)


def view(b: Builder, x: Value, y: Value) -> Value:
    return b.dot(b.transpose(b.reshape(x, (N, 2, 2)), (1, 0, 2)), y, "anb,b->na")


def view_low(b: Builder, x: Value, y: Value) -> Value:
    return b.dot(b.reshape(b.cast(x, BF16), (N, 2, 2)), b.cast(y, BF16), "nab,b->na", F32)


PAIRS = {
    "two layers": Pair((f32(N, 4),), two_layers, two_layers_low, rounds=True),
    "shared product": Pair((f32(N, 4),), shared, shared_low, rounds=True),
    "views stay views": Pair((f32(N, 4), f32(2)), view, view_low, rounds=True),
    "no product": Pair((f32(N, 4),), lambda b, x: b.softmax(b.add(x, 1.0), 1)),
    "other types": Pair(
        (f64(N, 4), i64(4), f16(N, 4)),
        lambda b, x, y, z: (b.dot(x, b.cast(y, F64), "nk,k->n"), b.add(y, y), b.dot(z, z, "nk,mk->nm")),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_products_are_stored_and_multiplied_in_16_bits(name: str) -> None:
    pair = PAIRS[name]
    before = built(pair.types, pair.before)
    after = run_pipeline(before, (lower_precision_to(BF16), canonicalize), [verify_step])
    expected = before if pair.after is None else built(pair.types, pair.after)
    first, second = (text_of(eliminate_common_subexpressions(module)) for module in (after, expected))
    assert first == second


def test_each_primitive_has_one_policy() -> None:
    counts = Counter(name for names in POLICIES.values() for name in names)
    assert set(counts) <= set(PRIMITIVES)
    assert set(counts.values()) == {1}


# Constants


@LOW
def test_constants_stay_finite_and_infinities_stay(dtype: DType) -> None:
    given = np.array([MASKED, -MASKED, np.inf, -np.inf, np.nan, -0.0, 1 / 3], np.float32)
    result = rounded(given, dtype).astype(np.float64)
    largest = LARGEST[dtype.name]
    np.testing.assert_array_equal(result[:5], [-largest, largest, np.inf, -np.inf, np.nan])
    assert np.signbit(result[5])
    assert result[6] == pytest.approx(1 / 3, rel=2**-8)
    assert rounded(np.float32(2.5).reshape(()), dtype).shape == ()


# Masks


def masked_scores(b: Builder, x: Value, y: Value, keep: Value) -> Value:
    """x, y: [N, M, 4], keep: bool[N, M]"""
    scores = b.mul(b.dot(x, y, "nik,njk->nij"), 0.5)
    mask = b.select(keep, 0.0, b.full((N, M), MASKED, F32))
    return b.dot(b.softmax(b.add(scores, b.broadcast(mask, (0, 2), scores.shape)), 2), y, "nij,njk->nik")


@LOW
@pytest.mark.parametrize("kept", [[True, True, True], [True, False, True], [False, False, False]])
def test_masked_scores_are_no_nan(dtype: DType, kept: Sequence[bool]) -> None:
    before, after = lowered((f32(N, M, 4), f32(N, M, 4), boolean(N, M)), masked_scores, dtype)
    arrays = [np.random.default_rng(seed).normal(0, 2, (1, 3, 4)).astype(np.float32) for seed in (0, 1)]
    feed = (*arrays, np.array([kept]))
    (expected,), (actual,) = outputs(before, *feed), outputs(after, *feed)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, atol=8 * BOUNDS[dtype])
    assert not any(op.operands[0].dtype == F32 for op in ops(after, "dot"))


@LOW
def test_a_mask_from_the_caller_keeps_its_type(dtype: DType) -> None:
    def make(b: Builder, x: Value, mask: Value) -> Value:
        return b.attention(x, x, x, mask, 0.5)

    before, after = lowered((f32(N, 2, M, 4), f32(N, 1, M, M)), make, dtype)
    (op,) = ops(after, "attention")
    assert [operand.dtype for operand in op.operands] == [dtype, dtype, dtype, F32]
    x = np.random.default_rng(0).normal(0, 1, (1, 2, 3, 4)).astype(np.float32)
    mask = np.array([[[[0, MASKED, 0], [0, 0, MASKED], [MASKED, 0, 0]]]], np.float32)
    names = ("x", "y", "sizes")
    feed = dict(zip(names, (x, mask, np.zeros((1, 3), np.bool_)), strict=True))
    (expected,), (actual,) = interpret(before, feed), interpret(after, feed)
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=4 * BOUNDS[dtype])


def test_what_a_product_reads_beyond_the_range_is_clamped() -> None:
    def make(b: Builder, x: Value, y: Value, keep: Value) -> Value:
        return b.dot(b.select(keep, x, MASKED), y, "nk,mk->nm")

    _, after = lowered((f32(N, 2), f32(M, 2), boolean(N, 2)), make, F16)
    feed = {"x": np.ones((1, 2), np.float32), "y": np.array([[1, 0]], np.float32), "z": np.array([[False, True]])}
    (actual,) = interpret(after, {**feed, "sizes": np.zeros((1, 1), np.bool_)})
    assert np.asarray(actual).tolist() == [[-65504.0]]


# What stays f32


@LOW
def test_sums_of_many_leave_the_range_of_16_bits(dtype: DType) -> None:
    def make(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.constant(np.full((1, 2), 8, np.float32)), "nk,km->nm")
        return b.mean(b.broadcast(y, (0, 2), (N, 20000, 2)), (1,))

    _, after = lowered((f32(N, 1),), make, dtype)
    (actual,) = outputs(after, np.ones((1, 1), np.float32))
    assert actual.tolist() == [[8, 8]]


@LOW
def test_angles_count_whole_turns(dtype: DType) -> None:
    """Positions times frequencies, as rotary embeddings compute their angles."""

    def make(b: Builder, x: Value, places: Value) -> Value:
        frequencies = b.constant(np.array([[1.0, 0.01]], np.float32))
        angles = b.dot(b.cast(b.unsqueeze(places, [1]), F32), frequencies, "nk,km->nm")
        both = b.concatenate([angles, angles], 1)
        return b.mul(b.dot(x, b.constant(np.eye(4, dtype=np.float32)), "nk,km->nm"), b.unary("cos", both))

    before, after = lowered((f32(N, 4), i64(N)), make, dtype)
    kept, low = ops(after, "dot")
    assert (kept.operands[0].dtype, low.operands[0].dtype) == (F32, dtype)
    feed = {"x": np.ones((2, 4), np.float32), "y": np.array([3001, 70001]), "sizes": np.zeros((2, 1), np.bool_)}
    (expected,), (actual,) = interpret(before, feed), interpret(after, feed)
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=2**-8)


@LOW
def test_an_epsilon_does_not_vanish(dtype: DType) -> None:
    def make(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.constant(weights(4, 4)), "nk,km->nm")
        return b.dot(b.div(y, b.max(b.abs(y), 1e-12)), b.constant(weights(4, 4)), "nk,km->nm")

    before, after = lowered((f32(N, 4),), make, dtype)
    (expected,), (actual,) = (outputs(module, np.zeros((1, 4), np.float32)) for module in (before, after))
    np.testing.assert_array_equal(actual, expected)


def test_what_feeds_an_exponential_is_computed_in_f32() -> None:
    def make(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.constant(weights(4, 4)), "nk,km->nm")
        top = b.reduce(y, "max", (1,), keepdims=True)
        return b.dot(b.exp(b.sub(y, b.broadcast_to(top, y.shape))), b.constant(weights(4, 2)), "nk,km->nm")

    _, after = lowered((f32(N, 4),), make, BF16)
    (sub,), (exp,), (top,) = ops(after, "sub"), ops(after, "exp"), ops(after, "reduce")
    assert (sub.result.dtype, exp.result.dtype, top.result.dtype) == (F32, F32, BF16)


@pytest.mark.parametrize(("window", "expected"), [(3, BF16), (9, F32)])
def test_sums_of_large_windows_are_f32(window: int, expected: DType) -> None:
    def make(b: Builder, x: Value) -> Value:
        y = b.convolution(x, b.constant(weights(2, 2, 1, 1)), [1, 1], [0, 0], [0, 0], [1, 1])
        y = b.reduce_window(y, "sum", (1, 1, window, window), (1,) * 4, (0,) * 4, (0,) * 4, (1,) * 4)
        return b.convolution(y, b.constant(weights(2, 2, 1, 1)), [1, 1], [0, 0], [0, 0], [1, 1])

    _, after = lowered((f32(N, 2, 12, 12),), make, BF16)
    (op,) = ops(after, "reduce_window")
    assert op.result.dtype == expected


def test_what_is_only_passed_on_is_not_rounded() -> None:
    """A cache that grows: what was in it comes back as it was."""

    def make(b: Builder, x: Value, past: Value) -> tuple[Value, Value]:
        new = b.dot(x, b.constant(weights(4, 4)), "nk,km->nm")
        cache = b.concatenate([past, new], 0)
        return cache, b.dot(x, cache, "nk,mk->nm")

    _, after = lowered((f32(N, 4), f32(M, 4)), make, BF16)
    past = np.array([[1 + 2**-20, 2**-130, 3e38, -0.0]], np.float32)
    feed = {"x": np.ones((1, 4), np.float32), "y": past, "sizes": np.zeros((1, 1), np.bool_)}
    cache, _ = interpret(after, feed)
    np.testing.assert_array_equal(np.asarray(cache)[:1], past)
    assert all(op.operands[0].dtype == BF16 for op in ops(after, "dot"))


def test_tables_that_are_gathered_from_are_stored_in_16_bits() -> None:
    _, after = lowered((i64(N),), lambda b, x: b.gather(b.constant(weights(100, 4)), x, 0), F16)
    (op,) = ops(after, "gather")
    assert op.operands[0].dtype == F16
    assert after.main.body.results[0].dtype == F32


# Control flow


def test_nested_blocks_are_lowered_and_keep_their_types() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        w = b.constant(weights(4, 4))

        def branch(transform: Callable[[Builder, Value], Value]) -> object:
            inner = b.nested()
            taken, factor = inner.parameter("a", f32(N, 4)), inner.parameter("b", f32(4, 4))
            return inner.block([taken, factor], [transform(inner, inner.dot(taken, factor, "nk,km->nm"))])

        blocks = [branch(lambda i, z: i.max(z, 0.0)), branch(lambda i, z: i.tanh(z))]
        hidden = b.dot(x, w, "nk,km->nm")
        condition = b.reduce(y, "and", (0,))
        (chosen,) = b.if_(condition, [hidden, w], blocks, [f32(N, 4)])  # type: ignore[arg-type]
        return b.dot(chosen, w, "nk,km->nm")

    before, after = lowered((f32(N, 4), boolean(M)), make, BF16)
    assert [op.operands[0].dtype for op in ops(after, "dot")] == [BF16] * 4
    (choice,) = ops(after, "if")
    assert choice.result.dtype == F32
    x = np.random.default_rng(0).normal(0, 1, (3, 4)).astype(np.float32)
    for keep in (True, False):
        feed = {"x": x, "y": np.array([keep]), "sizes": np.zeros((3, 1), np.bool_)}
        (expected,), (actual,) = interpret(before, feed), interpret(after, feed)
        np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=BOUNDS[BF16])


# Programs and models


@LOW
def test_shape_arithmetic_is_left_alone(dtype: DType) -> None:
    def make(b: Builder, x: Value) -> Value:
        size = b.cast(b.size(N), F64)
        half = b.cast(b.floor(b.mul(size, 0.5)), I64)
        return b.add(x, b.broadcast_to(b.add(half, b.size(M)), x.shape))

    before, after = lowered((i64(N),), make, dtype)
    assert print_module(after) == print_module(eliminate_dead_code(canonicalize(before)))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(module=programs())
def test_random_programs_stay_valid(module: Module) -> None:
    for dtype in (F16, BF16):
        after = lower_precision_to(dtype)(module)
        verify_module(after)
        types = [value.type for value in module.main.body.results]
        assert [value.type for value in after.main.body.results] == types
        assert [value.type for value in after.main.body.parameters] == [
            value.type for value in module.main.body.parameters
        ]


@pytest.mark.parametrize("style", STYLES)
@LOW
@pytest.mark.parametrize("name", ["mlp", "resnet", "mobile", "unet", "convnext", "encoder", "vision", "llama"])
def test_models_are_near_f32(name: str, dtype: DType, style: Style) -> None:
    model = BUILDERS[name](style)
    loaded = read_model(model.model)
    before = run_pipeline(lower_model(check_model(loaded.proto, loaded.folder)), OPTIMIZE)
    after = run_pipeline(before, (lower_precision_to(dtype), canonicalize), [verify_step])
    for op in ops(after, *PRODUCTS):
        assert {operand.dtype for operand in op.operands[:3]} == {dtype} or op.name == "dot", op
    wide = [op for op in ops(after, "dot") if op.operands[0].dtype == F32]
    # Only the angles of rotary embeddings are products in f32.
    assert len(wide) <= (1 if name == "llama" else 0)
    inputs = make_inputs(model.inputs, model.sizes["prime"])
    for actual, expected in zip(interpret(after, inputs), interpret(before, inputs), strict=True):
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        wide, exact = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        assert root_mean_square(wide - exact) <= BOUNDS[dtype] * root_mean_square(exact)
        assert np.abs(wide - exact).max() <= 2 * BOUNDS[dtype] * np.abs(exact).max()


def root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x * x)))


def test_booleans_and_selections_follow() -> None:
    def make(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.constant(weights(4, 4)), "nk,km->nm")
        return b.select(b.less(y, 0.0), b.mul(y, 0.1), y)

    _, after = lowered((f32(N, 4),), make, F16)
    (less,), (select,) = ops(after, "less"), ops(after, "select")
    assert (less.result.dtype, less.operands[0].dtype, select.result.dtype) == (BOOL, F16, F16)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_products_of_few_bits_read_and_store_16_bits_and_keep_codes_and_scales(dtype: DType) -> None:
    def build(b: Builder, x: Value) -> Value:
        codes, scales = b.constant(np.full((4, 4), 3, np.int8)), b.constant(np.full((4, 1), 0.1, np.float32))
        first = b.max(b.block_product(x, codes, scales, None, 4, 4), 0.0)
        return b.block_product(first, codes, scales, None, 4, 4)

    _, after = lowered([f32(N, 4)], build, dtype)
    for product in ops(after, "block_product"):
        rows, codes, scales = product.operands
        assert rows.op is not None
        assert (rows.op.name, rows.op.operands[0].dtype) == ("cast", dtype)
        assert (codes.dtype, scales.dtype, product.result.dtype) == (I8, F32, F32)
    x = np.array([[1, 2, 3, 4]], np.float32)
    np.testing.assert_allclose(outputs(after, x)[0], np.full((1, 4), 3 * 0.1 * 4 * 3), rtol=2 * 2**-8)
