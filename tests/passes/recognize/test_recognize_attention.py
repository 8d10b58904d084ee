"""Attention in the layouts, scalings and masks of exporters, and what must be left in parts."""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F16, F32, I64
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.recognize.recognize_attention import recognize_attention
from tests.passes.golden import M, N, boolean, built, f16, f32
from tests.passes.recognition import TIDY, count, names, reasons, recognized
from tests.support.arrays import assert_close

LOWEST = float(np.finfo(np.float32).min)
HEADS = (f32(N, 4, 3, 8), f32(N, 4, M, 8), f32(N, 4, M, 5))
Make = Callable[..., Value | tuple[Value, ...]]


def attention(b: Builder, q: Value, k: Value, v: Value, scores: Callable[[Value], Value], guard: bool = False) -> Value:
    """softmax(scores(q kᵀ)) v, with rows of NaN made 0 by a guard."""
    weights = b.softmax(scores(b.dot(q, k, "bhsd,bhtd->bhst")), 3)
    if guard:
        weights = b.select(b.is_nan(weights), 0, weights)
    return b.dot(weights, v, "bhst,bhte->bhse")


def fused(module: Module) -> Op:
    assert [name for name in names(module) if name in ("dot", "softmax", "attention")] == ["attention"]
    return next(op for op in module.main.body.ops if op.name == "attention")


def found(make: Make, types: Sequence[TensorType] = HEADS, sizes: Sequence[int] = (1, 3)) -> Op:
    # With infinite scores the attention gives zeros or other NaN than the steps.
    return fused(recognized(recognize_attention, types, make, sizes, odd=False))


# Scale


@pytest.mark.parametrize(
    ("make", "scale"),
    [
        (lambda b, q, k, v: attention(b, q, k, v, lambda s: s), 1.0),
        (lambda b, q, k, v: attention(b, q, k, v, lambda s: b.mul(s, 0.3)), 0.3),
        (lambda b, q, k, v: attention(b, q, k, v, lambda s: b.div(s, 8)), 0.125),
        (lambda b, q, k, v: attention(b, q, k, v, lambda s: b.div(s, 3)), 1 / 3),
        (lambda b, q, k, v: attention(b, b.mul(q, 0.3), k, v, lambda s: s), 0.3),
        (lambda b, q, k, v: attention(b, b.mul(q, 0.5), b.mul(k, 0.5), v, lambda s: s), 0.25),
        (lambda b, q, k, v: attention(b, b.div(q, 3), k, v, lambda s: b.mul(s, 2)), 2 / 3),
    ],
)
def test_scale(make: Make, scale: float) -> None:
    assert found(make).float("scale") == pytest.approx(scale, rel=1e-6)


def test_softcap() -> None:
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.mul(b.tanh(b.div(b.mul(s, 0.3), 20)), 20)))
    assert op.float("softcap") == 20
    assert op.float("scale") == pytest.approx(0.3, rel=1e-6)


# Layouts


