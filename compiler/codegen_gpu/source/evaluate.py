"""The value of a block at an index: movement ops become index arithmetic, pointwise ops become expressions over tiles.

An index is one position per axis, each a number, a uniform expression, or one that varies along dimensions of the tile.
A load is masked along just the tile dimensions that its address varies along.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnxc.compiler.codegen_gpu.source.composites import emit_composite
from onnxc.compiler.codegen_gpu.source.random_words import random_word
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast, emit_pointwise, from_memory, literal, to_memory
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, dims_of, unravel
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.index_range import given_indices
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.block_evaluator import BlockEvaluator
from onnxc.compiler.planning.loops.views import operand_view, row_major, split_axes
from onnxc.runtime.program import STATUS_CODE, STATUS_LOCATION, STATUS_SIZE, STATUS_VALUE


@dataclass
class Evaluator(BlockEvaluator[Int, Int, Expr]):
    """Evaluates values of one kernel block within one straight run of statements.

    `lanes` are the places within the tile along each of its dimensions, `masks` say which of them exist, `condition`
    which of these are wanted; both absent: all. `longer` are the masks for single buffers, of which more exists.
    `reports` gives the status block and the number of the location, for indices that are data.
    """

    b: SourceBuilder
    pointers: Mapping[Value, Expr]
    reports: Callable[[], tuple[Expr, Expr]]
    lanes: Mapping[int, Expr] = field(default_factory=dict)
    masks: Mapping[int, Expr] = field(default_factory=dict)
    condition: Expr | None = None
    longer: Mapping[Value, Mapping[int, Expr]] = field(default_factory=dict)
    bound: dict[Value, Expr] = field(default_factory=dict)
    memo: dict[tuple[Value, tuple[Int, ...]], Expr] = field(default_factory=dict)

    def size(self, dim: Dim) -> Int:
        """A size as a number of this kernel."""
        return self.b.size(dim)

    def fixed(self, value: int) -> Int:
        """A position that is known."""
        return value

    def literal(self, value: float, dtype: DType) -> Expr:
        """A number that is known."""
        return literal(self.b, value, dtype)

    def pointwise(self, op: Op, operands: Sequence[Expr]) -> Expr:
        """The result of a pointwise op."""
        return emit_pointwise(op, operands, self.b)

    def wanted(self, condition: Expr | None) -> "Evaluator":
        """An evaluator of what is wanted only where `condition` holds: elsewhere loads give zeros."""
        return replace(self, condition=self.b.both(self.condition, condition), bound=dict(self.bound), memo={})

    # Memory

    def mask(self, dims: frozenset[int]) -> Expr | None:
        """Which lanes of an address that varies along `dims` exist; None where all do."""
        result = None
        for dim in sorted(dims):
            result = self.b.both(result, self.masks.get(dim))
        return result

    def load(self, dtype: DType, pointer: Expr, offset: Int) -> Expr:
        """The elements of a buffer at linear places."""
        b = self.b
        if self.condition is not None:
            offset = self.spread(offset, self.condition.dims)
        mask = b.both(self.mask(dims_of(offset)), self.condition)
        guard = "" if mask is None else f", mask={mask}, other=0"
        return from_memory(b.let(f"tl.load({pointer} + {offset}{guard})", dims_of(offset)), dtype, b)

    def read(self, value: Value, offset: Int) -> Expr:
        """The elements of the buffer of `value` at linear places."""
        whole = replace(self, masks=self.longer[value]) if value in self.longer else self
        return whole.load(value.dtype, self.pointers[value], offset)

    def store(self, x: Expr, dtype: DType, pointer: Expr, offset: Int, mask: Expr | None = None) -> None:
        """Stores elements at linear places, those of lanes that exist and are in `mask`."""
        dims = dims_of(offset, x) | (mask.dims if mask is not None else frozenset())
        offset = self.spread(offset, dims)
        kept = self.b.both(self.mask(dims), mask)
        guard = "" if kept is None else f", mask={kept}"
        self.b.line(f"tl.store({pointer} + {offset}, {to_memory(x, dtype, self.b)}{guard})")

    def spread(self, x: Int, dims: frozenset[int]) -> Int:
        """An integer repeated along further dimensions of the tile."""
        missing = dims - dims_of(x)
        if not missing:
            return x
        zeros = " + ".join(f"0 * {self.lanes[dim]}" for dim in sorted(missing))
        return self.b.let(f"{x} + {zeros}", dims_of(x) | missing)

    def everywhere(self, x: Expr) -> Expr:
        """A value in every lane of the tile."""
        missing = frozenset(self.lanes) - x.dims
        if not missing:
            return x
        inside = " & ".join(f"({self.lanes[dim]} >= 0)" for dim in sorted(missing))
        return self.b.let(f"tl.where({inside}, {x}, {x})", x.dims | missing)

    def padded(self, x: Expr) -> Expr:
        """A value in every lane of the tile, 0 in those that do not exist along what it does not vary along."""
        inside = self.mask(frozenset(self.lanes) - x.dims)
        x = self.everywhere(x)
        return x if inside is None else self.b.let(f"tl.where({inside}, {x}, 0)", x.dims)

    def truth(self, value: bool) -> Expr:
        """A condition that is known."""
        return self.b.let(f"tl.full([], {int(value)}, tl.int1)", prefix="c")

    # Index arithmetic

    def compare(self, position: Int, relation: str, bound: Int) -> Expr:
        """A condition, also of numbers that are known."""
        if isinstance(position, int):
            position = self.b.let(f"tl.full([], {position}, tl.int32)", prefix="c")
        return self.b.compare(position, relation, bound)

    def linear(self, index: Sequence[Int], strides: Sequence[Int], offset: Int = 0) -> Int:
        """offset + the sum of position * stride."""
        terms = [self.b.mul(position, stride) for position, stride in zip(index, strides, strict=True)]
        uniform = [term for term in terms if not dims_of(term)]
        varying = [term for term in terms if dims_of(term)]
        return self.b.add(self.b.add(offset, *uniform), *varying)

    def repeated(self, position: Int, size: Dim, result: Dim) -> Int:
        """The position in an axis of `size` that is repeated to `result`."""
        if size == 1:
            return 0
        if size == result or isinstance(size, int):
            return position
        return self.b.mul(position, self.b.let(f"({self.size(size)} != 1).to(tl.int32)"))

    def unlinear(self, offset: Int, shape: Sequence[Dim]) -> Sequence[Int]:
        """The position along each axis of a dense box, from the linear place."""
        return unravel(self.b, offset, [self.size(size) for size in shape])

    def gelu(self, op: Op, index: tuple[Int, ...]) -> Expr:
        """A composite that a kernel has kept."""
        return emit_composite(op, self.value(op.operands[0], index), self.b)

    # Movements and generators, each the method of an op of its name

    def pad(self, op: Op, index: tuple[Int, ...]) -> Expr:
        """Loads inside only; everywhere else the padding value."""
        b, (operand, fill) = self.b, op.operands
        inside: Expr | None = None
        positions = []
        for position, low, high, size in zip(index, op.dims("low"), op.dims("high"), operand.shape, strict=True):
            shifted = b.sub(position, self.size(low))
            positions.append(shifted)
            if low != 0:
                inside = b.both(inside, b.compare(shifted, ">=", 0))
            if high != 0:
                inside = b.both(inside, b.compare(shifted, "<", self.size(size)))
        if inside is None:
            return self.value(operand, positions)
        x, padding = self.wanted(inside).value(operand, positions), self.value(fill, ())
        return b.let(f"tl.where({inside}, {x}, {padding})", dims_of(inside, x))

    def reshape(self, op: Op, index: tuple[Int, ...]) -> Expr:
        """Positions along joined axes are taken apart alone: those along the others vary along less of the tile."""
        (operand,), shape = op.operands, op.dims("shape")
        runs = None if operand in self.pointers else split_axes(shape, operand.shape)
        if runs is None or operand_view(op.result) is not None:
            return super().reshape(op, index)
        positions: list[Int] = []
        for position, run in zip(index, runs, strict=True):
            positions += [position] if len(run) == 1 else self.unlinear(position, [operand.shape[axis] for axis in run])
        return self.value(operand, positions)

    def concatenate(self, op: Op, index: tuple[Int, ...]) -> Expr:
        """Each operand where it lies: loads inside of it only. Of a place that is known, the one that lies there."""
        b, axis = self.b, op.int("axis")
        position = index[axis]
        result: Expr | None = None
        start: Dim = 0
        for operand in op.operands:
            first, stop = self.size(start), self.size(start + operand.shape[axis])
            start = start + operand.shape[axis]
            if isinstance(position, int) and isinstance(stop, int):
                if position < stop:
                    return self.value(operand, (*index[:axis], b.sub(position, first), *index[axis + 1 :]))
                continue
            inside = b.both(self.compare(position, ">=", first), self.compare(position, "<", stop))
            assert inside is not None, operand
            within = (*index[:axis], b.sub(position, first), *index[axis + 1 :])
            x = self.wanted(inside).value(operand, within)
            # The parts before are wanted only where they lie, so the last one to be chosen may be this one.
            result = x if result is None else b.let(f"tl.where({inside}, {x}, {result})", dims_of(x, result, inside))
        assert result is not None, op
        return result

    def iota(self, op: Op, index: tuple[Int, ...]) -> Expr:
        return self._integer(index[op.int("axis")], op.results[0])

    def _integer(self, x: Int, value: Value) -> Expr:
        """A position in the element type of `value`."""
        wide = self.b.let(f"tl.full([], {x}, tl.int64)" if isinstance(x, int) else f"{x}.to(tl.int64)", dims_of(x))
        return emit_cast(wide, I64, value.dtype, self.b)

    def sizes(self, op: Op, index: tuple[Int, ...]) -> Expr:
        b, values = self.b, [self.size(dim) for dim in op.dims("values")]
        if not index:
            return self._integer(values[0], op.results[0])
        result = self._integer(values[0] if values else 0, op.results[0])
        for position, value in enumerate(values[1:], 1):
            x = self._integer(value, op.results[0])
            here = (
                b.compare(index[0], "==", position) if isinstance(index[0], Expr) else self.truth(index[0] == position)
            )
            result = b.let(f"tl.where({here}, {x}, {result})", dims_of(here, result))
        return result

    def random_bits(self, op: Op, index: tuple[Int, ...]) -> Expr:
        return random_word(self.strided(index, row_major(op.dims("shape"))), op.int("seed"), self.b)

    # Indexed access

    def position(self, indices: Value, index: Sequence[Int], size: Dim) -> Int:
        """The element of `indices` at `index`, a position in an axis of `size`; one outside is reported and clamped."""
        b, length, value = self.b, self.size(size), self.value(indices, index)
        outside = b.let(f"({value} < 0) | ({value} >= {length})", value.dims)
        wanted = b.both(self.mask(value.dims), self.condition if self._covers(value) else None)
        self._report(indices, index, b.both(outside, wanted) or outside, length)
        last = b.let(f"tl.maximum(tl.minimum({value}, {length} - 1), 0)", value.dims)
        return last if b.wide else b.let(f"{last}.to(tl.int32)", value.dims)

    def _covers(self, x: Expr) -> bool:
        return self.condition is not None and self.condition.dims <= x.dims

    def _report(self, indices: Value, index: Sequence[Int], outside: Expr, length: Int) -> None:
        """Writes what is outside of an axis to the status block, unless something is there already."""
        b, given = self.b, self.value(given_indices(indices), index)
        status, location = self.reports()
        every = b.let(f"{outside} | ({given} != {given})", dims_of(outside, given))
        if every.dims:
            bad = b.let(f"tl.max({every}.to(tl.int32), axis=None) != 0")
            shown = f"tl.max(tl.where({every}, {given}, -{1 << 63}), axis=None)"
        else:
            bad, shown = every, f"{given}"
        with b.block(f"if {bad}"):
            first = f"tl.atomic_cas({status} + {STATUS_CODE}, tl.full([], 0, tl.int64), tl.full([], 1, tl.int64))"
            with b.block(f"if {first} == 0"):
                b.line(f"tl.store({status} + {STATUS_VALUE}, {shown})")
                b.line(f"tl.store({status} + {STATUS_SIZE}, {length})")
                b.line(f"tl.store({status} + {STATUS_LOCATION}, {location})")

    def picked(self, data: Value, positions: Sequence[Int], sizes: Sequence[Dim]) -> Expr:
        """`data` at `positions`, or zeros where one of the axes of `sizes`, in which positions are data, is empty."""
        condition: Expr | None = None
        for size in sizes:
            if not at_least(size, 1):
                length = self.size(size)
                known = self.truth(length > 0) if isinstance(length, int) else self.b.compare(length, ">", 0)
                condition = self.b.both(condition, known)
        return (self if condition is None else self.wanted(condition)).value(data, positions)
