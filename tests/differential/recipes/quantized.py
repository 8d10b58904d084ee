"""Quantization, casts, and what gives values another type."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, integer_range
from tests.differential.kinds import NAMES, NAMES_TO_NUMBERS, tensor_kind
from tests.differential.recipes.registry import recipe

NUMERALS = ("1", "-2", "3.5", "0", "1e3", "-0.25", "42", "7")


def castable(d: Draw, constraint: str, target: np.dtype) -> np.ndarray:
    """Values that the standard lets be cast to `target`."""
    dtype = d.dtype(constraint)
    shape = d.shape(0, 3)
    if dtype.kind == "O":
        texts = NUMERALS + (("NaN", "INF", "-INF") if target.kind == "f" else ())
        if "int" in target.name or target.kind == "b":
            texts = ("1", "-2" if not target.name.startswith("u") else "2", "0", "3")
        return np.asarray(np.array(texts, object)[d.rng.integers(len(texts), size=shape)], object).reshape(shape)
    low, high = -10.0, 10.0
    if "int" in target.name and "int" not in dtype.name:
        low, high = (float(v) for v in integer_range(target))
        low, high = max(low, -100), min(high, 100)
    is_open = target.kind in "fbV" or "float" in target.name
    return d.tensor(dtype, shape, low, high, special=0.4 if is_open or "int" in dtype.name else 0)


@recipe("Cast")
def cast(d: Draw) -> Parts:
    target = d.dtype("T2")
    to: object = NAMES_TO_NUMBERS[target]
    if d.since == 1:
        to = NAMES[target].upper()
    x = castable(d, "T1", target)
    if "e8m0" in target.name and x.dtype != object:
        # "Casting negative values to FLOAT8E8M0 gives undefined behavior", and 0 depends on both attributes.
        x = np.where(np.isnan(x.astype(np.float64)) | (x.astype(np.float64) <= 0), np.ones_like(x), x).astype(x.dtype)
    named = {"to": to} | d.attributes(saturate=d.int(0, 1), round_mode=d.pick(["up", "down", "nearest"]))
    if "e8m0" not in target.name:
        named.pop("round_mode", None)
    if "float8" not in target.name:
        named.pop("saturate", None)
    return Parts([x], named)


@recipe("CastLike")
def cast_like(d: Draw) -> Parts:
    target = d.dtype("T2")
    x = castable(d, "T1", target)
    if "e8m0" in target.name and x.dtype != object:
        x = np.where(np.isnan(x.astype(np.float64)) | (x.astype(np.float64) <= 0), np.ones_like(x), x).astype(x.dtype)
    named = d.attributes(saturate=d.int(0, 1)) if "float8" in target.name else {}
    return Parts([x, d.tensor("T2", d.shape(0, 2))], named)


def scale_shape(d: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, object]]:
    """The shape of a scale, for the whole tensor, an axis or blocks, and the attributes that say so."""
    if d.since < 13 or not shape or d.flag(0.4):
        return (), {}
    axis = d.int(-len(shape), len(shape) - 1)
    named: dict[str, object] = {} if axis in (1, 1 - len(shape)) and d.flag() else {"axis": axis}
    if d.has("block_size") and d.flag(0.4):
        block = d.int(1, shape[axis])
        sizes = list(shape)
        sizes[axis] = -(-shape[axis] // block)
        return tuple(sizes), named | {"block_size": block, "axis": axis}
    return (shape[axis],), named


@recipe("QuantizeLinear")
def quantize_linear(d: Draw) -> Parts:
    shape = d.shape(0, 3, empty=False)
    sizes, named = scale_shape(d, shape)
    scales = "T2" if "T2" in d.types and d.since >= 23 else "T1" if d.since >= 19 else "float"
    target = d.types[d.schema.outputs[0].type_str]
    scale_type = d.dtype(scales)
    scale = d.tensor(scale_type, sizes, 1 if "int" in scale_type.name else 0.25, 4)
    if scale_type.name == "float8_e8m0fnu":
        scale = np.exp2(d.tensor("int8", sizes, -2, 2).astype(np.float32)).astype(scale_type)
    x = d.tensor("T1", shape, -50, 50, special=0.2)
    if x.dtype.kind != "i":
        # What a NaN is as an integer is not said.
        x = np.where(np.isnan(x), np.zeros_like(x), x)
    is_default = d.schema.inputs[2].type_str
    named |= d.attributes(saturate=d.int(0, 1)) if "float8" in target else {}
    if d.has("output_dtype") and d.flag(0.3):
        named["output_dtype"] = NAMES_TO_NUMBERS[d.dtype(is_default)]
        return Parts([x, Parameter(scale)], named)
    if d.flag(0.2):
        return Parts(
            [x, Parameter(scale)], {k: v for k, v in named.items() if k != "saturate"}, kinds={0: "tensor(uint8)"}
        )
    zero = d.tensor(is_default, sizes, -5, 9) if "int" in target else np.zeros(sizes, d.dtype(is_default))
    return Parts([x, Parameter(scale), Parameter(zero)], named)


@recipe("DequantizeLinear")
def dequantize_linear(d: Draw) -> Parts:
    shape = d.shape(0, 3, empty=False)
    sizes, named = scale_shape(d, shape)
    constraint = d.schema.inputs[0].type_str
    x = d.tensor(constraint, shape, -128, 200)
    scales = d.schema.inputs[1].type_str
    scale_type = d.dtype(scales) if scales in d.types else np.dtype(np.float32)
    scale = d.tensor(scale_type, sizes, 0.25, 4)
    if scale_type.name == "float8_e8m0fnu":
        scale = np.exp2(d.tensor("int8", sizes, -2, 2).astype(np.float32)).astype(scale_type)
        named["output_dtype"] = 1
    zero = d.tensor(constraint, sizes, -5, 9)
    if x.dtype == np.int32 or "float" in x.dtype.name:
        zero = np.zeros(sizes, x.dtype)
    kind = "tensor(float)" if d.since < 19 or "output_dtype" in named else tensor_kind(scale_type)
    if d.has("output_dtype") and "output_dtype" not in named and d.flag(0.3):
        kind = d.types["T3"]
        named["output_dtype"] = NAMES_TO_NUMBERS[d.dtype(kind)]
    return Parts(
        [x, Parameter(scale), Parameter(zero)] if d.flag(0.7) else [x, Parameter(scale)], named, kinds={0: kind}
    )


@recipe("DynamicQuantizeLinear")
def dynamic_quantize_linear(d: Draw) -> Parts:
    low = d.real(-9, 1)
    return Parts([d.tensor("float", d.shape(1, 3, empty=False), low, low + d.real(0.5, 9))], outputs=3)
