"""Windows of an image that a unit of work copies before it reads them: pixels side by side, zeros beside the image.

The copy is in memory of the kernel, and is read like the image: an element has the position that it has there.
"""

from functools import cached_property
from math import prod

from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_cpu.schedules.depthwise import copied_pitch, copied_window
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from onnxc.runtime.records import record

__all__ = ["Image", "Span", "WindowCopies", "window_end", "window_start"]

Span = tuple[Int, Int]
"""The first of a row of numbers, and the one behind the last."""


@record
class Image:
    """Where an image is read: element [n, *positions, c] lies `offset` and so many strides behind `base`.

    is_surrounded: zeros stand beside its lines, wherever windows read.
    """

    base: Reg
    offset: Int
    strides: tuple[Int, ...]
    is_surrounded: bool = False

    def pixel(self, f: FunctionBuilder, element: str, line: Int, column: Int) -> Reg:
        """The address of channel 0 of a pixel of image 0, of two spatial axes."""
        steps = f.mul(line, self.strides[1]), f.mul(column, self.strides[2])
        return f.gep(self.base, f.add(self.offset, f.add(*steps)), element)


@record
class WindowCopies:
    """What copies windows of `x`, an image of two spatial axes with its channels innermost."""

    frame: KernelFrame
    op: Op
    x: View
    schedule: ConvolutionSchedule

    def copy(self, image: Image, ordinal: Int, lines: Span, columns: Span, channels: Span) -> Image:
        """A copy of what the windows of a unit read: those of `lines` and `columns` of the result, of some channels."""
        frame, f, op, pitch = self.frame, self.frame.f, self.op, copied_pitch(self.op, self.schedule.tile)
        height, width = self._window
        tops, lefts = (window_start(frame, op, axis, span[0]) for axis, span in enumerate((lines, columns)))
        strides: tuple[Int, ...] = (0, width * pitch, pitch, 1)
        origin = f.add(f.add(f.mul(tops, strides[1]), f.mul(lefts, pitch)), channels[0])
        room = f.gep(self._room, f.neg(origin), self._element)
        own = Image(image.base, f.add(image.offset, f.mul(ordinal, image.strides[0])), image.strides)
        copied = Image(room, 0, strides, self.schedule.surrounds)
        end = window_end(frame, op, self.schedule.tile.rows, columns) if copied.is_surrounded else f.add(lefts, width)
        bottom, right = (
            f.smin(behind, frame.size(size))
            for behind, size in zip((f.add(tops, height), end), self.x.shape[1:-1], strict=True)
        )

        def line(row: Int) -> None:
            def copy(column: Int) -> None:
                source, target = (each.pixel(f, self._element, row, column) for each in (own, copied))
                self._copy_channels(source, target, channels)

            def clear(column: Int) -> None:
                self._clear_channels(copied.pixel(f, self._element, row, column), channels)

            if copied.is_surrounded:
                f.loop(lefts, f.smin(end, 0), 1, clear)
                f.loop(f.smax(lefts, right), end, 1, clear)
            f.loop(f.smax(lefts, 0), right, 1, copy)

        f.loop(f.smax(tops, 0), bottom, 1, line)
        return copied

    @property
    def _window(self) -> tuple[int, int]:
        """The lines and columns of a copy."""
        assert self.schedule.unit is not None, self.schedule
        return copied_window(self.op, self.schedule.unit, self.schedule.surrounds)

    @cached_property
    def _element(self) -> str:
        return memory_type(self.x.base.dtype)

    @cached_property
    def _room(self) -> Reg:
        """Memory for what a unit copies: lines of pixels, of so many channels each."""
        return self.frame.f.alloca(self._element, prod(self._window) * copied_pitch(self.op, self.schedule.tile))

    def _copy_channels(self, source: Reg, target: Reg, channels: Span) -> None:
        """The channels of a pixel, in whole vectors but for the last ones of the image."""
        f, lanes, element = self.frame.f, self.frame.lanes, self._element
        count = known_sizes(self.op.result.shape[-1:])[0]
        vector, whole, (first, behind) = vector_type(element, lanes), count // lanes * lanes, channels

        def copy(channel: Int, mask: Reg | None = None) -> None:
            address, zero = f.gep(source, channel, element), f.constant(vector, 0)
            x = f.load(vector, address) if mask is None else masked_load(f, vector, address, mask, passthru=zero)
            f.store(x, f.gep(target, channel, element))

        stop = behind if whole == count else f.smin(behind, whole)
        f.loop(first, stop, lanes, copy)
        if whole < count:
            f.if_(f.icmp("sgt", behind, whole), lambda: copy(whole, f.tail_mask(lanes, count - whole)))

    def _clear_channels(self, target: Reg, channels: Span) -> None:
        """Zeros in the channels of a pixel, in whole vectors."""
        f, lanes = self.frame.f, self.frame.lanes
        zero = f.constant(vector_type(self._element, lanes), 0)
        f.loop(*channels, lanes, lambda channel: f.store(zero, f.gep(target, channel, self._element)))


def window_start(frame: KernelFrame, op: Op, axis: int, position: Int) -> Int:
    """Where the window of a position of the result begins in the image, along a spatial axis."""
    f = frame.f
    return f.sub(f.mul(position, op.ints("strides")[axis]), frame.size(op.dims("low")[axis]))


def window_end(frame: KernelFrame, op: Op, tile: int, columns: Span) -> Int:
    """Behind what the windows of `columns` read of a line, in whole tiles of so many."""
    f, (start, stop) = frame.f, columns
    tiles = f.udiv(f.add(f.sub(stop, start), tile - 1), tile)
    last = f.sub(f.add(start, f.mul(tiles, tile)), 1)
    taps, dilation = known_sizes(op.operands[1].shape[-1:])[0], op.ints("dilations")[-1]
    axis = len(op.ints("strides")) - 1
    return f.add(window_start(frame, op, axis, last), (taps - 1) * dilation + 1)
