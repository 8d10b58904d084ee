"""Models that once did harm, each as small as it can be: they are refused, or compiled, or give the same."""

from contextlib import suppress

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import OnnxcError
from tests.frontend.model_texts import model
from tests.fuzz.agree import Subject, expect_agreement
from tests.fuzz.worker import examine

HEADER = '<ir_version: 10, opset_import: ["": 23]>\n'

FOUND = {
    "a sum of nothing": (21, "g (float[2] x) => (float[2] y) { z = Neg(x) y = Sum(LEFT_OUT) }"),
    "a scale without end": (
        21,
        "g (float[1, 1, 4, 4] x) => (y) <float[4] s = {1.0, 1.0, 3e38, 1.0}> { y = Resize(x, , s) }",
    ),
    "statistics in eight bits": (
        23,
        "g (float[2, 5] x, float[5] w) => (y) { y = RMSNormalization<stash_type = 17>(x, w) }",
    ),
    "a window beyond any memory": (
        22,
        'g (float[1,1,8,8] x) => (y) { y = AveragePool<auto_pad = "SAME_LOWER", kernel_shape = [2, 2147483648]>(x) }',
    ),
    "repeats of another rank": (13, "g (float[2, 3] x) => (y) <int64[1] r = {2}> { y = Tile(x, r) }"),
    "a crop of another rank": (18, "g (float[2, 3] x) => (y) <int64[3] s = {1, 1, 1}> { y = CenterCropPad(x, s) }"),
    "a root of a negative scale": (
        23,
        "g (float[1, 1, 2, 4] q) => (y) { y = Attention<scale = -1.0>(q, q, q) }",
    ),
    "a range beyond any memory": (
        21,
        "g (int64[1] n) => (y) <int64 a = {0}, int64 b = {4611686018427387904}, int64 c = {1}> { y = Range(a, b, c) }",
    ),
    "a fill beyond any memory": (
        21,
        "g (float x) => (y) <int64[2] s = {4611686018427387904, 4611686018427387904}> { y = ConstantOfShape(s) }",
    ),
    "lengths that no call has": (
        17,
        "g (float[2, N] x, float[5] b) => (y) <float[4] w = {1, 2, 3, 4}> { y = LayerNormalization(x, w, b) }",
    ),
    "channels for half a group": (
        21,
        "g (float[2, 4, 8] x, float[M, 1, 1] w) => (y) { y = Conv<group = 4>(x, w) }",
    ),
    "a shape that no call has": (
        13,
        "g (float[N, 5] x, float[3, 5] e) => (y) <int64[3] s = {0, 0, 1048576}> { r = Reshape(x, s) y = Add(x, e) }",
    ),
    "a shape of other elements, which another input hides": (
        13,
        """g (float[N, 5, 2] x, float[5] w, int64[3, 2] y) => (z) {
            s = Shape(x) v = Reshape(w, s) z = NegativeLogLikelihoodLoss(v, y)
        }""",
    ),
    "filters without elements that have a zero point": (
        10,
        """g (uint8[1, 3, 0, 7] x, float s, uint8 z, uint8[1, B, 0, 1] w, uint8[B] v) => (y) {
            y = QLinearConv(x, s, z, w, s, v, s, z)
        }""",
    ),
    "skips beyond any row": (
        9,
        """g (int32[2, 6] x) => (y) {
            y = TfIdfVectorizer<
                max_gram_length = 2, max_skip_count = 2147483648, min_gram_length = 2, mode = "TF",
                ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_int64s = [1, 2, 3, 4]
            >(x)
        }""",
    ),
    "sizes without end": (21, "g (float[2, 3, 4] x, int64[1099511627776] s) => (y) { y = Reshape(x, s) }"),
    "fewer features than are turned": (
        23,
        """g (float[2, 4, 3, D] x, float[50, 2] c, int64[2, 3] p) => (y) {
            y = RotaryEmbedding<rotary_embedding_dim = 4>(x, c, c, p)
        }""",
    ),
    "negative sizes in proportion": (
        19,
        """g (float[1, 1, 2, 4] x) => (y) <int64[2] s = {-2147483648, 3}> {
            y = Resize<axes = [2, 3], keep_aspect_ratio_policy = "not_larger", mode = "nearest">(x, , , s)
        }""",
    ),
    "zero points for the filters of a scalar": (
        10,
        "g (uint8[1, 1, 3, 3] x, uint8 z, uint8[2] w) => (y) { y = ConvInteger(x, z, z, w) }",
    ),
    "a scan in batches of an unknown rank": (
        8,
        """g (float[1, 2] s, float[4] v, int64[K] shape) => (y, z) {
            x = Reshape(v, shape)
            y, z = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c, float[2] d) {
                c = Add(a, e)
                d = Identity(c)
            }>(LEFT_OUT, s, x)
        }""",
    ),
    "elements of a loop that shrink": (
        11,
        """g (bool c, float[1] y) => (r, s) <int64 trips = {16}> {
            r, s = Loop<body = b (int64 i, bool k, float[1] v) => (bool l, float[1] w, float[1] e) {
                l = Identity(k)
                x = Constant<value = float[5] {1, 2, 3, 4, 5}>()
                one = Constant<value = int64 {1}>()
                next = Add(i, one)
                first = Unsqueeze<axes = [0]>(i)
                last = Unsqueeze<axes = [0]>(next)
                part = Slice(x, first, last)
                w = Add(v, part)
                e = Identity(w)
            }>(trips, c, y)
        }""",
    ),
    "a transposed convolution whose elements are far apart": (
        22,
        """g (float[1, 1, 3, 3] x) => (y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> {
            y = ConvTranspose<output_shape = [10, 8], strides = [127, 2147483648]>(x, w)
        }""",
    ),
    "a transposed convolution of several channels whose elements are far apart": (
        22,
        """g (float[1, 2, 3, 3] x) => (y) <float[2, 1, 2, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
            y = ConvTranspose<output_shape = [10, 8], strides = [127, 2147483648]>(x, w)
        }""",
    ),
    "a transposed convolution that crops more than there is": (
        22,
        """g (float[1, 1, 3, N] x, float[1, 2, 3, 3] w) => (y) {
            y = ConvTranspose<pads = [1, 1099511627776, 1, 2], strides = [3, 2]>(x, w)
        }""",
    ),
    "an image that no integer counts": (
        18,
        """g (float[1, 5, 15] x, int64[2] b) => (y) <int64[2] s = {16, 9223372036854775807}> {
            y = Col2Im<pads = [0, 1, 0, 1]>(x, s, b)
        }""",
    ),
    "a size times what no integer holds": (
        21,
        """g (float[N, 4] x) => (y) <int64[2] c = {1, 4611686018427387904}, int64 one = {1}> {
            s = Shape(x)
            m = Mul(s, c)
            y = Gather(m, one)
        }""",
    ),
    "a line longer than anybody looks at": (
        21,
        "g (float[1, 4, 8, 1099511627776] x, float[4, 1, 3, 3] w) => (y) { y = Conv<group = 4>(x, w) }",
    ),
    "a transform whose chirp no memory holds": (20, "g (float[1, 2147483647, 1] x) => (y) { y = DFT(x) }"),
    "more parts than memory has room for": (
        24,
        "g (float[8589934592, 2] x) => (y) { y = SplitToSequence<keepdims = 0>(x) }",
    ),
    "a text that is no number": (
        21,
        'g (float x) => (y) { s = Constant<value_strings = ["one"]>() y = Cast<to = 1>(s) }',
    ),
}


