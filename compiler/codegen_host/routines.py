"""Routines as native functions: segments, sizes from data, guards, branches and loops, without the host.

    i64 routine(ptr frame)

It gives 0, or something else where the status block says why it has ended. The frame is laid out in
runtime/program.py; its words for arrays are set anew for each segment that is called.
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import as_reg
from onnxc.compiler.codegen_host.routine_frame import FaultTable, RoutineFrame
from onnxc.compiler.codegen_host.routine_loops import LoopWriter
from onnxc.compiler.codegen_host.routine_values import RoutineValues
from onnxc.compiler.codegen_host.sizes import emit_broken
from onnxc.compiler.ir.module import Op
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
from onnxc.compiler.planning.routine.buffers import ARENA
from onnxc.runtime.native.faults import STOPPED
from onnxc.runtime.program import FRAME_ARENA, HEAP_CHECK, NO_FAULT, STATUS_CODE
from onnxc.runtime.records import record

__all__ = ["CHECK_TICKS", "RoutineContext", "write_routine"]

# Between two looks for signals: about 10 ms at 3 GHz, with the slow counters of some arm processors at most 170 ms.
CHECK_TICKS: Mapping[str, int] = {"x86_64": 1 << 25, "aarch64": 1 << 22}


@record
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
    """Writes the steps in order."""

    def __init__(self, f: FunctionBuilder, routine: Routine, context: RoutineContext) -> None:
        self.f, self.routine, self.context = f, routine, context
        self.frame = RoutineFrame(f, context.symbols, context.faults)
        first_output = self.frame.first_array + len(routine.inputs)
        self.outputs = [self.frame.word(first_output + k) for k in range(len(routine.outputs))]
        # Segments set the words of the frame for their own arrays.
        self.given = {k: f.load("ptr", word, 8) for k, word in enumerate(self.outputs) if k not in routine.late}
        direct = {value: self.given[k] for k, value in enumerate(routine.outputs) if value in routine.direct}
        self.values = RoutineValues(self.frame, routine, context.weight_offsets, direct)
        self.last_check = f.alloca("i64")

    def write(self) -> None:
        f, routine, frame, values = self.f, self.routine, self.frame, self.values
        for ordinal, value in enumerate(routine.inputs):
            values.put(value, f.load("ptr", frame.word(frame.first_array + ordinal), 8))
        f.store(f.call("onnxc_ticks", "i64"), self.last_check, 8)
        self.steps(routine.steps)
        for k, value in enumerate(routine.outputs):
            if k in routine.late:
                f.store(values.address(value), self.outputs[k], 8)
            elif value not in routine.direct:
                values.copy(self.given[k], values.address(value), frame.nbytes(value, None))
        f.ret(0)

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
            self.values.make_room(value)
        for ordinal, value in enumerate((*step.inputs, *step.outputs), frame.first_array):
            f.store(self.values.address(value), frame.word(ordinal), 8)
        result = f.call(self.context.entry_of(step), "i64", frame.frame)
        f.if_(f.icmp("ne", result, 0), lambda: f.ret(result))
        if self.context.reports(step):
            code = f.load("i64", f.gep(frame.status, STATUS_CODE, "i64"), 8)
            f.if_(f.icmp("ne", code, NO_FAULT), lambda: f.ret(1))

    def guard(self, op: Op) -> None:
        f, frame = self.f, self.frame
        left, right = (frame.saturated_size(op.dim(side)) for side in ("left", "right"))
        broken = emit_broken(op.text("relation"), left, right, f)
        frame.leave_if(broken, "guard", op.text("message"), op.location, left, right)

    def bind(self, op: Op) -> None:
        """Integers in memory become symbols; a size is at least what its symbol may be."""
        f, frame = self.f, self.frame
        names = op.attributes["symbols"]
        assert isinstance(names, tuple), names
        base = self.values.address(op.operands[0])
        for k, name in enumerate(map(str, names)):
            value = f.load("i64", f.gep(base, k, "i64"), 8)
            if not name.startswith("?"):
                low = self.context.lows.get(name, 0)
                frame.leave_if(f.icmp("slt", value, low), "bound", name, op.location, value, low)
            frame.set_symbols({name: value})
            self.values.known.add(name)

    def sizes(self, op: Op) -> None:
        """Sizes as a tensor of integers."""
        f, (result,) = self.f, op.results
        self.values.make_room(result)
        type = f"i{8 * result.dtype.itemsize}"
        for k, dim in enumerate(op.dims("values")):
            value = f.convert("trunc", as_reg(self.frame.size(dim)), type)
            f.store(value, f.gep(self.values.address(result), k, type), result.dtype.itemsize)

    def branch(self, step: Branch) -> None:
        f, op = self.f, step.op
        condition = f.icmp("ne", f.load("i8", self.values.address(op.operands[0])), 0)
        cells = [f.alloca("ptr") for _ in op.results]
        outside = set(self.values.known)
        bound: set[str] = set()

        def arm(region: Region) -> Callable[[], None]:
            def write() -> None:
                self.values.known = set(outside)
                parameters = region.block.parameters
                before = self.values.enter(parameters, op.operands[1:])
                for parameter, argument in zip(parameters, op.operands[1:], strict=True):
                    self.values.alias(parameter, argument)
                self.steps(region.steps)
                self.values.known = set(outside)
                symbols = self.values.new_symbols(op.results, region.block.results)
                for cell, value in zip(cells, region.block.results, strict=True):
                    f.store(self.values.address(value), cell, 8)
                self.frame.set_symbols({**before, **symbols})
                bound.update(symbols)

            return self.frame.in_region(write)

        f.if_(condition, arm(step.then), arm(step.otherwise))
        self.values.known = outside | bound
        for result, cell in zip(op.results, cells, strict=True):
            self.values.in_cell(result, cell)

    def loop(self, step: Loop) -> None:
        def body() -> None:
            self.check_signals()
            self.steps(step.body.steps)

        LoopWriter(self.values, step, body).write()

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
