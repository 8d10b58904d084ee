"""Which values are as good as the interpreter's, and that no others are."""

from contextlib import nullcontext

import numpy as np
import pytest

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.host.registry import MEANINGS
from tests.frontend.model_texts import model
from tests.fuzz.agree import Disagreement, Subject, expect_same_answers
from tests.fuzz.meanings import (
    as_good_meanings,
    attention_scaled_first,
    convolution_inside,
    fourier_otherwise,
    gelu_that_cancels,
    multiplied_otherwise,
)
from tests.fuzz.rounding import otherwise_rounded
from tests.support.arrays import assert_close, assert_same

inf, nan = np.inf, np.nan
ATTRIBUTES = {
    "dimensions": "nc0,oi0->nc0", "dtype": np.dtype(np.float32), "groups": 1,
    "strides": (1,), "dilations": (1,), "input_dilations": (1,), "low": (1,), "high": (1,),
}  # fmt: skip


def row(*elements: float) -> np.ndarray:
    return np.array([[elements]], np.float32)


@pytest.mark.parametrize(
    ("x", "w", "inside", "multiplied"),
    [
        ((1, 2, 3), (1, 1, 1), (3, 6, 5), (3, 6, 5)),
        ((1, 2, 3), (inf, 1, 1), (3, inf, inf), (nan, inf, inf)),
        ((1, 2, 3), (-inf, 1, inf), (inf, nan, -inf), (nan, nan, nan)),
        ((1, -2, 3), (1, 1, nan), (nan, nan, 1), (nan, nan, nan)),
        ((-inf, 0, 2), (1, 1, inf), (nan, nan, 2), (nan, nan, nan)),
        ((inf, 1, 1), (inf, 1, 1), (inf, inf, inf), (nan, inf, inf)),
        ((inf, 1, 1), (-inf, 1, 1), (inf, -inf, -inf), (nan, -inf, -inf)),
    ],
)
def test_a_convolution_that_does_not_multiply_its_padding(
    x: tuple[float, ...], w: tuple[float, ...], inside: tuple[float, ...], multiplied: tuple[float, ...]
) -> None:
    assert_same(convolution_inside((row(*x), row(*w)), ATTRIBUTES)[0], row(*inside))
    assert_same(MEANINGS["convolution"]((row(*x), row(*w)), ATTRIBUTES)[0], row(*multiplied))


def test_the_meanings_are_the_same_again_afterwards() -> None:
    before = dict(MEANINGS)
    with as_good_meanings:
        assert MEANINGS["convolution"] != before["convolution"]
    assert before == MEANINGS


# Of a row of three, the window of the first element reaches into the padding, those of the others do not.
FILTER = "<float[1, 1, 2] w = {inf, 1}>"


@pytest.mark.parametrize(
    ("change", "is_same"),
    [("{0, 0, 0}", True), ("{nan, 0, 0}", True), ("{0, -inf, 0}", False), ("{0, nan, 0}", False)],
)
def test_only_what_padding_decides_may_differ(change: str, is_same: bool) -> None:
    text = f"""g (float[1, 1, 3] x) => (y) {FILTER} {{ y = Conv<pads = [1, 0]>(x, w) }}"""
    # The native side has the value without the padding, 1, in the place of NaN.
    native = f"""g (float[1, 1, 3] x) => (y)
        <float[1, 1, 3] z = {{1, inf, inf}}, float[1, 1, 3] c = {change}> {{
            u = Mul(x, c) v = Sub(u, u) y = Add(z, c)
        }}"""
    datas = [model(each).SerializeToString() for each in (text, native)]
    subject = Subject(datas[0], onnxc.compile(datas[0], "interpreter"), onnxc.compile(datas[1]), is_drawn=False)
    with nullcontext() if is_same else pytest.raises(Disagreement):
        expect_same_answers(subject, {"x": row(1, 2, 3)}, np.random.default_rng(3))


