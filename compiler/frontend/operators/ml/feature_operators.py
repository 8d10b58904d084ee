"""The operators of ai.onnx.ml that prepare features: Binarizer, Scaler, Normalizer, Imputer and their like.

Source: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

from math import floor, isnan

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.lookups import positions, texts
from onnxc.compiler.frontend.operator_helpers.precision import integer_bounds
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32, F64, I64, DType
from onnxc.compiler.ir.module import Value

ML = "ai.onnx.ml"


def feature_type(dtype: DType) -> DType:
    """The type in which features are computed: f64 stays, everything else is f32."""
    return F64 if dtype == F64 else F32


@operator("ArrayFeatureExtractor", since=(1,), domain=ML)
def array_feature_extractor(node: Node, ir: Builder) -> Value:
    """X: T[..., C], Y: i64[...] of n elements  ->  T[..., n], those at Y; of a vector T[1, n]

    Negative places count from the end: the standard says nothing, but its reference implementation does so, and
    converters of scikit-learn write them where they multiply by 0.

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html
    """
    x, indices = node.inputs("X", "Y")
    if x.rank == 0:
        node.fail("features-rank", "X has no axis", rule="ONNX ArrayFeatureExtractor, X")
    expect_in_range(indices, x.shape[-1], node, ir)
    flat = ir.reshape(ir.wrap_negative(indices, x.shape[-1]), (product(indices.shape),))
    picked = ir.gather(x, flat, x.rank - 1)
    return ir.unsqueeze(picked, (0,)) if x.rank == 1 else picked


@operator("Binarizer", since=(1,), domain=ML)
def binarizer(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  T[...], 1 above `threshold`, else 0

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html
    """
    x, threshold = node.input("X"), node.float("threshold")
    if x.dtype.is_float:
        return ir.cast(ir.greater(x, threshold), x.dtype)
    # An integer is above a threshold where it is above the integer at or below that.
    least, greatest = integer_bounds(x.dtype)
    if isnan(threshold) or threshold >= greatest:
        return ir.full(x.shape, 0, x.dtype)
    return ir.full(x.shape, 1, x.dtype) if threshold < least else ir.cast(ir.greater(x, floor(threshold)), x.dtype)


@operator("Scaler", since=(1,), domain=ML)
def scaler(node: Node, ir: Builder) -> Value:
    """X: T[..., F]  ->  f32[..., F], (X - offset) * scale

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html
    """
    x = ir.cast(node.input("X"), feature_type(node.input("X").dtype))
    lengths = [len(node.floats(name)) for name in ("offset", "scale")]
    if lengths[0] != lengths[1]:
        message = f"offset has {lengths[0]} values, scale {lengths[1]}"
        node.fail("scaler-lengths", message, rule="ONNX Scaler, attribute scale")
    offset, scale = (_per_feature(name, x, node, ir) for name in ("offset", "scale"))
    return ir.cast(ir.mul(ir.sub(x, offset), scale), F32)


def _per_feature(name: str, x: Value, node: Node, ir: Builder) -> Value:
    """An attribute of one value for all features, or one for each: T[] or T[F]."""
    values = node.floats(name)
    if len(values) == 1:
        return ir.scalar(values[0], x.dtype)
    if x.rank == 0:
        node.fail("scaler-lengths", f"{name} has {len(values)} values, X has no axis", rule=f"ONNX {node.operator}")
    message = f"the features and the values of {name} differ in number"
    ir.require_equal(x.shape[-1], len(values), message, "scaler-lengths")
    return ir.constant(np.array(values).astype(x.dtype.numpy))


@operator("Normalizer", since=(1,), domain=ML)
def normalizer(node: Node, ir: Builder) -> Value:
    """X: T[N, C] or T[C]  ->  f32[...], rows divided by their maximum, sum of magnitudes, or root of the sum of squares

    A row whose divisor is 0 stays.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_Normalizer.html
    """
    given = node.input("X")
    if given.rank not in (1, 2):
        node.fail("features-rank", f"X is {given.type}, of neither rank 1 nor 2", rule="ONNX Normalizer, X")
    x = ir.cast(given, feature_type(given.dtype))
    axes = (min(1, x.rank - 1),)
    match node.choice("norm", ("MAX", "L1", "L2")):
        case "MAX":
            divisor = ir.reduce(x, "max", axes, keepdims=True)
        case "L1":
            divisor = ir.reduce(ir.abs(x), "sum", axes, keepdims=True)
        case _:
            divisor = ir.sqrt(ir.reduce(ir.square(x), "sum", axes, keepdims=True))
    return ir.cast(ir.select(ir.equal(divisor, 0), x, ir.div(x, divisor)), F32)


