"""cast and bitcast: the tables of ONNX Cast-25, the ends of every type, and the official node tests bit for bit."""

import itertools
import math

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from onnxc.runtime.host import MEANINGS

F8E4M3FN, F8E4M3FNUZ = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e4m3fnuz)
F8E5M2, F8E5M2FNUZ = np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz)
F8E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
NARROW_FLOATS = [
    np.dtype(t)
    for t in (
        np.float16,
        ml_dtypes.bfloat16,
        F8E4M3FN,
        F8E4M3FNUZ,
        F8E5M2,
        F8E5M2FNUZ,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        ml_dtypes.float4_e2m1fn,
    )
]
SMALL_INTEGERS = [np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)]
NATIVE = [np.dtype(code) for code in ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8", "c16")]
ALL = [*NATIVE, *NARROW_FLOATS, F8E8M0, *SMALL_INTEGERS]


def cast(x: np.ndarray, dtype: np.dtype, **attributes: object) -> np.ndarray:
    (result,) = MEANINGS["cast"]([x], {"dtype": dtype, **attributes})
    assert type(result) is np.ndarray
    assert (result.dtype, result.shape) == (dtype, x.shape)
    return result


def values(x: np.ndarray) -> list[float]:
    """The elements as floats, NaN as None so that lists compare, -0.0 as the text "-0"."""
    wide = x.astype(np.float64)
    return [None if math.isnan(v) else "-0" if v == 0 and math.copysign(1, v) < 0 else v for v in wide]  # type: ignore[misc]


@pytest.mark.parametrize("source", ALL, ids=str)
def test_every_pair_of_types_keeps_zero_and_one(source: np.dtype) -> None:
    for target in ALL:
        # f8e8m0 has no zero.
        x = np.array([1, 1] if F8E8M0 in (source, target) else [0, 1], np.float32).astype(source)
        result = cast(x, target)
        np.testing.assert_array_equal(result.astype(np.complex128), x.astype(np.complex128))
        assert not np.shares_memory(result, x)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("target", ALL, ids=str)
def test_rank_zero_and_size_zero(target: np.dtype, shape: tuple[int, ...]) -> None:
    for source in ALL:
        cast(np.ones(shape, source), target)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_no_bit_pattern_fails_or_warns(source: np.dtype) -> None:
    patterns = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    # A bool byte is 0 or 1; the small types leave the upper bits of theirs clear.
    x = {np.dtype(np.bool_): patterns & 1}.get(source, patterns & 3 if source in SMALL_INTEGERS else patterns).view(
        source
    )
    for target in ALL:
        for saturate, round_mode in itertools.product((True, False), ("nearest", "up", "down")):
            cast(x, target, saturate=saturate, round_mode=round_mode)


INTEGER_TARGETS = [dtype for dtype in NATIVE if dtype.kind in "iu"]


@pytest.mark.parametrize(
    "source", [np.dtype("f8"), np.dtype("f4"), np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)], ids=str
)
@pytest.mark.parametrize("target", INTEGER_TARGETS, ids=str)
def test_float_to_integer_truncates_saturates_and_takes_nan_to_zero(source: np.dtype, target: np.dtype) -> None:
    bounds = np.iinfo(target)
    with np.errstate(over="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, 1.75, -1.75, -0.5, 1e30, -1e30]).astype(source)
    low, high = int(bounds.min), int(bounds.max)
    expected = [0, high, low, 1, max(low, -1), 0, high, low]
    assert [int(value) for value in cast(x, target)] == expected


def test_float_to_integer_at_the_edges_of_the_range() -> None:
    x = np.array([2.0**31, 2.0**31 - 128, -(2.0**31), -(2.0**31) - 256], np.float32)
    assert cast(x, np.dtype(np.int32)).tolist() == [2**31 - 1, 2**31 - 128, -(2**31), -(2**31)]
    x = np.array([2.0**64, 2.0**63, 2.0**64 - 2048, -1.0])
    assert cast(x, np.dtype(np.uint64)).tolist() == [2**64 - 1, 2**63, 2**64 - 2048, 0]
    assert cast(np.array([127.9, 128.0, -128.9, -129.0]), np.dtype(np.int8)).tolist() == [127, 127, -128, -128]


@pytest.mark.parametrize(
    ("dtype", "bits", "signed"), [("int4", 4, True), ("uint4", 4, False), ("int2", 2, True), ("uint2", 2, False)]
)
def test_to_integers_below_eight_bits_keeps_the_low_bits(dtype: str, bits: int, signed: bool) -> None:
    numbers = range(-300, 300)
    expected = [(n + (1 << bits >> 1)) % (1 << bits) - (1 << bits >> 1) if signed else n % (1 << bits) for n in numbers]
    target = np.dtype(getattr(ml_dtypes, dtype))
    for source in ("i2", "i8", "f4", "f8"):
        assert [int(value) for value in cast(np.array(numbers, source), target)] == expected
    assert int(cast(np.array(np.nan), target)) == 0


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integer_to_narrower_integer_keeps_the_low_bits(x: int) -> None:
    array = np.array(x, np.int64)
    for bits in (8, 16, 32):
        assert int(cast(array, np.dtype(f"u{bits // 8}"))) == x % (1 << bits)
    assert int(cast(array, np.dtype(np.uint64))) == x % (1 << 64)
    assert int(cast(cast(array, np.dtype(np.uint64)), np.dtype(np.int64))) == x


def test_to_bool_is_not_zero() -> None:
    bool_ = np.dtype(np.bool_)
    assert cast(np.array([0.0, -0.0, np.nan, 0.1, -np.inf]), bool_).tolist() == [False, False, True, True, True]
    assert cast(np.array([0, 256, -1], np.int16), bool_).tolist() == [False, True, True]
    assert cast(np.array([0, 1j, 1], np.complex64), bool_).tolist() == [False, True, True]
    assert cast(np.array([0, 4], np.uint8).astype(ml_dtypes.uint4), bool_).tolist() == [False, True]


def test_complex_to_real_drops_the_imaginary_part() -> None:
    x = np.array([1.5 - 2j, -3.7 + 1j], np.complex64)
    np.testing.assert_array_equal(cast(x, np.dtype(np.float32)), np.array([1.5, -3.7], np.float32), strict=True)
    np.testing.assert_array_equal(cast(x, np.dtype(np.int32)), np.array([1, -3], np.int32), strict=True)
    np.testing.assert_array_equal(cast(x, np.dtype(np.complex128)), x.astype(np.complex128), strict=True)


def test_out_of_the_range_of_a_float_is_infinity() -> None:
    big = np.array([1e300, -1e300, 65519.0, 65520.0])
    assert cast(big, np.dtype(np.float16)).tolist() == [np.inf, -np.inf, 65504.0, np.inf]
    assert cast(big[:2], np.dtype(np.float32)).tolist() == [np.inf, -np.inf]
    assert values(cast(np.array([3.4e38], np.float32), np.dtype(ml_dtypes.bfloat16))) == [math.inf]
    assert cast(np.array([2**63], np.uint64), np.dtype(np.float16)).tolist() == [np.inf]


def test_narrow_floats_are_reached_through_f32() -> None:
    just_above_a_tie = np.array([1.0 + 2.0**-11 + 2.0**-40])
    assert cast(just_above_a_tie, np.dtype(np.float16)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("dtype", "largest", "minus_zero"),
    [(F8E4M3FN, 448.0, "-0"), (F8E4M3FNUZ, 240.0, 0.0), (F8E5M2, 57344.0, "-0"), (F8E5M2FNUZ, 57344.0, 0.0)],
    ids=str,
)
def test_float8_saturates(dtype: np.dtype, largest: float, minus_zero: object) -> None:
    x = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e9, -1e9, largest * 1.03, 1.0], np.float32)
    expected = [0.0, minus_zero, None, largest, -largest, largest, -largest, largest, 1.0]
    assert values(cast(x, dtype)) == expected
    assert values(cast(x.astype(np.float64), dtype, saturate=True)) == expected