@pytest.mark.parametrize("odd", [inf, -inf, nan])
def test_a_transform_of_what_is_not_finite_is_undecided_and_others_are_not(odd: float) -> None:
    angles = 2 * np.pi * np.arange(3) / 3
    roots = np.stack([np.cos(angles), np.sin(angles)], -1)
    x = np.array([[1, 2, 3, 4], [1, odd, 3, 4], [1, 2, 3, odd]], np.float32)[..., np.newaxis]
    (fast,), (other,) = (meaning((x, roots), {}) for meaning in (MEANINGS["fourier"], fourier_otherwise))
    assert (other.dtype, other.shape) == (np.float32, (3, 3, 2))
    # Of the last line only the elements before the odd one are read.
    assert_same(other[[0, 2]], fast[[0, 2]])
    assert (np.isfinite(other[1]) != np.isfinite(fast[1])).all()


def test_a_query_that_is_scaled_to_zero_meets_an_infinite_key() -> None:
    q, v = np.full((1, 1, 1, 2), 0.3, np.float32), np.array([[[[1], [3]]]], np.float32)
    k = np.array([[[[1, 1], [-inf, 1]]]], np.float32)
    attributes = {"scale": 1e-45, "causal": False, "softcap": 0.0}
    results = [meaning((q, k, v), attributes)[0] for meaning in (MEANINGS["attention"], attention_scaled_first)]
    assert_same(results[0], np.array([[[[1]]]], np.float32))
    assert_same(results[1], np.array([[[[nan]]]], np.float32))


