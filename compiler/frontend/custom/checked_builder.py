"""The builder of a custom operator's body: what lowerings make sure of by themselves, it checks."""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.module import Value

__all__ = ["CheckedBuilder"]


class CheckedBuilder(Builder):
    """Makes ops in the block of another builder; elements that a slice or a broadcast reads are sure to exist."""

    def __init__(self, enclosing: Builder) -> None:
        super().__init__(enclosing.symbols, enclosing.location)
        # One list of ops, and one set of the guards among them.
        self.ops, self._guarded = enclosing.ops, enclosing._guarded

    def slice_axis(self, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """`size` elements along one axis; ModelError, or an InputError of the call, where not all exist."""
        last = start + (size - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        what = f"{x.type} has not all of the {size} elements from {start} by {step} of axis {axis}"
        for left, right in ((size, 0), (low, 0), (x.shape[axis], high + 1)):
            self._require_at_least(left, right, what)
        return super().slice_axis(x, axis, start, size, step)

    def broadcast_to(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` repeated along new axes in front, and along those whose size is the number 1."""
        own = shape[len(shape) - x.rank :]
        for size, wanted in zip(x.shape, own, strict=False):
            if size != 1:
                self.require_equal(size, wanted, f"{x.type} cannot be broadcast to {list(shape)}")
        return super().broadcast_to(x, shape)

    def _require_at_least(self, left: Dim, right: Dim, message: str) -> None:
        """Guarded where it is not decided."""
        if at_least(left, right):
            return
        if at_least(right, left + 1):
            self.fail("slice-range", message)
        self.guard(left, right, "at_least", message)
