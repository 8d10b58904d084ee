"""Where engines disagree: who is wrong, and the sentence of the standard that says so.

A row holds for a disagreement only if onnxc gives what the independent computation of the operator gives.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import NodeProto

from tests.differential.case import Case, schemas
from tests.differential.compare import difference
from tests.differential.independent import COMPUTED, Given, Rounded
from tests.differential.kinds import NAMES_TO_NUMBERS

Wrong = Literal["reference", "ort"]


@dataclass(frozen=True)
class Row:
    """One reason why an engine may differ from onnxc on an operator; `versions` are first and last, if not all."""

    wrong: Wrong
    operators: tuple[str, ...]
    reason: str
    versions: tuple[int, int] = (1, 99)


def row(wrong: Wrong, operators: str, reason: str, versions: tuple[int, int] = (1, 99)) -> Row:
    return Row(wrong, tuple(operators.split()), reason, versions)


ROWS: tuple[Row, ...] = (
    row(
        "reference",
        "Add Sub Mul Div Pow And Or Xor Equal Greater Less",
        '"When broadcasting is specified, the second tensor can either be of element size 1 or having its shape as a '
        "contiguous subset of the first tensor's shape\": the shape is that of A; NumPy's rule also widens A.",
        (1, 6),
    ),
    row("reference", "PRelu", "The shape is that of X: slope has one element, or one for each channel.", (1, 6)),
    row("reference", "Selu", '"alpha: Coefficient of SELU default to 1.6732", gamma 1.0507, until version 6.', (1, 1)),
    row(
        "reference",
        "Gelu",
        "y = 0.5 * x * (1 + erf(x / sqrt(2))); computed in 16 bits 1 + erf is 0 where the result is not.",
    ),
    row("reference", "Erf", "erf of an integer is below 1; computed in f32 it rounds to 1 before it is cut off."),
    row("reference", "Sum Mean", "Sums of f16 are rounded at each step; onnxc and ONNX Runtime round once."),
    row(
        "reference",
        "Cast CastLike",
        "\"Casting from string tensor in plain (e.g., '3.14' and '1000') ... representations\": '0' is the number 0, "
        "which is False; and the text of an f16 needs the digits that tell it from its neighbours.",
    ),
    row("ort", "Cast CastLike", "A text that is read again must give the number: 8 digits do not tell doubles apart."),
    row(
        "ort",
        "Clip",
        "The body of the function compares with the bounds that are given; the defaults that the text names would make "
        "an infinity finite, which Identity, its body without bounds, does not.",
        (11, 13),
    ),
    row("ort", "Shrink", "If x < -lambd, y = x + bias; If x > lambd, y = x - bias; f32 does not hold all of int32."),
    row(
        "ort",
        "Dropout",
        '"If the flag is false ... the output mask will contain all ones" (version 12); older texts do not say.',
        (7, 10),
    ),
    row(
        "reference",
        "QuantizeLinear",
        '"y = saturate((x / y_scale) + y_zero_point)": saturate is of the number, not of its int32.',
    ),
    row("ort", "QuantizeLinear", '"y = saturate((x / y_scale) + y_zero_point)": an infinity saturates too.'),
    row(
        "ort",
        "DynamicQuantizeLinear",
        '"y_scale = (maximum(0, max(x)) - minimum(0, min(x))) / (qmax - qmin)" is 0 for zeros alone, by which nothing '
        "can be divided; onnx's reference has a range of 1 there, ONNX Runtime a scale of 1.",
    ),
    row(
        "ort",
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        '"Input tensors of rank zero are valid. Reduction over an empty set of values yields ...": the shape is that '
        "of the axes named, negative ones too; integers wrap; a NaN is no number that others are less than.",
    ),
    row(
        "reference",
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        "Squares of small unsigned integers are summed before they wrap; the logarithm of exp(-inf) is -inf; means of "
        "int64 are not rounded to doubles.",
    ),
    row(
        "reference",
        "Softmax LogSoftmax Hardmax",
        '"The input does not need to explicitly be a 2D vector; rather, it will be coerced into one."',
        (1, 12),
    ),
    row(
        "reference", "GroupNormalization", "Groups of halves are normalised in f32, not rounded at each step.", (18, 20)
    ),
    row("reference", "LpNormalization", "The norm of order 1 is the sum of the absolute values."),
    row(
        "reference",
        "BatchNormalization",
        '"Output case #2: Y (test mode)": Y alone is asked for, and the statistics are the inputs.',
        (1, 9),
    ),
    row(
        "reference",
        "BatchNormalization",
        "Y = (X - input_mean) / sqrt(input_var + epsilon) * scale + B in f64.",
        (14, 15),
    ),
    row(
        "reference",
        "LRN",
        '"region = ... max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))"',
    ),
    row("reference", "GlobalMaxPool", '"applies max pooling across the values in the same channel": all spatial axes.'),
    row("reference", "NegativeLogLikelihoodLoss", "The sum of f16 is rounded once, at its end."),
    row("reference", "Gemm", '"Compute Y = alpha * A * B + beta * C": beta is not dropped without broadcast.', (1, 6)),
    row(
        "reference",
        "MaxPool AveragePool LpPool",
        'Indices: "the dimensions of output tensor are the same as output tensor ... flatten 1-D tensor form", column '
        "major where storage_order says so; before 7 what is padded is no value to average over.",
    ),
    row(
        "reference",
        "ConvTranspose",
        "total_padding[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i] - 1) * "
        "dilations[i] + 1) - output_shape[i], split by auto_pad.",
    ),
    row(
        "ort",
        "ConvTranspose",
        '"SAME_UPPER or SAME_LOWER mean pad the input so that output_shape[i] = input_shape[i] * strides[i]".',
    ),
    row("reference", "DeformConv", "f64 is not computed in f32."),
    row("reference", "GridSample", "f64 is not computed in f32."),
    row(
        "ort",
        "MaxUnpool",
        '"output_shape: ... the indices are those of the tensor that was pooled"; a larger output moves no coordinate.',
    ),
    row("ort", "Mod", "The sign of the remainder is that of the divisor; f64 does not hold all of int64."),
    row(
        "reference",
        "AffineGrid",
        "The centre of a single pixel is 0, as in affine_grid of PyTorch, which the text names.",
    ),
    row("ort", "Col2Im", '"rearranges column blocks back into a multidimensional image" of any number of axes.'),
    row("ort", "AffineGrid", '"If align_corners=1, consider -1 and 1 to refer to the centers of the corner pixels".'),
    row("reference", "Unique", '"axis: The dimension to apply unique": of it alone.'),
    row("ort", "MatMulInteger", "The sum of no products is 0."),
    row(
        "ort",
        "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
        '"The production MUST never overflow. The accumulation may overflow if and only if in 32 bits": without an '
        "instruction for it, products of u8 by i8 are added in pairs of 16 bits, which saturate.",
    ),
    row("ort", "Gemm", "Y = alpha * A' * B' + beta * C: where A has no columns too, C is multiplied by beta."),
    row(
        "ort",
        "Pow",
        "Each element of the first to the power of that of the second: integers are not cut off on the way.",
    ),
    row("reference", "Unsqueeze", '"axes: List of integers indicating the dimensions to be inserted": of the output.'),
    row("ort", "Gather", "entry of axis dimension of data indexed by entries of indices; texts are moved likewise."),
    row("reference", "Shape", '"start axis for slicing ... Negative axes ... then clamped to [0, r]": end as well.'),
    row("reference", "Slice", '"for negative stepping ... clamped to [-1, dims[axes[i]] - 1]"'),
    row("reference", "Pad CenterCropPad", '"By default ... it is 0, empty string or False".'),
    row("reference", "Optional", "The value is what the optional holds, not a list of it."),
    row("reference", "SequenceInsert", '"position: Position in the sequence where the new tensor is inserted".'),
    row(
        "reference",
        "Loop",
        '"scan_outputs: the values produced by the per-iteration outputs are concatenated over all iterations" along a '
        "new first axis; an omitted cond is true.",
    ),
    row("reference", "Scan", "sequence_lens is no state variable: outputs are those of the body.", (8, 8)),
    row(
        "reference",
        "RNN GRU LSTM",
        '"clip: Cell clip threshold", "activations", "sequence_lens" and "input_forget: Couple the input and forget '
        'gates if 1" are parts of the equations.',
    ),
    row("ort", "RNN GRU LSTM", "The equations, with clip applied to the input of the activations."),
    row("reference", "QLinearConv", "The result has the spatial axes of the input, whose number is 1 here."),
    row(
        "reference",
        "QLinearMatMul",
        "y = saturate(round((a - a_zero) * a_scale @ ... / y_scale) + y_zero), rounded once.",
    ),
    row("reference", "Attention", "f16 and bf16 are not rounded between the steps; mode 0 shows what QK gives."),
    row(
        "reference",
        "Resize Upsample",
        '"pytorch_half_pixel: x_original = length_resized > 1 ? (x_resized + 0.5) / scale - 0.5 : 0"; antialias '
        "stretches the filter by max(1, 1 / scale); elements of complex types have two parts.",
    ),
    row("ort", "Resize Upsample", "What lies between two integers is rounded to the nearer one, not cut off."),
    row(
        "reference",
        "RoiAlign",
        'Version 10 has no coordinate_transformation_mode: "output_half_pixel", no pixels are shifted by half.',
    ),
    row(
        "reference",
        "StringSplit",
        '"leading or trailing whitespace is removed in the output": after the last part too.',
    ),
    row(
        "reference",
        "StringNormalizer",
        '"is_case_sensitive: Whether the identification of stop words is case-sensitive".',
    ),
    row(
        "reference",
        "TfIdfVectorizer",
        '"weights: ... the i-th element in weights is the weight of the i-th n-gram in pool".',
    ),
    row("reference", "LinearClassifier", "One score for two classes: the text does not say; as ONNX Runtime."),
    row("reference", "DictVectorizer Scaler", "The result is a matrix of floats, [1, C], or as the input."),
    row("reference", "LinearRegressor", "intercepts are optional: without them nothing is added."),
    row("reference", "Normalizer", '"Max: Y = X / max(X)", and "all norms are computed in floating point".'),
    row(
        "reference",
        "TreeEnsemble TreeEnsembleRegressor TreeEnsembleClassifier",
        '"nodes_missing_value_tracks_true: ... if a value is missing (NaN), use the true or false branch based on the '
        'value in this array"; post_transform is applied; a target that no tree has is 0.',
    ),
    row(
        "ort",
        "TreeEnsemble TreeEnsembleRegressor TreeEnsembleClassifier",
        '"class_ids: The index of the class list that each weight is for": two classes with weights are two scores.',
    ),
)

TYPES_WRONG: dict[str, str] = {
    "reference": "The schema binds the type of the output, and the values are the same.",
    "ort": "The schema binds the type of the output, and the values are the same.",
}


def verdict(case: Case, engine: str, ours: list[object], theirs: list[object], least: float) -> str | None:
    """Why the engine is wrong, if a row says so and the independent computation gives what onnxc gives."""
    if types_alone_differ(case, ours, theirs, least):
        return TYPES_WRONG[engine]
    name, since = case.pair[1], case.pair[2]
    for candidate in ROWS:
        if candidate.wrong == engine and name in candidate.operators:
            low, high = candidate.versions
            if low <= since <= high and disproof(case, ours, least) is None:
                return candidate.reason
    return None


def types_alone_differ(case: Case, ours: list[object], theirs: list[object], least: float) -> bool:
    """Whether both hold the same values, of types that differ, and ours are the declared ones."""
    if len(ours) != len(theirs) or not all(isinstance(value, np.ndarray) for value in [*ours, *theirs]):
        return False
    arrays = [v for v in (*ours, *theirs) if isinstance(v, np.ndarray)]
    if [v.dtype for v in ours] == [v.dtype for v in theirs] or any(v.dtype.kind in "OSU" for v in arrays):
        return False
    with np.errstate(all="ignore"):
        shaped = [t.reshape(o.shape) if t.size == o.size else t for o, t in zip(ours, theirs, strict=True)]
        cast = [t.astype(o.dtype) for o, t in zip(ours, shaped, strict=True)]
        cut = [o.astype(t.dtype) for o, t in zip(ours, shaped, strict=True)]
    same = difference(cast, ours, accumulates=True, least=max(least, 2e-5)) is None
    return same or difference(shaped, cut, accumulates=True, least=max(least, 2e-5)) is None


def given_of(case: Case) -> Given:
    node = case.model.graph.node[0]
    assert isinstance(node, NodeProto)
    values = [getattr(value, "value", value) for value in case.parts.inputs]
    values = [np.asarray(value) if isinstance(value, np.generic) else value for value in values]
    return Given(node, schemas()[case.pair], values, case.parts.captured)


def disproof(case: Case, ours: list[object], least: float) -> str | None:
    """How onnxc differs from the independent computation, or that there is none; None where they agree."""
    compute = COMPUTED.get(case.pair[:2])
    if compute is None:
        return "there is no independent computation"
    with np.errstate(all="ignore"):
        expected = compute(given_of(case))
        names = list(case.model.graph.node[0].output)
        wanted = [value for name, value in zip(names, expected, strict=False) if name]
        if len(wanted) != len(ours):
            return f"{len(wanted)} outputs are computed, not {len(ours)}"
        pairs = [(as_type_of(mine, value), mine) for value, mine in zip(wanted, ours, strict=True) if value is not None]
    return difference([e for e, _ in pairs], [o for _, o in pairs], accumulates=True, least=least)


def as_type_of(ours: object, value: object) -> object:
    """The computed value in the type of what onnxc gives: real results become integers by cutting them off."""
    if isinstance(value, Rounded) and isinstance(ours, np.ndarray) and ours.shape == value.exact.shape:
        return value.settled(ours)
    if not isinstance(ours, np.ndarray) or not isinstance(value, (np.ndarray, np.generic, int, float)):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "f" and ours.dtype.kind in "iu":
        # Beyond the ends of the type is its end; NaN, of which nothing is said, is 0.
        ends = np.iinfo(ours.dtype)
        inside = np.nan_to_num(np.trunc(array.astype(np.longdouble)), nan=0.0)
        return np.array([min(max(int(v), ends.min), ends.max) for v in inside.ravel()], ours.dtype).reshape(array.shape)
    return array if array.dtype == object and ours.dtype == object else widened(array).astype(ours.dtype)


def widened(array: np.ndarray) -> np.ndarray:
    """The types of ml_dtypes convert into types of NumPy, not all into each other."""
    if array.dtype not in NAMES_TO_NUMBERS or array.dtype.type.__module__ == "numpy":
        return array
    return array.astype(np.int64 if "int" in array.dtype.name else np.float64)