def test_heads_after_the_sequence() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        q, k, v = (b.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
        return b.transpose(attention(b, q, k, v, lambda s: s), (0, 2, 1, 3))

    op = found(make, [f32(N, 3, 4, 8), f32(N, M, 4, 8), f32(N, M, 4, 5)])
    assert [str(operand.type) for operand in op.operands] == ["f32[N, 4, 3, 8]", "f32[N, 4, M, 8]", "f32[N, 4, M, 5]"]


def test_keys_transposed_as_a_batch_of_matrices() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        matrices = b.transpose(b.reshape(k, (4 * N, M, 8)), (0, 2, 1))
        keys = b.mul(b.reshape(matrices, (N, 4, 8, M)), 0.5)
        weights = b.softmax(b.matmul(b.mul(q, 0.5), keys), 3)
        return b.matmul(weights, v)

    assert found(make).operands[1].type == HEADS[1]


def test_batch_and_heads_in_one_axis() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.matmul(b.softmax(b.matmul(q, b.transpose(k, (0, 2, 1))), 2), v)

    op = found(make, [f32(N, 3, 8), f32(N, M, 8), f32(N, M, 5)])
    assert str(op.operands[0].type) == "f32[N, 1, 3, 8]"


def test_one_head_without_a_batch() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.matmul(b.softmax(b.matmul(q, b.transpose(k, (1, 0))), 1), v)

    op = found(make, [f32(3, 8), f32(M, 8), f32(M, 5)])
    assert str(op.result.type) == "f32[1, 1, 3, 5]"


def test_two_axes_of_the_batch() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.matmul(b.softmax(b.matmul(q, b.transpose(k, (0, 1, 2, 4, 3))), 4), v)

    op = found(make, [f32(N, 2, 4, 3, 8), f32(N, 2, 4, M, 8), f32(N, 2, 4, M, 5)])
    assert str(op.operands[0].type) == "f32[2*N, 4, 3, 8]"


def test_weights_as_the_second_operand() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.dot(v, b.softmax(b.dot(k, q, "bhtd,bhsd->bhst"), 3), "bhte,bhst->bshe")

    assert str(found(make).result.type) == "f32[N, 4, 3, 5]"


# Axes that are merged behind the product


def pixels(b: Builder, q: Value, k: Value, v: Value) -> Value:
    """Each pixel of an image is a row."""
    scores = b.mul(b.dot(q, k, "bijd,btd->bijt"), 0.5)
    batch, height, width, length = scores.shape
    return b.dot(b.softmax(b.reshape(scores, (batch, height * width, length)), 2), v, "bst,bte->bse")


def batch_of_heads(b: Builder, q: Value, k: Value, v: Value) -> Value:
    """Batch and heads become one axis of scores and values."""
    scores, length = b.reshape(b.dot(q, k, "bhsd,bhtd->bhst"), (q.shape[0] * 4, 3, k.shape[2])), k.shape[2]
    return b.dot(b.softmax(b.mul(scores, 0.5), 2), b.reshape(v, (q.shape[0] * 4, length, 5)), "bst,bte->bse")


@pytest.mark.parametrize(
    ("make", "types", "query"),
    [
        (pixels, (f32(N, 3, 4, 8), f32(N, M, 8), f32(N, M, 5)), "f32[N, 1, 12, 8]"),
        (pixels, (f32(1, N, M, 8), f32(1, 7, 8), f32(1, 7, 5)), "f32[1, 1, M*N, 8]"),
        (batch_of_heads, HEADS, "f32[4*N, 1, 3, 8]"),
    ],
)
def test_axes_that_merge_behind_the_product(make: Make, types: Sequence[TensorType], query: str) -> None:
    op = found(make, types)
    assert str(op.operands[0].type) == query
    assert op.float("scale") == 0.5


def heads_as_rows(b: Builder, q: Value, k: Value, v: Value) -> Value:
    """Rows of several heads, whose keys are not the same."""
    scores = b.reshape(b.dot(q, k, "bhsd,bhtd->bhst"), (q.shape[0], 12, k.shape[2]))
    return b.dot(b.softmax(scores, 2), b.slice_axis(v, 1, 0, 1), "bst,bhte->bse")


def columns_as_rows(b: Builder, q: Value, k: Value, v: Value) -> Value:
    """Other axes than those of the product."""
    scores = b.reshape(b.dot(q, k, "bhsd,bhtd->bhst"), (q.shape[0], 4, k.shape[2], 3))
    return b.dot(b.softmax(scores, 3), b.slice_axis(q, 3, 0, 5), "bhts,bhse->bhte")


@pytest.mark.parametrize("make", [heads_as_rows, columns_as_rows])
def test_axes_that_do_more_than_merge_stay(make: Make) -> None:
    assert count(recognized(recognize_attention, HEADS, make, odd=False), "attention") == 0


# Batch and heads in one axis of the products


def one_axis(b: Builder, x: Value) -> Value:
    """Batch and heads as one axis."""
    return b.reshape(x, (4 * x.shape[0], *x.shape[2:]))


def by_position(b: Builder, q: Value, k: Value, v: Value, positions: Value, shown: Value) -> Value:
    """Scores of keys and of positions, where what a mask hides is chosen with the heads apart."""
    shape = (*q.shape[:3], k.shape[2])
    q, k, v = (one_axis(b, x) for x in (q, k, v))
    scores = b.dot(q, b.div(b.transpose(k, (0, 2, 1)), 8), "amk,akn->amn")
    scores = b.add(scores, b.dot(q, positions, "amk,nk->amn"))
    hidden = b.select(b.broadcast(shown, (0, 1, 2, 3), shape), b.reshape(scores, shape), LOWEST)
    weights = b.reshape(b.softmax(hidden, 3), (4 * shape[0], *shape[2:]))
    return b.reshape(b.dot(weights, v, "amk,akn->amn"), (*shape[:3], v.shape[2]))


def by_position_alone(b: Builder, q: Value, k: Value, v: Value, positions: Value, shown: Value) -> Value:
    """Scores that nothing hides, in the shape of the products."""
    shape = (*q.shape[:3], k.shape[2])
    q, k, v = (one_axis(b, x) for x in (q, k, v))
    scores = b.add(b.dot(q, k, "amk,ank->amn"), b.dot(q, positions, "amk,nk->amn"))
    weights = b.softmax(b.reshape(scores, shape), 3)
    return b.dot(b.reshape(weights, (4 * shape[0], *shape[2:])), v, "amk,akn->amn")


@pytest.mark.parametrize(("make", "scale"), [(by_position, 0.125), (by_position_alone, 1.0)])
@pytest.mark.parametrize("batch", [N, 1, 2])
def test_heads_that_are_one_axis_with_the_batch_in_the_products(make: Make, scale: float, batch: Dim) -> None:
    types = (f32(batch, 4, 3, 8), f32(batch, 4, M, 8), f32(batch, 4, M, 5), f32(M, 8), boolean(batch, 1, 3, M))
    simplified = recognized(recognize_attention, types, make, (1, 3), odd=False)
    op = next(op for op in simplified.main.body.ops if op.name == "attention")
    assert [str(operand.type) for operand in op.operands[:3]] == [str(each) for each in types[:3]]
    assert op.float("scale") == pytest.approx(scale, rel=1e-6)
    assert [name for name in names(simplified) if name in ("dot", "softmax")] == ["dot"]


# Groups of heads


def repeated(b: Builder, x: Value, groups: int = 3) -> Value:
    """Each head of [B, G, T, D] `groups` times."""
    batch, heads, length, width = x.shape
    assert isinstance(heads, int)
    spread = b.broadcast(
        b.reshape(x, (batch, heads, 1, length, width)), range(5), (batch, heads, groups, length, width)
    )
    return b.reshape(spread, (batch, heads * groups, length, width))


GROUPED = (f32(N, 6, 3, 8), f32(N, 2, M, 8), f32(N, 2, M, 5))


def test_repeated_heads_become_groups() -> None:
    op = found(lambda b, q, k, v: attention(b, q, b.mul(repeated(b, k), 0.5), repeated(b, v), lambda s: s), GROUPED)
    assert [operand.shape[1] for operand in op.operands] == [6, 2, 2]


def test_repeated_heads_of_one_text_become_groups() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        keys = b.transpose(b.reshape(repeated(b, k), (6, M, 8)), (0, 2, 1))
        keys = b.reshape(b.mul(keys, 0.5), (1, 6, 8, M))
        weights = b.softmax(b.dot(q, keys, "bhsd,bhdt->bhst"), 3)
        return b.dot(weights, repeated(b, v), "bhst,bhte->bhse")

    op = found(make, (f32(1, 6, 3, 8), f32(1, 2, M, 8), f32(1, 2, M, 5)), sizes=(1, 3))
    assert [operand.shape[1] for operand in op.operands] == [6, 2, 2]
    assert op.float("scale") == 0.5


def test_one_group_for_all_heads() -> None:
    types = (f32(N, 6, 3, 8), f32(N, 1, M, 8), f32(N, 1, M, 5))
    op = found(lambda b, q, k, v: attention(b, q, repeated(b, k, 6), repeated(b, v, 6), lambda s: s), types)
    assert [operand.shape[1] for operand in op.operands] == [6, 1, 1]


def test_keys_alone_repeated_stay_repeated() -> None:
    types = (f32(N, 6, 3, 8), f32(N, 2, M, 8), f32(N, 6, M, 5))
    op = found(lambda b, q, k, v: attention(b, q, repeated(b, k), v, lambda s: s), types)
    assert [operand.shape[1] for operand in op.operands] == [6, 6, 6]


def test_keys_shared_by_the_batch_are_refused() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.dot(b.softmax(b.dot(q, k, "bsd,td->bst"), 2), v, "bst,te->bse")

    assert reasons(recognize_attention, [f32(N, 3, 8), f32(M, 8), f32(M, 5)], make) == [
        "the keys and values are shared by the whole batch"
    ]


# Masks


def chosen(b: Builder, condition: Value, low: float) -> Value:
    return b.select(condition, b.full(condition.shape, 0, F32), low)


MASKED = (*HEADS, boolean(N, 1, 1, M))


def with_mask(low: float, guard: bool = False) -> Make:
    return lambda b, q, k, v, m: attention(b, q, k, v, lambda s: b.add(s, chosen(b, m, low)), guard)


def test_a_finite_mask_of_data() -> None:
    op = found(with_mask(LOWEST), MASKED)
    assert str(op.operands[3].type) == "f32[N, 1, 3, M]"


def test_a_mask_computed_from_integers() -> None:
    types = (*HEADS, TensorType(I64, (N, 1, 1, M)))

    def make(b: Builder, q: Value, k: Value, v: Value, m: Value) -> Value:
        kept = b.cast(b.min(b.max(m, 0), 1), F32)
        return attention(b, q, k, v, lambda s: b.add(s, b.mul(b.sub(1, kept), LOWEST)))

    assert len(found(make, types).operands) == 4
    plain: Make = lambda b, q, k, v, m: attention(  # noqa: E731
        b, q, k, v, lambda s: b.add(s, b.mul(b.sub(1, b.cast(m, F32)), LOWEST))
    )
    module = recognize_attention(run_pipeline(built(types, plain), TIDY))
    assert count(module, "attention") == 1


def test_an_infinite_mask_with_a_guard() -> None:
    op = found(with_mask(-inf, guard=True), MASKED)
    assert len(op.operands) == 4


def test_an_infinite_mask_without_a_guard_is_refused() -> None:
    assert reasons(recognize_attention, MASKED, with_mask(-inf)) == [
        "the mask may hide a whole row, which is NaN in the model"
    ]


def test_a_mask_of_unknown_floats_is_refused() -> None:
    types = (*HEADS, f32(N, 1, 3, M))
    make: Make = lambda b, q, k, v, m: attention(b, q, k, v, lambda s: b.add(s, m))  # noqa: E731
    assert reasons(recognize_attention, types, make) == ["the mask may hide a whole row, which is NaN in the model"]


@pytest.mark.parametrize("guard", [False, True])
def test_rows_that_are_wholly_hidden_mean_the_same(guard: bool) -> None:
    module = run_pipeline(built(MASKED, with_mask(-inf if guard else LOWEST, guard)), TIDY)
    after = recognize_attention(module)
    fused(after)
    random = np.random.default_rng(0)
    inputs = {name: random.normal(0, 1, (2, 4, 3, 8)).astype(np.float32) for name in "xy"}
    inputs["z"] = random.normal(0, 1, (2, 4, 3, 5)).astype(np.float32)
    inputs["u"] = np.array([False, False, False, True, False, True]).reshape(2, 1, 1, 3)
    inputs["sizes"] = np.zeros((2, 3), np.bool_)
    expected, actual = interpret(module, inputs)[0], interpret(after, inputs)[0]
    assert_close(np.asarray(actual), np.asarray(expected), terms=8)
    assert (expected[0] == 0).all() == guard


def test_a_mask_by_choice() -> None:
    types = (*HEADS, boolean(N, 1, 3, M))
    op = found(lambda b, q, k, v, m: attention(b, q, k, v, lambda s: b.select(m, s, LOWEST)), types)
    assert len(op.operands) == 4


def test_a_mask_by_negated_choice() -> None:
    types = (*HEADS, boolean(N, 1, 3, M))
    op = found(lambda b, q, k, v, m: attention(b, q, k, v, lambda s: b.select(m, -inf, s), guard=True), types)
    assert len(op.operands) == 4


@pytest.mark.parametrize("low", [-5.0, -1e5])
def test_a_mask_by_choice_of_a_number_that_is_not_low_enough_is_refused(low: float) -> None:
    types = (*HEADS, boolean(N, 1, 3, M))
    make: Make = lambda b, q, k, v, m: attention(b, q, k, v, lambda s: b.select(m, s, low))  # noqa: E731
    assert len(reasons(recognize_attention, types, make)) == 1


def test_masks_of_several_summands() -> None:
    types = (*HEADS, boolean(N, 1, 1, M))

    def make(b: Builder, q: Value, k: Value, v: Value, m: Value) -> Value:
        bias = b.constant(np.random.default_rng(2).normal(0, 1, (1, 4, 3, 1)).astype(np.float32))
        return attention(b, q, k, v, lambda s: b.add(b.add(s, bias), chosen(b, m, -1e9)))

    assert str(found(make, types).operands[3].type) == "f32[N, 4, 3, M]"


def test_a_constant_that_all_scores_share_is_no_mask() -> None:
    assert len(found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, 3))).operands) == 3


