"""Pooling, resizing and sampling of images."""

from collections.abc import Iterator
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

# kernel, strides, pads at either side
POOLS = ((3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 1, 2), (7, 7, 0), (13, 1, 6))
SHAPES = ((1, 64, 112, 112), (1, 256, 28, 28), (8, 512, 14, 14))
RESIZES = (
    'mode = "nearest"',
    'mode = "linear"',
    'mode = "cubic"',
    'mode = "linear", coordinate_transformation_mode = "align_corners"',
    'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
    'mode = "linear", antialias = 1',
    'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"',
)
FORMS = ("symbolic", "open", "sliced", "split", "transposed", "then transposed", "after", "before")


def cases() -> Iterator[OperatorCase]:
    yield from _pools()
    yield from _global_pools()
    yield from _resizes()
    yield from _samples()


def _pools() -> Iterator[OperatorCase]:
    for operator, (kernel, stride, pad), shape in product(("MaxPool", "AveragePool", "LpPool"), POOLS, SHAPES):
        options = (
            f"kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}], pads = [{pad}, {pad}, {pad}, {pad}]"
        )
        if operator == "LpPool" and kernel == 13:
            # ONNX Runtime takes seconds.
            continue
        pool = case(f"{operator}<{options}>(x)", operand("x", "float32", shape))
        yield from in_forms([pool], *FORMS) if kernel == 3 and operator != "LpPool" else [pool]
    for operator, dtype in product(("MaxPool", "AveragePool"), ("float16", "float64", "uint8", "int8")):
        options = "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"
        yield case(f"{operator}<{options}>(x)", operand("x", dtype, SHAPES[0]))
    for operator in ("MaxPool", "AveragePool"):
        yield case(
            f"{operator}<kernel_shape = [3], strides = [2], pads = [1, 1]>(x)", operand("x", "float32", (1, 256, 1000))
        )
        yield case(
            f"{operator}<kernel_shape = [2, 2, 2], strides = [2, 2, 2]>(x)",
            operand("x", "float32", (1, 32, 16, 56, 56)),
        )
        yield case(
            f"{operator}<kernel_shape = [3, 3], dilations = [2, 2]>(x)",
            operand("x", "float32", (1, 64, 56, 56)),
            opset=22,
        )
        yield case(
            f"{operator}<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)",
            operand("x", "float32", (1, 64, 56, 56)),
            opset=22,
        )
    yield case(
        "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)",
        operand("x", "float32", (1, 64, 112, 112)),
        outputs="y, places",
    )


def _global_pools() -> Iterator[OperatorCase]:
    shapes = ((1, 2048, 7, 7), (8, 512, 14, 14), (1, 64, 112, 112), (1, 96, 56, 56))
    for operator, shape in product(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), shapes):
        pool = case(f"{operator}(x)", operand("x", "float32", shape))
        yield from (
            in_forms([pool], "symbolic", "open", "sliced", "transposed", "after")
            if operator != "GlobalLpPool"
            else [pool]
        )


def _resizes() -> Iterator[OperatorCase]:
    for mode, scale, shape in product(RESIZES, (2.0, 0.5, 1.5), ((1, 64, 40, 40), (1, 3, 224, 224))):
        constants = f"float[4] s = {{1.0, 1.0, {scale}, {scale}}}"
        resized = case(f"Resize<{mode}>(x, , s)", operand("x", "float32", shape), constants=constants)
        yield from (
            in_forms([resized], "transposed", "then transposed", "sliced", "after")
            if scale == 2.0 and shape[1] == 64
            else [resized]
        )
    for mode, dtype in product(RESIZES[:2], ("float16", "uint8", "float64", "int32")):
        constants = "float[4] s = {1.0, 1.0, 2.0, 2.0}"
        yield case(f"Resize<{mode}>(x, , s)", operand("x", dtype, (1, 64, 40, 40)), constants=constants)
    for mode in RESIZES[:2]:
        sizes = "int64[4] s = {1, 64, 80, 80}"
        yield case(f"Resize<{mode}>(x, , , s)", operand("x", "float32", (1, 64, 40, 40)), constants=sizes)
        channels_last = "float[4] s = {1.0, 2.0, 2.0, 1.0}"
        yield case(f"Resize<{mode}>(x, , s)", operand("x", "float32", (1, 40, 40, 64)), constants=channels_last)
        yield case(
            f"Resize<{mode}>(x, , s)", operand("x", "float32", (1, 256, 200)), constants="float[3] s = {1.0, 1.0, 2.0}"
        )


def _samples() -> Iterator[OperatorCase]:
    for mode, padding in product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection")):
        grid = operand("g", "float32", (1, 56, 56, 2), "unit")
        yield case(
            f'GridSample<mode = "{mode}", padding_mode = "{padding}">(x, g)',
            operand("x", "float32", (1, 32, 56, 56)),
            grid,
        )
    yield case("AffineGrid(t, s)", operand("t", "float32", (1, 2, 3)), constants="int64[4] s = {1, 3, 224, 224}")
    rois = operand("r", "float32", (64, 4), "boxes", 40), operand("i", "int64", (64,), "integers", 1)
    for mode in ("avg", "max"):
        yield case(
            f'RoiAlign<mode = "{mode}", output_height = 7, output_width = 7, sampling_ratio = 2>(x, r, i)',
            operand("x", "float32", (1, 64, 50, 50)), *rois,
        )  # fmt: skip
    regions = (
        ((1, 64, 50, 50), 64, 160, "output_height = 7, output_width = 7, spatial_scale = 0.25"),
        ((2, 256, 25, 25), 20, 24, "output_height = 14, output_width = 14"),
        ((2, 3, 125, 125), 20, 124, "output_height = 5, output_width = 3"),
    )
    # A region has as many samples as it has pixels, one, or so many.
    for (shape, count, reach, options), samples in product(regions, (0, 1, 3)):
        yield case(
            f"RoiAlign<{options}, sampling_ratio = {samples}>(x, r, i)",
            operand("x", "float32", shape),
            operand("r", "float32", (count, 4), "boxes", reach),
            operand("i", "int64", (count,), "integers", shape[0]),
        )
    yield case("MaxPool<kernel_shape = [101], strides = [1]>(x)", operand("x", "float32", (1, 8, 3999)))
    yield case(
        "CenterCropPad<axes = [2, 3]>(x, s)",
        operand("x", "float32", (1, 64, 56, 56)),
        constants="int64[2] s = {48, 64}",
    )
    yield case(
        "Col2Im<strides = [1, 1]>(x, s, b)",
        operand("x", "float32", (1, 144, 3136)),
        constants="int64[2] s = {58, 58}, int64[2] b = {3, 3}",
    )
