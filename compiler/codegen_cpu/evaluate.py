"""The value of a block at an index: movement ops become index arithmetic, pointwise ops become instructions.

An index of `lanes` elements at once is affine in the lane wherever it can be, so that loads along a dense axis are one
vector load, and what does not depend on the lane is computed once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from onnxc.compiler.codegen_cpu.bounded_integers import bounded_integer
from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import from_memory, literal, memory_type, note_exact, register_type
from onnxc.compiler.codegen_cpu.elementary import normal_exp, sigmoid
from onnxc.compiler.codegen_cpu.exponential_forms import gelu_operand, sigmoid_operand, weight_exponent
from onnxc.compiler.codegen_cpu.random_words import random_word
from onnxc.compiler.codegen_cpu.rounded_once import INSTRUCTION_SETS, emit_rounded_once, rounded_once
from onnxc.compiler.codegen_cpu.scalars import emit_pointwise
from onnxc.compiler.codegen_cpu.shuffles import can_permute, is_shuffled, load_strided, permute
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, vector_type
from onnxc.compiler.codegen_host.sizes import emit_size
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.index_range import given_indices
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitives.indexed import INSIDE, NEIGHBORS
from onnxc.compiler.planning.block_evaluator import BlockEvaluator
from onnxc.compiler.planning.loops.views import operand_view, row_major
from onnxc.runtime.program import STATUS_CODE, STATUS_SIZE, STATUS_VALUE
from onnxc.runtime.records import record


@record
class Index:
    """Positions along an axis: `base` + lane * `step`, plus `vector` of one i64 per lane where there is one."""

    base: Int = 0
    step: Int = 0
    vector: Reg | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes are at one position."""
        return self.vector is None and self.step == 0


