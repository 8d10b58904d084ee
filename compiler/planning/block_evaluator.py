"""The value of a block at an index: what movements and gathers do to an index, the same for every back end.

What positions, sizes and computed elements are, and how they are written as code, is not known here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.domain import is_uniform
from onnxc.compiler.planning.indices import gathered_place
from onnxc.compiler.planning.views import View, operand_view, row_major

Place = TypeVar("Place")
Number = TypeVar("Number")
Element = TypeVar("Element")


class BlockEvaluator(ABC, Generic[Place, Number, Element]):
    """Evaluates values of one kernel block within one straight run of code, each at most once at an index.

    An index has a `Place` for each axis; a `Number` is a size as the kernel knows it, an `Element` a computed value.
    `pointers` are the buffers of parameters, and of whatever else is in memory; `bound` are values that are computed.
    """

    pointers: Mapping[Value, Element]
    bound: dict[Value, Element]
    memo: dict[tuple[Value, tuple[Place, ...]], Element]

    # What a back end writes

    @abstractmethod
    def size(self, dim: Dim) -> Number:
        """A size as a number of this kernel."""

    @abstractmethod
    def place(self, number: int) -> Place:
        """A position that is known."""

    @abstractmethod
    def linear(self, index: Sequence[Place], strides: Sequence[Number], offset: Number) -> Place:
        """offset + the sum of position * stride."""

    @abstractmethod
    def unlinear(self, place: Place, shape: Sequence[Dim]) -> Sequence[Place]:
        """The position along each axis of a dense box, from the linear place."""

    @abstractmethod
    def repeated(self, place: Place, size: Dim, result: Dim) -> Place:
        """The position in an axis of `size` that is repeated to `result`."""

    @abstractmethod
    def read(self, value: Value, place: Place) -> Element:
        """The element of the buffer of `value` at a linear place."""

    @abstractmethod
    def literal(self, number: float, dtype: DType) -> Element:
        """A number that is known."""

    @abstractmethod
    def pointwise(self, op: Op, operands: Sequence[Element]) -> Element:
        """The result of a pointwise op."""

    @abstractmethod
    def position(self, indices: Value, index: Sequence[Place], size: Dim) -> Place:
        """The element of `indices` at `index`, a position in an axis of `size`; one outside is reported and clamped."""

    @abstractmethod
    def picked(self, data: Value, places: Sequence[Place], sizes: Sequence[Dim]) -> Element:
        """`data` at `places`, or zeros where one of the axes of `sizes`, in which the places are data, is empty."""

    # Values

    def value(self, value: Value, index: Sequence[Place]) -> Element:
        """`value` at `index`; it varies along no more dimensions than the index."""
        if value in self.bound:
            return self.bound[value]
        key = (value, tuple(index))
        if key not in self.memo:
            self.memo[key] = self._emit(value, key[1])
        return self.memo[key]

    def _emit(self, value: Value, index: tuple[Place, ...]) -> Element:
        if value in self.pointers:
            return self.read(value, self.strided(index, row_major(value.shape)))
        op = value.op
        assert op is not None, f"{value} is in no buffer"
        if PRIMITIVES[op.name].kind == "pointwise":
            return self.pointwise(op, [self.value(operand, index) for operand in op.operands])
        if op.operands and is_uniform(value):
            # Whatever the index, which may be one of a merged domain: another rank than the value has.
            return self.value(op.operands[0], (self.place(0),) * op.operands[0].rank)
        # The method of a movement or generator has its name.
        emit: Callable[[Op, tuple[Place, ...]], Element] = getattr(self, op.name)
        return emit(op, index)

    # Memory

    def strided(self, index: Sequence[Place], strides: Sequence[Dim], offset: Dim = 0) -> Place:
        """The linear place of an index."""
        return self.linear(index, [self.size(stride) for stride in strides], self.size(offset))

    def load_view(self, view: View, index: Sequence[Place]) -> Element:
        """The elements of a strided view."""
        return self.read(view.base, self.strided(index, view.strides, view.offset))

    def bind_views(self, views: Mapping[Value, View], index: Sequence[Place]) -> None:
        """Loads values that are strided accesses, at an index that all of them have."""
        for value, view in views.items():
            self.bound[value] = self.load_view(view, index)

    # Movements, gathers and constants, each the method of an op of its name

    def constant(self, op: Op, index: tuple[Place, ...]) -> Element:
        """The one element of a constant."""
        array, dtype = op.array(), op.results[0].dtype
        assert array.size == 1, f"a constant of {array.size} elements is not in the weights"
        return self.literal(float(array.reshape(())) if dtype.is_float else array.reshape(()).item(), dtype)

    def transpose(self, op: Op, index: tuple[Place, ...]) -> Element:
        """An element of the operand, its axes in their own order."""
        places = dict(zip(op.ints("permutation"), index, strict=True))
        return self.value(op.operands[0], [places[axis] for axis in range(len(index))])

    def broadcast(self, op: Op, index: tuple[Place, ...]) -> Element:
        """An element of the operand, which may be repeated."""
        (operand,), shape = op.operands, op.dims("shape")
        sizes = zip(op.ints("axes"), operand.shape, strict=True)
        return self.value(operand, [self.repeated(index[axis], size, shape[axis]) for axis, size in sizes])

    def slice(self, op: Op, index: tuple[Place, ...]) -> Element:
        """An element of the operand."""
        moved = zip(index, op.ints("steps"), op.dims("starts"), strict=True)
        return self.value(op.operands[0], [self.strided([place], [step], start) for place, step, start in moved])

    def reshape(self, op: Op, index: tuple[Place, ...]) -> Element:
        """An element of the operand: at the same positions, in memory, or else through the linear place."""
        (operand,), shape = op.operands, op.dims("shape")
        kept = [place for place, size in zip(index, shape, strict=True) if size != 1]
        if [size for size in operand.shape if size != 1] == [size for size in shape if size != 1]:
            places = iter(kept)
            return self.value(operand, [self.place(0) if size == 1 else next(places) for size in operand.shape])
        view = operand_view(op.results[0])
        if view is not None and operand not in self.pointers and view.base in self.pointers:
            return self.load_view(view, index)
        place = self.strided(index, row_major(shape))
        if operand in self.pointers:
            return self.read(operand, place)
        return self.value(operand, self.unlinear(place, operand.shape))

    def gather(self, op: Op, index: tuple[Place, ...]) -> Element:
        """An element of the data at places that are data."""
        return self.picked(op.operands[0], *gathered_place(op, index, self.position, self.place))

    gather_along = gather_nd = gather
