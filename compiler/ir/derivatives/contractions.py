"""Derivatives of contractions: contractions again, of the gradient with the other operand."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.runtime.records import record

MOST_PATCH_TAPS = 64
"""Patches take as many times the memory of the image: 7 x 7 taps, on the few channels that such filters read, pass."""

_POSITION_LETTERS = "hijklmpq"


@derivative("dot")
def dot(step: Step, build: Builder) -> Gradients:
    """The einsum of g with the other operand; letters that one operand alone has and that are summed repeat"""
    a, b = step.operands
    left, right, result = parse_equation(step.op.text("equation"))
    return (
        _factor(step.gradient, result, b, right, a, left, build) if step.wanted[0] else None,
        _factor(step.gradient, result, a, left, b, right, build) if step.wanted[1] else None,
    )


def _factor(
    gradient: Value, letters: str, other: Value, other_letters: str, x: Value, x_letters: str, build: Builder
) -> Value:
    """The gradient of the factor `x` of an einsum with the factor `other` and the result `letters`."""
    kept = "".join(letter for letter in x_letters if letter in letters + other_letters)
    product = build.dot(gradient, build.cast(other, gradient.dtype), f"{letters},{other_letters}->{kept}")
    axes = [x_letters.index(letter) for letter in kept]
    return build.cast(build.broadcast(product, axes, x.shape), x.dtype)


@derivative("convolution")
def convolution(step: Step, build: Builder) -> Gradients:
    """The transposed convolution of g with the flipped filters; the correlation of x with g"""
    if 0 in step.y.shape:
        # There is nothing between whose elements zeros could be put.
        return None, None
    labels = parse_dimensions(step.op.text("dimensions"))
    x, w = (build.transpose(value, axes.order) for value, axes in zip(step.operands, (labels.x, labels.w), strict=True))
    gradient = build.transpose(step.gradient, labels.result.order)
    shape = _Convolution.of(step.op, x, w, gradient)
    image = filters = None
    if step.wanted[0]:
        ordered = _image_gradient(gradient, build.cast(w, gradient.dtype), shape, build)
        image = build.cast(build.transpose(ordered, labels.x.inverse), x.dtype)
    if step.wanted[1]:
        make = _product_with_patches if _has_patches(shape) else _filter_gradient
        ordered = make(gradient, build.cast(x, gradient.dtype), shape, build)
        filters = build.cast(build.transpose(ordered, labels.w.inverse), w.dtype)
    return image, filters


@record
class _Convolution:
    """The sizes of a convolution; one entry per spatial axis where there are several."""

    groups: int
    image: tuple[Dim, ...]
    kernel: tuple[Dim, ...]
    positions: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    input_dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    @staticmethod
    def of(op: Op, x: Value, w: Value, y: Value) -> "_Convolution":
        """The sizes of `op`, whose operands and result have the channels first in `x`, `w` and `y`."""
        return _Convolution(
            op.int("groups"),
            x.shape[2:],
            w.shape[2:],
            y.shape[2:],
            *(op.ints(name) for name in ("strides", "dilations", "input_dilations")),
            *(op.dims(name) for name in ("low", "high")),
        )

    @property
    def rank(self) -> int:
        return len(self.image)

    def reach(self, axis: int) -> Dim:
        """How far the last tap of the kernel is from the first."""
        return (self.kernel[axis] - 1) * self.dilations[axis]

    def span(self, axis: int) -> Dim:
        """How far the last position of the kernel is from the first."""
        return (self.positions[axis] - 1) * self.strides[axis]

    def extent(self, axis: int) -> Dim:
        """How far the last element of the image is from the first, zeros between them counted."""
        return (self.image[axis] - 1) * self.input_dilations[axis]


def _image_gradient(gradient: Value, w: Value, shape: _Convolution, build: Builder) -> Value:
    """[N, M, *O], [M, C/groups, *K] -> [N, C, *S]

    Element s of the padded image meets position o through tap s - o * stride, so g, spread by the strides, is convolved
    with the kernel backwards, and its elements are taken at `low` and every input dilation after that.
    """
    filters = _flipped(w, shape.groups, build)
    axes = range(shape.rank)
    # Padding is cropped from the result where it is more than the kernel reaches over.
    low = [maximum(shape.reach(axis) - shape.low[axis], 0) for axis in axes]
    crop = [low[axis] + shape.low[axis] - shape.reach(axis) for axis in axes]
    high = [maximum(shape.extent(axis) + shape.low[axis] - shape.span(axis), 0) for axis in axes]
    full = build.convolution(
        gradient, filters, (1,) * shape.rank, low, high, shape.dilations, shape.groups, shape.strides
    )
    starts: list[Dim] = [0, 0, *crop]
    sizes = (gradient.shape[0], filters.shape[0], *shape.image)
    return build.slice(full, starts, sizes, (1, 1, *shape.input_dilations))


def _flipped(w: Value, groups: int, build: Builder) -> Value:
    """[M, C/groups, *K] -> [C, M/groups, *K], backwards along K"""
    filters, channels, *kernel = w.shape
    each = floordiv(filters, groups)
    grouped = build.with_shape(w, (groups, each, channels, *kernel))
    swapped = build.transpose(grouped, (0, 2, 1, *range(3, grouped.rank)))
    result = build.with_shape(swapped, (channels * groups, each, *kernel))
    for axis in range(2, result.rank):
        result = build.reverse(result, axis)
    return result


def _filter_gradient(gradient: Value, x: Value, shape: _Convolution, build: Builder) -> Value:
    """[N, M, *O], [N, C, *S] -> [M, C/groups, *K]

    Tap k meets element o * stride + k * dilation at position o, so strides and dilations change parts: a convolution of
    x with g as the kernel, in which the batch is what is summed.
    """
    batch, channels = x.shape[:2]
    each = floordiv(channels, shape.groups)
    grouped = build.with_shape(x, (batch, shape.groups, each, *shape.image))
    swapped = build.transpose(grouped, (2, 1, 0, *range(3, grouped.rank)))
    image = build.with_shape(swapped, (each, batch * shape.groups, *shape.image))
    kernel = build.transpose(gradient, (1, 0, *range(2, gradient.rank)))
    correlation = build.convolution(
        image, kernel, shape.dilations, shape.low, shape.high, shape.strides, shape.groups, shape.input_dilations
    )
    # What the strides leave over at the end could hold further taps.
    taps = build.slice(correlation, (0,) * correlation.rank, (*correlation.shape[:2], *shape.kernel))
    return build.transpose(taps, (1, 0, *range(2, taps.rank)))


def _has_patches(shape: _Convolution) -> bool:
    """Whether what each tap meets is a slice of the padded image, and the taps can be listed.

    The product is of floats as they lie in memory, which all back ends multiply by panels or tiles; a convolution whose
    window is the whole of g has no fast kernel. One step of the digits network took 2.7 ms by convolutions.
    """
    taps = product(shape.kernel)
    padding = (*shape.low, *shape.high)
    return (
        isinstance(taps, int)
        and 0 < taps <= MOST_PATCH_TAPS
        and set(shape.input_dilations) == {1}
        and all(isinstance(size, int) and size >= 0 for size in padding)
        and shape.rank <= len(_POSITION_LETTERS)
    )


def _product_with_patches(gradient: Value, x: Value, shape: _Convolution, build: Builder) -> Value:
    """[N, M, *O], [N, C, *S] -> [M, C/groups, *K]

    Every position has a patch, the elements of the image that its taps meet. The gradient is one product of g and the
    patches, summed over all positions of all images.
    """
    rank, filters, channels = shape.rank, gradient.shape[1], x.shape[1]
    padded = build.pad(x, (0, 0, *shape.low), (0, 0, *shape.high))
    patches = build.transpose(padded, (0, *range(2, x.rank), 1))
    for axis in range(rank):
        patches = _with_taps(patches, axis, shape, build)
    taps, each = tuple(reversed(shape.kernel)), floordiv(channels, shape.groups)
    rows = build.with_shape(patches, (x.shape[0], *shape.positions, product(taps), shape.groups, each))
    grouped = build.with_shape(gradient, (x.shape[0], shape.groups, floordiv(filters, shape.groups), *shape.positions))
    positions = _POSITION_LETTERS[:rank]
    result = build.dot(grouped, rows, f"ngo{positions},n{positions}tgc->gotc")
    split = build.with_shape(result, (filters, *taps, each))
    return build.transpose(split, (0, split.rank - 1, *range(rank, 0, -1)))


def _with_taps(x: Value, axis: int, shape: _Convolution, build: Builder) -> Value:
    """[N, *O, S, *rest, *taps, C] -> [N, *O, O, *rest, K, *taps, C]: for each position what the taps of an axis meet.

    The new axis comes before those of other taps, so that longer and longer runs are copied.
    """
    stride, dilation = shape.strides[axis], shape.dilations[axis]
    kernel, size = shape.kernel[axis], shape.positions[axis]
    assert isinstance(kernel, int), shape
    met = [build.slice_axis(x, 1 + axis, tap * dilation, size, stride) for tap in range(kernel)]
    return build.concatenate([build.unsqueeze(part, (1 + shape.rank,)) for part in met], 1 + shape.rank)
