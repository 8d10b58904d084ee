"""Convolutions of which each lane sums its own windows.

They have few channels in each of many groups, or a type that tensor cores do not multiply. Lanes are elements of the
result in order, or pixels by channels where these lie last. There a lane may have a strip of neighbouring pixels of one
channel: what two of their windows read is read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnxc.compiler.codegen_gpu.kernels.contraction import write_result
from onnxc.compiler.codegen_gpu.schedules.elements import accumulator_of
from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast
from onnxc.compiler.codegen_gpu.source.sliding_windows import WindowAxis, convolution_axes, for_each_tap
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, is_multiple, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.layouts import Permuted
from onnxc.compiler.planning.loops.views import View, operand_view
from onnxc.compiler.planning.schedules import ConvolutionSchedule

PIXEL, CHANNEL = 0, 1
"""The dimensions of a tile."""


def weight_strides(kernel: Kernel, view: View) -> tuple[Dim, ...]:
    """The strides of filters, channels and taps as the weights lie."""
    packing = kernel.schedule.packing
    if packing is None:
        return view.strides
    assert isinstance(packing.layout, Permuted), packing
    return packing.layout.strides


def emit_direct(frame: KernelFrame, op: Op) -> KernelCode:
    """The whole kernel."""
    b, schedule = frame.b, frame.kernel.scheduled(ConvolutionSchedule)
    shape, labels, tile = op.results[0].shape, parse_dimensions(op.text("dimensions")).result, schedule.tile
    if tile.rows == 1:

        def write(e: Evaluator, position: Int) -> None:
            _Sums(frame, op, e).write_one(unravel(b, position, [frame.size(size) for size in shape]))

        return frame.flat(product(shape), write, tile.columns)
    strip = schedule.unit.columns if schedule.unit is not None else 1
    *sizes, width = [shape[labels.batch], *(shape[axis] for axis in labels.spatial)]
    sizes.append(floordiv(width + strip - 1, strip))
    pixels, channels = product(sizes), shape[labels.channel]
    counts = [floordiv(pixels + tile.rows - 1, tile.rows), floordiv(channels + tile.columns - 1, tile.columns)]
    row_tile, column_tile = unravel(b, b.program(), [frame.size(count) for count in counts])
    lanes = {PIXEL: b.lanes(PIXEL, tile.rows), CHANNEL: b.lanes(CHANNEL, tile.columns)}
    row = b.add(b.mul(row_tile, tile.rows), lanes[PIXEL])
    channel = b.add(b.mul(column_tile, tile.columns), lanes[CHANNEL])
    limits = ((PIXEL, row, pixels, tile.rows), (CHANNEL, channel, channels, tile.columns))
    masks = {dim: b.compare(x, "<", frame.size(n)) for dim, x, n, step in limits if not is_multiple(n, step)}
    batch, *pixel = unravel(b, row, [frame.size(size) for size in sizes])
    sums = _Sums(frame, op, frame.evaluator(lanes, masks))
    if strip == 1:
        sums.write_one(labels.arranged(batch, channel, pixel))
    else:
        sums.write_strip(batch, channel, pixel, strip)
    return frame.code((product(counts),))


@dataclass
class _Sums:
    """The sums of windows, and what follows, for the lanes of an evaluator."""

    frame: KernelFrame
    op: Op
    e: Evaluator

    def __post_init__(self) -> None:
        self.x, self.w = self.op.operands
        self.axes, self.labels = convolution_axes(self.op), parse_dimensions(self.op.text("dimensions"))
        self.summed_in = accumulator_of(self.op)

    def write_one(self, index: Sequence[Int]) -> None:
        """The element at an index of the result."""
        frame, b, w, labels = self.frame, self.frame.b, self.w, self.labels
        groups = self.op.int("groups")
        filter, batch = index[labels.result.channel], index[labels.result.batch]
        pixel = [index[axis] for axis in labels.result.spatial]
        per_group = frame.size(floordiv(w.shape[0], groups))
        first_channel = b.mul(b.div(filter, per_group) if groups > 1 else 0, frame.size(w.shape[1]))
        firsts = [axis.first(b, position) for axis, position in zip(self.axes, pixel, strict=True)]
        total = self._zero()

        def visit(taps: Sequence[Int]) -> None:
            elements = [self._element(*each) for each in zip(self.axes, firsts, taps, strict=True)]

            def channel(ordinal: Int) -> None:
                own = self._evaluator()
                a = self._read(own, batch, b.add(first_channel, ordinal), elements)
                b.assign(total, f"{total} + {a} * {self._factor(own, [filter, ordinal, *taps])}")

            if w.shape[1] == 1:
                channel(0)
            else:
                with b.loop(0, frame.size(w.shape[1]), prefix="channel") as ordinal:
                    channel(ordinal)

        for_each_tap(b, [axis.taps for axis in self.axes], visit)
        self._write(self.e, total, index)

    def write_strip(self, batch: Int, channel: Int, strip: Sequence[Int], count: int) -> None:
        """As many neighbouring elements along the last axis, each of the one channel of its group."""
        b, along = self.frame.b, self.axes[-1]
        *outer, ordinal = strip
        left = b.mul(ordinal, count)
        *firsts, first = [axis.first(b, at) for axis, at in zip(self.axes, (*outer, left), strict=True)]
        totals = [self._zero() for _ in range(count)]

        def visit(leading: Sequence[Int]) -> None:
            lines = [self._element(*each) for each in zip(self.axes[:-1], firsts, leading, strict=True)]
            own = self._evaluator()
            for ahead, uses in _readers(along, count):
                a = self._read(own, batch, channel, [*lines, along.element(b, b.add(first, ahead))])
                for result, tap in uses:
                    factor = self._factor(own, [channel, 0, *leading, tap])
                    b.assign(totals[result], f"tl.fma({a}, {factor}, {totals[result]})")

        for_each_tap(b, [axis.taps for axis in self.axes[:-1]], visit)
        width = self.op.results[0].shape[self.labels.result.spatial[-1]]
        for ordinal, total in enumerate(totals):
            column, masks = b.add(left, ordinal), dict(self.e.masks)
            if not is_multiple(width, count):
                exists = b.both(masks.get(PIXEL), b.compare(column, "<", self.frame.size(width)))
                assert exists is not None, width
                masks[PIXEL] = exists
            e = replace(self.e, masks=masks, bound={}, memo={})
            self._write(e, total, self.labels.result.arranged(batch, channel, (*outer, column)))

    def _zero(self) -> Expr:
        zero = self.e.spread(0, frozenset(self.e.lanes))
        return self.frame.b.variable(
            f"{zero} * tl.full([], 0, {register_type(self.summed_in)})", frozenset(self.e.lanes)
        )

    def _evaluator(self) -> Evaluator:
        e = self.e
        return Evaluator(e.b, e.pointers, e.reports, e.lanes, e.masks)

    def _element(self, axis: WindowAxis, first: Int, tap: Int) -> tuple[Int, Expr | None]:
        b = self.frame.b
        return axis.element(b, b.add(first, axis.ahead(b, tap)))

    def _read(self, e: Evaluator, batch: Int, channel: Int, elements: Sequence[tuple[Int, Expr | None]]) -> Expr:
        """An element of the image as it is summed; 0 beside it."""
        b, inside = self.frame.b, None
        for _, exists in elements:
            inside = b.both(inside, exists)
        index = self.labels.x.arranged(batch, channel, [position for position, _ in elements])
        a = e.wanted(inside).value(self.x, index)
        if inside is not None and operand_view(self.x) is None:
            a = b.let(f"tl.where({inside}, {a}, 0)", dims_of(inside, a))
        return emit_cast(a, self.x.dtype, self.summed_in, b)

    def _factor(self, e: Evaluator, index: Sequence[Int]) -> Expr:
        """A weight as it is summed, at the index of each lane.

        A row of weights alone would be shared out among the threads, each of which then waits for the others at every
        tap to have its own.
        """
        index = _of_each_lane(e, index)
        view = operand_view(self.w)
        if view is None:
            factor = e.value(self.w, index)
        else:
            strides = weight_strides(self.frame.kernel, view)
            factor = e.load_view(View(view.base, view.shape, view.offset, strides), index)
        return emit_cast(factor, self.w.dtype, self.summed_in, self.frame.b)

    def _write(self, e: Evaluator, total: Expr, index: Sequence[Int]) -> None:
        write_result(self.frame, e, self.op, total, _of_each_lane(e, index))


def _of_each_lane(e: Evaluator, index: Sequence[Int]) -> Sequence[Int]:
    return [e.spread(position, frozenset(e.lanes)) if dims_of(position) else position for position in index]


def _readers(axis: WindowAxis, count: int) -> Sequence[tuple[int, Sequence[tuple[int, int]]]]:
    """What `count` windows side by side read, by its place behind the first element; the results and taps it is of."""
    assert isinstance(axis.taps, int), axis
    readers: dict[int, list[tuple[int, int]]] = {}
    for result in range(count):
        for tap in range(axis.taps):
            readers.setdefault(result * axis.step + tap * axis.dilation, []).append((result, tap))
    return sorted(readers.items())
