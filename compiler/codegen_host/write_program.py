"""The steps of a plan as the program that the runtime reads: values become slots, sizes become texts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim, Size, render
from onnxc.compiler.ir.dtypes import DType, dtype_of
from onnxc.compiler.ir.interpreter import single_symbol
from onnxc.compiler.ir.module import Attribute, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.types import ShapedType, TensorType, Type, type_symbols
from onnxc.compiler.planning.kernel_plan import BindLate as PlannedBindLate
from onnxc.compiler.planning.kernel_plan import BindMost as PlannedBindMost
from onnxc.compiler.planning.kernel_plan import BindSizes as PlannedBindSizes
from onnxc.compiler.planning.kernel_plan import (
    Branch,
    GuardStep,
    KernelPlan,
    Loop,
    OpStep,
    Region,
    Routine,
    Segment,
    Transfer,
    regions_of,
    segments_of,
    walk_steps,
)
from onnxc.compiler.planning.kernel_plan import Release as PlannedRelease
from onnxc.compiler.planning.place_buffers import value_bytes
from onnxc.runtime.program import (
    Binding,
    BindLate,
    BindMost,
    BindSizes,
    Body,
    Check,
    Constant,
    Growth,
    Guard,
    Host,
    If,
    JsonValue,
    Launch,
    Parameter,
    Program,
    Release,
    Step,
    Symbol,
    TensorSpec,
    While,
)

EntryOf = Callable[[Segment | Routine], str]


class Entries:
    """Names the native functions as they are asked for: those of `calls`, and of all segments, in order."""

    def __init__(self) -> None:
        self.calls: dict[str, Segment | Routine] = {}
        self.segments: dict[Segment, str] = {}

    def __call__(self, call: Segment | Routine) -> str:
        if isinstance(call, Segment):
            name = self.segment(call)
        else:
            name = f"routine{len(self.calls)}"
            for segment in segments_of(call.steps):
                self.segment(segment)
        self.calls[name] = call
        return name

    def segment(self, segment: Segment) -> str:
        """The function of a segment, whoever calls it."""
        return self.segments.setdefault(segment, f"segment{len(self.segments)}")


def write_program(
    plan: KernelPlan,
    entry_of: EntryOf,
    add_constant: Callable[[np.ndarray], int],
    table: tuple[int, int] | None = None,
) -> Program:
    """The program of `plan`. `entry_of` names the native function of a segment, `add_constant` keeps an array.

    table: of growing sizes, how many entries it has, and how many of them are choices of variants.
    """
    writer = _Writer(plan, entry_of, add_constant)
    function = plan.function
    body = writer.body(plan.body)
    inputs = tuple(writer.parameter(value, function.defaults) for value in function.body.parameters)
    outputs = tuple(
        _described(name, value.type, None)
        for name, value in zip(function.result_names, function.body.results, strict=True)
    )
    growth = None if table is None else writer.growth(plan, *table)
    symbols = tuple(Symbol(name, *function.symbols.get(name, (0, None))) for name in writer.symbols)
    return Program(plan.name, symbols, inputs, outputs, body, growth=growth)


def _symbols_within(routine: Routine) -> Iterator[str]:
    """What binds a symbol in a routine: its ops, and the parameters of its regions."""
    for step in walk_steps(routine.steps):
        if isinstance(step, OpStep):
            yield from bound_symbols(step.op)
        for region in regions_of(step):
            for parameter in region.block.parameters:
                yield from sorted(type_symbols(parameter.type))


def _described(name: str, type: Type, default: int | None) -> Parameter:
    if isinstance(type, ShapedType):
        shape = None if type.shape is None else tuple(map(str, type.shape))
        return Parameter(name, type.dtype.name if isinstance(type, TensorType) else "", shape, str(type), default)
    return Parameter(name, "", None, str(type), default)


class _Writer:
    """Gives each symbol of a whole program its ordinal."""

    def __init__(self, plan: KernelPlan, entry_of: EntryOf, add_constant: Callable[[np.ndarray], int]) -> None:
        self.entry_of, self.add_constant = entry_of, add_constant
        self.symbols: dict[str, int] = {name: index for index, name in enumerate(plan.function.symbols)}

    def parameter(self, value: Value, defaults: "dict[str, np.ndarray] | object") -> Parameter:
        name = value.producer.name
        default = None
        if isinstance(defaults, dict) and name in defaults:
            default = self.add_constant(defaults[name])
        return _described(name, value.type, default)

    def symbol(self, name: str) -> int:
        """The ordinal of a symbol."""
        return self.symbols.setdefault(name, len(self.symbols))

    def size(self, dim: Dim) -> str:
        """A size as the runtime reads it."""
        return render(dim, lambda name: f"s[{self.symbol(name)}]")

    def spec(self, type: Type) -> TensorSpec:
        """The type of an array."""
        assert isinstance(type, TensorType), type
        return TensorSpec(type.dtype.name, tuple(self.size(dim) for dim in type.known_shape))

    def stack_spec(self, type: TensorType) -> TensorSpec:
        """The type of what a loop stacks; of no axes where only the elements tell the rank."""
        return TensorSpec(type.dtype.name, ()) if type.shape is None else self.spec(type)

    def growth(self, plan: KernelPlan, words: int, choices: int) -> Growth:
        """How a graph serves calls whose sizes grow."""
        limits = {name: Size.symbol(limit) for name, limit in plan.growing.items()}
        pairs = tuple((self.symbol(name), self.symbol(limit)) for name, limit in plan.growing.items())
        room = [substitute(value_bytes(value), limits) for value in plan.function.body.parameters]
        return Growth(pairs, words, choices, tuple(map(self.size, room)))

    def body(self, plan: Region) -> Body:
        """One block, with slots of its own."""
        return _BodyWriter(self, plan).write()


class _BodyWriter:
    """Numbers the slots of one block."""

    def __init__(self, program: _Writer, plan: Region) -> None:
        self.program, self.plan = program, plan
        self.slots: dict[Value, int] = {}
        self.constants: dict[Value, Constant] = {}

    def slot(self, value: Value) -> int:
        """The slot of a value; a constant is put there from the start."""
        if value not in self.slots:
            self.slots[value] = len(self.slots)
            if value.op is not None and value.op.name == "constant":
                offset = self.program.add_constant(value.op.array())
                self.constants[value] = Constant(self.slots[value], offset, self.program.spec(value.type))
        return self.slots[value]

    def write(self) -> Body:
        """The body."""
        block = self.plan.block
        parameters = tuple(self.slot(parameter) for parameter in block.parameters)
        bindings, checks = self._parameter_sizes(block.parameters)
        # The engine brings a value where a step reads it, and knows then where the caller has put inputs.
        steps = tuple(self._step(step) for step in self.plan.steps if not isinstance(step, Transfer))
        results = tuple(self.slot(result) for result in block.results)
        constants = tuple(self.constants.values())
        return Body(len(self.slots), parameters, results, bindings, checks, constants, steps)

    def _parameter_sizes(self, parameters: Sequence[Value]) -> tuple[tuple[Binding, ...], tuple[Check, ...]]:
        bindings: list[Binding] = []
        checks: list[Check] = []
        bound: set[str] = set()
        for value in parameters:
            if not isinstance(value.type, ShapedType) or value.type.shape is None:
                continue
            for axis, dim in enumerate(value.type.shape):
                symbol = single_symbol(dim)
                if symbol is not None and symbol not in bound:
                    bound.add(symbol)
                    bindings.append(Binding(self.slot(value), axis, self.program.symbol(symbol)))
                else:
                    checks.append(Check(self.slot(value), axis, self.program.size(dim)))
        return tuple(bindings), tuple(checks)

    def _launch(self, step: Segment | Routine, arena_bytes: Dim) -> Launch:
        return Launch(
            self.program.entry_of(step),
            tuple(self.slot(value) for value in step.inputs),
            tuple(self.slot(value) for value in step.outputs),
            tuple(self.program.spec(value.type) for value in step.outputs),
            self.program.size(arena_bytes),
        )

    def _routine(self, step: Routine) -> Launch:
        """One native call that holds more than launches; all symbols that have a value in it get words of the frame."""
        for name in _symbols_within(step):
            self.program.symbol(name)
        return replace(
            self._launch(step, 0),
            array_words=max((len(each.inputs) + len(each.outputs) for each in segments_of(step.steps)), default=0),
            buffers=step.buffer_count,
            binds=tuple(self.program.symbol(name) for name in dict.fromkeys(step.binds)),
            late=step.late,
        )

    def _step(self, step: Segment | Routine | OpStep | PlannedBindMost | PlannedBindLate | PlannedRelease) -> Step:
        if isinstance(step, PlannedRelease):
            return Release(tuple(self.slot(value) for value in step.values))
        if isinstance(step, PlannedBindLate):
            return self._bind_late(step)
        if isinstance(step, Segment):
            return self._launch(step, step.arena_bytes)
        if isinstance(step, Routine):
            return self._routine(step)
        op = step.op
        slots = tuple(self.slot(operand) for operand in op.operands)
        outputs = tuple(self.slot(result) for result in op.results)
        match step:
            case PlannedBindMost():
                most, room = (self.program.size(size) for size in (step.most, step.room))
                return BindMost(slots[0], self.program.symbol(step.symbol), most, room)
            case PlannedBindSizes():
                names = op.attributes["symbols"]
                assert isinstance(names, tuple)
                return BindSizes(slots[0], tuple(self.program.symbol(str(name)) for name in names))
            case GuardStep():
                left, right = (self.program.size(op.dim(side)) for side in ("left", "right"))
                return Guard(left, right, op.text("relation"), op.text("message"), str(op.location or ""))
            case Branch():
                then, otherwise = (self.program.body(region) for region in (step.then, step.otherwise))
                return If(slots[0], slots[1:], outputs, then, otherwise, self._bindings(op))
            case Loop():
                return self._while(step, slots, outputs)
        return self._host(op, slots, outputs)

    def _bind_late(self, step: PlannedBindLate) -> BindLate:
        """What is read at last, and the types that values have then."""
        return BindLate(
            tuple(map(self.slot, step.counts)),
            tuple(self.program.symbol(name) for op in step.ops for name in bound_symbols(op)),
            tuple(map(self.slot, step.values)),
            tuple(self.program.spec(value.type) for value in step.values),
        )

    def _host(self, op: Op, slots: tuple[int, ...], outputs: tuple[int, ...]) -> Host:
        """What the host carries out by a function."""
        attributes = {name: self._encoded(value) for name, value in op.attributes.items() if name != "function"}
        function = op.text("function") if op.name == "host" else op.name
        return Host(function, slots, outputs, attributes, self._bindings(op), str(op.location or ""))

    def _while(self, step: Loop, slots: tuple[int, ...], outputs: tuple[int, ...]) -> While:
        op, carried = step.op, step.carried
        return While(
            slots[0],
            slots[1],
            slots[2 : 2 + carried],
            slots[2 + carried :],
            outputs,
            tuple(self.program.stack_spec(result.tensor) for result in op.results[carried:]),
            self.program.body(step.body),
            self.program.symbol(op.text("symbol")),
            self._bindings(op),
            str(op.location or ""),
        )

    def _bindings(self, op: Op) -> tuple[Binding, ...]:
        """The symbols that stand alone in the sizes of what a host step gives."""
        return tuple(
            Binding(self.slot(result), axis, self.program.symbol(symbol))
            for result in op.results
            if isinstance(result.type, ShapedType) and result.type.shape is not None
            for axis, dim in enumerate(result.type.shape)
            if (symbol := single_symbol(dim)) is not None
        )

    def _encoded(self, value: Attribute) -> JsonValue:
        if isinstance(value, Size):
            return {"size": self.program.size(value)}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, np.ndarray):
            dtype = dtype_of(value.dtype)
            elements: JsonValue = value.reshape(-1).tolist() if dtype.is_string else value.tobytes().hex()
            return {"array": [dtype.name, list(value.shape), elements]}
        if isinstance(value, tuple):
            return [self._encoded(item) for item in value]
        return value