def constant_mask(b: Builder, visible: np.ndarray) -> Value:
    return b.constant(np.where(visible, 0, -inf).astype(np.float32))


STATIC = (f32(2, 4, 5, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 3))


def test_a_constant_mask_that_leaves_something_in_every_row() -> None:
    visible = np.array([[0, 1, 0, 1, 0, 0]] * 5, np.bool_)
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, constant_mask(b, visible))), STATIC)
    assert str(op.operands[3].type) == "f32[1, 1, 5, 6]"


def test_a_constant_mask_that_hides_a_row_is_refused() -> None:
    visible = np.ones((5, 6), np.bool_)
    visible[2] = False
    make: Make = lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, constant_mask(b, visible)))  # noqa: E731
    assert len(reasons(recognize_attention, STATIC, make)) == 1


def causal(b: Builder, queries: Dim, keys: Dim, shift: Dim, low: float = -inf) -> Value:
    """0 where column <= row + shift, else `low`"""
    row, column = _places(b, queries, keys)
    return chosen(b, b.less_equal(column, b.add(row, b.size(shift))), low)


def upper_triangle(b: Builder, queries: Dim, keys: Dim) -> Value:
    """-inf where column > row, else 0"""
    row, column = _places(b, queries, keys)
    return b.select(b.less(row, column), b.full((queries, keys), -inf, F32), 0)


