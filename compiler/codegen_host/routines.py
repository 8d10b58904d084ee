"""Routines as native functions: segments, sizes from data, guards, branches and loops, without the host.

    i64 routine(ptr frame)

It gives 0, or something else where the status block says why it has ended. The frame is laid out in
runtime/program.py; its words for arrays are set anew for each segment that is called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_host.heap import buffer_address, exchange
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.routine_frame import FaultTable, RoutineFrame
from onnxc.compiler.codegen_host.sizes import emit_broken
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, only_atom
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    GuardStep,
    HostStep,
    Loop,
    PlanStep,
    Region,
    Routine,
    Segment,
)
from onnxc.compiler.planning.routine_buffers import ARENA
from onnxc.runtime.faults import STOPPED
from onnxc.runtime.program import FRAME_ARENA, HEAP_CHECK, NO_FAULT, STATUS_CODE

__all__ = ["RoutineContext", "write_routine"]

Address = Callable[[], Reg]


@dataclass(frozen=True)
class RoutineContext:
    """What a routine needs to know of its program.

    symbols: all, in order. lows: the least legal value of those that have one. entry_of: the function of a segment.
    reports: whether a segment may find data that is not legal. check_ticks: the time between two looks for signals, in
    the units of onnxc_ticks.
    """

    symbols: Sequence[str]
    lows: Mapping[str, int]
    weight_offsets: Sequence[int]
    entry_of: Callable[[Segment], str]
    reports: Callable[[Segment], bool]
    faults: FaultTable
    check_ticks: int


def write_routine(name: str, routine: Routine, context: RoutineContext) -> tuple[FunctionBuilder, ...]:
    """The function `name` of a routine, behind the one that it calls: what it does to the arena is undone."""
    inner = FunctionBuilder(f"{name}_steps", [("ptr", "frame")], returns="i64")
    _Writer(inner, routine, context).write()
    f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
    arena = f.gep(f.parameters[0], FRAME_ARENA, "i64")
    before = f.load("i64", arena, 8)
    result = f.call(inner.name, "i64", f.parameters[0])
    f.store(before, arena, 8)
    f.ret(result)
    return inner, f


class _Writer:
    """Writes the steps in order; `addresses` says where each value is, `known` which symbols have a value."""

    def __init__(self, f: FunctionBuilder, routine: Routine, context: RoutineContext) -> None:
        self.f, self.routine, self.context = f, routine, context
        self.frame = RoutineFrame(f, context.symbols, context.lows, context.faults)
        self.first_output = self.frame.first_array + len(routine.inputs)
        self.addresses: dict[Value, Address] = {}
        self.known: set[str] = set().union(*(type_symbols(value.type) for value in routine.inputs))
        self.last_check = f.alloca("i64")
        self.direct: dict[Value, Reg] = {}

    def write(self) -> None:
        f, routine, frame = self.f, self.routine, self.frame
        for ordinal, value in enumerate(routine.inputs):
            self.put(value, f.load("ptr", frame.word(frame.first_array + ordinal), 8))
        places = {k: frame.word(self.first_output + k) for k in range(len(routine.outputs))}
        given = {k: f.load("ptr", place, 8) for k, place in places.items() if k not in routine.late}
        self.direct = {value: given[k] for k, value in enumerate(routine.outputs) if value in routine.direct}
        f.store(f.call("onnxc_ticks", "i64"), self.last_check, 8)
        self.steps(routine.steps)
        for k, value in enumerate(routine.outputs):
            if k in routine.late:
                f.store(self.address(value), places[k], 8)
            elif value not in routine.direct:
                self.copy(given[k], self.address(value), frame.nbytes(value, None))
        f.ret(0)

    def put(self, value: Value, address: Reg) -> None:
        """A value is at an address that does not change."""
        self.addresses[value] = lambda: address

    def address(self, value: Value) -> Reg:
        """Where a value is now."""
        if value in self.addresses:
            return self.addresses[value]()
        offset = self.context.weight_offsets[self.routine.constants[value]]
        return self.f.gep(self.frame.weights, offset)

    def copy(self, target: Reg, source: Reg, nbytes: Int) -> None:
        self.f.call("memcpy", "ptr", target, source, nbytes)

    # Steps

    def steps(self, steps: Sequence[PlanStep]) -> None:
        for step in steps:
            match step:
                case Segment():
                    self.segment(step)
                case GuardStep():
                    self.guard(step.op)
                case BindSizes():
                    self.bind(step.op)
                case HostStep():
                    self.sizes(step.op)
                case Branch():
                    self.branch(step)
                case Loop():
                    self.loop(step)

    def segment(self, step: Segment) -> None:
        f, frame = self.f, self.frame
        location = step.launches[0].location if step.launches else None
        if step.arena_bytes != 0:
            arena = frame.reserve(ARENA, frame.fitting(step.arena_bytes, location), location)
            f.store(arena, frame.word(FRAME_ARENA), 8)
        for value in step.outputs:
            self.make_room(value)
        for ordinal, value in enumerate((*step.inputs, *step.outputs), frame.first_array):
            f.store(self.address(value), frame.word(ordinal), 8)
        result = f.call(self.context.entry_of(step), "i64", frame.frame)
        f.if_(f.icmp("ne", result, 0), lambda: f.ret(result))
        if self.context.reports(step):
            code = f.load("i64", f.gep(frame.status, STATUS_CODE, "i64"), 8)
            f.if_(f.icmp("ne", code, NO_FAULT), lambda: f.ret(1))

    def make_room(self, value: Value) -> None:
        """A place for a value that the next step writes."""
        if value in self.direct:
            self.put(value, self.direct[value])
            return
        location = value.op.location if value.op is not None else None
        self.frame.reserve(self.routine.buffers[value], self.frame.nbytes(value, location), location)
        self.in_buffer(value, self.routine.buffers[value])

    def in_buffer(self, value: Value, buffer: int) -> None:
        """A value is in a buffer, which may move as it grows."""
        self.addresses[value] = lambda: buffer_address(self.frame.heap, buffer, self.f)

    def guard(self, op: Op) -> None:
        f, frame = self.f, self.frame
        left, right = (frame.size(op.dim(side)) for side in ("left", "right"))
        broken = emit_broken(op.text("relation"), left, right, f)
        frame.leave_if(broken, "guard", op.text("message"), op.location, left, right)

    def bind(self, op: Op) -> None:
        """Integers in memory become symbols; a size is at least what its symbol may be."""
        f, frame = self.f, self.frame
        names = op.attributes["symbols"]
        assert isinstance(names, tuple), names
        base = self.address(op.operands[0])
        for k, name in enumerate(map(str, names)):
            value = f.load("i64", f.gep(base, k, "i64"), 8)
            if not name.startswith("?"):
                low = self.context.lows.get(name, 0)
                frame.leave_if(f.icmp("slt", value, low), "bound", name, op.location, value, low)
            frame.set_symbols({name: value})
            self.known.add(name)

    def sizes(self, op: Op) -> None:
        """Sizes as a tensor of integers."""
        f, (result,) = self.f, op.results
        self.make_room(result)
        type = f"i{8 * result.dtype.itemsize}"
        for k, dim in enumerate(op.dims("values")):
            value = f.convert("trunc", as_reg(self.frame.size(dim)), type)
            f.store(value, f.gep(self.address(result), k, type), result.dtype.itemsize)

    # Regions

    def enter(self, parameters: Sequence[Value], arguments: Sequence[Value]) -> dict[str, Int]:
        """Binds the symbols of the parameters of a region; the values that they had outside, to be put back."""
        bound: dict[str, Int] = {}
        seen: set[str] = set()
        checks: list[tuple[int, Dim, Int]] = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            dims = zip(parameter.tensor.known_shape, argument.tensor.known_shape, strict=True)
            for axis, (own, outer) in enumerate(dims):
                name = only_atom(own)
                if isinstance(name, str) and name not in seen:
                    seen.add(name)
                    if own != outer:
                        bound[name] = self.frame.size(outer)
                elif own != outer or symbols_of(own) & bound.keys():
                    checks.append((axis, own, self.frame.size(outer)))
        before = {name: self.frame.symbol(name) for name in bound if name in self.known}
        self.frame.set_symbols(bound)
        self.known |= seen
        for axis, own, value in checks:
            self.expect_size(axis, own, value)
        return dict(before)

    def expect_size(self, axis: int, own: Dim, value: Int) -> None:
        """Leaves unless an axis has the size that a region says it has."""
        expected = self.frame.size(own)
        differs = self.f.icmp("ne", value, expected)
        self.frame.leave_if(as_reg(differs), "axis", f"axis {axis}", None, value, expected)

    def new_symbols(self, results: Sequence[Value], inner: Sequence[Value]) -> dict[str, Int]:
        """What the results of a step say of symbols that had no value, from the sizes inside."""
        found: dict[str, Int] = {}
        for result, value in zip(results, inner, strict=True):
            for own, dim in zip(result.tensor.known_shape, value.tensor.known_shape, strict=True):
                name = only_atom(own)
                if isinstance(name, str) and name not in self.known:
                    found.setdefault(name, self.frame.size(dim))
        return found

    def branch(self, step: Branch) -> None:
        f, op = self.f, step.op
        condition = f.icmp("ne", f.load("i8", self.address(op.operands[0])), 0)
        cells = [f.alloca("ptr") for _ in op.results]
        outside = set(self.known)
        bound: set[str] = set()

        def arm(region: Region) -> Callable[[], None]:
            def write() -> None:
                self.known = set(outside)
                parameters = region.block.parameters
                before = self.enter(parameters, op.operands[1:])
                for parameter, argument in zip(parameters, op.operands[1:], strict=True):
                    self.alias(parameter, argument)
                self.steps(region.steps)
                self.known = set(outside)
                found = self.new_symbols(op.results, region.block.results)
                for cell, value in zip(cells, region.block.results, strict=True):
                    f.store(self.address(value), cell, 8)
                self.frame.set_symbols({**before, **found})
                bound.update(found)

            return write

        f.if_(condition, arm(step.then), arm(step.otherwise))
        self.known = outside | bound
        for result, cell in zip(op.results, cells, strict=True):
            self.in_cell(result, cell)

    def alias(self, parameter: Value, argument: Value) -> None:
        """A parameter is where its argument is."""
        self.addresses[parameter] = lambda: self.address(argument)

    def in_cell(self, value: Value, cell: Reg) -> None:
        """The address of a value is in memory, since it may differ."""
        self.addresses[value] = lambda: self.f.load("ptr", cell, 8)

    def loop(self, step: Loop) -> None:
        _LoopWriter(self, step).write()

    def check_signals(self) -> None:
        """Leaves where a handler of a signal has raised; looked for once in a while."""
        f, frame = self.f, self.frame

        def look() -> None:
            f.store(now, self.last_check, 8)
            check = f.load("ptr", f.gep(frame.heap, HEAP_CHECK, "i64"), 8)
            frame.leave_if(f.icmp("eq", f.call_pointer(check, "i64"), 0), STOPPED, "", None)

        now = f.call("onnxc_ticks", "i64")
        elapsed = f.sub(now, f.load("i64", self.last_check, 8))
        f.if_(f.icmp("sgt", elapsed, self.context.check_ticks), look)


class _LoopWriter:
    """One loop: carried values in cells, the iteration in memory of its own, stacked elements row by row."""

    def __init__(self, routine: _Writer, step: Loop) -> None:
        self.routine, self.step = routine, step
        self.f, self.frame, self.op = routine.f, routine.frame, step.op
        self.buffers = routine.routine.loops[step]
        count, block = step.carried, step.body.block
        limit, condition, *rest = self.op.operands
        self.limit, self.condition = limit, condition
        self.initial, self.captures = rest[:count], rest[count:]
        self.parameters = block.parameters[1 : 1 + count]
        self.going, *results = block.results
        self.results, self.elements = results[:count], results[count:]
        f = self.f
        self.cells = [f.alloca("ptr") for _ in self.initial]
        self.counter, self.flag = f.alloca("i64"), f.alloca("i8")
        # The sizes of the first element of each stack; those that are never known are 0.
        self.firsts = [[f.alloca("i64") for _ in element.tensor.known_shape] for element in self.elements]

    def write(self) -> None:
        f, routine, op = self.f, self.routine, self.op
        for cells in self.firsts:
            for cell in cells:
                f.store(0, cell, 8)
        for cell, value in zip(self.cells, self.initial, strict=True):
            f.store(routine.address(value), cell, 8)
        for buffer in self.buffers.stacked:
            self.frame.reserve(buffer, 1, op.location)
        limit = f.load("i64", routine.address(self.limit), 8)
        f.store(0, self.counter, 8)
        f.store(f.load("i8", routine.address(self.condition)), self.flag, 1)
        outside = set(routine.known)
        block = self.step.body.block
        before = routine.enter(block.parameters[1:], (*self.initial, *self.captures))
        self.place_parameters()

        def goes_on() -> Reg:
            below = f.icmp("slt", f.load("i64", self.counter, 8), limit)
            return as_reg(f.and_(below, f.icmp("ne", f.load("i8", self.flag), 0)))

        f.while_((), goes_on, self.round)
        routine.known = outside
        self.leave(before)

    def place_parameters(self) -> None:
        iteration, *_ = self.step.body.block.parameters
        captured = self.step.body.block.parameters[1 + self.step.carried :]
        self.routine.put(iteration, self.counter)
        for parameter, cell in zip(self.parameters, self.cells, strict=True):
            self.routine.in_cell(parameter, cell)
        for parameter, argument in zip(captured, self.captures, strict=True):
            self.routine.alias(parameter, argument)

    def round(self) -> None:
        f, routine = self.f, self.routine
        known = set(routine.known)
        routine.check_signals()
        routine.steps(self.step.body.steps)
        iteration = f.load("i64", self.counter, 8)
        for ordinal in range(len(self.elements)):
            self.stack(ordinal, iteration)
        f.store(f.load("i8", routine.address(self.going)), self.flag, 1)
        updates, checks = self.next_sizes()
        self.carry()
        self.frame.set_symbols(updates)
        for axis, own, value in checks:
            routine.expect_size(axis, own, value)
        f.store(f.add(iteration, 1), self.counter, 8)
        routine.known = known

    def stack(self, ordinal: int, iteration: Reg) -> None:
        """The element of this round, behind those before it; all have one shape."""
        f, element, op = self.f, self.elements[ordinal], self.op
        for axis, (dim, cell) in enumerate(zip(element.tensor.known_shape, self.firsts[ordinal], strict=True)):
            size = self.frame.size(dim)
            first = f.select(f.icmp("eq", iteration, 0), as_reg(size), f.load("i64", cell, 8))
            f.store(first, cell, 8)
            if not isinstance(dim, int):
                self.frame.leave_if(
                    as_reg(f.icmp("ne", size, first)), "stack", f"axis {axis}", op.location, size, first
                )
        nbytes = self.frame.nbytes(element, op.location)
        start = f.mul(iteration, nbytes)
        buffer = self.buffers.stacked[ordinal]
        base = self.frame.reserve(buffer, f.add(start, nbytes), op.location, start)
        self.routine.copy(f.gep(base, start), self.routine.address(element), nbytes)

    def next_sizes(self) -> tuple[dict[str, Int], list[tuple[int, Dim, Int]]]:
        """The symbols that the next round has other values for, and what must then hold of axes."""
        updates: dict[str, Int] = {}
        checks: list[tuple[int, Dim, Int]] = []
        seen: set[str] = set()
        for parameter, result in zip(self.parameters, self.results, strict=True):
            dims = zip(parameter.tensor.known_shape, result.tensor.known_shape, strict=True)
            for axis, (own, after) in enumerate(dims):
                name = only_atom(own)
                if isinstance(name, str) and name not in seen:
                    seen.add(name)
                    if own != after:
                        updates[name] = self.frame.size(after)
                elif own != after or symbols_of(own) & updates.keys():
                    checks.append((axis, own, self.frame.size(after)))
        return updates, checks

    def carry(self) -> None:
        """The results of a round become the values of the next: all are copied before any change places."""
        f, frame = self.f, self.frame
        carried = list(zip(self.buffers.carried, self.results, self.cells, strict=True))
        for how, result, _ in carried:
            if how.how == "copied":
                nbytes = frame.nbytes(result, self.op.location)
                target = frame.reserve(how.other, nbytes, self.op.location)
                self.routine.copy(target, self.routine.address(result), nbytes)
        for how, _, cell in carried:
            if how.how != "kept":
                exchange(frame.heap, how.buffer, how.other, f)
                f.store(buffer_address(frame.heap, how.buffer, f), cell, 8)

    def leave(self, before: Mapping[str, Int]) -> None:
        """The results of the loop, and their sizes outside."""
        routine, op, count = self.routine, self.op, self.step.carried
        found = routine.new_symbols(op.results[:count], self.parameters)
        trip = self.f.load("i64", self.counter, 8)
        found[op.text("symbol")] = trip
        for result, cells in zip(op.results[count:], self.firsts, strict=True):
            for own, cell in zip(result.tensor.known_shape[1:], cells, strict=True):
                name = only_atom(own)
                if isinstance(name, str) and name not in routine.known:
                    found.setdefault(name, self.f.load("i64", cell, 8))
        self.frame.set_symbols({**before, **found})
        routine.known |= found.keys()
        for result, cell in zip(op.results, self.cells, strict=False):
            routine.in_cell(result, cell)
        for result, buffer in zip(op.results[count:], self.buffers.stacked, strict=True):
            routine.in_buffer(result, buffer)
