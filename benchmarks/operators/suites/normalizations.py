"""Softmax and its kind, and normalisations, among what exporters put beside them."""

from collections.abc import Iterator
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

FORMS = ("symbolic", "open", "sliced", "split", "transposed", "then transposed", "after", "before")
ROWS = ((128, 768), (1, 12, 128, 128), (1, 64, 56, 56), (1, 1000), (8400, 80), (144, 49, 49), (1, 50257))


def cases() -> Iterator[OperatorCase]:
    for operator, shape, dtype in product(
        ("Softmax", "LogSoftmax", "Hardmax"), ROWS, ("float32", "float16", "float64")
    ):
        for axis in (-1, 1):
            if axis % len(shape) == len(shape) - 1 and axis == 1:
                continue
            softmax = case(f"{operator}<axis = {axis}>(x)", operand("x", dtype, shape))
            yield from in_forms([softmax], *FORMS) if (operator, dtype) == ("Softmax", "float32") else [softmax]
    # Rows shorter than a vector, and a few elements longer.
    for operator, width, dtype in product(("Softmax", "LogSoftmax"), (2, 3, 5, 8, 17, 50), ("float32", "float64")):
        yield case(f"{operator}<axis = -1>(x)", operand("x", dtype, (4000, width)))
    scores = operand("x", "float32", (1000, 50)), operand("t", "int64", (1000,), "integers", 50)
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        # Weights of what is summed with them.
        yield case(f"{operator}<axis = 1>(x)", operand("x", "float32", (13, 2000, 1)))
    yield case("SoftmaxCrossEntropyLoss(x, t)", *scores, outputs="y, l")
    yield from in_forms(_layers(), *FORMS)
    yield from in_forms(_channels(), *FORMS)


def _layers() -> Iterator[OperatorCase]:
    for shape, dtype in product(
        ((1, 128, 768), (1, 197, 768), (1, 3136, 96), (8, 1, 4096), (1, 56, 56, 128)), ("float32", "float16")
    ):
        width = (shape[-1],)
        scale, bias = operand("s", dtype, width), operand("b", dtype, width)
        yield case("LayerNormalization<axis = -1>(x, s, b)", operand("x", dtype, shape), scale, bias)
        yield case("RMSNormalization<axis = -1>(x, s)", operand("x", dtype, shape), scale, opset=23)


def _channels() -> Iterator[OperatorCase]:
    for shape in ((1, 64, 56, 56), (1, 320, 64, 64), (2, 256, 14, 14), (1, 512, 200)):
        x, channels = operand("x", "float32", shape), (shape[1],)
        scale, bias = operand("s", "float32", channels), operand("b", "float32", channels)
        mean, variance = operand("m", "float32", channels), operand("v", "float32", channels, "positive")
        yield case("BatchNormalization(x, s, b, m, v)", x, scale, bias, mean, variance)
        yield case("InstanceNormalization(x, s, b)", x, scale, bias)
        yield case("GroupNormalization<num_groups = 32>(x, s, b)", x, scale, bias)
        yield case("LpNormalization<axis = 1, p = 2>(x)", x)
        yield case(
            "MeanVarianceNormalization<axes = [0, 2, 3]>(x)"
            if len(shape) == 4
            else "MeanVarianceNormalization<axes = [0, 2]>(x)",
            x,
        )
        if len(shape) == 4:
            yield case("LRN<size = 5>(x)", x)
