"""Operators that are new in a version, as what its text says they are: compositions of those before.

Each leaves the node as the last operator of its composition, in the version before the one that the table names.
"""

import sys
from collections.abc import Mapping, Sequence
from math import pi, sqrt

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.composed_arithmetic import bernoulli, is_inf, is_nan, mod, range_, round_
from onnxc.compiler.frontend.versions.composed_attention import attention, rotary_embedding
from onnxc.compiler.frontend.versions.composed_bits import bit_cast, bit_shift, bitwise, bitwise_not
from onnxc.compiler.frontend.versions.composed_choices import expand_8, where_9
from onnxc.compiler.frontend.versions.composed_einsum import einsum
from onnxc.compiler.frontend.versions.composed_fourier import dft, mel_weight_matrix, stft
from onnxc.compiler.frontend.versions.composed_indexing import (
    eye_like,
    gather_elements,
    gather_nd,
    one_hot,
    reverse_sequence,
    scatter_nd,
    tensor_scatter,
)
from onnxc.compiler.frontend.versions.composed_linear_attention import linear_attention
from onnxc.compiler.frontend.versions.composed_losses import negative_log_likelihood_loss, softmax_cross_entropy_loss
from onnxc.compiler.frontend.versions.composed_quantization import (
    conv_integer,
    dequantize_linear,
    dynamic_quantize_linear,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
    quantize_linear,
)
from onnxc.compiler.frontend.versions.composed_regions import center_crop_pad, col2im
from onnxc.compiler.frontend.versions.composed_running import running, sequence_map
from onnxc.compiler.frontend.versions.composed_sampling import affine_grid, grid_sample
from onnxc.compiler.frontend.versions.composed_windows import blackman_window, hamming_window, hann_window
from onnxc.compiler.frontend.versions.sizes import along, positions, size_of
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["COMPOSITIONS", "group_normalization"]

FARTHEST = sys.maxsize
"""As the end of a slice: all that there is."""

MEAN_VARIANCE_EPSILON = 1e-9


# Activations


def _gelu(change: Change) -> None:
    """x (1 + erf(x / √2)) / 2, or its approximation by tanh"""
    at, x = Steps(change), change.input(0)
    if change.text("approximate") == "tanh":
        cube = at("Mul", at("Mul", x, x), x)
        bent = at("Add", x, at("Mul", cube, at.scalar(0.044715)))
        curve = at("Tanh", at("Mul", bent, at.scalar(sqrt(2 / pi))))
    else:
        curve = at("Erf", at("Div", x, at.scalar(sqrt(2))))
    at.become("Mul", at("Mul", x, at.scalar(0.5)), at("Add", curve, at.scalar(1)))


def _mish(change: Change) -> None:
    """x tanh(ln(1 + e^x))"""
    at, x = Steps(change), change.input(0)
    at.become("Mul", x, at("Tanh", at("Softplus", x)))