@operator("Imputer", since=(1,), domain=ML)
def imputer(node: Node, ir: Builder) -> Value:
    """X: T[..., F]  ->  T[..., F], with another value where X is the one to be replaced

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_Imputer.html
    """
    x = node.input("X")
    name = "imputed_value_floats" if x.dtype.is_float else "imputed_value_int64s"
    replaced = node.float("replaced_value_float") if x.dtype.is_float else node.int("replaced_value_int64")
    values: tuple[float, ...] = node.floats(name, ()) if x.dtype.is_float else node.ints(name, ())
    if not values:
        node.fail("imputer-values", f"{name} is not given, and X is {x.dtype}", rule=f"ONNX Imputer, {name}")
    if node.floats("imputed_value_floats", ()) and node.ints("imputed_value_int64s", ()):
        message = "both imputed_value_floats and imputed_value_int64s are given"
        node.fail("imputer-values", message, rule="ONNX Imputer, imputed_value_*")
    if len(values) > 1:
        message = f"the features and the values of {name} differ in number"
        ir.require_equal(x.shape[-1] if x.rank else 1, len(values), message, "imputer-values")
    missing = ir.is_nan(x) if isnan(replaced) else ir.equal(x, replaced)
    imputed = np.array(values).astype(x.dtype.numpy)
    return ir.select(missing, ir.constant(imputed if len(values) > 1 else imputed.reshape(())), x)


@operator("OneHotEncoder", since=(1,), domain=ML)
def one_hot_encoder(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  f32[..., k], 1 at the index of the category that each element is

    Where `zeros` is 0, an element that is no category is an error of the call.
    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_OneHotEncoder.html
    """
    x = node.input("X")
    if node.strings("cats_strings", ()) and node.ints("cats_int64s", ()):
        message = "both cats_strings and cats_int64s are given"
        node.fail("encoder-categories", message, rule="ONNX OneHotEncoder, cats_*")
    if x.dtype.is_string:
        keys = texts(node.strings("cats_strings", ()))
    else:
        x, keys = ir.cast(x, I64), np.array(node.ints("cats_int64s", ()), np.int64)
    if not keys.size:
        node.fail("encoder-categories", f"there are no categories for {x.dtype}", rule="ONNX OneHotEncoder, cats_*")
    category = positions(x, keys, ir)
    if not node.flag("zeros"):
        flat = ir.reshape(category, (product(category.shape),))
        worst = ir.reduce(ir.concatenate([flat, ir.full((1,), 0, I64)], 0), "max", (0,), keepdims=True)
        (last,) = ir.read_sizes(worst, "category")
        ir.guard(keys.size - 1, last, "at_least", "OneHotEncoder: an element is no category")
    hot = ir.equal(ir.unsqueeze(category, (x.rank,)), ir.iota((keys.size,), 0, I64))
    return ir.cast(hot, F32)


@operator("FeatureVectorizer", since=(1,), domain=ML)
def feature_vectorizer(node: Node, ir: Builder) -> Value:
    """X: T[N, Ci] or T[Ci] ...  ->  f32[N, sum of Ci], side by side; `inputdimensions` cuts a Ci, or fills it up with 0

    Source: https://onnx.ai/onnx/operators/onnx_aionnxml_FeatureVectorizer.html
    """
    parts = []
    widths = node.ints("inputdimensions", ())
    if widths and (len(widths) != len(node.variadic()) or min(widths) < 0):
        message = f"inputdimensions is {list(widths)} for {len(node.variadic())} inputs"
        node.fail("feature-widths", message, rule="ONNX FeatureVectorizer, inputdimensions")
    for ordinal, value in enumerate(node.variadic()):
        if value.rank not in (1, 2):
            message = f"input {ordinal} is {value.type}, of neither rank 1 nor 2"
            node.fail("features-rank", message, rule="ONNX FeatureVectorizer, X")
        part = ir.cast(value if value.rank == 2 else ir.unsqueeze(value, (0,)), F32)
        parts.append(_of_width(part, widths[ordinal], ir) if ordinal < len(widths) else part)
    for part in parts[1:]:
        ir.require_equal(part.shape[0], parts[0].shape[0], "the inputs differ in their rows", "feature-rows")
    return ir.concatenate(parts, 1)


def _of_width(x: Value, width: int, ir: Builder) -> Value:
    """f32[N, width]: the first columns, and 0 where there are no more."""
    if x.shape[1] == width:
        return x
    filled = ir.pad(x, (0, 0), (0, width), 0.0)
    return ir.slice_axis(filled, 1, 0, width)
