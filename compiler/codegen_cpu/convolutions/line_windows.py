"""Reading lines through a window: for each tap a vector of the elements that neighbouring windows meet there.

Windows that start `stride` apart are read as whole vectors and taken apart by shuffles where the stride is small, so
that taps that fall into the same vectors share their loads; else they are gathered.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import from_memory, memory_type
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE, pick_lanes
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.dtypes import DType
from onnxc.runtime.records import record


@record
class LineWindows:
    """Rows of `length` elements, `element_stride` apart in memory, and the windows of `lanes` neighbouring results.

    `outside` is what an index outside the row gives, a constant of the element type in memory. Windows that `are_few`
    meet no more elements than one vector has, from the first tap of the first lane on; other lanes give anything.
    """

    f: FunctionBuilder
    dtype: DType
    length: Int
    element_stride: Int
    taps: int
    stride: int
    dilation: int
    lanes: int
    outside: Reg
    are_few: bool = False

    @property
    def reach(self) -> int:
        """How many elements from the first on `read` may touch, the row permitting."""
        if self._is_shuffled:
            return max(self._load_offsets) + self.lanes
        return (self.taps - 1) * self.dilation + (self.lanes - 1) * self.stride + 1

    def can_be_few(self, count: Int) -> Reg | None:
        """Whether one vector has all that so many windows meet; None where these are not read so.

        Of windows next to each other the taps are loaded, not shuffled; of a count that is known no load is in vain.
        """
        f, window = self.f, (self.taps - 1) * self.dilation + 1
        if isinstance(count, int) or not self._is_shuffled or self.stride == 1 or not 1 < window <= self.lanes:
            return None
        return f.icmp("sle", f.mul(f.sub(count, 1), self.stride), self.lanes - window)

    @property
    def _is_shuffled(self) -> bool:
        return self.element_stride == 1 and self.stride <= LARGEST_SHUFFLED_STRIDE

    @property
    def _load_offsets(self) -> tuple[int, ...]:
        """Where the loads begin, counted from the first tap of the first lane."""
        if not self._is_shuffled:
            return tuple(tap * self.dilation for tap in range(self.taps))
        if self.are_few:
            return (0,)
        starts = dict.fromkeys(tap * self.dilation // self.stride * self.stride for tap in range(self.taps))
        return tuple(dict.fromkeys(start + part * self.lanes for start in starts for part in range(self.stride)))

    def load_masks(self, first: Int) -> Mapping[int, Reg]:
        """For each load which lanes are within the row, if the first tap of the first lane is at `first`."""
        step = 1 if self._is_shuffled else self.stride
        return {load_offset: self._inside(self.f.add(first, load_offset), step) for load_offset in self._load_offsets}

    def tap_masks(self, first: Int) -> tuple[Reg, ...]:
        """For each tap which lanes are within the row."""
        return tuple(self._inside(self.f.add(first, tap * self.dilation), self.stride) for tap in range(self.taps))

    def _inside(self, position: Int, step: int) -> Reg:
        """The lanes for which position + lane * step is in [0, length)."""
        f, before, after = self.f, self.f.neg(position), self.f.sub(self.length, position)
        low, high = (f.udiv(f.add(f.smax(count, 0), step - 1), step) for count in (before, after))
        below = f.tail_mask(self.lanes, high)
        return f.and_(below, f.xor(f.tail_mask(self.lanes, low), f.constant(below.type, 1)))

    def read(self, line: Reg, first: Int, masks: Mapping[int, Reg] | None) -> tuple[Reg, ...]:
        """A vector for each tap, in registers; `line` is the first element of a row, `masks` None if all are inside."""
        loaded = {load_offset: self._load(line, first, load_offset, masks) for load_offset in self._load_offsets}
        if not self._is_shuffled:
            vectors: Sequence[Reg] = tuple(loaded.values())
        else:
            vectors = [self._taken_apart(loaded, tap * self.dilation) for tap in range(self.taps)]
        return tuple(from_memory(vector, self.dtype, self.f) for vector in vectors)

    def _load(self, line: Reg, first: Int, load_offset: int, masks: Mapping[int, Reg] | None) -> Reg:
        f, element = self.f, memory_type(self.dtype)
        type = vector_type(element, self.lanes)
        address = f.gep(line, f.mul(f.add(first, load_offset), self.element_stride), element)
        mask = None if masks is None else masks[load_offset]
        outside = f.splat(self.outside, self.lanes)
        if self._is_shuffled:
            return f.load(type, address) if mask is None else masked_load(f, type, address, mask, passthru=outside)
        step = f.mul(self.element_stride, self.stride)
        i64_lanes = vector_type("i64", self.lanes)
        steps = f.mul(f.lane_ids(i64_lanes), f.splat(as_reg(step), self.lanes))
        return f.gather(type, address, steps, mask, passthru=None if mask is None else outside)

    def _taken_apart(self, loaded: Mapping[int, Reg], offset: int) -> Reg:
        """The elements at `offset` + lane * stride of what was loaded."""
        lanes, stride = self.lanes, self.stride
        if self.are_few:
            return self.f.shuffle(loaded[0], None, [(offset + lane * stride) % lanes for lane in range(lanes)])
        start = offset // stride * stride
        parts = [loaded[start + part * lanes] for part in range(stride)]
        return pick_lanes(self.f, parts, [offset - start + lane * stride for lane in range(lanes)])