@pytest.mark.parametrize(
    ("dtype", "above", "below"),
    [(F8E4M3FN, None, None), (F8E4M3FNUZ, None, None), (F8E5M2, np.inf, -np.inf), (F8E5M2FNUZ, None, None)],
    ids=str,
)
def test_float8_without_saturation(dtype: np.dtype, above: float | None, below: float | None) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e9, -1e9, 1.0], np.float32)
    assert values(cast(x, dtype, saturate=False)) == [None, above, below, above, below, 1.0]


def test_the_sign_of_nan_is_kept_in_the_types_with_two() -> None:
    x = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float32)
    signs = np.array([0, 128, 0, 128], np.uint8)
    np.testing.assert_array_equal(cast(x, F8E4M3FN, saturate=False).view(np.uint8) & 128, signs)
    np.testing.assert_array_equal(cast(x, F8E5M2, saturate=False).view(np.uint8) & 128, signs)


def test_what_rounds_to_the_largest_float8_is_in_range() -> None:
    x = np.array([464.0, 464.0001, -464.0], np.float32)
    assert values(cast(x, F8E4M3FN, saturate=False)) == [448.0, None, -448.0]


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_narrow_floats_round_to_the_nearest_and_ties_to_even(dtype: np.dtype) -> None:
    patterns = (
        np.arange(256, dtype=np.uint8).view(dtype)
        if dtype.itemsize == 1
        else np.arange(0x3C00, 0x3CFF, dtype=np.uint16).view(dtype)
    )
    numbers = patterns.astype(np.float64)
    order = np.unique(numbers[np.isfinite(numbers)])
    for low, high in itertools.pairwise(order):
        middle = (low + high) / 2
        just = np.nextafter(np.float32(middle), np.array([-np.inf, np.inf], np.float32))
        below, above = values(cast(just, dtype))
        assert (abs(float(below)), abs(float(above))) == (abs(low), abs(high))
        (tie,) = values(cast(np.array([middle], np.float32), dtype))
        assert int(np.array(float(tie)).astype(dtype).view(f"u{dtype.itemsize}")) & 1 == 0


