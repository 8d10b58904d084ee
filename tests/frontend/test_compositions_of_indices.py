"""Operators on indices, bits, numbers and regions, said by older ones: they compute what they computed."""

from collections.abc import Mapping

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import ModelError
from tests.support.conversions import assert_same_in, model_of

X = np.linspace(-3, 3, 48, dtype=np.float32).reshape(2, 4, 6)
ODD = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, -0.3, -0.0, 0.0, np.inf, -np.inf, np.nan, 2**23 + 1, -(2**24), 1e-40])
BYTES = np.array([0, 1, 7, 128, 200, 255], np.uint8)
SIGNED = np.array([0, 1, -1, 127, -128, 85], np.int8)
LARGE = np.array([0, 1, -1, 2**63 - 1, -(2**63), 12345678901], np.int64)
HUGE = np.array([0, 1, 2**64 - 1, 2**63, 2**32, 99], np.uint64)
SHIFTS = np.array([0, 1, 7, 63, 64, 2**64 - 1], np.uint64)
ROWS_OF_X = np.array([[[0, 3, -1, 2, 0, -4]], [[1, 1, 1, -2, 3, 0]]])
PAIRS = np.array([[0, 3], [-1, -4], [1, 0]])
EMPTY = np.zeros((0, 3), np.float32)
NONE: Mapping[str, np.ndarray] = {}
AXIS = {"k": np.array(1)}

