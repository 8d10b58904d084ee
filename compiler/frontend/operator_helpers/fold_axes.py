"""Folding axes of a tensor: those that the model fixes, or those that data names when the program runs."""

from collections.abc import Sequence
from typing import Protocol

from onnxc.compiler.frontend.operator_helpers.precision import integer_bounds
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.sizes import Number
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import I64, U8, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.primitives.indexed import SCATTERED_FOLDS
from onnxc.runtime.records import record


class Fold(Protocol):
    """Some axes of a shape, and whether they stay with size 1."""

    @property
    def count(self) -> Dim:
        """How many elements make one."""

    def over(self, x: Value, kind: str) -> Value:
        """`x` folded by sum, prod, min, max, and, or."""

    def kept(self, x: Value, kind: str) -> Value:
        """As `over`, the folded axes with size 1 in any case."""


@record
class FixedAxes:
    """Axes known while the program is built."""

    ir: Builder
    shape: tuple[Dim, ...]
    axes: tuple[int, ...]
    keepdims: bool

    @property
    def count(self) -> Dim:
        return product(self.shape[axis] for axis in self.axes)

    def over(self, x: Value, kind: str) -> Value:
        return self.ir.reduce(x, kind, self.axes, keepdims=self.keepdims)

    def kept(self, x: Value, kind: str) -> Value:
        return self.ir.reduce(x, kind, self.axes, keepdims=True)


@record
class AxesOfData:
    """Axes that are data: `folded` has for each axis of the shape a size that is 1 where it is folded, else 0.

    Folding scatters each element to its index. `kept_shape` has the folded axes with size 1, `result_shape` is what
    the caller gets, `count` how many elements make one.
    """

    ir: Builder
    folded: tuple[Dim, ...]
    kept_shape: tuple[Dim, ...]
    result_shape: tuple[Dim, ...]
    count: Dim

    def over(self, x: Value, kind: str) -> Value:
        folded = self.kept(x, kind)
        return self.ir.with_shape(folded, self.result_shape)

    def kept(self, x: Value, kind: str) -> Value:
        ir = self.ir
        if x.dtype.is_bool:
            return ir.cast(self.kept(ir.cast(x, U8), SCATTERED_FOLDS[kind]), x.dtype)
        coordinates = [
            ir.unsqueeze(ir.mul(ir.iota(x.shape, axis, I64), ir.size(1 - one)), [x.rank])
            for axis, one in enumerate(self.folded)
        ]
        start = ir.full(self.kept_shape, _identity(kind, x.dtype), x.dtype)
        return ir.scatter_nd(start, ir.concatenate(coordinates, x.rank), x, SCATTERED_FOLDS[kind])


def axes_of_data(axes: Value, x: Value, ir: Builder, *, keepdims: bool, none_is_all: bool) -> AxesOfData:
    """The fold over `axes`: i64[n], which data gives; of no axes, over all of them where `none_is_all`.

    n must be an integer unless `keepdims`, for it decides the rank of the result.
    """
    rank, given = x.rank, axes.shape[0]
    wrapped = ir.unsqueeze(ir.wrap_negative(axes, rank), [1])
    named = ir.reduce(ir.equal(wrapped, ir.iota((1, rank), 1, I64)), "or", [0])
    expected = given
    if none_is_all and not isinstance(given, int):
        named = ir.or_(named, ir.equal(ir.size(given), 0))
        expected = given + rank * maximum(0, 1 - given)
    flags = ir.cast(named, I64)
    folded = ir.read_sizes(flags, "folded")
    message = f"the axes repeat, or are outside [{-rank}, {rank - 1}]"
    ir.guard(sum(folded, 0), expected, "equal", message)
    pairs = list(zip(x.shape, folded, strict=True))
    kept = ir.short([size - one * (size - 1) for size, one in pairs], "kept")
    count = product(ir.short([1 + one * (size - 1) for size, one in pairs], "folded_size"))
    result = kept
    if isinstance(given, int) and given > 0 and not keepdims:
        result = _left_shape(flags, x.shape, rank - given, ir)
    return AxesOfData(ir, folded, kept, result, count)


def _left_shape(flags: Value, shape: Sequence[Dim], count: int, ir: Builder) -> tuple[Dim, ...]:
    """The sizes of the `count` axes whose flag is 0, in order; read from memory, as formulas would be very long."""
    stays = ir.sub(1, flags)
    position = ir.unsqueeze(ir.scan_axis(stays, "sum", 0, exclusive=True), [1])
    chosen = ir.cast(ir.equal(position, ir.iota((1, count), 1, I64)), I64)
    sizes = ir.mul(ir.mul(chosen, ir.unsqueeze(stays, [1])), ir.unsqueeze(ir.sizes(shape), [1]))
    return ir.read_sizes(ir.reduce(sizes, "sum", [0]), "kept")


def _identity(kind: str, dtype: DType) -> Number:
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.is_float:
        return float("inf") if kind == "min" else float("-inf")
    least, greatest = integer_bounds(dtype)
    return greatest if kind == "min" else least
