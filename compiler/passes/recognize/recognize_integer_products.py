"""Products of quantised tensors as products of their 8-bit integers, whatever form the exporter gave them.

Σ (a - za)(b - zb) = Σ ab - za Σ b - zb Σ a + K za zb: zero points leave the operands, and what they contribute is a sum
of a constant, or of what is small beside the product. Sums are exact in i32, and wrap as those of i32 operands do.
Between floats, ((a - za) sa) · ((b - zb) sb) becomes that sum times (sa sb), rounded twice where each product and each
sum of floats was rounded; what is quantised again may so differ by one where it lay between two integers.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E5M2, F32, F64, I8, I32, U8, DType
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import channels_first, parse_equation
from onnxc.compiler.ir.rewriter import Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.analysis.quantized_operands import Quantized, Spread, quantized_operand
from onnxc.compiler.passes.analysis.signed_bytes import OFFSET, signed
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.pipeline import Pass
from onnxc.runtime.records import record

MOST_PRODUCTS = (2**31 - 1) // (255 * 255)
"""So many products of 8 bits surely fit in a sum of i32."""

SPATIAL = string.ascii_lowercase[14:]
"""Letters of spatial axes."""

MOST_EXACT_PRODUCTS = 2**24 // (255 * 255)
"""So many products of 8 bits are surely exact in a sum of f32."""

MOST_APART = 8
"""Groups of more products that are convolved each by itself, as bytes."""


def recognize_integer_products_but(as_floats: Callable[[Op], bool]) -> Pass:
    """The pass that makes integer products, but of convolutions of floats that are faster as they are."""

    @rule("convolution")
    def convolve_integers(op: Op, build: Rewriter) -> Value | Refusal | None:
        """convolution((x - zx) sx, (w - zw) sw) = (convolution(x padded with zx, w) - zw Σ (x - zx) - zx Σ w) (sx sw)

        for x and w of 8 bits; the sum of x - zx is that of the window of an output.
        """
        return _convolve(op, build, (I8, U8), as_floats, takes_groups=True)

    def recognize_integer_products(module: Module) -> Module:
        """Makes products of 8-bit integers of products of what they stand for."""
        return rewrite(module, [multiply_integers, convolve_integers], note_refusal)

    return recognize_integer_products


def recognize_signed_products(module: Module) -> Module:
    """Makes products of i8 of products of what 8-bit integers stand for: tensor cores are told of no other bytes."""
    return rewrite(module, [multiply_signed, convolve_signed], note_refusal)


def recognize_float8_products(module: Module) -> Module:
    """Makes products of 8-bit floats of products of what these stand for."""
    return rewrite(module, [multiply_floats], note_refusal)


@record
class _Term:
    """A factor of a correction: a tensor with an axis for each of its letters."""

    value: Value
    letters: str


@record
class _Sums:
    """What terms are multiplied in: the letters of a result with their sizes, and a builder.

    zeros_first: zero points are taken from what is summed in a call rather than from the sum, where they would be
    factors of sizes, so that the kernels of layers differ in one number.
    """

    result: str
    sizes: Mapping[str, Dim]
    build: Rewriter
    zeros_first: bool = False

    def at(self, term: _Term, letters: str) -> Value:
        """The term repeated along those of `letters` that it lacks."""
        axes = [letters.index(letter) for letter in term.letters]
        return self.build.broadcast(term.value, axes, [self.sizes[letter] for letter in letters])

    def times(self, x: _Term, y: _Term) -> _Term:
        """The product, no larger than it has to be."""
        letters = "".join(letter for letter in self.result if letter in x.letters + y.letters)
        return _Term(self.build.mul(self.at(x, letters), self.at(y, letters)), letters)

    def less(self, total: Value, term: _Term) -> Value:
        """`total`, which has all letters of the result, without the term."""
        return self.build.sub(total, self.at(term, self.result))


# Products of matrices


@rule("dot")
def multiply_integers(op: Op, build: Rewriter) -> Value | Refusal | None:
    """dot((a - za) sa, (b - zb) sb) = (dot(a, b) - za Σ b - zb Σ a + K za zb) (sa sb), for a and b of 8 bits"""
    return _multiply(op, build, (I8, U8))


@rule("dot")
def multiply_signed(op: Op, build: Rewriter) -> Value | Refusal | None:
    """The same for a and b of i8, which any of 8 bits are made"""
    return _multiply(op, build, (I8,))


@rule("dot")
def multiply_floats(op: Op, build: Rewriter) -> Value | Refusal | None:
    """The same for a and b of one type of 8-bit floats, which have no zero points; sums are of f32"""
    return _multiply(op, build, (F8E4M3FN,)) or _multiply(op, build, (F8E5M2,))


def _multiply(op: Op, build: Rewriter, bytes: Sequence[DType]) -> Value | Refusal | None:
    if op.dtype() not in (F32, I32) or all(operand.dtype in bytes for operand in op.operands):
        return None
    left, right, result = parse_equation(op.text("equation"))
    a, b = (quantized_operand(operand, build) for operand in op.operands)
    floats = bytes[0].is_float
    if a is None or b is None or any(each.source.dtype.is_float != floats for each in (a, b)):
        return None
    if floats and {a.source.dtype, b.source.dtype} != set(bytes):
        return None
    a, b = _as_one_of(bytes, a, build), _as_one_of(bytes, b, build)
    summed = [letter for letter in left if letter not in result]
    if set(left + right) - set(result) != set(left) & set(right) - set(result):
        # What one operand alone has is summed before, see `sum_own_letters`.
        return None
    sizes = dict(zip(left + right, a.source.shape + b.source.shape, strict=True))
    spreads = ((a.zero, left), (a.scale, left), (b.zero, right), (b.scale, right))
    if any(letters[axis] in summed for spread, letters in spreads if spread is not None for axis in spread.axes):
        return Refusal("a scale or zero point varies along what is summed")
    reason = _unfit((a, b), op, [sizes[letter] for letter in summed])
    if reason:
        return Refusal(reason)
    sums = _Sums(result, sizes, build, zeros_first=U8 not in bytes)
    total = build.dot(a.source, b.source, op.text("equation"), F32 if floats else I32)
    corrected = _corrected(total, (a, left), (b, right), summed, sums)
    return corrected if op.dtype() == I32 else _scaled(corrected, (a, left), (b, right), sums)


def _signed(operand: Quantized, build: Rewriter) -> Quantized:
    """A constant of u8 about 128 as one of i8 about 0, beside which the other operand need not be summed."""
    array, zero = constant_of(operand.source), operand.zero
    if array is None or zero is None or zero.array is None or array.dtype != np.uint8 or not (zero.array == 128).all():
        return operand
    return replace(operand, source=build.constant((array ^ 0x80).view(np.int8)), zero=None)


def _as_one_of(bytes: Sequence[DType], operand: Quantized, build: Rewriter) -> Quantized:
    """The operand with integers of one of the types `bytes`, which are both or i8."""
    operand = _signed(operand, build)
    if operand.source.dtype in bytes:
        return operand
    array, zero = constant_of(operand.source), operand.zero or Spread(build.constant(np.zeros((), np.int32)))
    source = signed(operand.source, build) if array is None else build.constant((array ^ 0x80).view(np.int8))
    known = zero.array
    less = build.sub(zero.value, OFFSET) if known is None else build.constant(np.asarray(known - OFFSET, np.int32))
    return replace(operand, source=source, zero=replace(zero, value=less))


def _unfit(operands: tuple[Quantized, Quantized], op: Op, summed: list[Dim]) -> str:
    """Why a product of floats cannot be one of integers; nothing where it can, or is one already."""
    if op.dtype() == I32:
        return "" if all(operand.scale is None for operand in operands) else "a product of i32 has a scale"
    scales = [np.ones(1, np.float32) if each.scale is None else each.scale.array for each in operands]
    known = [scale.astype(np.float64) for scale in scales if scale is not None]
    if len(known) < len(scales):
        return "a scale is not known before a call"
    least, most = (prod(float(fold(np.abs(scale), initial=1)) for scale in known) for fold in (np.min, np.max))
    if not np.finfo(np.float32).tiny <= least <= most <= np.finfo(np.float32).max:
        return "the product of the scales is not a normal number"
    sizes = [size for size in summed if isinstance(size, int)]
    sums_integers = not operands[0].source.dtype.is_float
    return "the sum may not fit in i32" if sums_integers and prod(sizes) > MOST_PRODUCTS else ""


def _corrected(
    total: Value, left: tuple[Quantized, str], right: tuple[Quantized, str], summed: list[str], sums: _Sums
) -> Value:
    """The sum of the products of (a - za) and (b - zb), where `total` is that of a and b."""
    build, terms = sums.build, [_term(operand.zero, letters) for operand, letters in (left, right)]
    of_a, of_b = terms
    if of_a is not None:
        less_zero = sums.zeros_first and constant_of(right[0].source) is None
        below = _sum(*right, build, summed, less_zero=less_zero)
        if of_b is not None and not less_zero:
            count = build.cast(build.size(prod((sums.sizes[letter] for letter in summed), start=1)), I32)
            both = sums.times(of_b, _Term(count, ""))
            letters = "".join(letter for letter in sums.result if letter in below.letters + both.letters)
            below = _Term(build.sub(sums.at(below, letters), sums.at(both, letters)), letters)
        total = sums.less(total, sums.times(of_a, below))
    if of_b is not None:
        total = sums.less(total, sums.times(of_b, _sum(*left, build, summed)))
    return total


def _term(spread: Spread | None, letters: str) -> _Term | None:
    return None if spread is None else _Term(spread.value, "".join(letters[axis] for axis in spread.axes))


def _sum(operand: Quantized, letters: str, build: Rewriter, summed: list[str], *, less_zero: bool = False) -> _Term:
    """The sum of the integers of an operand along what the product sums; of a constant, carried out here.

    less_zero: each of them less the zero point.
    """
    axes = tuple(letters.index(letter) for letter in summed)
    kept = "".join(letter for letter in letters if letter not in summed)
    array = constant_of(operand.source)
    if array is not None:
        return _Term(build.constant(array.sum(axes, dtype=np.int32)), kept)
    integers, zero = build.cast(operand.source, I32), operand.zero
    if less_zero and zero is not None:
        integers = build.sub(integers, build.broadcast(zero.value, zero.axes, integers.shape))
    return _Term(build.reduce(integers, "sum", axes), kept)


def _scaled(total: Value, left: tuple[Quantized, str], right: tuple[Quantized, str], sums: _Sums) -> Value:
    """The total times the scales, in f32."""
    scales = [_term(operand.scale, letters) for operand, letters in (left, right)]
    value = sums.build.cast(total, F32)
    known = [scale for scale in scales if scale is not None]
    if not known:
        return value
    factor = known[0] if len(known) == 1 else sums.times(*known)
    return sums.build.mul(value, sums.at(factor, sums.result))


# Convolutions


@rule("convolution")
def convolve_signed(op: Op, build: Rewriter) -> Value | Refusal | None:
    """convolution((x - zx) sx, (w - zw) sw) = (convolution(x padded with zx, w) - zw Σ (x - zx) - zx Σ w) (sx sw)

    for x and w of i8, which any of 8 bits are made.
    """
    return _convolve(op, build, (I8,))


def _convolve(
    op: Op,
    build: Rewriter,
    bytes: Sequence[DType],
    as_floats: Callable[[Op], bool] | None = None,
    takes_groups: bool = False,
) -> Value | Refusal | None:
    """takes_groups: few groups of many products each by itself, and many in f64, which a GPU does in more launches, or
    slowly."""
    labels = op.text("dimensions")
    if op.dtype() not in (F32, I32) or labels != channels_first(op.result.rank - 2):
        return None
    if all(operand.dtype in bytes for operand in op.operands):
        return None
    x, w = (quantized_operand(operand, build) for operand in op.operands)
    if x is None or w is None or x.source.dtype.is_float or w.source.dtype.is_float:
        return None
    if as_floats is not None and op.dtype() == F32 and as_floats(op):
        return Refusal("as floats, the convolution takes fewer products")
    x, w = _as_one_of(bytes, x, build), _as_one_of(bytes, w, build)
    groups, is_deep = op.int("groups"), w.source.shape[1] != 1
    has_many = takes_groups and _products(w) > MOST_EXACT_PRODUCTS
    is_apart = is_deep and has_many and 1 < groups <= MOST_APART
    if groups > 1 and not is_apart and (is_deep or w.zero is not None):
        return _convolved_in_floats(op, F64 if has_many else F32, build)
    reason = _no_convolution(x, w, op) or _unfit((x, w), op, list(w.source.shape[1:]))
    if reason:
        return Refusal(reason)
    if not is_apart:
        return _of_integers(x, w, op, groups, build)
    return build.concatenate([_of_integers(*_group(x, w, op, each, build), op, 1, build) for each in range(groups)], 1)


def _products(w: Quantized) -> int:
    """How many are summed; 0 where only a call knows."""
    return prod(size if isinstance(size, int) else 0 for size in w.source.shape[1:])


def _group(x: Quantized, w: Quantized, op: Op, group: int, build: Rewriter) -> tuple[Quantized, Quantized]:
    """The channels and the filters of a group."""
    filters, channels = floordiv(w.source.shape[0], op.int("groups")), w.source.shape[1]

    def part(spread: Spread | None) -> Spread | None:
        if spread is None or 0 not in spread.axes:
            return spread
        return Spread(build.slice_axis(spread.value, spread.axes.index(0), group * filters, filters), spread.axes)

    of_group = build.slice_axis(w.source, 0, group * filters, filters)
    image = build.slice_axis(x.source, 1, group * channels, channels)
    return replace(x, source=image), Quantized(of_group, part(w.zero), part(w.scale))


def _of_integers(x: Quantized, w: Quantized, op: Op, groups: int, build: Rewriter) -> Value:
    """The convolution of what x and w stand for, in so many groups."""
    spatial = SPATIAL[: op.result.rank - 2]
    result, filters = f"nc{spatial}", f"ci{spatial.upper()}"
    shape = (op.result.shape[0], w.source.shape[0], *op.result.shape[2:])
    sums = _Sums(result, dict(zip(result, shape, strict=True)), build)
    total = _convolved(x, w.source, op, groups, build)
    if w.zero is not None:
        of_windows = _Term(_sums_of_windows(x, w, op, build), f"n{spatial}")
        total = sums.less(total, sums.times(_Term(w.zero.value, "c" * len(w.zero.axes)), of_windows))
    if x.zero is not None:
        total = sums.less(total, sums.times(_Term(x.zero.value, ""), _sum(w, filters, build, list(filters[1:]))))
    return total if op.dtype() == I32 else _scaled(total, (x, result), (w, filters), sums)


def _no_convolution(x: Quantized, w: Quantized, op: Op) -> str:
    """Why a convolution cannot be one of integers; nothing where it can."""
    if set(op.ints("input_dilations")) != {1}:
        return "the input is dilated"
    if w.zero is not None and not all(isinstance(size, int) and size for size in w.source.shape[2:]):
        return "the zero point of filters of no elements, or of unknown size, is not 0"
    spreads = ((x.zero, ()), (x.scale, ()), (w.zero, (0,)), (w.scale, (0,)))
    if any(not set(spread.axes) <= set(axes) for spread, axes in spreads if spread is not None):
        return "a scale or zero point varies along what is summed"
    return ""


def _convolved(x: Quantized, w: Value, op: Op, groups: int, build: Rewriter) -> Value:
    """The convolution of the integers, where what lies beside the image is the zero point of `x`."""
    images, low, high = x.source, op.dims("low"), op.dims("high")
    if x.zero is not None and set(low) | set(high) != {0}:
        zero = build.cast(x.zero.value, images.dtype)
        images = build.pad(images, (0, 0, *low), (0, 0, *high), zero)
        low = high = (0,) * len(low)
    return build.convolution(images, w, op.ints("strides"), low, high, op.ints("dilations"), groups, dtype=I32)


def _sums_of_windows(x: Quantized, w: Quantized, op: Op, build: Rewriter) -> Value:
    """i32[N, *O], the integers of `x` less their zero point summed in the window of each output"""
    integers = build.cast(x.source, I32)
    if x.zero is not None:
        integers = build.sub(integers, build.broadcast(x.zero.value, x.zero.axes, integers.shape))
    window = (1, *(size for size in w.source.shape[2:] if isinstance(size, int)))
    of_pixels = build.reduce(integers, "sum", (1,))
    strides, dilations = (1, *op.ints("strides")), (1, *op.ints("dilations"))
    low, high = (0, *op.dims("low")), (0, *op.dims("high"))
    return build.reduce_window(of_pixels, "sum", window, strides, low, high, dilations)


def _convolved_in_floats(op: Op, dtype: DType, build: Rewriter) -> Value | Refusal | None:
    """A convolution of i32 in groups, whose products a type of floats sums exactly; one of f32 stays what it is."""
    x, w = op.operands
    window = [size for size in w.shape[1:] if isinstance(size, int)]
    if op.dtype() != I32:
        return Refusal("the channels are in groups, of which each has few products")
    if len(window) < w.rank - 1 or prod(window) > (MOST_PRODUCTS if dtype == F64 else MOST_EXACT_PRODUCTS):
        return Refusal(f"the channels are in groups, of which each has more products than {dtype} sums exactly")
    operands = [build.cast(operand, dtype) for operand in (x, w)]
    return build.cast(build.op("convolution", operands, {**op.attributes, "dtype": dtype})[0], I32)
