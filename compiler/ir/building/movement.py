"""Part of the builder: movements, and the broadcasting that puts operands under one shape."""

from collections.abc import Sequence

from onnxc.compiler.ir.building.sizes import Number, Operand, SizeBuilder
from onnxc.compiler.ir.dim_functions import always_broadcast, bcast
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value


class MovementBuilder(SizeBuilder):
    """Makes movements; one that moves nothing is its operand."""

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """The same elements in row-major order; the element counts must be equal, guarded if not decided."""
        if x.shape == tuple(shape):
            return x
        before, after = product(x.shape), product(shape)
        if before != after:
            self.require_equal(before, after, f"{x.type} cannot be reshaped to {list(shape)}", "reshape-elements")
        return self._one("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Result axis i is operand axis permutation[i]."""
        if tuple(permutation) == tuple(range(x.rank)):
            return x
        return self._one("transpose", x, permutation=tuple(permutation))

    def broadcast(self, x: Value, axes: Sequence[int], shape: Sequence[Dim]) -> Value:
        """Operand axis i is result axis axes[i]; other result axes repeat."""
        if x.shape == tuple(shape) and tuple(axes) == tuple(range(x.rank)):
            return x
        return self._one("broadcast", x, axes=tuple(axes), shape=tuple(shape))

    def slice(self, x: Value, starts: Sequence[Dim], shape: Sequence[Dim], steps: Sequence[int] | None = None) -> Value:
        """Element i of an axis is operand element start + i * step; the caller makes sure that all exist."""
        steps = tuple(steps) if steps is not None else (1,) * x.rank
        if x.shape == tuple(shape) and set(starts) <= {0} and set(steps) <= {1}:
            return x
        return self._one("slice", x, starts=tuple(starts), shape=tuple(shape), steps=steps)

    def slice_axis(self, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """`size` elements along one axis."""
        starts, shape, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        all_starts: list[Dim] = list(starts)
        all_starts[axis], shape[axis], steps[axis] = start, size, step
        return self.slice(x, all_starts, shape, steps)

    def reverse(self, x: Value, axis: int) -> Value:
        """`x` backwards along one axis."""
        return self.slice_axis(x, axis, x.shape[axis] - 1, x.shape[axis], -1)

    def pad(self, x: Value, low: Sequence[Dim], high: Sequence[Dim], value: Operand = 0) -> Value:
        """`value` before and after `x`."""
        if set(low) | set(high) <= {0}:
            return x
        fill = value if isinstance(value, Value) else self.scalar(value, x.dtype)
        return self._one("pad", x, fill, low=tuple(low), high=tuple(high))

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """`values` one after another along `axis`; their other sizes must be equal, guarded if not decided."""
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        for value in values[1:]:
            if value.rank != len(shape):
                self.fail("concat-rank", "the ranks differ", [str(other.type) for other in values])
            for other_axis in range(len(shape)):
                if other_axis != axis:
                    shape[other_axis] = self.require_equal(
                        shape[other_axis], value.shape[other_axis], f"axis {other_axis} differs", "concat-sizes"
                    )
        fitted = [self.with_shape(value, (*shape[:axis], value.shape[axis], *shape[axis + 1 :])) for value in values]
        return self.op("concatenate", fitted, {"axis": axis})[0]

    def with_shape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` under sizes that are known to equal its own, written in another way."""
        return x if x.shape == tuple(shape) else self._one("reshape", x, shape=tuple(shape))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` without `axes`, whose sizes must be 1."""
        for axis in axes:
            self.require_equal(x.shape[axis], 1, f"axis {axis} to squeeze is not 1", "squeeze-size")
        shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return self.with_shape(x, shape)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """`x` with new axes of size 1, which are `axes` of the result."""
        rest = iter(x.shape)
        return self.with_shape(x, [1 if axis in axes else next(rest) for axis in range(x.rank + len(axes))])

    # Broadcasting

    def full(self, shape: Sequence[Dim], value: Number, dtype: DType) -> Value:
        """A tensor of one value."""
        return self.broadcast(self.scalar(value, dtype), (), shape)

    def broadcast_shape(self, *shapes: Sequence[Dim], code: str = "broadcast-mismatch") -> tuple[Dim, ...]:
        """The NumPy broadcast of `shapes`; what is not decided is guarded.

        Raises ModelError with `code` where there is none.
        """
        rank = max(len(shape) for shape in shapes)
        padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        return tuple(self._broadcast_sizes(sizes, code) for sizes in zip(*padded, strict=True))

    def _broadcast_sizes(self, sizes: Sequence[Dim], code: str) -> Dim:
        total = bcast(*sizes)
        for size in sizes:
            if size in (1, total):
                continue
            if isinstance(size, int) and isinstance(total, int):
                self.fail(code, f"sizes {size} and {total} cannot be broadcast together")
            for other in sizes:
                if not always_broadcast(size, other):
                    message = f"sizes {other} and {size} must be equal or 1"
                    left, right = sorted((other, size), key=str)
                    self.guard(left, right, "broadcast", message)
        return total

    def broadcast_to(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` with NumPy's rule: its axes are the last ones of `shape`."""
        if x.shape == tuple(shape):
            return x
        return self.broadcast(x, range(len(shape) - x.rank, len(shape)), shape)

    def broadcast_together(self, *values: Value) -> tuple[Value, ...]:
        """All of `values` at their common shape."""
        if len({value.shape for value in values}) == 1:
            return values
        shape = self.broadcast_shape(*(value.shape for value in values))
        return tuple(self.broadcast_to(value, shape) for value in values)