def _places(b: Builder, queries: Dim, keys: Dim) -> tuple[Value, Value]:
    row, column = (b.iota((size,), 0, I64) for size in (queries, keys))
    return b.broadcast(row, (0,), (queries, keys)), b.broadcast(column, (1,), (queries, keys))


SQUARE = (f32(N, 4, M, 8), f32(N, 4, M, 8), f32(N, 4, M, 5))


@pytest.mark.parametrize("low", [-inf, LOWEST])
def test_a_computed_causal_mask_is_a_flag(low: float) -> None:
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, causal(b, M, M, 0, low))), SQUARE)
    assert op.flag("causal")
    assert len(op.operands) == 3


def test_a_triangle_of_what_is_hidden_is_the_flag_too() -> None:
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, upper_triangle(b, M, M))), SQUARE)
    assert op.flag("causal")
    assert len(op.operands) == 3


def test_a_constant_causal_mask_is_a_flag() -> None:
    visible = np.tri(5, 6, 0, dtype=np.bool_)
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, constant_mask(b, visible))), STATIC)
    assert op.flag("causal")


def test_a_causal_mask_after_a_past_stays_a_mask() -> None:
    types = (f32(1, 4, M, 8), f32(1, 4, N + M, 8), f32(1, 4, N + M, 5))
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, causal(b, M, N + M, N))), types)
    assert not op.flag("causal")
    assert len(op.operands) == 4


