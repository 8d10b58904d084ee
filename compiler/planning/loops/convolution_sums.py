"""What each element of a convolution sums, as strided loops over the image: gathered starts, and runs behind each.

A run is read element after element; where it begins is looked up for each pixel. Channels make a run where they lie
side by side, and so do neighbouring taps, alone or with the channels, where no padding lies between them.
"""

from collections.abc import Sequence
from functools import cached_property
from math import gcd, prod

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import ConvolutionDimensions, parse_dimensions
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import View
from onnxc.runtime.records import record

__all__ = ["SummedAxis", "Sums", "find_sums", "is_padded"]

# With zeros between the elements of an image, results fall into phases: those that are as far apart as its elements
# meet these under the same taps, and sum only them. Where taps and elements have a common step, some phases meet none.


@record
class SummedAxis:
    """An axis that is summed: its size, its stride in the image, and its ordinal in [i, *taps] of the filters.

    spread: how far apart, in taps, those are that meet elements. dilation: how many elements lead from one such to the
    next, `stride` apart in memory.
    """

    size: int
    stride: Dim
    ordinal: int
    spread: int = 1
    dilation: int = 1

    @property
    def spatial(self) -> int | None:
        """Which spatial axis its taps go along; None for the channels."""
        return self.ordinal - 1 if self.ordinal else None


@record
class Sums:
    """The sums of a convolution over `x`: `run` lies side by side behind each position of the axes `starts`."""

    op: Op
    x: View
    starts: tuple[SummedAxis, ...]
    run: tuple[SummedAxis, ...]

    @cached_property
    def dimensions(self) -> ConvolutionDimensions:
        """Which axis is which."""
        return parse_dimensions(self.op.text("dimensions"))

    @property
    def order(self) -> tuple[int, ...]:
        """The axes [i, *taps] of the filters in the order in which they are summed."""
        axes = tuple(axis.ordinal for axis in (*self.starts, *self.run))
        return (*(axis for axis in range(self.op.operands[1].rank - 1) if axis not in axes), *axes)

    @property
    def start_count(self) -> int:
        """How many runs there are at most, in any phase."""
        return prod(-(-axis.size // axis.spread) for axis in self.starts)

    @property
    def spread(self) -> tuple[SummedAxis, ...]:
        """The axes with phases."""
        return tuple(axis for axis in self.starts if axis.spread > 1)

    @property
    def run_length(self) -> int:
        """How many elements lie side by side."""
        return prod(axis.size for axis in self.run)


def find_sums(op: Op, x: View, merges: bool = True) -> Sums | None:
    """The sums of a convolution that reads `x`; None where its runs would be single elements of several channels.

    Those of one channel are read so where its taps do not lie side by side, as of a transposed convolution: 32 filters
    of 4 x 4 taps for 8 images of 28 x 29 took 8.7 ms by the general kernel, and take 0.22.

    merges: whether several axes may make one run. The filters have known sizes, but for how many there are.
    """
    dimensions = parse_dimensions(op.text("dimensions"))
    w = dimensions.w
    sizes = known_sizes([op.operands[1].shape[axis] for axis in (w.input, *w.spatial)])
    steps = [1, *op.ints("dilations")]
    strides = [x.strides[axis] for axis in (dimensions.x.channel, *dimensions.x.spatial)]
    rows = enumerate(zip(sizes, strides, steps, [1, *op.ints("input_dilations")], strict=True))
    axes = [_summed(size, stride, ordinal, step, spread) for ordinal, (size, stride, step, spread) in rows]
    starts = [axis for axis in axes if axis.size != 1 or is_padded(op, axis)]
    run: list[SummedAxis] = []
    while following := _following(op, starts, prod(axis.size for axis in run)):
        starts.remove(following)
        run.insert(0, following)
        if not merges:
            break
    if not run and sizes[0] > 1:
        return None
    return Sums(op, x, tuple(starts), tuple(run))


def _summed(size: int, stride: Dim, ordinal: int, step: int, spread: int) -> SummedAxis:
    """An axis of taps `step` apart, over elements that stand `spread` apart."""
    common = gcd(step, spread)
    return SummedAxis(size, stride * (step // common), ordinal, spread // common, step // common)


def _following(op: Op, axes: Sequence[SummedAxis], length: int) -> SummedAxis | None:
    """The axis whose elements are `length` apart, and so lie behind each other in runs of that length."""
    return next((axis for axis in axes if axis.stride == length and not is_padded(op, axis)), None)


def is_padded(op: Op, axis: SummedAxis) -> bool:
    """Whether taps along an axis may lie outside of the image."""
    spatial = axis.spatial
    if spatial is None:
        return False
    return op.ints("input_dilations")[spatial] > 1 or (op.dims("low")[spatial], op.dims("high")[spatial]) != (0, 0)
