"""Matrix products, convolutions, attention and recurrent layers: a few of each, for models measure these."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

PAIRS: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (
    ((128, 768), (768, 768)), ((1, 768), (768, 3072)), ((12, 128, 64), (12, 64, 128)), ((144, 49, 32), (144, 32, 49)),
    ((8, 512), (512, 1000)), ((1, 128, 384), (384, 384)), ((768, 768), (768,)),
    ((16000, 3), (3, 128)), ((4096, 16), (16, 256)), ((20000, 64), (64, 16)), ((12, 513, 3), (12, 3, 513)),
)  # fmt: skip
EQUATIONS: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]] = (
    ("bhqd,bhkd->bhqk", (1, 12, 128, 64), (1, 12, 128, 64)), ("bhqk,bkhd->bqhd", (1, 12, 128, 128), (1, 128, 12, 64)),
    ("bld,de->ble", (1, 128, 384), (384, 384)), ("ij,ij->i", (128, 768), (128, 768)),
    ("ij,kj->ik", (128, 384), (256, 384)),
    ("bhwc,hkc->bhwk", (16, 14, 14, 64), (14, 14, 64)), ("i,j->ij", (512,), (768,)),
    ("bchw,bc->bhw", (1, 64, 56, 56), (1, 64)),
)  # fmt: skip


def cases() -> Iterator[OperatorCase]:
    for (a, b), dtype in product(PAIRS, ("float32", "float16", "float64", "int32")):
        matmul = case("MatMul(a, b)", operand("a", dtype, a), operand("b", dtype, b))
        yield from (
            in_forms([matmul], "symbolic", "sliced", "transposed", "then transposed", "before")
            if dtype == "float32"
            else [matmul]
        )
    for options in ("", "<transA = 1>", "<transB = 1>", "<transA = 1, transB = 1>"):
        yield case(
            f"Gemm{options}(a, b, c)",
            *(operand(name, "float32", shape) for name, shape in (("a", (256, 256)), ("b", (256, 256)), ("c", (256,)))),
        )
    for equation, a, b in EQUATIONS:
        yield case(f'Einsum<equation = "{equation}">(a, b)', operand("a", "float32", a), operand("b", "float32", b))
    yield from (case("MatMulInteger(a, b)", operand("a", "uint8", a), operand("b", "int8", b)) for a, b in PAIRS[:5])
    yield from in_forms(_convolutions(), "symbolic", "open", "sliced", "transposed", "then transposed", "before")
    yield from _open_convolutions()
    yield from _layers()
    for count, rows in ((64, 8), (8, 50), (50, 20)):
        yield case("Det(x)", operand("x", "float32", (count, rows, rows)))
    # Several filters for each channel, and few channels of a result: their lanes are not full.
    for channels, filters, size in ((4, 128, 28), (3, 48, 56), (8, 128, 14)):
        yield case(
            f"Conv<pads = [1, 1, 1, 1], group = {channels}>(x, w)",
            operand("x", "float32", (1, channels, size, size)),
            operand("w", "float32", (filters, 1, 3, 3)),
        )
    for image, weights, options in (
        ((1, 32, 5, 5, 5), (32, 1, 5, 3, 4), "group = 2, strides = [1, 2, 1], dilations = [2, 2, 2]"),
        ((1, 8, 8, 8, 8), (8, 1, 2, 4, 3), "strides = [3, 3, 1]"), ((1, 8, 14, 14), (8, 4, 5, 5), "dilations = [2, 2]"),
        ((8, 12, 7, 14), (12, 1, 1, 5), "strides = [3, 4], group = 4"),
        ((1, 8, 14, 40), (8, 1, 4, 5), "strides = [2, 2]"), ((2, 8, 1000), (8, 3, 4), ""),
        ((2, 64, 4, 8, 8), (64, 2, 4, 5, 7), "group = 8, strides = [2, 4, 2]"),
    ):  # fmt: skip
        x, w = operand("x", "float32", image), operand("w", "float32", weights)
        yield case(f"ConvTranspose<{options}>(x, w)" if options else "ConvTranspose(x, w)", x, w)
    for filters, channels, size in ((1, 64, 56), (4, 16, 56), (3, 32, 28)):
        yield case(
            "Conv<pads = [1, 1, 1, 1]>(x, w)",
            operand("x", "float32", (1, channels, size, size)),
            operand("w", "float32", (filters, channels, 3, 3)),
        )
    # Bytes in groups of many products.
    for channels, groups, side in ((32, 2, 5), (32, 4, 5), (384, 2, 3)):
        x, w = operand("x", "uint8", (1, channels, 14, 14)), operand("w", "uint8", (64, channels // groups, side, side))
        yield case(f"ConvInteger<group = {groups}>(x, w)", x, w)
    # Few steps along k: most of the time goes to what is written.
    for rows, depth, columns in ((2048, 8, 2048), (1000, 4, 3000), (300, 16, 4096), (2048, 32, 1024)):
        yield case("MatMul(a, b)", operand("a", "float32", (rows, depth)), operand("b", "float32", (depth, columns)))
    # Single pixels: in groups, in steps, and of few filters.
    for shape, filters, options in (
        ((4, 40, 80, 80), (64, 5), "group = 8, strides = [2, 2]"), ((1, 72, 112, 112), (4, 18), "group = 4"),
        ((1, 512, 28, 28), (160, 512), ""), ((8, 64, 28, 28), (8, 64), ""),
        ((1, 256, 28, 28), (512, 256), "strides = [2, 2]"),
    ):  # fmt: skip
        x, w = operand("x", "float32", shape), operand("w", "float32", (*filters, 1, 1))
        yield case(f"Conv<{options}>(x, w)" if options else "Conv(x, w)", x, w)
    # In steps of 2: few filters of many channels, and short rows.
    for shape, filters, taps in (((8, 256, 14, 14), 16, 3), ((8, 128, 7, 7), 8, 3), ((1, 128, 56, 56), 16, 5)):
        yield case(
            f"Conv<pads = [{', '.join([str(taps // 2)] * 4)}], strides = [2, 2]>(x, w)",
            operand("x", "float32", shape),
            operand("w", "float32", (filters, shape[1], taps, taps)),
        )


def _convolutions() -> Iterator[OperatorCase]:
    for shape, filters, options in (
        ((1, 64, 56, 56), (64, 64, 3, 3), "pads = [1, 1, 1, 1]"), ((1, 64, 56, 56), (128, 64, 1, 1), ""),
        ((1, 64, 56, 56), (64, 1, 3, 3), "pads = [1, 1, 1, 1], group = 64"), ((1, 3, 112, 112),
        (32, 3, 3, 3), "strides = [2, 2]"),
        ((1, 80, 500), (128, 80, 3), "pads = [1, 1]"),
    ):  # fmt: skip
        yield case(
            f"Conv<{options}>(x, w)" if options else "Conv(x, w)",
            operand("x", "float32", shape),
            operand("w", "float32", filters),
        )
    yield case(
        "ConvTranspose<strides = [2, 2]>(x, w)",
        operand("x", "float32", (1, 64, 28, 28)),
        operand("w", "float32", (64, 32, 2, 2)),
    )


def _open_convolutions() -> Iterator[OperatorCase]:
    """All sizes of filters are symbols."""
    image, filters = ("N", "C", "H", "W"), ("M", "C", "K", "L")
    sizes = {"N": 1, "C": 32, "H": 28, "W": 28, "M": 64, "K": 3, "L": 3}
    for operator, dtype in (("Conv", "float32"), ("ConvInteger", "uint8")):
        operands = operand("x", dtype, image), operand("w", dtype, filters)
        known = case(f"{operator}<pads = [1, 1, 1, 1]>(x, w)", *operands)
        yield replace(known, form="open", sizes=sizes)


def _layers() -> Iterator[OperatorCase]:
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = (
            operand("w", "float32", (1, gates * 128, 64), "small"),
            operand("r", "float32", (1, gates * 128, 128), "small"),
        )
        yield case(f"{kind}<hidden_size = 128>(x, w, r)", operand("x", "float32", (20, 1, 64)), *weights)
    heads = [operand(name, "float32", (1, 8, 128, 64)) for name in "qkv"]
    yield case("Attention(q, k, v)", *heads, opset=23)
    rotary = (
        operand("x", "float32", (1, 8, 128, 64)),
        operand("c", "float32", (1, 128, 32)),
        operand("s", "float32", (1, 128, 32)),
    )
    for call in ("RotaryEmbedding(x, c, s)", "RotaryEmbedding<interleaved = 1>(x, c, s)"):
        yield from in_forms([case(call, *rotary, opset=23)], "open")
