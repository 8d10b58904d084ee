"""Recipes: operators that move, pick, compare or make elements."""

import numpy as np

from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe


@recipe("CDist")
def distances(draw: Draw) -> Parts:
    width = draw.size()
    inputs: Operands = {"a": draw.floats(draw.size(), width), "b": draw.floats(draw.size(), width)}
    return Parts(inputs, {"metric": draw.pick("euclidean", "sqeuclidean")}, free=["a", "b"])


@recipe("ComplexMul", "ComplexMulConj")
def complex_product(draw: Draw) -> Parts:
    shape = *draw.shape(0, 2), 2
    return Parts({"a": draw.floats(*shape), "b": draw.floats(*shape)})


@recipe("CropAndResize")
def crop_and_resize(draw: Draw) -> Parts:
    regions = draw.size()
    inputs: Operands = {
        "x": draw.floats(2, draw.size(1, 3), draw.size(2), draw.size(2)),
        "rois": draw.rng.uniform(-0.2, 1.2, (regions, 4)).astype(draw.dtype),
        "batch": draw.integers(0, 2, regions),
        "size": draw.integers(1, 6, 2),
    }
    attributes = {"mode": draw.pick("bilinear", "nearest"), "extrapolation_value": draw.pick(0.0, 7.5)}
    return Parts(inputs, attributes, constants=["size"])


@recipe("ExpandDims")
def expand_dims(draw: Draw) -> Parts:
    shape = draw.shape(0, 3)
    axis = np.array(draw.size(-len(shape) - 1, len(shape)), np.int32)
    return Parts({"x": draw.values(*shape), "axis": axis}, constants=["axis"])


@recipe("GatherND")
def gather_nd(draw: Draw) -> Parts:
    shape = draw.shape(1, 4)
    depth = draw.size(1, len(shape))
    indices = np.stack([draw.integers(-n, n, 2, 3, dtype=np.int64) for n in shape[:depth]], axis=-1)
    return Parts({"x": draw.values(*shape), "indices": indices})


@recipe("GridSample")
def grid_sample(draw: Draw) -> Parts:
    n = draw.size(1, 2)
    inputs: Operands = {
        "x": draw.floats(n, 2, draw.size(2), draw.size(2)),
        "grid": draw.rng.uniform(-1.3, 1.3, (n, draw.size(), draw.size(), 2)).astype(draw.dtype),
    }
    attributes: dict[str, object] = {"mode": draw.pick("bilinear", "nearest", "bicubic")}
    attributes |= {"padding_mode": draw.pick("zeros", "border", "reflection"), "align_corners": draw.pick(0, 1)}
    return Parts(inputs, attributes)


@recipe("Inverse")
def inverse(draw: Draw) -> Parts:
    n = draw.size()
    x = draw.floats(*draw.shape(0, 2), n, n) + np.eye(n, dtype=draw.dtype) * draw.dtype.type(5)
    return Parts({"x": x}, free=["x"])


@recipe("IsAllFinite")
def is_all_finite(draw: Draw) -> Parts:
    inputs: Operands = {name: draw.floats(*draw.shape()) for name in "ab"[: draw.size(1, 2)]}
    if draw.flag():
        inputs["a"].flat[0] = draw.pick(np.inf, np.nan)  # type: ignore[union-attr]
    return Parts(inputs, draw.pick({}, {"isnan_only": 1}, {"isinf_only": 1}))


@recipe("Pad")
def pad(draw: Draw) -> Parts:
    shape, mode = (draw.size(3), draw.size(3)), draw.pick("constant", "reflect", "edge")
    value = draw.floats(1) if mode == "constant" and draw.flag() else None
    inputs: Operands = {"x": draw.floats(*shape), "pads": draw.integers(0, 3, 4, dtype=np.int64), "value": value}
    return Parts(inputs, {"mode": mode}, constants=["pads"])


@recipe("Range")
def value_range(draw: Draw) -> Parts:
    start, delta = draw.size(-5, 5), draw.pick(1, 2, -3)
    values = {"start": start, "limit": start + delta * draw.size(0, 5), "delta": delta}
    return Parts({name: np.array(value, draw.dtype) for name, value in values.items()})


@recipe("TorchEmbedding")
def torch_embedding(draw: Draw) -> Parts:
    return Parts({"w": draw.values(5, draw.size()), "ids": draw.integers(0, 5, *draw.shape(1, 2), dtype=np.int64)})


@recipe("Trilu")
def trilu(draw: Draw) -> Parts:
    k = np.array(draw.size(-4, 4), np.int64) if draw.flag() else None
    return Parts({"x": draw.values(*draw.shape(2, 4)), "k": k}, {"upper": draw.pick(0, 1)})


@recipe("Unique")
def unique(draw: Draw) -> Parts:
    x = draw.integers(0, 6, draw.size(1, 9)).astype(draw.dtype)
    return Parts({"x": x}, outputs=["y", "index", "counts"], free=["x"])


@recipe("GatherBlockQuantized")
def gather_block_quantized(draw: Draw) -> Parts:
    bits, blocks, rows = draw.pick(4, 8), draw.size(1, 3), draw.size(2)
    per_row = blocks if bits == 8 else -(-blocks // 2)
    inputs: Operands = {
        "data": draw.integers(0, 256, rows, 16 * blocks * bits // 8, dtype=np.uint8),
        "indices": draw.integers(-rows, rows, *draw.shape(0, 2), dtype=draw.pick(np.int32, np.int64)),
        "scales": draw.floats(rows, blocks),
        "zeros": draw.integers(0, 256, rows, per_row, dtype=np.uint8) if draw.flag() else None,
    }
    constants = [name for name in ("data", "scales", "zeros") if inputs[name] is not None]
    return Parts(inputs, {"bits": bits, "block_size": 16, "quantize_axis": 1}, constants=constants, free=["indices"])
