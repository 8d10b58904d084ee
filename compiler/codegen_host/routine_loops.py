"""Loops of a routine: carried values go from round to round in buffers, stacked results are written row by row."""

from collections.abc import Callable, Mapping

from onnxc.compiler.codegen_host.heap import buffer_address, exchange
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.codegen_host.routine_values import RoutineValues, match_sizes
from onnxc.compiler.ir.dims import only_atom
from onnxc.compiler.planning.kernel_plan import Loop

__all__ = ["LoopWriter"]


class LoopWriter:
    """One loop, whose body `round` writes: addresses of carried values are in cells, the iteration is in memory."""

    def __init__(self, values: RoutineValues, step: Loop, round: Callable[[], None]) -> None:
        self.values, self.step, self.steps = values, step, round
        self.f, self.frame, self.op = values.f, values.frame, step.op
        self.buffers = values.routine.loops[step]
        count, block = step.carried, step.body.block
        limit, condition, *rest = self.op.operands
        self.limit, self.condition = limit, condition
        self.initial, self.captures = rest[:count], rest[count:]
        self.parameters = block.parameters[1 : 1 + count]
        self.going, *results = block.results
        self.results, self.elements = results[:count], results[count:]
        self.next_sizes = match_sizes(self.parameters, self.results)
        f = self.f
        self.cells = [f.alloca("ptr") for _ in self.initial]
        self.counter, self.flag = f.alloca("i64"), f.alloca("i8")
        # The sizes of the first element of each stack; those that are never known are 0.
        self.firsts = [[f.alloca("i64") for _ in element.tensor.known_shape] for element in self.elements]

    def write(self) -> None:
        f, values, op = self.f, self.values, self.op
        for cells in self.firsts:
            for cell in cells:
                f.store(0, cell, 8)
        for cell, value in zip(self.cells, self.initial, strict=True):
            f.store(values.address(value), cell, 8)
        for buffer in self.buffers.stacked:
            self.frame.reserve(buffer, 1, op.location)
        limit = f.load("i64", values.address(self.limit), 8)
        f.store(0, self.counter, 8)
        f.store(f.load("i8", values.address(self.condition)), self.flag, 1)
        outside = set(values.known)
        block = self.step.body.block
        before = values.enter(block.parameters[1:], (*self.initial, *self.captures), self.next_sizes.changed)
        self.place_parameters()

        def goes_on() -> Reg:
            below = f.icmp("slt", f.load("i64", self.counter, 8), limit)
            return as_reg(f.and_(below, f.icmp("ne", f.load("i8", self.flag), 0)))

        f.while_((), goes_on, self.frame.in_region(self.round))
        values.known = outside
        self.leave(before)

    def place_parameters(self) -> None:
        iteration, *_ = self.step.body.block.parameters
        captured = self.step.body.block.parameters[1 + self.step.carried :]
        self.values.put(iteration, self.counter)
        for parameter, cell in zip(self.parameters, self.cells, strict=True):
            self.values.in_cell(parameter, cell)
        for parameter, argument in zip(captured, self.captures, strict=True):
            self.values.alias(parameter, argument)

    def round(self) -> None:
        f, values = self.f, self.values
        known = set(values.known)
        self.steps()
        iteration = f.load("i64", self.counter, 8)
        for ordinal in range(len(self.elements)):
            self.stack(ordinal, iteration)
        f.store(f.load("i8", values.address(self.going)), self.flag, 1)
        self.carry()
        values.bind(self.next_sizes)
        f.store(f.add(iteration, 1), self.counter, 8)
        values.known = known

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
        self.values.copy(f.gep(base, start), self.values.address(element), nbytes)

    def carry(self) -> None:
        """The results of a round become the values of the next: all are copied before any change places."""
        f, frame = self.f, self.frame
        carried = list(zip(self.buffers.carried, self.results, self.cells, strict=True))
        for how, result, _ in carried:
            if how.how == "copied":
                nbytes = frame.nbytes(result, self.op.location)
                target = frame.reserve(how.other, nbytes, self.op.location)
                self.values.copy(target, self.values.address(result), nbytes)
        for how, _, cell in carried:
            if how.how in ("exchanged", "copied"):
                exchange(frame.heap, how.buffer, how.other, f)
            if how.how != "kept":
                f.store(buffer_address(frame.heap, how.buffer, f), cell, 8)

    def leave(self, before: Mapping[str, Int]) -> None:
        """The results of the loop, and their sizes outside."""
        values, op, count = self.values, self.op, self.step.carried
        symbols = values.new_symbols(op.results[:count], self.parameters)
        trip = self.f.load("i64", self.counter, 8)
        symbols[op.text("symbol")] = trip
        for result, cells in zip(op.results[count:], self.firsts, strict=True):
            for own, cell in zip(result.tensor.known_shape[1:], cells, strict=True):
                name = only_atom(own)
                if isinstance(name, str) and name not in values.known:
                    symbols.setdefault(name, self.f.load("i64", cell, 8))
        self.frame.set_symbols({**before, **symbols})
        values.known |= symbols.keys()
        for result, cell in zip(op.results, self.cells, strict=False):
            values.in_cell(result, cell)
        for result, buffer in zip(op.results[count:], self.buffers.stacked, strict=True):
            values.in_buffer(result, buffer)