@pytest.mark.parametrize("shift", [1, 2, N])
def test_a_mask_that_shows_more_stays_a_mask(shift: Dim) -> None:
    op = found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, causal(b, M, M, shift))), SQUARE)
    assert not op.flag("causal")
    assert len(op.operands) == 4


def test_a_negative_scale_is_refused() -> None:
    make: Make = lambda b, q, k, v: attention(b, q, k, v, lambda s: b.mul(s, -0.5))  # noqa: E731
    assert reasons(recognize_attention, HEADS, make) == ["the scale is negative"]


def test_a_mask_that_may_show_nothing_is_refused() -> None:
    make: Make = lambda b, q, k, v: attention(b, q, k, v, lambda s: b.add(s, causal(b, M, M, -1)))  # noqa: E731
    assert len(reasons(recognize_attention, SQUARE, make)) == 1


# What is no attention


def test_half_precision_throughout() -> None:
    types = (f16(N, 4, 3, 8), f16(N, 4, M, 8), f16(N, 4, M, 5))
    assert found(lambda b, q, k, v: attention(b, q, k, v, lambda s: b.mul(s, 0.25)), types).result.dtype == F16


def test_mixed_precision_is_refused() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value) -> Value:
        weights = b.softmax(b.dot(q, k, "bhsd,bhtd->bhst", F32), 3)
        return b.dot(weights, v, "bhst,bhte->bhse")

    types = (f16(N, 4, 3, 8), f16(N, 4, M, 8), f32(N, 4, M, 5))
    assert reasons(recognize_attention, types, make) == [
        "queries, keys, values and products are not of one element type"
    ]


