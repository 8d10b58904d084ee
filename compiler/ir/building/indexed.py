"""Part of the builder: indexed access, ordering, and sizes that data decides."""

from onnxc.compiler.ir.building.pointwise import PointwiseBuilder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.indexed import HELD


class IndexedBuilder(PointwiseBuilder):
    """Makes ops that pick, replace, order or count elements by what data says."""

    def gather(self, data: Value, indices: Value, axis: int, *, are_held: bool = False) -> Value:
        """numpy.take: data[:axis] + indices.shape + data[axis + 1:]; where indices `are_held`, none is outside."""
        if are_held:
            return self._one("gather", data, indices, axis=axis, known=HELD)
        return self._one("gather", data, indices, axis=axis)

    def gather_along(self, data: Value, indices: Value, axis: int) -> Value:
        """numpy.take_along_axis; indices may be smaller on the other axes."""
        return self._one("gather_along", data, indices, axis=axis)

    def gather_nd(self, data: Value, indices: Value, batch_dims: int = 0) -> Value:
        """Slices at coordinates, which are the last axis of `indices`."""
        return self._one("gather_nd", data, indices, batch_dims=batch_dims)

    def scatter_along(self, data: Value, indices: Value, updates: Value, axis: int, kind: str) -> Value:
        """`data` with `updates` set, added, ... at indices along an axis."""
        return self._one("scatter_along", data, indices, updates, axis=axis, kind=kind)

    def scatter_nd(self, data: Value, indices: Value, updates: Value, kind: str) -> Value:
        """`data` with `updates` set, added, ... at coordinates."""
        return self._one("scatter_nd", data, indices, updates, kind=kind)

    def wrap_negative(self, indices: Value, size: Dim) -> Value:
        """i64 indices in which negative ones count from the end of an axis of `size`."""
        wide = self.cast(indices, I64)
        known = self.known(wide)
        if known is not None and all(isinstance(index, int) and index >= 0 for index in known):
            return wide
        return self.select(self.less(wide, 0), self.add(wide, self.size(size)), wide)

    def sort(self, x: Value, axis: int, descending: bool = False) -> tuple[Value, Value]:
        """Values in order along an axis, and where each was."""
        values, indices = self.op("sort", [x], {"axis": axis, "descending": descending})
        return values, indices

    def top_k(self, x: Value, k: Dim, axis: int, largest: bool = True) -> tuple[Value, Value]:
        """The k largest or smallest along an axis in order, and where each was."""
        values, indices = self.op("top_k", [x], {"k": k, "axis": axis, "largest": largest})
        return values, indices

    def non_zero(self, x: Value) -> Value:
        """i64[rank, n]: the coordinates of what is not zero."""
        return self._one("non_zero", x, symbol=self.symbols.fresh("nonzero"))

    def read_sizes(
        self, value: Value, hint: str = "size", at_most: Dim | None = None, enough: Dim | None = None
    ) -> tuple[Dim, ...]:
        """The elements of an integer tensor of rank 0 or 1 as sizes; symbols of their own where data decides them.

        Such a symbol may be of any sign, and its name starts with `?`. at_most: with this in the place of what data
        decides, the program would compute the same by more work. enough: so it would with this in the place of what is
        larger.
        """
        known = self.known(value)
        if known is not None:
            return known
        count = value.shape[0] if value.rank == 1 else 1
        if value.rank > 1 or not isinstance(count, int):
            self.fail("shape-not-a-vector", f"a shape must be a vector of known length, got {value.type}")
        names = tuple(self.symbols.fresh(f"?{hint}{index}") for index in range(count))
        for name in names:
            del self.symbols.ranges[name]
            self.symbols.ranges[name] = (-(2**63), None)
        bounds = {"at_most": at_most, "enough": enough}
        bound = {name: (most,) * count for name, most in bounds.items() if most is not None}
        self.op("bind_sizes", [self.reshape(self.cast(value, I64), (count,))], {"symbols": names, **bound})
        return tuple(Size.symbol(name) for name in names)