@pytest.mark.parametrize("groups", [1, 2])
def test_an_attention_may_lose_a_weight_that_were_subnormal_beside_an_infinity(groups: int) -> None:
    q = np.ones((1, groups, 1, 1), np.float32)
    k, v = (
        np.array([[[[0], [-95], [-80]]]], np.float32),
        np.array([[[[1, 1, 1], [inf, 2, 2], [3, 3, -inf]]]], np.float32),
    )
    attributes = {"scale": 1.0, "causal": False, "softcap": 0.0}
    results = [meaning((q, k, v), attributes)[0] for meaning in (MEANINGS["attention"], attention_scaled_first)]
    for result, first in zip(results, (inf, nan), strict=True):
        assert_same(result, np.broadcast_to(np.array([first, 1, -inf], np.float32), (1, groups, 1, 3)))


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_a_gelu_may_be_zero_where_one_and_its_curve_cancel(form: str) -> None:
    x = row(-8, -5.75, -3, -0.0, 0, 1, 3, inf, -inf, nan)
    (accurate,), (other,) = (meaning((x,), {"approximate": form}) for meaning in (MEANINGS["gelu"], gelu_that_cancels))
    assert other.dtype == np.float32
    assert_close(other, accurate, terms=4, magnitude=8)
    assert other[0, 0, 1] == 0 != accurate[0, 0, 1]
    assert_same(np.signbit(other[0, 0, 3:5]), np.array([True, False]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_order_of_a_product_decides_where_some_factors_alone_are_no_normal_number(dtype: type) -> None:
    # f16 is multiplied in f32.
    inside = np.finfo(np.float64 if dtype is np.float64 else np.float32)
    few = np.sqrt(np.sqrt(float(inside.tiny))) if dtype is not np.float16 else 2.0**-24
    small = [few] * 6
    rows = np.array([
        [*small, 1 / few, 1], [*(1 / f for f in small), few, 1], [few, few, 0, 2, 3, 4, 5, 6],
        [1, 2, 3, 0.5, 1, 1, 1, -1],
        [inf, 1, 1, 1, 1, 1, 1, 2], [nan, 1, 1, 1, 1, 1, 1, 1],
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        operands = (np.minimum(rows, float(np.finfo(dtype).max) if dtype is np.float16 else inf).astype(dtype),)
        attributes = {"kind": "prod", "axes": (1,)}
        (usual,), (other,) = (meaning(operands, attributes) for meaning in (MEANINGS["reduce"], multiplied_otherwise))
    assert other.dtype == dtype
    assert np.isnan(other[:2]).tolist() == [True, dtype is not np.float16]
    assert_same(other[2:], usual[2:])
    assert_same(multiplied_otherwise(operands, attributes | {"kind": "max"})[0], np.max(operands[0], axis=1))


@pytest.mark.parametrize("name", ["dot", "convolution"])
def test_a_product_may_be_beyond_f32_where_the_sum_is_infinite_anyway(name: str) -> None:
    attributes = ATTRIBUTES | {"equation": "abk,abk->ab", "low": (0,), "high": (0,)}
    x, w = row(inf, 3.4e38), row(1, -6)
    assert np.isnan(MEANINGS[name]((x, w), attributes)[0]).all()
    with as_good_meanings:
        (result,) = MEANINGS[name]((x, w), attributes)
    assert result.dtype == np.float32
    assert np.isposinf(result).all()


@pytest.mark.parametrize("name", ["dot", "convolution"])
@pytest.mark.parametrize(
    ("x", "settled"),
    [
        ((3e38, 3e38, -3e38), False),
        ((3e38, -1e38, -1e38), False),
        ((1e38, 1e38, 1e38), True),
        ((inf, 3e38, 3e38), True),
        ((-inf, 3e38, 3e38), False),
        ((inf, 3e38, -3e38), True),
    ],
)
def test_an_order_of_adding_up_may_overflow_where_others_do_not(name: str, x: tuple[float, ...], settled: bool) -> None:
    attributes = ATTRIBUTES | {"equation": "abk,abk->ab", "low": (0,), "high": (0,)}
    operands = row(*x), row(1, 1, 1)
    with as_good_meanings:
        (result,) = MEANINGS[name](operands, attributes)
    expected = np.float32(np.sum(np.float64(x))) if settled else np.float32(nan)
    assert_close(result.ravel(), np.array([expected]), terms=3)


def test_a_small_weight_may_be_0_in_sixteen_bits() -> None:
    data = model(
        "g (float16[1, 1, 1, 1] q, float16[1, 1, 2, 1] k, float16[1, 1, 2, 1] v) => (y) { y = Attention(q, k, v) }",
        header='<ir_version: 10, opset_import: ["": 23]>\n',
    ).SerializeToString()
    subject = Subject(data, onnxc.compile(data, "interpreter"), onnxc.compile(data), is_drawn=False)
    q, k, v = (np.array(x, np.float16).reshape(1, 1, -1, 1) for x in ([1], [20, 0], [1, inf]))
    assert np.isnan(subject.interpreter(q, k, v)).all()
    assert np.isposinf(subject.native(q, k, v)).all()
    expect_same_answers(subject, {"q": q, "k": k, "v": v}, np.random.default_rng(3))


def test_a_sum_that_the_order_decides_is_seen_where_padding_makes_nan() -> None:
    """The first window multiplies the padding by infinity; inside, a partial sum may be beyond f32.

    Which way finds that depends on the processor: NumPy rounds -3e38 times 2 to -inf and adds it, or does both at once.
    """
    operands = (row(3e38, -3e38), row(inf, 2, 2))
    results = [MEANINGS["convolution"](operands, ATTRIBUTES)[0]]
    with as_good_meanings:
        results.append(MEANINGS["convolution"](operands, ATTRIBUTES)[0])
    padded, inside = np.concatenate(results).reshape(2, 2).T
    assert_same(padded, np.array([nan, 0], np.float32))
    assert_same(np.sort(inside), np.array([inf, nan], np.float32))


def test_one_run_of_the_other_meanings_rounds_as_usual() -> None:
    text = "g (float[1, 1, 2] x) => (y) <float[1, 1, 2] w = {inf, inf}> { y = Conv<pads = [1, 0]>(x, w) }"
    module = lower_model(check_model(read_model(model(text).SerializeToString())))
    for seed in range(20):
        first, *others = otherwise_rounded(module, {"x": row(1e-45, 1)}, np.random.default_rng(seed))
        assert first is not None
        assert_same(first[0], row(inf, inf))
        assert len(others) == 8