def weights_as_a_result(b: Builder, q: Value, k: Value, v: Value) -> tuple[Value, ...]:
    weights = b.softmax(b.dot(q, k, "bhsd,bhtd->bhst"), 3)
    return b.dot(weights, v, "bhst,bhte->bhse"), weights


def scores_as_a_result(b: Builder, q: Value, k: Value, v: Value) -> tuple[Value, ...]:
    scores = b.dot(q, k, "bhsd,bhtd->bhst")
    return b.dot(b.softmax(b.mul(scores, 0.5), 3), v, "bhst,bhte->bhse"), scores


@pytest.mark.parametrize("make", [weights_as_a_result, scores_as_a_result])
def test_scores_and_weights_with_another_use_are_refused(make: Make) -> None:
    assert len(reasons(recognize_attention, HEADS, make)) == 1


def rows_of_the_wrong_axis(b: Builder, q: Value, k: Value, v: Value) -> Value:
    return b.dot(b.softmax(b.dot(q, k, "bhsd,bhtd->bhst"), 2), v, "bhst,bhte->bhse")


def weights_that_are_not_summed_over_keys(b: Builder, q: Value, k: Value, v: Value) -> Value:
    return b.dot(b.softmax(b.dot(q, k, "bhsd,bhtd->bhst"), 3), v, "bhst,bhte->bhts")


def a_scale_after_the_mask(b: Builder, q: Value, k: Value, v: Value) -> Value:
    bias = b.constant(np.random.default_rng(2).normal(0, 1, (1, 4, 3, 1)).astype(np.float32))
    return attention(b, q, k, v, lambda s: b.mul(b.add(s, bias), 0.5))


@pytest.mark.parametrize(
    "make", [rows_of_the_wrong_axis, weights_that_are_not_summed_over_keys, a_scale_after_the_mask]
)
def test_other_products_stay(make: Make) -> None:
    assert count(recognized(recognize_attention, HEADS, make, odd=False), "attention") == 0


def test_masks_are_shared_by_layers() -> None:
    def make(b: Builder, q: Value, k: Value, v: Value, m: Value) -> Value:
        mask = chosen(b, m, LOWEST)
        first = attention(b, q, k, v, lambda s: b.add(s, mask))
        return attention(b, first, k, v, lambda s: b.add(s, mask))

    types = (f32(N, 4, 3, 8), f32(N, 4, M, 8), f32(N, 4, M, 8), boolean(N, 1, 1, M))
    after = recognized(recognize_attention, types, make, odd=False)
    assert count(after, "attention") == 2