def _hard_swish(change: Change) -> None:
    """x max(0, min(1, x / 6 + 1 / 2))"""
    at, x = Steps(change), change.input(0)
    at.become("Mul", x, at("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _swish(change: Change) -> None:
    """x σ(α x)"""
    at, x = Steps(change), change.input(0)
    at.become("Mul", x, at("Sigmoid", at("Mul", x, at.scalar(change.real("alpha", 1.0)))))


def _swiglu(change: Change) -> None:
    """a σ(α a) b"""
    at, gate = Steps(change), change.input(0)
    bent = at("Sigmoid", at("Mul", gate, at.scalar(change.real("alpha", 1.0))))
    at.become("Mul", at("Mul", gate, bent), change.input(1))


def _celu(change: Change) -> None:
    """α elu(x / α)"""
    at, alpha = Steps(change), change.real("alpha", 1.0)
    curve = at("Elu", at("Div", change.input(0), at.scalar(alpha)), alpha=1.0)
    at.become("Mul", curve, at.scalar(alpha))


def _thresholded_relu(change: Change) -> None:
    """x where it is above α, else 0"""
    at, x = Steps(change), change.input(0)
    above = at("Greater", x, at.scalar(change.real("alpha", 1.0)))
    at.become("Where", above, x, at.scalar(0))


# Normalisations


def _standardized(at: Steps, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str, str]:
    """(x - mean) / √(variance + ε), the mean, and the divisor; in the type of x, which is known to be a float."""
    mean = at.over("ReduceMean", x, axes, keepdims=1)
    centred = at("Sub", x, mean)
    variance = at.over("ReduceMean", at("Mul", centred, centred), axes, keepdims=1)
    divisor = at("Sqrt", at("Add", variance, _of_type(at, epsilon, x)))
    return at("Div", centred, divisor), mean, divisor


def _of_type(at: Steps, value: float, x: str) -> str:
    """A constant of the element type of any value."""
    element = at.change.values.types[x].tensor_type.elem_type
    wide = at.change.tensor(np.array(value, np.float32), "constant")
    return at.cast(wide, element)


def _stashed(at: Steps) -> str:
    """The first input in the type in which its moments are computed."""
    if not at.change.element(0):
        at.change.fail("the type of its input is not known")
    return at.cast(at.change.input(0), at.change.integer("stash_type", TensorProto.FLOAT))


def _trailing(change: Change) -> list[int]:
    """The axes from `axis` on, counted as that is."""
    axis = change.integer("axis", -1)
    return [*range(axis, 0)] if axis < 0 else [*range(axis, change.rank(0))]


def _layer_normalization(change: Change) -> None:
    at, element = Steps(change), change.element(0)
    x = _stashed(at)
    normal, mean, divisor = _standardized(at, x, _trailing(change), change.real("epsilon", 1e-5))
    at.give(1, mean)
    if change.uses_output(2):
        at.give(2, at("Reciprocal", divisor))
    normal = at.cast(normal, element)
    scale, bias = change.input(1), change.input(2)
    if bias:
        at.become("Add", at("Mul", normal, scale), bias)
    else:
        at.become("Mul", normal, scale)


def _rms_normalization(change: Change) -> None:
    """x / √(mean of x² + ε) scale"""
    at = Steps(change)
    x, epsilon = _stashed(at), change.real("epsilon", 1e-5)
    squares = at.over("ReduceMean", at("Mul", x, x), _trailing(change), keepdims=1)
    normal = at("Div", x, at("Sqrt", at("Add", squares, _of_type(at, epsilon, x))))
    if not change.element(1):
        change.fail("the type of its scale is not known")
    at.become("Mul", at.cast(normal, change.element(1)), change.input(1))


def group_normalization(change: Change) -> None:
    """Each group of channels standardized; a scale and a bias for each channel, before opset 21 for each group."""
    at, element, rank = Steps(change), change.element(0), change.rank(0)
    grouped = at("Reshape", _stashed(at), at.integers(0, change.integer("num_groups"), -1))
    at.declare(grouped, change.integer("stash_type", TensorProto.FLOAT), ("", change.integer("num_groups"), ""))
    normal, _, _ = _standardized(at, grouped, [2], change.real("epsilon", 1e-5))
    normal, shape = at.cast(normal, element), at("Shape", change.input(0))
    if change.before.since_version >= 21:
        normal = at("Reshape", normal, shape)
    is_whole = change.before.since_version < 21
    axes = [1] if is_whole else [*range(1, rank - 1)]
    scale, bias = (
        at.over("Unsqueeze", change.input(position), axes) if axes else change.input(position) for position in (1, 2)
    )
    scaled = at("Mul", normal, scale)
    if is_whole:
        at.become("Reshape", at("Add", scaled, bias), shape)
    else:
        at.become("Add", scaled, bias)


def _mean_variance_normalization(change: Change) -> None:
    """(x - mean) / (√variance + 1e-9)"""
    at, x = Steps(change), change.input(0)
    axes = change.integers("axes") or ()
    centred = at("Sub", x, at.over("ReduceMean", x, axes, keepdims=1))
    variance = at.over("ReduceMean", at("Mul", centred, centred), axes, keepdims=1)
    at.become("Div", centred, at("Add", at("Sqrt", variance), at.scalar(MEAN_VARIANCE_EPSILON)))


# What moves elements


def _cast_like(change: Change) -> None:
    """The type of the second input, which must be known."""
    element = change.element(1)
    if not element:
        change.fail(f"the type of its input {change.input(1)} is not known")
    Steps(change).become("Cast", change.input(0), to=element)


def _trilu(change: Change) -> None:
    """The triangle of a matrix, chosen by the distance to the main diagonal; a constant where all is known."""
    at, x = Steps(change), change.input(0)
    if change.rank(0) < 2:
        change.fail("its input is no matrix")
    rows, columns = (change.shape(x) or ())[-2:]
    is_upper, k = bool(change.integer("upper", 1)), change.input(1)
    if (not k or k in change.values.constants) and at.takes_triangle(rows, columns):
        below = at.triangle(rows, columns, int(change.scalar(1) or 0) - is_upper)
        at.become("Where", below, *((at.scalar(0), x) if is_upper else (x, at.scalar(0))))
        return
    row, column = along(at, positions(at, size_of(at, x, -2)), 0, 2), positions(at, size_of(at, x, -1))
    distance = at("Sub", column, row)
    diagonal = at("Reshape", k, at.integers()) if k else at.constant(0, np.int64)
    is_zero = at("Less", distance, diagonal) if is_upper else at("Less", diagonal, distance)
    at.become("Where", is_zero, at.scalar(0), x)


def _constant_of_shape(change: Change) -> None:
    """One element, expanded."""
    attribute, value = change.find("value"), TensorProto(data_type=TensorProto.FLOAT, float_data=[0.0])
    if attribute is not None:
        value.CopyFrom(attribute.t)
    del value.dims[:]
    Steps(change).become("Expand", change.constant_of(value, "element"), change.input(0))


def _causal_conv_with_state(change: Change) -> None:
    """A convolution of each channel, padded in front by the state or zeros."""
    at, kernel = Steps(change), change.shape(change.input(1))
    channels, _, taps = kernel if kernel is not None and len(kernel) == 3 else ("", "", "")
    if not isinstance(channels, int) or not isinstance(taps, int):
        change.fail("the sizes of its weight are not known")
    x, past = change.input(0), change.input(3)
    padded = at("Concat", past, x, axis=2) if past else at("Pad", x, at.integers(0, 0, taps - 1, 0, 0, 0))
    start, end = (1 - taps, FARTHEST) if taps > 1 else (0, 0)
    if change.uses_output(1):
        at.give(1, at("Slice", padded, at.integers(start), at.integers(end), at.integers(2)))
    operands = [name for name in (padded, change.input(1), change.input(2)) if name]
    if change.text("activation") == "none":
        at.become("Conv", *operands, group=channels)
        return
    y = at("Conv", *operands, group=channels)
    at.become("Mul", y, at("Sigmoid", y))


COMPOSITIONS: Mapping[tuple[str, int], Adapter] = {
    ("AffineGrid", 20): affine_grid,
    ("Attention", 23): attention,
    ("Bernoulli", 15): bernoulli,
    ("BitCast", 26): bit_cast,
    ("BitShift", 11): bit_shift,
    ("BitwiseAnd", 18): bitwise("And"),
    ("BitwiseNot", 18): bitwise_not,
    ("BitwiseOr", 18): bitwise("Or"),
    ("BitwiseXor", 18): bitwise("Xor"),
    ("BlackmanWindow", 17): blackman_window,
    ("CastLike", 15): _cast_like,
    ("CausalConvWithState", 27): _causal_conv_with_state,
    ("Celu", 12): _celu,
    ("CenterCropPad", 18): center_crop_pad,
    ("Col2Im", 18): col2im,
    ("ConstantOfShape", 9): _constant_of_shape,
    ("ConvInteger", 10): conv_integer,
    ("CumProd", 26): running("Mul"),
    ("CumSum", 11): running("Add"),
    ("DFT", 17): dft,
    ("DequantizeLinear", 10): dequantize_linear,
    ("DynamicQuantizeLinear", 11): dynamic_quantize_linear,
    ("Einsum", 12): einsum,
    ("Expand", 8): expand_8,
    ("EyeLike", 9): eye_like,
    ("GatherElements", 11): gather_elements,
    ("GatherND", 11): gather_nd,
    ("Gelu", 20): _gelu,
    ("GridSample", 16): grid_sample,
    ("GroupNormalization", 18): group_normalization,
    ("HammingWindow", 17): hamming_window,
    ("HannWindow", 17): hann_window,
    ("HardSwish", 14): _hard_swish,
    ("IsInf", 10): is_inf,
    ("IsNaN", 9): is_nan,
    ("LayerNormalization", 17): _layer_normalization,
    ("LinearAttention", 27): linear_attention,
    ("MatMulInteger", 10): matmul_integer,
    ("MeanVarianceNormalization", 9): _mean_variance_normalization,
    ("MelWeightMatrix", 17): mel_weight_matrix,
    ("Mish", 18): _mish,
    ("Mod", 10): mod,
    ("NegativeLogLikelihoodLoss", 12): negative_log_likelihood_loss,
    ("OneHot", 9): one_hot,
    ("QLinearConv", 10): qlinear_conv,
    ("QLinearMatMul", 10): qlinear_matmul,
    ("QuantizeLinear", 10): quantize_linear,
    ("RMSNormalization", 23): _rms_normalization,
    ("Range", 11): range_,
    ("ReverseSequence", 10): reverse_sequence,
    ("RotaryEmbedding", 23): rotary_embedding,
    ("Round", 11): round_,
    ("STFT", 17): stft,
    ("ScatterND", 11): scatter_nd,
    ("SequenceMap", 17): sequence_map,
    ("SoftmaxCrossEntropyLoss", 12): softmax_cross_entropy_loss,
    ("SwiGLU", 28): _swiglu,
    ("Swish", 24): _swish,
    ("TensorScatter", 24): tensor_scatter,
    ("ThresholdedRelu", 10): _thresholded_relu,
    ("Trilu", 14): _trilu,
    ("Where", 9): where_9,
}
