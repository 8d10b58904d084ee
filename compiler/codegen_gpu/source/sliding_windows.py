"""Windows that slide along the axes of an operand: where each of their taps reads, and whether there is an element."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, dims_of, unravel
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.runtime.records import record

LARGEST_UNROLLED = 25
"""More taps than of 5 x 5 are a loop over all axes but the last."""


@record
class WindowAxis:
    """An axis of `size` elements, `spread` apart and padded, and windows of `taps` along it that begin `step` apart."""

    size: Dim
    taps: Dim
    step: int
    dilation: int
    low: Dim
    high: Dim
    spread: int = 1

    def first(self, b: SourceBuilder, result: Int) -> Int:
        """Where the window of a result begins: before 0 in the padding."""
        return b.sub(b.mul(result, self.step), b.size(self.low))

    def ahead(self, b: SourceBuilder, tap: Int) -> Int:
        """How far behind the beginning of its window a tap is."""
        return b.mul(tap, self.dilation)

    def element(self, b: SourceBuilder, position: Int) -> tuple[Int, Expr | None]:
        """The element at a place counted in steps of the spread axis, and whether there is one: None where always.

        No place is behind an axis that is not padded there, so nothing has to be compared.
        """
        inside: Expr | None = None
        if self.spread > 1:
            hit = b.let(f"{position} % {self.spread} == 0", dims_of(position))
            # Rounded toward 0: a negative place that hits is negative still.
            position, inside = b.let(f"{position} // {self.spread}", dims_of(position)), hit
        if not (isinstance(self.low, int) and self.low <= 0):
            inside = b.both(inside, b.compare(position, ">=", 0))
        if not (isinstance(self.high, int) and self.high <= 0):
            inside = b.both(inside, b.compare(position, "<", b.size(self.size)))
        return position, inside


def padding_of(op: Op) -> Op | None:
    """The op that pads the image of a convolution with a number, where its kernel can pad instead."""
    pad, labels = op.operands[0].op, parse_dimensions(op.text("dimensions"))
    if pad is None or pad.name != "pad" or {*op.dims("low"), *op.dims("high")} != {0}:
        return None
    widths = zip(pad.dims("low"), pad.dims("high"), strict=True)
    padded = {axis for axis, width in enumerate(widths) if width != (0, 0)}
    return pad if set(op.ints("input_dilations")) == {1} and padded <= set(labels.x.spatial) else None


def convolution_axes(op: Op) -> tuple[WindowAxis, ...]:
    """The spatial axes of a convolution."""
    (x, w), labels = op.operands, parse_dimensions(op.text("dimensions"))
    taps = (w.shape[axis] for axis in labels.w.spatial)
    sizes = zip((x.shape[axis] for axis in labels.x.spatial), taps, strict=True)
    steps = zip(op.ints("strides"), op.ints("dilations"), op.ints("input_dilations"), strict=True)
    padding = zip(op.dims("low"), op.dims("high"), strict=True)
    return tuple(
        WindowAxis(size, taps, step, dilation, low, high, spread)
        for (size, taps), (step, dilation, spread), (low, high) in zip(sizes, steps, padding, strict=True)
    )


def padded_axes(op: Op, pad: Op) -> tuple[WindowAxis, ...]:
    """The spatial axes of a convolution that pads as `pad` does before it."""
    axes = parse_dimensions(op.text("dimensions")).x.spatial
    return tuple(
        replace(window, size=pad.operands[0].shape[axis], low=pad.dims("low")[axis], high=pad.dims("high")[axis])
        for window, axis in zip(convolution_axes(op), axes, strict=True)
    )


def window_axes(op: Op) -> tuple[WindowAxis, ...]:
    """The axes of a windowed fold: all of its operand."""
    names = ("window", "strides", "dilations")
    windows = zip(*(op.ints(name) for name in names), strict=True)
    padding = zip(op.dims("low"), op.dims("high"), strict=True)
    return tuple(
        WindowAxis(size, taps, step, dilation, low, high)
        for size, (taps, step, dilation), (low, high) in zip(op.operands[0].shape, windows, padding, strict=True)
    )


def for_each_tap(b: SourceBuilder, taps: Sequence[Dim], visit: Callable[[Sequence[Int]], None]) -> None:
    """Calls `visit` with the coordinates of the taps, in row-major order: one by one where they are few, in loops."""
    count = product(taps)
    if isinstance(count, int) and count <= LARGEST_UNROLLED:
        for ordinal in range(count):
            visit(unravel(b, ordinal, [b.size(size) for size in taps]))
        return
    *outer, last = taps
    with b.loop(0, b.size(product(outer)), prefix="tap") as row:
        leading = unravel(b, row, [b.size(size) for size in outer])
        if isinstance(last, int) and last <= LARGEST_UNROLLED:
            for ordinal in range(last):
                visit((*leading, ordinal))
        else:
            with b.loop(0, b.size(last), prefix="tap") as tap:
                visit((*leading, tap))