# version, node, target, inputs, constants
ROWS = (
    *((18, f"{name} (a, b)", 9, [x, np.roll(x, 2)], NONE)
      for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for x in (BYTES, SIGNED, LARGE, HUGE)),
    (18, "BitwiseAnd (a, b)", 17, [LARGE.reshape(6, 1), LARGE[:0].reshape(1, 0)], NONE),
    *((18, "BitwiseNot (a)", 7, [x], NONE) for x in (BYTES, SIGNED, LARGE, HUGE, LARGE[0])),
    *((11, f'BitShift <direction = "{way}"> (a, b)', 10, [x, y], NONE)
      for way in ("LEFT", "RIGHT") for x, y in ((HUGE, SHIFTS), (BYTES, np.uint8([0, 1, 7, 8, 9, 255])))),
    (26, "BitCast <to = 2> (a)", 25, [SIGNED], NONE),
    (26, "BitCast <to = 13> (a)", 22, [LARGE], NONE),
    (26, "BitCast <to = 1> (a)", 25, [ODD], NONE),
    (11, "Round (a)", 9, [ODD], NONE),
    (22, "Round (a)", 10, [ODD[:11].astype(np.float16)], NONE),
    (11, "Round (a)", 10, [ODD.astype(np.float64)], NONE),
    (10, "IsInf (a)", 8, [ODD], NONE),
    (10, "IsInf <detect_negative = 0> (a)", 9, [ODD.astype(np.float64)], NONE),
    (10, "IsInf <detect_negative = 0, detect_positive = 0> (a)", 9, [ODD], NONE),
    (9, "IsNaN (a)", 7, [ODD], NONE),
    (11, "Equal (a, b)", 9, [ODD, np.where(np.arange(14) % 3, ODD, np.roll(ODD, 1))], NONE),
    *((13, f"Mod <fmod = {fmod}> (a, b)", 9, [LARGE[:, None], np.int64([3, -3, 1, -(2**63)])], NONE)
      for fmod in (0, 1)),
    (10, "Mod (a, b)", 9, [BYTES, np.uint8([3, 1, 2, 255, 7, 9])], NONE),
    (28, "Mod (a, b)", 27, [np.float32([5.5, -5.5, 5.5, -5.5, 0, 6]), np.float32([3, 3, -3, -3, 3, -3])], NONE),
    *((11, "Range (a, b, c)", 9, [np.array(v, t) for v in args], NONE)
      for t in (np.int64, np.int32, np.float32, np.float64)
      for args in ((0, 7, 2), (3, -4, -3), (5, 5, 1), (5, 0, 1))),
    (11, "Range (a, b, c)", 10, [np.array(v, np.float32) for v in (0, 1, 0.3)], NONE),
    (12, "GatherElements <axis = 1> (a, b)", 9, [X, ROWS_OF_X], NONE),
    (11, "GatherElements (a, b)", 10, [X[0, 0], np.int32([-1, 0])], NONE),
    (11, "GatherElements (a, b)", 10, [X[0], np.zeros((0, 2), np.int64)], NONE),
    (12, "GatherND (a, b)", 9, [X, PAIRS], NONE),
    (12, "GatherND <batch_dims = 1> (a, b)", 10, [X, np.int64([[[3, -1]], [[0, 2]]])], NONE),
    (12, "GatherND <batch_dims = 1> (a, b)", 11, [X, np.int64([[3], [-4]])], NONE),
    (24, "TensorScatter (a, b, c)", 23, [X, X[:, :2] * 2, np.int64([2, 0])], NONE),
    (24, 'TensorScatter <mode = "circular", axis = 1> (a, b, c)', 13, [X, X[:, :3] * 2, np.int64([3, 7])], NONE),
    (24, "TensorScatter <axis = -1> (a, b)", 18, [X, X[:, :, :0]], NONE),
    (11, "OneHot (a, d, c)", 9, [np.int64([[0, 2, -1], [-3, 3, -4]]), np.float32([5, 7])], {"d": np.array(3)}),
    (11, "OneHot <axis = 0> (a, d, c)", 7, [np.uint8([0, 2, 3]), np.int64([5, 7])], {"d": np.int64([3])}),
    (11, "OneHot (a, d, c)", 10, [np.float32([0, 2, -1, 9]), np.array([True, False])], {"d": np.float32([3])}),
    (10, "ReverseSequence (a, b)", 9, [X.reshape(4, 2, 6), np.int64([4, 2])], NONE),
    (10, "ReverseSequence <time_axis = 1, batch_axis = 0> (a, b)", 9, [X, np.int64([0, 3])], NONE),
    (9, "EyeLike <k = 1> (a)", 8, [X[0]], NONE),
    (9, "EyeLike <k = -9, dtype = 7> (a)", 8, [EMPTY], NONE),
    (18, "CenterCropPad (a, b)", 11, [X, np.int64([3, 1, 7])], NONE),
    (18, "CenterCropPad <axes = [-1, 1]> (a, b)", 13, [X, np.int32([3, 7])], NONE),
    (18, "CenterCropPad <axes = [0]> (a, b)", 17, [EMPTY, np.int64([3])], NONE),
    (18, "CenterCropPad (a, b)", 17, [X, np.int64([0, 4, 6])], NONE),
    (19, 'Pad <mode = "wrap"> (a, p)', 13, [X], {"p": np.int64([0, 5, 1, 0, 0, 13])}),
    (19, 'Pad <mode = "wrap"> (a, p, , k)', 10, [X], {"p": np.int64([1, 2]), "k": np.int64([-1])}),
    (18, "Pad (a, p, , k)", 9, [X], {"p": np.int64([1, 0, 2, 3]), "k": np.int64([-1, 0])}),
    (18, "Pad (a, b, , k)", 12, [X, np.int64([1, 0, 2, 3])], {"k": np.int64([2, 0])}),
    (11, "CumSum (a, k)", 9, [X], AXIS),
    (14, "CumSum <exclusive = 1, reverse = 1> (a, k)", 10, [X], {"k": np.int32([-1])}),
    (14, "CumSum (a, b)", 10, [X, np.array(-2, np.int32)], NONE),
    (11, "CumSum (a, k)", 10, [np.float32([[-0.0, -0.0], [np.inf, -np.inf], [np.inf, 1]])], {"k": np.array(0)}),
    (11, "CumSum (a, k)", 10, [LARGE], {"k": np.array(0)}),
    (26, "CumProd <reverse = 1> (a, k)", 14, [X], AXIS),
    (26, "CumProd <exclusive = 1> (a, b)", 25, [X, np.array(2)], NONE),
    (26, "CumProd (a, b)", 25, [EMPTY, np.array(0)], NONE),
    (14, "Trilu <upper = 0> (a, b)", 11, [X, np.array(1)], NONE),
    (14, "Trilu (a)", 13, [EMPTY], NONE),
    (18, "Col2Im <pads = [0, 1, 0, 1]> (a, s, t)", 13,
     [np.arange(72, dtype=np.float32).reshape(1, 4, 18)], {"s": np.int64([3, 5]), "t": np.int64([1, 2])}),
    (18, "Col2Im <strides = [2], dilations = [2]> (a, s, t)", 9,
     [np.float32([[[1, np.inf], [3, 4]]])], {"s": np.int64([6]), "t": np.int64([2])}),
    *((28, f'BitShift <direction = "{way}"> (a, b)', 10, [x, np.roll(abs(x % 9), 1)], NONE)
      for way in ("LEFT", "RIGHT") for x in (SIGNED, LARGE, LARGE.astype(np.int32))),
    *((13, f"{name} <select_last_index = 1, axis = -1, keepdims = {keeps}> (a)", 7, [np.round(X)], NONE)
      for name in ("ArgMax", "ArgMin") for keeps in (0, 1)),
    (13, "ArgMax <select_last_index = 1, keepdims = 0> (a)", 11, [np.float32([1, np.nan, np.nan, 2])], NONE),
    (13, "Clip (a, b, c)", 10, [ODD, np.float32(-1).reshape(()), np.float32(2).reshape(())], NONE),
    (13, "Clip (a, , b)", 9, [LARGE, np.array(5)], NONE),
    (13, "Clip (a, b, c)", 11, [BYTES, np.array(9, np.uint8), np.array(3, np.uint8)], NONE),
    (11, "ScatterND (a, b, c)", 9, [X, PAIRS, X[0, :3] * 2], NONE),
    (13, "ScatterND (a, b, c)", 10, [X, np.zeros((0, 2), np.int64), X[:0, 0]], NONE),
    (11, "ScatterND (a, b, c)", 9, [np.zeros((2, 0, 3), np.float32), np.zeros((0, 2), np.int64), EMPTY], NONE),
    (10, "ReverseSequence (a, b)", 9, [np.zeros((3, 2, 4, 0), np.float32), np.int64([1, 2])], NONE),
    (14, "Reshape <allowzero = 1> (a, s)", 9, [X], {"s": np.int64([-1, 8])}),
    (18, "Resize <axes = [2]> (a, , s)", 13, [X], {"s": np.float32([1.7])}),
    (18, "Resize <axes = [-1, 1], mode = \"linear\"> (a, , , s)", 13, [X], {"s": np.int64([3, 5])}),
    (18, 'Resize <axes = [1], mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (a, r, s)', 17,
     [X], {"s": np.float32([2]), "r": np.float32([0.2, 0.7])}),
    (22, "Bernoulli <seed = 3.0> (a)", 7, [np.abs(X) / 3], NONE),
    (15, "Bernoulli <seed = 3.0, dtype = 9> (a)", 14, [np.float64([0, 1, 0.5])], NONE),
)  # fmt: skip
IDS = [f"{row[1]} {row[3][0].dtype} {index}" for index, row in enumerate(ROWS)]