@pytest.mark.parametrize(
    ("saturate", "round_mode", "expected"),
    [
        (True, "up", [-127, -127, -127, -126, 0, 1, 1, 1, 1, 127, 127, 127, None, None]),
        (True, "nearest", [-127, -127, -127, -127, 0, 0, 1, 1, 1, 127, 127, 127, None, None]),
        (True, "down", [-127, -127, -127, -127, 0, 0, 0, 0, 1, 127, 127, 127, None, None]),
        (False, "nearest", [None, None, -127, -127, 0, 0, 1, 1, 1, 127, None, None, None, None]),
        (False, "up", [None, None, -127, -126, 0, 1, 1, 1, 1, 127, None, None, None, None]),
    ],
)
def test_f8e8m0_is_a_power_of_two(saturate: bool, round_mode: str, expected: list[int | None]) -> None:
    smallest, largest = 2.0**-127, 2.0**127
    x = [
        0,
        smallest / 2,
        smallest,
        smallest * 1.25,
        1,
        1.25,
        1.5,
        1.75,
        2,
        largest,
        largest * 1.5,
        np.inf,
        np.nan,
        -1.0,
    ]
    result = cast(np.array(x, np.float32), F8E8M0, saturate=saturate, round_mode=round_mode)
    assert values(result) == [None if exponent is None else 2.0**exponent for exponent in expected]


def as_array(value: np.ndarray | onnx.TensorProto) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_official_cast_tests_come_out_bit_for_bit() -> None:
    cases = [case for case in load_model_tests(kind="node") if case.name.startswith("test_cast_")]
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        x, expected = (as_array(value) for values in case.data_sets[0] for value in values)
        if object in (x.dtype, expected.dtype):
            continue
        given = {a.name: onnx.helper.get_attribute_value(a) for a in case.model.graph.node[0].attribute}
        attributes = {"saturate": bool(given.get("saturate", 1)), "round_mode": given.get("round_mode", b"up").decode()}
        (result,) = MEANINGS["cast"]([x], {"dtype": expected.dtype, **attributes})
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape), case.name
        assert result.tobytes() == expected.tobytes(), case.name
    assert len(cases) >= 60


@pytest.mark.parametrize(
    ("source", "target"),
    [("f4", "i4"), ("f8", "u8"), ("c8", "i8"), ("f2", "u2"), ("f4", "u4"), ("i1", "u1"), ("c16", "c16"), ("?", "u1")],
)
def test_bitcast_keeps_the_bits_there_and_back(source: str, target: str) -> None:
    x = np.frombuffer(bytes(range(96)), np.uint8).view(source) if source != "?" else np.array([True, False])
    (there,) = MEANINGS["bitcast"]([x], {"dtype": np.dtype(target)})
    (back,) = MEANINGS["bitcast"]([there], {"dtype": np.dtype(source)})
    assert (there.dtype, back.dtype) == (np.dtype(target), x.dtype)
    assert there.tobytes() == back.tobytes() == x.tobytes()
    assert not np.shares_memory(there, x)


def test_bitcast_of_narrow_types_and_odd_shapes() -> None:
    minus_one = np.array(-1, np.int8).astype(ml_dtypes.int4)
    (unsigned,) = MEANINGS["bitcast"]([minus_one], {"dtype": np.dtype(ml_dtypes.uint4)})
    assert (int(unsigned), unsigned.shape) == (15, ())
    (half,) = MEANINGS["bitcast"]([np.array([[0x3F80]], np.uint16)], {"dtype": np.dtype(ml_dtypes.bfloat16)})
    assert (float(half[0, 0]), half.shape) == (1.0, (1, 1))
    (reversed_,) = MEANINGS["bitcast"]([np.arange(3, dtype=np.int32)[::-1]], {"dtype": np.dtype(np.uint32)})
    np.testing.assert_array_equal(reversed_, np.array([2, 1, 0], np.uint32), strict=True)
    (flags,) = MEANINGS["bitcast"]([np.array([0, 1, 2], np.uint8)], {"dtype": np.dtype(np.bool_)})
    np.testing.assert_array_equal(flags, np.array([False, True, True]), strict=True)