@pytest.mark.parametrize(("opset", "text"), FOUND.values(), ids=FOUND)
def test_a_model_that_once_did_harm_does_none(opset: int, text: str) -> None:
    def leave_out(m: object) -> None:
        for node in m.graph.node:  # type: ignore[attr-defined]
            for place, name in enumerate(node.input):
                if name == "LEFT_OUT":
                    node.input[place] = ""

    official = model(text, leave_out, f'<ir_version: 10, opset_import: ["": {opset}]>\n')
    with suppress(OnnxcError):
        assert examine(official.SerializeToString()) is not None


# What both targets answered with values, and not the same.
DIFFERED = {
    "scores of NaN where a mask closes every key": """g (float[1, 1, 2, 4] q) => (y)
        <float[2, 2] m = {-inf, -inf, 0, 0}> { y = Attention(q, q, q, m) }""",
    "scores of NaN that causality hides": "g (float[1, 1, 3, 4] q) => (y) { y = Attention<is_causal = 1>(q, q, q) }",
    "a sequence and what may be absent beside arrays for the outputs": """g (seq(float[N]) s, float[N] x) =>
        (float[M] y, optional(float[N]) o) { o = Optional(x) y = ConcatFromSequence<axis = 0>(s) }""",
    "sums of sizes that wrap": """g (float[N, 4] x) => (y) <int64[2] c = {9223372036854775807, 9223372036854775807}> {
        s = Shape(x)
        y = Add(s, c)
    }""",
    "a counter of elements in two steps, with a count that data decides between them": """g (int64[N] x) => (y)
        <int64 zero = {0}> {
        positive = Greater(x, zero)
        found = NonZero(positive)
        rows = Transpose(found)
        some = GatherND(x, rows)
        same = ScatterND(x, rows, some)
        y = Unique(same)
    }""",
    "a counter of as many elements as data says, in a loop that reads nothing else of outside": """g (int64[N] x) => (y)
        <int64 zero = {0}, int64 one = {1}, int64 two = {2}, bool yes = {1}> {
        positive = Greater(x, zero)
        ones = Cast<to = 7>(positive)
        count = ReduceSum<keepdims = 0>(ones)
        range = Range(zero, count, one)
        y = Loop<body = b (int64 i, bool k) => (bool l, float s) {
            l = Identity(k)
            floats = Cast<to = 1>(range)
            s = ReduceSum<keepdims = 0>(floats)
        }>(two, yes)
    }""",
    "a counter of as many elements as data says, in a loop over a sequence": """g (int64[N] x) => (y)
        <int64 zero = {0}, int64 one = {1}, int64 two = {2}, bool yes = {1}> {
        positive = Greater(x, zero)
        ones = Cast<to = 7>(positive)
        count = ReduceSum<keepdims = 0>(ones)
        range = Range(zero, count, one)
        none = SequenceEmpty<dtype = 7>()
        y = Loop<body = b (int64 i, bool k, seq(int64[]) s) => (bool l, seq(int64[]) t) {
            l = Identity(k)
            next = Add(range, i)
            t = SequenceInsert(s, next)
        }>(two, yes, none)
    }""",
    "a condition alone": """g (int64 n, bool c, float[N] x) => (y) {
        y = Loop<body = b (int64 i, bool k, float[N] s) => (bool l, float[N] t) {
            l = Identity(k)
            t = Cosh(s)
        }>(n, c, x)
    }""",
    "an output that is listed twice": "g (float[N] x) => (float[N] y, float[N] y) { y = Neg(x) }",
    "a scale below 0": "g (float[1, 2, 2, 4] q, float[1, 2, 3, 4] k) => (y) { y = Attention<scale = -1.0>(q, k, k) }",
    "a scale that is infinite": """g (float[1, 2, 2, 4] q, float[1, 2, 3, 4] k) => (y) {
        y = Attention<scale = inf>(q, k, k)
    }""",
    "a scale that is the largest": """g (float[1, 2, 2, 4] q, float[1, 2, 3, 4] k) => (y) {
        y = Attention<scale = 3e38>(q, k, k)
    }""",
    "infinite filters at the padding": """g (float[1, 4, 5, 5] x, float[4, 1, 3, 3] w) => (y) {
        y = Conv<group = 4, pads = [1, 1, 1, 1]>(x, w)
    }""",
    "infinite filters at the padding of a transposed convolution": """g (float[1, 1, 3, 3] x) => (y)
        <float[1, 1, 3, 3] w = {1, 2, inf, -inf, nan, 3, 4, 5, inf}> { y = ConvTranspose<strides = [3, 2]>(x, w) }""",
    "a sequence beside arrays for the outputs": """g (seq(float[N]) s) => (float[M] y) {
        y = ConcatFromSequence<axis = 0>(s)
    }""",
}


