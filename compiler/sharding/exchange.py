"""From one sharding of a value to another: slices, which cost nothing, and collectives."""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attributes, Value
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding, block_size, is_divisible

__all__ = ["Exchange", "local_shape"]


def local_shape(shape: Sequence[Dim], sharding: Sharding, mesh: Mesh) -> tuple[Dim, ...]:
    """The shape of what each device holds of a value of `shape`."""
    return tuple(
        block_size(size, mesh.shards(axes)) if axes else size for size, axes in zip(shape, sharding.dims, strict=True)
    )


class Exchange:
    """Makes the ops of one block that change how values are divided; `ordinal`, i64[], is that of the device in it.

    devices: for each ordinal of the mesh the device, which collectives name.
    """

    def __init__(self, build: Builder, mesh: Mesh, ordinal: Value, devices: Sequence[int]) -> None:
        self.build, self.mesh, self.ordinal, self.devices = build, mesh, ordinal, devices

    def convert(self, value: Value, shape: Sequence[Dim], source: Sharding, target: Sharding) -> Value:
        """What a device holds of a value of `shape` by `target`, from what it holds by `source`."""
        value, current = self._reduced(value, shape, source, target)
        for axis in range(len(shape)):
            value, current = self._moved(value, shape, current, target, axis)
        for axis in range(len(shape)):
            value, current = self._gathered(value, shape, current, target, axis)
        for axis, size in enumerate(shape):
            if axes := target.dims[axis][len(current.dims[axis]) :]:
                value = self.sliced(value, axis, self._outer_size(size, current.dims[axis]), axes)
        return value

    def sliced(self, value: Value, axis: int, size: Dim, axes: Axes) -> Value:
        """The block of this device along an axis of `size`; what is beyond the end repeats the last element."""
        build, shards = self.build, self.mesh.shards(axes)
        block = block_size(size, shards)
        index = build.add(build.iota((block,), 0, I64), build.mul(self.block(axes), build.size(block)))
        if not is_divisible(size, shards):
            index = build.min(index, build.sub(build.size(size), 1))
        return build.gather(value, index, axis)

    def masked(self, value: Value, axis: int, size: Dim, axes: Axes, fill: float | bool) -> Value:
        """The block with `fill` for what is beyond the end of the axis, which has `size` elements in all."""
        build, block = self.build, value.shape[axis]
        index = build.add(build.iota((block,), 0, I64), build.mul(self.block(axes), build.size(block)))
        inside = build.broadcast(build.less(index, build.size(size)), (axis,), value.shape)
        return build.select(inside, value, build.full(value.shape, fill, value.dtype))

    def block(self, axes: Axes) -> Value:
        """Which of the blocks that `axes` divide into this device holds."""
        build, block = self.build, self.build.scalar(0, I64)
        for name in axes:
            size = self.mesh.sizes[name]
            coordinate = build.rem(build.div(self.ordinal, self.mesh.strides[name]), size)
            block = build.add(build.mul(block, size), coordinate)
        return block

    def _reduced(
        self, value: Value, shape: Sequence[Dim], source: Sharding, target: Sharding
    ) -> tuple[Value, Sharding]:
        """Parts combined, but those that `target` has too: scattered over an axis that it divides by the same axes."""
        dims, left = list(source.dims), tuple(name for name in source.partial if name not in target.partial)
        for axis, axes in enumerate(target.dims):
            if axes and not dims[axis] and set(axes) <= set(left):
                padded = self._padded(value, axis, shape[axis], self.mesh.shards(axes))
                value = self._collective("reduce_scatter", padded, axes, {"kind": source.kind, "axis": axis})
                dims[axis], left = axes, tuple(name for name in left if name not in axes)
        if left:
            value = self._collective("all_reduce", value, left, {"kind": source.kind})
        return value, Sharding(tuple(dims))

    def _moved(
        self, value: Value, shape: Sequence[Dim], current: Sharding, target: Sharding, axis: int
    ) -> tuple[Value, Sharding]:
        """The division of `axis` moved to another axis, where all of it goes there: blocks to all, no more bytes."""
        axes, dims = current.dims[axis], list(current.dims)
        for other in range(len(shape)):
            if axes and not target.dims[axis] and not dims[other] and target.dims[other] == axes:
                padded = self._padded(value, other, shape[other], self.mesh.shards(axes))
                attributes = {"split_axis": other, "concat_axis": axis}
                value = self._trimmed(self._collective("all_to_all", padded, axes, attributes), axis, shape[axis])
                dims[axis], dims[other] = (), axes
                break
        return value, Sharding(tuple(dims))

    def _gathered(
        self, value: Value, shape: Sequence[Dim], current: Sharding, target: Sharding, axis: int
    ) -> tuple[Value, Sharding]:
        """The division of `axis` undone as far as `target` has not got it."""
        axes, kept = current.dims[axis], self._common(shape[axis], current.dims[axis], target.dims[axis])
        if kept == axes:
            return value, current
        gathered = self._collective("all_gather", value, axes[len(kept) :], {"axis": axis})
        dims = (*current.dims[:axis], kept, *current.dims[axis + 1 :])
        return self._trimmed(gathered, axis, self._outer_size(shape[axis], kept)), Sharding(dims)

    def _common(self, size: Dim, axes: Axes, target: Axes) -> Axes:
        """The slowest axes that both begin with; none where blocks of blocks are not those of all axes at once."""
        count = next((k for k, (a, b) in enumerate(zip(axes, target, strict=False)) if a != b), None)
        kept = axes[: min(len(axes), len(target)) if count is None else count]
        is_even = is_divisible(size, (self.mesh.shards(axes), self.mesh.shards(target)))
        return kept if is_even or axes == target else ()

    def _outer_size(self, size: Dim, axes: Axes) -> Dim:
        return block_size(size, self.mesh.shards(axes)) if axes else size

    def _padded(self, value: Value, axis: int, size: Dim, shards: int) -> Value:
        """The value with room for blocks of one size along an axis."""
        if is_divisible(size, shards):
            return value
        low, high = [0] * value.rank, list[Dim]([0] * value.rank)
        high[axis] = block_size(size, shards) * shards - size
        return self.build.pad(value, low, high)

    def _trimmed(self, value: Value, axis: int, size: Dim) -> Value:
        return value if value.shape[axis] == size else self.build.slice_axis(value, axis, 0, size)

    def _collective(self, name: str, value: Value, axes: Axes, attributes: Attributes) -> Value:
        groups = tuple(tuple(self.devices[member] for member in group) for group in self.mesh.groups(axes))
        return self.build.op(name, [value], {**attributes, "groups": groups})[0]