@dataclass
class Evaluator(BlockEvaluator[Index, Int, Reg]):
    """Evaluates values of one kernel block within one straight run of code; at a uniform index, a scalar.

    `status` is the block that illegal data is reported to. `mask` are the lanes that exist, None where all do.
    """

    f: FunctionBuilder
    lanes: int
    symbols: Mapping[str, Int]
    pointers: Mapping[Value, Reg]
    status: Reg
    bound: dict[Value, Reg] = field(default_factory=dict)
    mask: Reg | None = None
    memo: dict[tuple[Value, tuple[Index, ...]], Reg] = field(default_factory=dict)
    # Positions that are one for all lanes, by the indices that they are from, their index and the size of the axis.
    positions: dict[tuple[Value, tuple[Index, ...], Dim], Index] = field(default_factory=dict)
    # Paddings that no lane reaches along the axis on which the lanes vary.
    inner: frozenset[Op] = frozenset()
    # Whether the first lane exists.
    has_first: bool = True

    def size(self, dim: Dim) -> Int:
        """A size as this kernel knows it."""
        with self.f.at_entry():
            return emit_size(dim, self.symbols, self.f)

    # Values

    def take_over(self, other: "Evaluator") -> None:
        """Takes what an evaluator of the code just before knows; what differs between the two has another index."""
        self.positions.update(other.positions)
        self.memo.update(other.memo)

    def fixed(self, position: int) -> Index:
        """A position that is known while the code is written."""
        return Index(position)

    def literal(self, constant: float, dtype: DType) -> Reg:
        """A constant."""
        return literal(constant, dtype, self.f)

    def value(self, value: Value, index: Sequence[Index]) -> Reg:
        """`value` at `index`, in a register; what has a form of its own, as sigmoids and gelu have, in it."""
        key = (value, tuple(index))
        if value not in self.bound and value not in self.pointers and key not in self.memo:
            if (gate := sigmoid_operand(value)) is not None:
                self.memo[key] = sigmoid(self.f, self.value(gate, index))
            elif (exponent := weight_exponent(value)) is not None:
                self.memo[key] = normal_exp(self.f, self.value(exponent, index))
            elif (curve := gelu_operand(value)) is not None:
                operand, function = curve
                self.memo[key] = function(self.f, self.value(operand, index))
            elif (bounded := bounded_integer(value)) is not None:
                self.memo[key] = bounded.emit(self.f, self.value(bounded.operand, index))
            elif self.f.features & INSTRUCTION_SETS and (operands := rounded_once(value)) is not None:
                factors = self._alike([self.value(operand, index) for operand in operands])
                self.memo[key] = emit_rounded_once(operands, factors, self.f)
        return super().value(value, index)

    def pointwise(self, op: Op, operands: Sequence[Reg]) -> Reg:
        """The result of a pointwise op: a scalar where all operands are."""
        return emit_pointwise(op, self._alike(operands), self.f)

    def _alike(self, operands: Sequence[Reg]) -> Sequence[Reg]:
        """All in every lane where one of them is a vector."""
        is_vector = any(operand.lanes > 1 for operand in operands)
        return [self.spread(operand) for operand in operands] if is_vector else operands

    def vector(self, value: Value, index: Sequence[Index]) -> Reg:
        """`value` at `index`, in every lane."""
        return self.spread(self.value(value, index))

    def spread(self, x: Reg) -> Reg:
        """A scalar in every lane; a vector as it is."""
        return x if x.lanes == self.lanes else note_exact(self.f.splat(x, self.lanes), (x,), self.f)

    # Memory

    def load(self, value: Value, pointer: Reg, offset: Index) -> Reg:
        """The elements of a buffer at offsets in elements."""
        f, memory = self.f, memory_type(value.dtype)
        if offset.is_uniform:
            return from_memory(f.load(memory, f.gep(pointer, offset.base, memory)), value.dtype, f)
        vector = vector_type(memory, self.lanes)
        if offset.vector is None and offset.step == 1:
            loaded = self._side_by_side(vector, f.gep(pointer, offset.base, memory))
        elif offset.vector is None and isinstance(offset.step, Reg) and self.has_first:
            loaded = self._by_step(memory, f.gep(pointer, offset.base, memory), offset)
        elif offset.vector is None and is_shuffled(offset.step):
            loaded = load_strided(f, vector, f.gep(pointer, offset.base, memory), offset.step, self.mask)
        else:
            loaded = self._gather(vector, f.gep(pointer, offset.base, memory), self._lane_offsets(offset))
        return from_memory(loaded, value.dtype, f)

    def _side_by_side(self, vector: str, address: Reg) -> Reg:
        """The elements from an address on."""
        f = self.f
        if self.mask is None:
            return f.load(vector, address)
        return masked_load(f, vector, address, self.mask, passthru=f.constant(vector, 0))

    def _by_step(self, memory: str, address: Reg, offset: Index) -> Reg:
        """The same where only the call knows how far apart they are: mostly side by side, or all are one.

        32 x 16 lines of 48 elements to which others of open sizes were added took 37 us by gathers.
        """
        f, vector = self.f, vector_type(memory, self.lanes)

        def one() -> list[Reg]:
            return [f.splat(f.load(memory, address), self.lanes)]

        def apart() -> list[Reg]:
            return [self._gather(vector, address, self._lane_offsets(offset))]

        def others() -> list[Reg]:
            return list(f.if_(f.icmp("eq", offset.step, 0), one, apart))

        return f.if_(f.icmp("eq", offset.step, 1), lambda: [self._side_by_side(vector, address)], others)[0]

    def read(self, value: Value, offset: Index) -> Reg:
        """The elements of the buffer of `value` at offsets in elements."""
        return self.load(value, self.pointers[value], offset)

    def store(self, x: Reg, dtype_pointer: Reg, memory: str, offset: Index) -> None:
        """Stores lanes, or one element where the offset does not depend on the lane."""
        f = self.f
        if offset.is_uniform:
            f.store(x if x.lanes == 1 else f.extract(x, 0), f.gep(dtype_pointer, offset.base, memory))
        elif offset.vector is None and offset.step == 1:
            address = f.gep(dtype_pointer, offset.base, memory)
            if self.mask is None:
                f.store(self.spread(x), address)
            else:
                masked_store(f, self.spread(x), address, self.mask)
        else:
            f.scatter(self.spread(x), f.gep(dtype_pointer, offset.base, memory), self._lane_offsets(offset), self.mask)

    def _gather(self, type: str, pointer: Reg, offsets: Reg) -> Reg:
        passthru = self.f.constant(type, 0) if self.mask is not None else None
        return self.f.gather(type, pointer, offsets, self.mask, passthru=passthru)

    def _lane_offsets(self, offset: Index) -> Reg:
        """The part of an offset that depends on the lane, in elements."""
        f, type = self.f, vector_type("i64", self.lanes)
        offsets = f.mul(f.lane_ids(type), self._splat_int(offset.step)) if offset.step != 0 else f.constant(type, 0)
        return offsets if offset.vector is None else f.add(offsets, offset.vector)

    def _splat_int(self, value: Int) -> Reg:
        return self.f.splat(value if isinstance(value, Reg) else self.f.constant("i64", value), self.lanes)

    # Index arithmetic

    def linear(self, index: Sequence[Index], strides: Sequence[Int], offset: Int = 0) -> Index:
        """offset + the sum of position * stride."""
        f, base, step, vector = self.f, offset, 0, None
        base_total: Int = base
        step_total: Int = step
        for position, stride in zip(index, strides, strict=True):
            base_total = f.add(base_total, f.mul(position.base, stride))
            step_total = f.add(step_total, f.mul(position.step, stride))
            if position.vector is not None:
                term = position.vector if stride == 1 else f.mul(position.vector, self._splat_int(stride))
                vector = term if vector is None else f.add(vector, term)
        return Index(base_total, step_total, vector)

    def as_values(self, position: Index) -> Reg:
        """The positions as i64 registers: one where they are uniform, else one per lane."""
        f = self.f
        base = position.base if isinstance(position.base, Reg) else f.constant("i64", position.base)
        if position.is_uniform:
            return base
        return f.add(f.splat(base, self.lanes), self._lane_offsets(position))

    def from_values(self, values: Reg) -> Index:
        """Positions given as i64 registers."""
        return Index(values) if values.lanes == 1 else Index(0, 0, values)

    def repeated(self, position: Index, size: Dim, result: Dim) -> Index:
        """The position in an axis of `size` that is repeated to `result`."""
        if size == result:
            return position
        if size == 1:
            return Index()
        f = self.f
        keeps = f.convert("zext", f.icmp("ne", self.size(size), 1), "i64")
        vector = None if position.vector is None else f.mul(position.vector, self._splat_int(keeps))
        return Index(f.mul(position.base, keeps), f.mul(position.step, keeps), vector)

    def unlinear(self, offset: Index, shape: Sequence[Dim]) -> Sequence[Index]:
        """The position along each axis of a dense box, from the offset in elements."""
        f, rest, index = self.f, self.as_values(offset), list[Index]()
        for size in reversed(shape[1:]):
            length = self._like(f.smax(self.size(size), 1), rest)
            quotient = f.udiv(rest, length)
            index.append(self.from_values(f.sub(rest, f.mul(quotient, length))))
            rest = quotient
        return [self.from_values(rest), *reversed(index)] if shape else []

    # Movements and generators, each the method of an op of its name

    def pad(self, op: Op, index: tuple[Index, ...]) -> Reg:
        """Loads inside only; everywhere else the padding value."""
        f, (operand, fill) = self.f, op.operands
        inside: dict[bool, Reg] = {}
        shifted_index = []
        for own, low, high, size in zip(index, op.dims("low"), op.dims("high"), operand.shape, strict=True):
            shifted = Index(f.sub(own.base, self.size(low)), own.step, own.vector)
            if (low, high) != (0, 0) and (op not in self.inner or own.is_uniform):
                position = self.as_values(shifted)
                fits, is_uniform = f.icmp("ult", position, self._like(self.size(size), position)), position.lanes == 1
                inside[is_uniform] = f.and_(inside[is_uniform], fits) if is_uniform in inside else fits
                is_wide = not (at_least(self.lanes - 1, low) and at_least(self.lanes - 1, high))
                if is_wide and not is_uniform and shifted.step == 1 and shifted.vector is None:
                    meets = self._meets(shifted.base, self.size(size))
                    inside[True] = f.and_(inside[True], meets) if True in inside else meets
            shifted_index.append(shifted)
        return self._where_inside(inside, operand, shifted_index, self.value(fill, ()))

    def _meets(self, first: Int, size: Int) -> Reg:
        """Whether a lane from `first` on is within an axis.

        A load of no lane faults nowhere, but where memory is not mapped a processor takes microcode for it: 80 ns.
        """
        f, beside = self.f, self.lanes - 1
        return f.icmp("ult", f.add(first, beside), f.add(size, beside))

    def _like(self, value: Int, shape: Reg) -> Reg:
        return self.f.splat(as_reg(value), shape.lanes)

    def _where_inside(self, inside: Mapping[bool, Reg], operand: Value, index: Sequence[Index], padding: Reg) -> Reg:
        """`operand` where the conditions hold: inside[True] for all lanes at once, inside[False] for each."""
        f, varying = self.f, inside.get(False)

        def load() -> Reg:
            if varying is None:
                return self._nested(self.mask).vector(operand, index)
            mask = varying if self.mask is None else f.and_(varying, self.mask)
            loaded, outside = self._nested(mask).vector(operand, index), self.spread(padding)
            return note_exact(f.select(varying, loaded, outside), (loaded, outside), f)

        if True not in inside:
            return self.value(operand, index) if varying is None else load()
        return self._either(inside[True], load, lambda: self.spread(padding))

    def _either(self, condition: Reg, whole: Callable[[], Reg], other: Callable[[], Reg]) -> Reg:
        """What one of both gives, as a condition says."""
        both = list[Reg]()

        def noted(give: Callable[[], Reg]) -> list[Reg]:
            both.append(give())
            return both[-1:]

        (result,) = self.f.if_(condition, lambda: noted(whole), lambda: noted(other))
        return note_exact(result, both, self.f)

    def _permuted(self, x: Reg, lanes: Reg) -> Reg:
        """The elements of a vector in these lanes of it."""
        return note_exact(permute(x, lanes, self.f), (x,), self.f)

    def _nested(self, mask: Reg | None) -> "Evaluator":
        """An evaluator for code that runs only sometimes."""
        known, positions = (self.f, self.lanes, self.symbols, self.pointers, self.status), {**self.positions}
        has_first = mask is None or (mask is self.mask and self.has_first)
        return Evaluator(*known, self.bound, mask, positions=positions, inner=self.inner, has_first=has_first)

    def iota(self, op: Op, index: tuple[Index, ...]) -> Reg:
        return self._as_elements(self.as_values(index[op.int("axis")]), op.results[0])

    def _as_elements(self, x: Reg, value: Value) -> Reg:
        """i64 positions in the element type of `value`."""
        return emit_cast(x, I64, value.dtype, self.f)

    def sizes(self, op: Op, index: tuple[Index, ...]) -> Reg:
        f = self.f
        values = [self.size(dim) for dim in op.dims("values")]
        registers = [value if isinstance(value, Reg) else f.constant("i64", value) for value in values]
        if not index:
            return self._as_elements(registers[0], op.results[0])
        position = self.as_values(index[0])
        result = f.splat(registers[0] if registers else f.constant("i64", 0), position.lanes)
        for ordinal, value in enumerate(registers[1:], 1):
            here = f.icmp("eq", position, ordinal)
            result = f.select(here, f.splat(value, position.lanes), result)
        return self._as_elements(result, op.results[0])

    def random_bits(self, op: Op, index: tuple[Index, ...]) -> Reg:
        return random_word(self.as_values(self.strided(index, row_major(op.dims("shape")))), op.int("seed"), self.f)

    # Indexed access

    def gather(self, op: Op, index: tuple[Index, ...]) -> Reg:
        """Elements of the data at positions that are data."""
        known, size = op.attributes.get("known"), op.operands[0].shape[op.int("axis")]
        if known == INSIDE or not self._picks_along_a_line(op, index):
            return super().gather(op, index)
        if known != NEIGHBORS:
            return self._near_or_apart(op, index)
        return self._neighborhood(op, index) if at_least(size, self.lanes) else super().gather(op, index)

    def _picks_along_a_line(self, op: Op, index: Sequence[Index]) -> bool:
        """Whether the lanes read indices one after the other, of elements of one line that lies side by side."""
        (data, indices), axis = op.operands, op.int("axis")
        here = index[axis : axis + indices.rank]
        if not self.has_first or not here or not self._is_line(data, axis):
            return False
        last = max((at for at, extent in enumerate(indices.shape) if extent != 1), default=0)
        others = (*index[:axis], *here[:last], *here[last + 1 :], *index[axis + indices.rank :])
        is_one_each = here[last].vector is None and here[last].step == 1 and all(each.is_uniform for each in others)
        return is_one_each and can_permute(vector_type(register_type(data.dtype), self.lanes), self.f)

    def _is_line(self, data: Value, axis: int) -> bool:
        """Whether elements along an axis lie side by side in memory, whichever line of it other indices pick."""
        view, op = operand_view(data), data.op
        if view is not None:
            return view.base in self.pointers and view.strides[axis] == 1
        if op is not None and op.name == "reshape":
            return op.operands[0] in self.pointers and axis == data.rank - 1
        behind = None if op is None or op.name != "gather" else axis - op.int("axis") - op.operands[1].rank
        if op is None or behind is None or behind < 0 or data in self.bound:
            return False
        return self._is_line(op.operands[0], op.int("axis") + 1 + behind)

    def _near_or_apart(self, op: Op, index: Sequence[Index]) -> Reg:
        """Elements at indices that only the call knows: where those of a vector are near each other, permuted.

        Resize reads so: vectors of a line of 80 made of 40 take 5 ns as gathers and 1 ns so.
        """
        f, axis, lanes = self.f, op.int("axis"), self.lanes
        picked, sizes = self.gathered(op, index)
        if (positions := picked[axis].vector) is None:
            return self.picked(op.operands[0], picked, sizes)
        size, (of_line,) = self.size(sizes[0]), sizes
        with f.at_entry():
            whole = None if at_least(of_line, lanes) else f.tail_mask(lanes, size)
        start = f.smax(f.smin(f.extract(positions, 0), f.sub(size, lanes)), 0)
        behind = f.sub(positions, self._splat_int(start))
        is_apart = f.icmp("uge", behind, self._splat_int(lanes))
        if self.mask is not None:
            is_apart = f.and_(is_apart, self.mask)

        def near() -> Reg:
            line = (*picked[:axis], Index(start, 1), *picked[axis + 1 :])
            return self._permuted(self._nested(whole).vector(op.operands[0], line), behind)

        def apart() -> Reg:
            return self.spread(self._nested(self.mask).picked(op.operands[0], picked, sizes))

        return self._either(f.reduce_lanes("or", is_apart), apart, near)

    def _neighborhood(self, op: Op, index: Sequence[Index]) -> Reg:
        """The elements that lie side by side from the first one on, or the last ones of the row, each in its lane."""
        f, (data, indices), axis = self.f, op.operands, op.int("axis")
        size, here = data.shape[axis], index[axis : axis + indices.rank]
        first = self.value(indices, [Index(each.base) for each in here])
        start = f.smin(first, f.sub(self.size(size), self.lanes))
        loaded = self._nested(None).vector(data, (*index[:axis], Index(start, 1), *index[axis + indices.rank :]))
        return self._permuted(loaded, f.sub(self.vector(indices, here), self._splat_int(start)))

    def position(self, indices: Value, index: Sequence[Index], size: Dim) -> Index:
        """The element of `indices` at `index`, a position in an axis of `size`; one outside is reported and clamped."""
        return self._once(self._position, indices, index, size)

    def known_position(self, indices: Value, index: Sequence[Index], size: Dim) -> Index:
        """The element of `indices` at `index`, which is inside of the axis."""
        return self._once(lambda *_: self.from_values(self.value(indices, index)), indices, index, size)

    def _once(self, find: Callable[..., Index], indices: Value, index: Sequence[Index], size: Dim) -> Index:
        """What `find` says, asked once where it is one position for all lanes."""
        key = (indices, tuple(index), size)
        if key in self.positions:
            return self.positions[key]
        position = find(indices, index, size)
        if position.is_uniform:
            self.positions[key] = position
        return position

    def _position(self, indices: Value, index: Sequence[Index], size: Dim) -> Index:
        f, given = self.f, self.value(indices, index)
        if isinstance(size, int) and given.is_literal and given.lanes == 1 and 0 <= int(given.text) < size:
            return Index(given)
        length = self._like(self.size(size), given)
        outside = f.icmp("uge", given, length)
        if self.mask is not None and given.lanes > 1:
            outside = f.and_(outside, self.mask)
        any_outside = outside if outside.lanes == 1 else f.reduce_lanes("or", outside)
        f.if_(any_outside, lambda: self._report(self.value(given_indices(indices), index), outside, size))
        last = f.sub(length, f.constant(length.type, 1))
        return self.from_values(f.smax(f.smin(given, last), f.constant(given.type, 0)))

    def _report(self, given: Reg, outside: Reg, size: Dim) -> None:
        """Writes what is outside of an axis to the status block, unless something is there already."""
        f = self.f
        if given.lanes > 1:
            # Of the lanes that are outside one is the largest without sign; an index of 0 is outside of nothing but 0.
            given = f.reduce_lanes("umax", f.select(outside, given, f.constant(given.type, 0)))

        def write() -> None:
            for word, content in ((STATUS_VALUE, given), (STATUS_SIZE, self.size(size)), (STATUS_CODE, 1)):
                f.store(content, f.gep(self.status, word, "i64"), align=8)

        f.if_(f.icmp("eq", f.load("i64", self.status, align=8), 0), write)

    def picked(self, data: Value, index: Sequence[Index], sizes: Sequence[Dim]) -> Reg:
        """`data` at `index`, or zeros where one of the axes of `sizes`, in which the positions are data, is empty.

        That is reported: it has no element at a position that was held between its ends either.
        """
        f, open_sizes = self.f, [size for size in sizes if not at_least(size, 1)]
        if not open_sizes:
            return self.value(data, index)
        empty = [f.icmp("eq", self.size(size), 0) for size in open_sizes]

        def nothing() -> Reg:
            is_read = f.constant("i1", 1) if self.mask is None else f.reduce_lanes("or", self.mask)
            for size, is_empty in zip(open_sizes, empty, strict=True):
                report = partial(self._report, f.constant("i64", 0), is_empty, size)
                f.if_(f.and_(is_empty, is_read), report)
            return self.spread(f.constant(register_type(data.dtype), 0))

        return self._either(reduce(f.or_, empty), nothing, lambda: self._nested(self.mask).vector(data, index))