NEEDS_SIZES = {("EyeLike", 8), ("GatherND", 9), ("GatherND", 10), ("ScatterND", 9), ("ScatterND", 10)}
"""Operators whose composition depends on a size, in these versions."""


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_it_computes_the_same_in_an_older_version(row: tuple) -> None:  # type: ignore[type-arg]
    version, node, target, inputs, constants = row
    assert_same_in(target, model_of(version, node, inputs, constants), inputs)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_it_computes_the_same_where_calls_tell_the_sizes(row: tuple) -> None:  # type: ignore[type-arg]
    version, node, target, inputs, constants = row
    model = model_of(version, node, inputs, constants, known=())
    if (node.split()[0], target) in NEEDS_SIZES:
        with pytest.raises(ModelError, match=r"(are|is) not known"):
            onnxc.convert_version(model, target)
        return
    assert_same_in(max(target, 9), model, inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
def test_where_and_expand_of_known_sizes_are_older_gathers_and_tiles(dtype: type) -> None:
    condition, x, y = np.array([[True], [False]]), np.array([0, 1, 1], dtype), np.array([[1], [0]], dtype)
    for inputs in (
        [condition, x, y],
        [np.array(True), x[:1], y[:, :0]],
        [np.array(each) for each in (True, x[0], y[0, 0])],
    ):
        assert_same_in(7, model_of(9, "Where (a, b, c)", inputs), inputs)
    for given, sizes in ((x, [3]), (x, [4, 1, 3]), (x, []), (y, [5]), (y, [0, 1, 3]), (y[:1], [0, 1]), (x[0], [2])):
        model = model_of(8, "Expand (a, s)", [np.asarray(given)], {"s": np.array(sizes, np.int64)})
        assert_same_in(7, model, [np.asarray(given)])
    assert_same_in(7, model_of(8, "Expand (a, b)", [y[:1], np.int64([2, 2, 3])]), [y[:1], np.int64([2, 2, 3])])


@pytest.mark.parametrize(
    ("version", "node", "target", "inputs", "message"),
    [
        (26, "BitCast <to = 6> (a)", 25, [X], "only integers keep their bits in a cast, and these are f32 and i32"),
        (13, "Mod <fmod = 1> (a, a)", 9, [X], "the rest of floats is none of their rounded quotient"),
        (18, "Col2Im (a, b, b)", 17, [X[:, :, :5], np.int64([2, 2])], "its input b is not constant"),
        (19, 'Pad <mode = "wrap"> (a, b)', 18, [X[0, 0], np.int64([1, 1])], "its input b is not constant"),
        (19, 'Pad <mode = "wrap"> (a, k)', 18, [X[0, 0]], "it cuts off elements"),
        (11, "OneHot (a, b, c)", 8, [np.uint8([1]), np.int64([2]), X[0, 0, :2]], "its input b is not constant"),
    ],
)
def test_what_has_no_older_words_tells_why(
    version: int, node: str, target: int, inputs: list[np.ndarray], message: str
) -> None:
    model = model_of(version, node, inputs, {"k": np.int64([1, -1])} if "k)" in node else NONE)
    with pytest.raises(ModelError, match="opset-conversion") as caught:
        onnxc.convert_version(model, target)
    assert message in str(caught.value)