@pytest.mark.parametrize("text", DIFFERED.values(), ids=DIFFERED)
def test_targets_that_once_differed_agree(text: str) -> None:
    data = model(text, header=HEADER).SerializeToString()
    for seed in range(8):
        subject = Subject(data, onnxc.compile(data, "interpreter"), onnxc.compile(data), is_drawn=False)
        assert expect_agreement(subject, seed) == 3


# What is left of 20 elements that lose so many on either side: the sums wrap to sizes above 0.
CROPS = [(-(2**63), -20), (-(2**63) + 5, -(2**62)), (-(2**62) - 30, -(2**62)), (-(2**63), -(2**63))]


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("crop", CROPS)
def test_a_size_below_0_is_refused_although_its_sum_wraps_to_one_above(crop: tuple[int, int], target: str) -> None:
    data = model("g (float[20] x, int64[2] p) => (float[k] y) { y = Pad(x, p) }", header=HEADER).SerializeToString()
    exe = onnxc.compile(data, target)
    with pytest.raises(OnnxcError) as refused:
        exe(np.ones(20, np.float32), np.array(crop))
    assert refused.value.code == "sizes-disagree"
    np.testing.assert_array_equal(exe(np.arange(20, dtype=np.float32), np.array([-3, -15])), [3.0, 4.0])


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_from_an_axis_of_which_nothing_is_left_is_refused(mode: str, target: str) -> None:
    text = f'g (float[20] x, int64[2] p) => (float[k] y) {{ y = Pad<mode = "{mode}">(x, p) }}'
    exe = onnxc.compile(model(text, header=HEADER).SerializeToString(), target)
    x = np.arange(20, dtype=np.float32)
    for pads in ((-20, 2), (2, -20), (-5, -15)):
        if max(pads) > 0:
            with pytest.raises(OnnxcError) as refused:
                exe(x, np.array(pads))
            assert refused.value.code == "index-out-of-range"
        else:
            assert exe(x, np.array(pads)).shape == (0,)
    np.testing.assert_array_equal(exe(x, np.array([-19, 2])), [19.0, 19.0, 19.0])
