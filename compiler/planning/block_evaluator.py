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
from onnxc.compiler.planning.loops.domain import is_uniform
from onnxc.compiler.planning.loops.indices import gathered_index
from onnxc.compiler.planning.loops.picked_views import PickedView
from onnxc.compiler.planning.loops.views import View, operand_view, row_major

Position = TypeVar("Position")
SizeValue = TypeVar("SizeValue")
Element = TypeVar("Element")


class BlockEvaluator(ABC, Generic[Position, SizeValue, Element]):
    """Evaluates values of one kernel block within one straight run of code, each at most once at an index.

    An index has a `Position` for each axis; a `SizeValue` is a size as the kernel knows it, an `Element` a result.
    `pointers` are the buffers of parameters, and of whatever else is in memory; `bound` are values that are computed.
    """

    pointers: Mapping[Value, Element]
    bound: dict[Value, Element]
    memo: dict[tuple[Value, tuple[Position, ...]], Element]

    # What a back end writes

    @abstractmethod
    def size(self, dim: Dim) -> SizeValue:
        """A size as this kernel knows it."""

    @abstractmethod
    def fixed(self, position: int) -> Position:
        """A position that is known while the code is written."""

    @abstractmethod
    def linear(self, index: Sequence[Position], strides: Sequence[SizeValue], offset: SizeValue) -> Position:
        """offset + the sum of position * stride."""

    @abstractmethod
    def unlinear(self, offset: Position, shape: Sequence[Dim]) -> Sequence[Position]:
        """The position along each axis of a dense box, from the offset in elements."""

    @abstractmethod
    def repeated(self, position: Position, size: Dim, result: Dim) -> Position:
        """The position in an axis of `size` that is repeated to `result`."""

    @abstractmethod
    def read(self, value: Value, offset: Position) -> Element:
        """The element of the buffer of `value` at an offset in elements."""

    @abstractmethod
    def literal(self, constant: float, dtype: DType) -> Element:
        """A constant."""

    @abstractmethod
    def pointwise(self, op: Op, operands: Sequence[Element]) -> Element:
        """The result of a pointwise op."""

    @abstractmethod
    def position(self, indices: Value, index: Sequence[Position], size: Dim) -> Position:
        """The element of `indices` at `index`, a position in an axis of `size`; one outside is reported and clamped."""

    def known_position(self, indices: Value, index: Sequence[Position], size: Dim) -> Position:
        """The same where none is outside."""
        return self.position(indices, index, size)

    @abstractmethod
    def picked(self, data: Value, index: Sequence[Position], sizes: Sequence[Dim]) -> Element:
        """`data` at `index`, or zeros where one of the axes of `sizes`, in which the positions are data, is empty."""

    # Values

    def value(self, value: Value, index: Sequence[Position]) -> Element:
        """`value` at `index`; it varies along no more dimensions than the index."""
        if value in self.bound:
            return self.bound[value]
        key = (value, tuple(index))
        if key not in self.memo:
            self.memo[key] = self._emit(value, key[1])
        return self.memo[key]

    def _emit(self, value: Value, index: tuple[Position, ...]) -> Element:
        if value in self.pointers:
            return self.read(value, self.strided(index, row_major(value.shape)))
        op = value.op
        assert op is not None, f"{value} is in no buffer"
        if PRIMITIVES[op.name].kind == "pointwise":
            return self.pointwise(op, [self.value(operand, index) for operand in op.operands])
        if op.operands and is_uniform(value):
            # Whatever the index, which may be one of a merged domain: another rank than the value has.
            return self.value(op.operands[0], (self.fixed(0),) * op.operands[0].rank)
        # The method of a movement or generator has its name.
        emit: Callable[[Op, tuple[Position, ...]], Element] = getattr(self, op.name)
        return emit(op, index)

    # Memory

    def strided(self, index: Sequence[Position], strides: Sequence[Dim], offset: Dim = 0) -> Position:
        """The offset of an index, in elements."""
        return self.linear(index, [self.size(stride) for stride in strides], self.size(offset))

    def load_view(self, view: View, index: Sequence[Position]) -> Element:
        """The elements of a strided view."""
        return self.read(view.base, self.strided(index, view.strides, view.offset))

    def bind_views(self, views: Mapping[Value, View], index: Sequence[Position]) -> None:
        """Loads values that are strided accesses, at an index that all of them have."""
        for value, view in views.items():
            self.bound[value] = self.load_view(view, index)

    # Movements, gathers and constants, each the method of an op of its name

    def constant(self, op: Op, index: tuple[Position, ...]) -> Element:
        """The one element of a constant; 0 of one that has none, as nothing reads it."""
        array, dtype = op.array(), op.results[0].dtype
        assert array.size <= 1, f"a constant of {array.size} elements is not in the weights"
        element = array.reshape(()) if array.size else dtype.numpy.type(0)
        return self.literal(float(element) if dtype.is_float else element.item(), dtype)

    def transpose(self, op: Op, index: tuple[Position, ...]) -> Element:
        """An element of the operand, its axes in their own order."""
        moved = dict(zip(op.ints("permutation"), index, strict=True))
        return self.value(op.operands[0], [moved[axis] for axis in range(len(index))])

    def broadcast(self, op: Op, index: tuple[Position, ...]) -> Element:
        """An element of the operand, which may be repeated."""
        (operand,), shape = op.operands, op.dims("shape")
        sizes = zip(op.ints("axes"), operand.shape, strict=True)
        return self.value(operand, [self.repeated(index[axis], size, shape[axis]) for axis, size in sizes])

    def slice(self, op: Op, index: tuple[Position, ...]) -> Element:
        """An element of the operand."""
        moved = zip(index, op.ints("steps"), op.dims("starts"), strict=True)
        return self.value(op.operands[0], [self.strided([position], [step], start) for position, step, start in moved])

    def reshape(self, op: Op, index: tuple[Position, ...]) -> Element:
        """An element of the operand: at the same positions, in memory, or else through the offset."""
        (operand,), shape = op.operands, op.dims("shape")
        kept = [position for position, size in zip(index, shape, strict=True) if size != 1]
        if [size for size in operand.shape if size != 1] == [size for size in shape if size != 1]:
            rest = iter(kept)
            return self.value(operand, [self.fixed(0) if size == 1 else next(rest) for size in operand.shape])
        view = operand_view(op.results[0])
        if view is not None and operand not in self.pointers and view.base in self.pointers:
            return self.load_view(view, index)
        offset = self.strided(index, row_major(shape))
        if operand in self.pointers:
            return self.read(operand, offset)
        return self.value(operand, self.unlinear(offset, operand.shape))

    def gather(self, op: Op, index: tuple[Position, ...]) -> Element:
        """An element of the data at positions that are data."""
        return self.picked(op.operands[0], *self.gathered(op, index))

    gather_along = gather_nd = gather

    def position_of_pick(self, view: PickedView, index: Sequence[Position]) -> Position:
        """Which position of the picked axis a place of a picked view is in; only the axes that pick it matter."""
        op, axis, indices = view.pick, view.pick.int("axis"), view.pick.operands[1]
        ordinal = self.strided(index, view.ordinals.strides, view.ordinals.offset)
        place = [self.fixed(0)] * op.result.rank
        place[axis : axis + indices.rank] = self.unlinear(ordinal, indices.shape)
        positions, _ = self.gathered(op, place)
        return positions[axis]

    def gathered(self, op: Op, index: Sequence[Position]) -> tuple[tuple[Position, ...], tuple[Dim, ...]]:
        """The index in the data of a gather, and the sizes of the axes in which it is data."""
        position = self.known_position if "known" in op.attributes else self.position
        return gathered_index(op, index, position, self.fixed)
