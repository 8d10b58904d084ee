"""Whether a module keeps the rules of the IR; what it finds is a defect of whoever made the module.

`verify_module` runs the type rules again and checks everything that they leave open: which attributes there are, that
values are made before they are used and not across blocks, that symbols of sizes are bound before they are used, the
blocks of control flow, and the names of functions, parameters and results.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BOOL, I64, dtype_of
from onnxc.compiler.ir.module import Attribute, Block, Function, Module, Op, Parameter, Value, walk
from onnxc.compiler.ir.op_facts import bound_symbols, named_symbols
from onnxc.compiler.ir.op_verifier import listed, op_findings
from onnxc.compiler.ir.types import (
    ANY_SIZE,
    MapType,
    OptionalType,
    SequenceType,
    ShapedType,
    TensorType,
    Type,
    type_symbols,
)


class InvalidModule(AssertionError):
    """A module that breaks rules of the IR; `findings` holds one text for each."""

    def __init__(self, module: str, findings: Sequence[str]) -> None:
        super().__init__("\n".join((f'module "{module}" breaks {len(findings)} rule(s) of the IR', *findings)))
        self.findings = tuple(findings)


def verify_module(module: Module) -> None:
    """Raises InvalidModule with everything that is wrong."""
    findings = list(_module_findings(module))
    for function in module.functions:
        findings += _FunctionCheck(module, function).findings()
    if findings:
        raise InvalidModule(module.name, findings)


# Modules and functions


def _module_findings(module: Module) -> list[str]:
    if not module.functions:
        return ["there is no function"]
    findings = [f"function {name} is there twice" for name in _repeated(f.name for f in module.functions)]
    calls = {
        f.name: {op.attributes.get("function") for op in walk(f.body) if op.name == "call"} for f in module.functions
    }
    reached = {name: set(targets) for name, targets in calls.items()}
    for _ in reached:
        for targets in reached.values():
            targets.update(*(reached[str(target)] for target in tuple(targets) if target in reached))
    return findings + [f"function {name} calls itself" for name, targets in reached.items() if name in targets]


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


@dataclass
class _FunctionCheck:
    """One walk over a function; `symbols` are those bound so far, `seen` the ops and parameters met."""

    module: Module
    function: Function
    symbols: set[str] = field(default_factory=set)
    bound_once: set[str] = field(default_factory=set)
    seen: set[Op | Parameter] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def findings(self) -> list[str]:
        body = self.function.body
        self._signature()
        self.symbols |= {symbol for value in body.parameters for symbol in type_symbols(value.type)}
        self._block(body, None)
        return self.problems

    def _note(self, text: str, op: Op | None = None) -> None:
        where = f"function {self.function.name}"
        if op is not None:
            operands = listed(operand.type for operand in op.operands)
            where += f", {op.location or 'no location'}, {op.name}({operands})"
        self.problems.append(f"{where}: {text}")

    def _signature(self) -> None:
        function, parameters = self.function, self.function.body.parameters
        if len(function.result_names) != len(function.body.results):
            self._note(f"{len(function.result_names)} result names for {len(function.body.results)} results")
        for name in _repeated(function.result_names):
            self._note(f"result {name} is there twice")
        types = {value.producer.name: value.type for value in parameters}
        for name, default in function.defaults.items():
            if name not in types:
                self._note(f"the default of {name} belongs to no parameter")
            elif not _fits(types[name], TensorType(dtype_of(default.dtype), default.shape), type_symbols(types[name])):
                self._note(f"the default of {name} is not {types[name]}")
        bound = {symbol for type in types.values() for symbol in type_symbols(type)}
        for symbol, (low, high) in function.symbols.items():
            if symbol not in bound:
                self._note(f"symbol {symbol} has a range and is in no parameter")
            if low < 0 or (high is not None and high < low):
                self._note(f"the range of symbol {symbol} is [{low}, {high}]")

    # Blocks

    def _block(self, block: Block, owner: Op | None) -> None:
        """Ops in order; symbols bound inside a nested block are forgotten after it."""
        before = set(self.symbols)
        for name in _repeated(value.producer.name for value in block.parameters):
            self._note(f"parameter {name} is there twice", owner)
        for value in block.parameters:
            self._parameter(value, owner)
        visible = set(block.parameters)
        for op in block.ops:
            self._op(op, visible)
            visible.update(op.results)
        for result in block.results:
            if result not in visible:
                self._note(f"the result {result!r} is not made in its block", owner)
        self.symbols = before

    def _parameter(self, value: Value, owner: Op | None) -> None:
        if not isinstance(value.producer, Parameter) or value.index != 0:
            self._note(f"{value!r} is listed as a parameter and is none", owner)
        if value.producer in self.seen:
            self._note(f"parameter {value.producer.name} belongs to two blocks", owner)
        self.seen.add(value.producer)

    def _op(self, op: Op, visible: set[Value]) -> None:
        if op in self.seen:
            self._note("is in the function twice", op)
        self.seen.add(op)
        for operand in op.operands:
            if operand not in visible:
                made = operand.producer in self.seen
                reason = "belongs to another block" if made else "is used before it is made"
                self._note(f"operand {operand!r} {reason}", op)
        own = op_findings(op)
        for finding in own:
            self._note(finding, op)
        self._symbols(op)
        if not own:
            for finding in self._control(op):
                self._note(finding, op)
        for block in op.blocks:
            before = set(self.symbols)
            self.symbols |= {symbol for value in block.parameters for symbol in type_symbols(value.type)}
            self._block(block, op)
            self.symbols = before
        self.symbols.update(bound_symbols(op))

    def _symbols(self, op: Op) -> None:
        binds = set(bound_symbols(op))
        used = {symbol for value in op.attributes.values() for symbol in _attribute_symbols(value)}
        used |= {symbol for type in op.result_types for symbol in type_symbols(type)}
        for symbol in sorted(used - binds - self.symbols):
            self._note(f"symbol {symbol} is not bound", op)
        for symbol in named_symbols(op):
            if symbol in self.bound_once or symbol in self.symbols:
                self._note(f"symbol {symbol} is bound twice", op)
            self.bound_once.add(symbol)

    # Control flow

    def _control(self, op: Op) -> list[str]:
        match op.name:
            case "if":
                return self._if(op)
            case "while":
                return self._while(op)
            case "recurrence":
                return self._recurrence(op)
            case "call":
                return self._call(op)
        return []

    def _if(self, op: Op) -> list[str]:
        if len(op.blocks) != 2 or not op.operands:
            return [f"takes a condition and two blocks, got {len(op.operands)} operands and {len(op.blocks)} blocks"]
        findings = _expect_type(op.operands[0], TensorType(BOOL, ()), "the condition")
        captures = [value.type for value in op.operands[1:]]
        for block in op.blocks:
            types = [value.type for value in block.parameters]
            if types != captures:
                findings.append(f"a block takes {listed(types)} and is given {listed(captures)}")
            findings += self._agree("a block's result", op.result_types, [value.type for value in block.results])
        return findings

    def _while(self, op: Op) -> list[str]:
        carried, scans = op.int("carried"), op.int("scans")
        if len(op.blocks) != 1 or len(op.operands) < 2 + carried or carried < 0 or scans < 0:
            return [f"takes one block and {2 + carried} operands, got {len(op.blocks)} and {len(op.operands)}"]
        (body,) = op.blocks
        findings = _expect_type(op.operands[0], TensorType(I64, ()), "the limit")
        findings += _expect_type(op.operands[1], TensorType(BOOL, ()), "the condition")
        given = [TensorType(I64, ()), *(value.type for value in op.operands[2:])]
        taken = [value.type for value in body.parameters]
        own = {symbol for type in taken for symbol in type_symbols(type)} - self.symbols
        findings += self._agree("the block's parameter", taken[: 1 + carried], given[: 1 + carried], own)
        if taken[1 + carried :] != given[1 + carried :]:
            findings.append(f"captures are {listed(given[1 + carried :])}, taken as {listed(taken[1 + carried :])}")
        made = [value.type for value in body.results]
        expected = [TensorType(BOOL, ()), *taken[1 : 1 + carried]]
        findings += self._agree("the block's result", expected, made[: 1 + carried], own)
        stacked = [_stacked(type, Size.symbol(op.text("symbol"))) for type in made[1 + carried :]]
        return findings + self._agree("the result", op.result_types, [*taken[1 : 1 + carried], *stacked])

    def _recurrence(self, op: Op) -> list[str]:
        count, loops = op.int("carried"), len(op.blocks)
        if not loops or not 0 <= loops * count <= len(op.operands):
            return [f"takes {loops * count} operands or more, got {len(op.operands)}"]
        findings: list[str] = []
        expected: list[Type] = []
        captures = [value.type for value in op.operands[loops * count :]]
        for ordinal, block in enumerate(op.blocks):
            states = [value.type for value in op.operands[ordinal * count : (ordinal + 1) * count]]
            taken, made = [value.type for value in block.parameters], [value.type for value in block.results]
            if taken != [TensorType(I64, ()), *states, *captures]:
                findings.append(f"block {ordinal} takes {listed(taken)}, not a counter, {listed(states)} and captures")
            if made[:count] != states or len(made) != count + op.int("scans"):
                findings.append(f"block {ordinal} gives {listed(made)} for states {listed(states)}")
            expected += [*states, *(_stacked(type, op.dim("trips")) for type in made[count:])]
        return findings + self._agree("the result", op.result_types, expected)

    def _call(self, op: Op) -> list[str]:
        name = op.text("function")
        target = next((function for function in self.module.functions if function.name == name), None)
        if target is None:
            return [f"there is no function {name}"]
        taken = [value.type for value in target.body.parameters]
        given = [value.type for value in op.operands]
        made = [value.type for value in target.body.results]
        theirs = {symbol for type in (*taken, *made) for symbol in type_symbols(type)}
        findings = self._agree("the parameter", taken, given, theirs)
        ours = {symbol for type in op.result_types for symbol in type_symbols(type)}
        return findings + self._agree("the result", op.result_types, made, ours | theirs)

    def _agree(
        self, what: str, declared: Sequence[Type], actual: Sequence[Type], free: Iterable[str] | None = None
    ) -> list[str]:
        """Where `actual` is not what is declared; `free` symbols stand for any size, by default those not yet bound."""
        if len(declared) != len(actual):
            return [f"{what}s are {len(actual)}, declared are {len(declared)}"]
        unbound = {symbol for type in declared for symbol in type_symbols(type)} - self.symbols
        chosen = unbound if free is None else set(free)
        return [
            f"{what} {index} is {given}, declared is {expected}"
            for index, (expected, given) in enumerate(zip(declared, actual, strict=True))
            if not _fits(expected, given, chosen)
        ]


def _expect_type(value: Value, type: Type, what: str) -> list[str]:
    return [] if value.type == type else [f"{what} is {value.type}, not {type}"]


def _stacked(element: Type, count: Dim) -> Type:
    """The type of `count` elements that a loop scans, stacked along a new first axis."""
    if not isinstance(element, TensorType) or element.shape is None:
        return element
    return TensorType(element.dtype, (count, *element.shape))


def _fits(declared: Type, actual: Type, free: Iterable[str]) -> bool:
    """Whether a value of type `actual` may stand under `declared`, where sizes with `free` symbols stand for any."""
    match declared, actual:
        case ShapedType(), ShapedType() if declared.__class__ is actual.__class__:
            if declared.dtype != actual.dtype or declared.shape is None or actual.shape is None:
                return declared.dtype == actual.dtype and declared.shape is None
            if len(declared.shape) != len(actual.shape):
                return False
            any_size = frozenset(free)
            return all(
                a in (b, ANY_SIZE) or symbols_of(a) & any_size
                for a, b in zip(declared.shape, actual.shape, strict=True)
            )
        case SequenceType(expected), SequenceType(given):
            return _fits(expected, given, free)
        case OptionalType(expected), OptionalType(given):
            return _fits(expected, given, free)
        case OptionalType(expected), _:
            return _fits(expected, actual, free)
        case MapType(), MapType():
            return declared.key == actual.key and _fits(declared.value, actual.value, free)
    return False


def _attribute_symbols(value: Attribute) -> set[str]:
    if isinstance(value, Size):
        return set(symbols_of(value))
    return {symbol for item in value for symbol in _attribute_symbols(item)} if isinstance(value, tuple) else set()
