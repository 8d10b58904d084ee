"""Running a body: its steps, one after another, over slots that hold values and symbols that hold sizes.

A body is prepared once; what is prepared is never changed, so that threads share it. Nested bodies have slots and
symbols of their own: what they bind is not seen outside.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from onnxc.runtime.arrays import is_ready
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.devices.arriving import Arriving
from onnxc.runtime.dtypes import DTYPES, STRING, DType
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError, expect_one_shape, located
from onnxc.runtime.native.launch import NativeLaunch, expect_possible
from onnxc.runtime.native.workspaces import Workspace
from onnxc.runtime.program import (
    LARGEST_BYTES,
    Binding,
    BindLate,
    BindMost,
    BindSizes,
    Body,
    Check,
    Constant,
    Guard,
    Host,
    If,
    Launch,
    Release,
    Step,
    Symbol,
    TensorSpec,
    While,
    compile_attributes,
    compile_sizes,
)
from onnxc.runtime.records import record
from onnxc.runtime.texts import decode_texts
from onnxc.runtime.values import as_array, host_value, shape_of

if TYPE_CHECKING:
    from onnxc.runtime.host import Meaning
    from onnxc.runtime.host.functions import HostFunction
    from onnxc.runtime.values import SlotValue

__all__ = [
    "UNFIT",
    "ExecutionContext",
    "HostCall",
    "ObserveHost",
    "PreparedBody",
    "RunStep",
    "Slots",
    "Symbols",
    "guard_check",
    "host_error",
    "native_step",
    "prepare_body",
    "prepared_host",
    "prepared_most",
    "ready_array",
    "run_body",
    "symbols_in",
    "unfit_step",
    "weights_view",
]  # fmt: skip

# The workspace of a call, which only launches look into.
W = TypeVar("W")

Slots = list["SlotValue"]
Symbols = list[int]
HostCall = Callable[..., Sequence["SlotValue"]]
ObserveHost = Callable[[Host, HostCall], HostCall]
RunStep = Callable[[Slots, Symbols, W], None]

LARGEST_ROOM = 64 << 20
"""Where more room than this is needed for the most that a size may be, a call waits for the size.

Of a mask over a long text, or of all pairs of boxes, few elements are true: memory for all may not be there. The wait
costs about as much as to launch 64 Ki programs that leave at once, which is an estimate.
"""

_SYMBOL = re.compile(r"s\[(\d+)\]")

# What Python and NumPy raise for values that code was not made for. All others pass: a handler of signals may raise
# anything of a caller's own while a step runs.
UNFIT = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, NotImplementedError, RecursionError,
    TypeError, ValueError, re.error,
)  # fmt: skip

_GUARDS: Mapping[str, Callable[[int, int], bool]] = {
    "equal": lambda left, right: left == right,
    "broadcast": lambda left, right: left == right or left == 1 or right == 1,
    "at_least": lambda left, right: left >= right,
}


@record(eq=False)
class ExecutionContext(Generic[W]):
    """What the bodies of a program share: its symbols, its constants, how launches run and tensors are stacked.

    observed: what the function of a step on the host becomes where somebody watches it. exchange: how a collective runs
    where the host has no part in it, None for what is no collective. What a collective gives is `Arriving`.
    """

    symbols: Sequence[Symbol]
    constant: Callable[[Constant], "SlotValue"]
    prepare_launch: Callable[[Launch], RunStep[W]]
    stack: Callable[[Sequence["SlotValue"], W], "SlotValue"]
    observed: ObserveHost | None = None
    exchange: Callable[[Host], RunStep[W] | None] | None = None


@record(eq=False)
class PreparedBody(Generic[W]):
    """A body ready to run; `template` are its slots with the constants in them."""

    template: Slots
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    bind: Callable[[Sequence["SlotValue"], Symbols], Symbols]
    steps: tuple[RunStep[W], ...]


def prepare_body(body: Body, context: ExecutionContext[W], known: frozenset[int]) -> PreparedBody[W]:
    """The body ready to run; `known` are the symbols that have a value when it starts."""
    template: Slots = [None] * body.slots
    for constant in body.constants:
        template[constant.slot] = context.constant(constant)
    known |= _symbols_of(body.bindings)
    steps = []
    for step in body.steps:
        steps.append(_prepare_step(step, context, known))
        known |= _bound_by(step)
    bind = _prepare_parameters(body.parameters, body.bindings, body.checks)
    return PreparedBody(template, body.parameters, body.results, bind, tuple(steps))


def run_body(
    body: PreparedBody[W], arguments: Sequence["SlotValue"], symbols: Symbols, workspace: W
) -> list["SlotValue"]:
    """The results of the body, which may share memory with its arguments and with constants.

    Raises DeviceError where the steps of the program do not fit one another.
    """
    slots = body.template.copy()
    for slot, argument in zip(body.parameters, arguments, strict=True):
        slots[slot] = argument
    try:
        for step in body.steps:
            step(slots, symbols, workspace)
    except OnnxcError:
        raise
    except UNFIT as problem:
        raise unfit_step(problem) from problem
    return [slots[result] for result in body.results]


def unfit_step(problem: Exception) -> DeviceError:
    """The error for what a step raised that is none of ours, nor that of a handler of signals."""
    message = (
        f"a step does not take the values that came to it ({type(problem).__name__}: {problem}):"
        " the artifact was changed, or this is a defect of onnxc"
    )
    return DeviceError(message, code="unfit-step")


def weights_view(weights: np.ndarray, offset: int, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """A constant as a view of the weights, or an array of texts, that cannot be written to."""
    if dtype == STRING:
        array = decode_texts(weights, offset, shape)
    else:
        array = np.ndarray(shape, dtype, weights, offset)
    array.flags.writeable = False
    return array


def _prepare_step(step: Step, context: ExecutionContext[W], known: frozenset[int]) -> RunStep[W]:
    match step:
        case Launch():
            return context.prepare_launch(step)
        case Host():
            exchange = _host_exchange(step, known) if context.exchange is None else context.exchange(step)
            return _prepare_host(step, context.observed, known) if exchange is None else exchange
        case BindSizes():
            return _prepare_bind_sizes((step.slot,), step.symbols, context.symbols)
        case BindMost():
            return _prepare_bind_most(step, context.symbols)
        case BindLate():
            return _prepare_bind_late(step, context.symbols)
        case Guard():
            return _prepare_guard(step)
        case If():
            return _prepare_if(step, context, known)
        case While():
            return _prepare_while(step, context, known)
        case Release():
            return _prepare_release(step)


def native_step(step: Launch, launch: NativeLaunch) -> RunStep[Workspace]:
    """The launch as a step on the host: outputs are new arrays, and what it has bound are symbols of later steps."""
    early, late = ([step.outputs[k] for k in ordinals] for ordinals in (launch.early, step.late))

    def run(slots: Slots, symbols: Symbols, workspace: Workspace) -> None:
        sizes = launch.at(tuple(symbols))
        outputs = launch.new_outputs(sizes)
        inputs = [ready_array(slots[slot]) for slot in step.inputs]
        launch.run(sizes, (*inputs, *outputs), workspace)
        for symbol, value in launch.bound_symbols(workspace).items():
            symbols[symbol] = value
        _put(slots, early, outputs)
        _put(slots, late, launch.late_outputs(symbols, workspace))

    return run


def _prepare_host(step: Host, observed: ObserveHost | None, known: frozenset[int]) -> RunStep[W]:
    call_at, bindings = prepared_host(step, None, observed), _new_bindings(step.bindings, known)

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        with _errors_of(step):
            results = call_at(symbols)(*(slots[slot] for slot in step.inputs))
        _put(slots, step.outputs, results)
        _bind(bindings, slots, symbols)

    return run


def _host_exchange(step: Host, known: frozenset[int]) -> RunStep[W] | None:
    """How a collective of values on the host is begun; None for what is no collective."""
    begin = importlib.import_module("onnxc.runtime.host.collectives").BEGIN.get(step.function)
    if begin is None:
        return None
    attributes, bindings = compile_attributes(step.attributes), _new_bindings(step.bindings, known)

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        with _errors_of(step):
            wait = begin(as_array(slots[step.inputs[0]]), attributes(symbols))
        slots[step.outputs[0]] = Arriving(_errors_of(step)(wait))
        _bind(bindings, slots, symbols)

    return run


@contextmanager
def _errors_of(step: Host) -> Iterator[None]:
    """Errors of what the host does for a step are those of the step."""
    try:
        yield
    except (InputError, MemoryError) as problem:
        raise host_error(step, problem) from None


def prepared_host(
    step: Host, constants: Mapping[int, np.ndarray] | None, observed: ObserveHost | None = None
) -> Callable[[Sequence[int]], "HostCall"]:
    """A function from the values of the symbols to the step as a function of its inputs, in order.

    constants: the values of the slots that hold one from the start; None where a call serves once, or inputs may be on
    a device, and nothing is done beforehand. observed: what the step's function becomes where somebody watches it. The
    function of symbols raises DeviceError where what the sizes ask for is more than memory could hold.
    """
    _expect_imported(step)
    function, attributes, prepare = _host_function(step.function), compile_attributes(step.attributes), None
    fixed: dict[int, np.ndarray] = {}
    if constants is not None:
        prepare = importlib.import_module("onnxc.runtime.host.prepared").PREPARED.get(step.function)
        fixed = {ordinal: constants[slot] for ordinal, slot in enumerate(step.inputs) if slot in constants}

    def at(symbols: Sequence[int]) -> HostCall:
        given = attributes(symbols)
        _expect_room(given)
        prepared: HostCall | None = None if prepare is None else prepare(fixed, given)
        call = (lambda *values: function(values, given.copy())) if prepared is None else prepared
        return call if observed is None else observed(step, call)

    return at


def host_error(step: Host, problem: Exception) -> OnnxcError:
    """The error for an InputError or MemoryError that a function of the host has raised."""
    if isinstance(problem, InputError):
        return located(problem, step.location)
    return DeviceError(f"what {step.function} makes does not fit into memory", code="out-of-memory")


def _expect_imported(step: Host) -> None:
    """A function of a caller's own is looked for when the program is loaded, not at the first call."""
    if step.function == "custom_operator":
        importlib.import_module("onnxc.runtime.host.functions.custom_operators").imported(
            str(step.attributes.get("path"))
        )


def _expect_room(attributes: Mapping[str, object]) -> None:
    """A shape that a host function is to make is one that memory could hold."""
    shape = attributes.get("shape", ())
    if isinstance(shape, tuple) and prod(shape) > LARGEST_BYTES:
        raise DeviceError(f"an array of shape {list(shape)} does not fit into memory", code="out-of-memory")


def _host_function(name: str) -> "Callable[[Sequence[SlotValue], Mapping[str, object]], Sequence[SlotValue]]":
    """A host function, or the meaning of a primitive, by its name; only a program that has one loads them."""
    functions: Mapping[str, HostFunction] = importlib.import_module("onnxc.runtime.host.functions").FUNCTIONS
    meanings: Mapping[str, Meaning] = importlib.import_module("onnxc.runtime.host").MEANINGS
    if name in functions:
        function = functions[name]
        return lambda values, attributes: function([host_value(value) for value in values], attributes)
    if name not in meanings:
        message = f"there is no host function {name}: the program is of another version of onnxc"
        raise DeviceError(message, code="unknown-host-function")
    meaning = meanings[name]
    return lambda values, attributes: meaning([as_array(value) for value in values], attributes)


def _prepare_bind_sizes(read: Sequence[int], bound: Sequence[int], declared: Sequence[Symbol]) -> RunStep[W]:
    """The integers in the slots that are read, all together, become the symbols that are bound."""
    targets = [(symbol, declared[symbol]) for symbol in bound]

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        values = [value for slot in read for value in as_array(slots[slot]).tolist()]
        for (index, symbol), value in zip(targets, values, strict=True):
            # A question mark begins the name of a number that may be of any sign.
            if not symbol.name.startswith("?") and value < symbol.low:
                message = f"{symbol.name} is {value} by the data, expected {symbol.low} or more"
                raise InputError(message, code="impossible-size")
            symbols[index] = value

    return run


def prepared_most(step: BindMost) -> Callable[[Symbols], bool]:
    """A function that makes the symbol the most that it may be, and says whether there is room for that."""
    most_at, room_at = compile_sizes([step.most]), compile_sizes([step.room])

    def bind(symbols: Symbols) -> bool:
        (symbols[step.symbol],) = most_at(symbols)
        return room_at(symbols)[0] <= LARGEST_ROOM

    return bind


def _prepare_bind_most(step: BindMost, declared: Sequence[Symbol]) -> RunStep[W]:
    bind = prepared_most(step)
    read: RunStep[W] = _prepare_bind_sizes((step.slot,), (step.symbol,), declared)

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        if not bind(symbols):
            read(slots, symbols, workspace)

    return run


def _prepare_bind_late(step: BindLate, declared: Sequence[Symbol]) -> RunStep[W]:
    read: RunStep[W] = _prepare_bind_sizes(step.slots, step.symbols, declared)
    shapes = [(slot, compile_sizes(spec.shape)) for slot, spec in zip(step.arrays, step.specs, strict=True)]

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        read(slots, symbols, workspace)
        for slot, shape_at in shapes:
            value, shape = slots[slot], shape_at(symbols)
            expect_possible(shape)
            assert isinstance(value, DeviceValue), type(value)
            slots[slot] = value.first(shape)

    return run


def guard_check(step: Guard) -> Callable[[Sequence[int]], None]:
    """A function of the values of the symbols; InputError where the guard does not hold."""
    sizes, holds = compile_sizes([step.left, step.right]), _GUARDS[step.relation]
    where = f"\n  --> {step.location}" if step.location else ""

    def check(symbols: Sequence[int]) -> None:
        left, right = sizes(symbols)
        if not holds(left, right):
            raise InputError(f"{step.message} (here {left} and {right}){where}", code="sizes-disagree")

    return check


def symbols_in(text: str) -> frozenset[int]:
    """The numbers of the symbols in a size."""
    return frozenset(map(int, _SYMBOL.findall(text)))


def _prepare_guard(step: Guard) -> RunStep[W]:
    check = guard_check(step)
    return lambda slots, symbols, workspace: check(symbols)


def _prepare_if(step: If, context: ExecutionContext[W], known: frozenset[int]) -> RunStep[W]:
    then, otherwise = (prepare_body(body, context, known) for body in (step.then, step.otherwise))
    bindings = _new_bindings(step.bindings, known)

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        body = then if _is_true(slots[step.condition]) else otherwise
        arguments = [slots[slot] for slot in step.inputs]
        _put(slots, step.outputs, run_body(body, arguments, body.bind(arguments, symbols), workspace))
        _bind(bindings, slots, symbols)

    return run


def _prepare_while(step: While, context: ExecutionContext[W], known: frozenset[int]) -> RunStep[W]:
    body, carried_count = prepare_body(step.body, context, known), len(step.carried)
    bindings = _new_bindings(step.bindings, known | {step.trip_symbol})
    empty_scans = [_prepare_empty_scan(spec, known) for spec in step.scans]

    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        carried, captures = ([slots[slot] for slot in part] for part in (step.carried, step.captures))
        limit, going = as_array(slots[step.limit]).item(), _is_true(slots[step.condition])
        scans: list[list[SlotValue]] = [[] for _ in step.scans]
        iteration = 0
        while iteration < limit and going:
            arguments: list[SlotValue] = [np.array(iteration, np.int64), *carried, *captures]
            condition, *results = run_body(body, arguments, body.bind(arguments, symbols), workspace)
            carried, going = results[:carried_count], _is_true(condition)
            for scan, element in zip(scans, results[carried_count:], strict=True):
                scan.append(element)
            iteration += 1
        symbols[step.trip_symbol] = iteration
        try:
            for scan in scans:
                expect_one_shape([shape_of(element) for element in scan])
        except InputError as problem:
            raise located(problem, step.location) from None
        stacked = [
            context.stack(s, workspace) if s else empty(symbols) for s, empty in zip(scans, empty_scans, strict=True)
        ]
        _put(slots, step.outputs, [*carried, *stacked])
        _bind(bindings, slots, symbols)

    return run


def _prepare_empty_scan(spec: TensorSpec, known: frozenset[int]) -> Callable[[Symbols], np.ndarray]:
    """The stack of no elements: a size that only an iteration would have decided is 0, and a rank 1."""
    texts = [text if symbols_in(text) <= known else "0" for text in spec.shape[1:]]
    sizes, dtype = compile_sizes(texts), DTYPES[spec.dtype]
    return lambda symbols: np.empty((0, *sizes(symbols)), dtype)


def _prepare_release(step: Release) -> RunStep[W]:
    def run(slots: Slots, symbols: Symbols, workspace: W) -> None:
        for slot in step.slots:
            slots[slot] = None

    return run


def _prepare_parameters(
    parameters: Sequence[int], bindings: Sequence[Binding], checks: Sequence[Check]
) -> Callable[[Sequence["SlotValue"], Symbols], Symbols]:
    """How the arguments of a nested body make its symbols from those around it."""
    ordinals = {slot: index for index, slot in enumerate(parameters)}
    sizes = compile_sizes([check.size for check in checks])

    def bind(arguments: Sequence["SlotValue"], outer: Symbols) -> Symbols:
        symbols = outer.copy()
        for binding in bindings:
            symbols[binding.symbol] = shape_of(arguments[ordinals[binding.slot]])[binding.axis]
        for check, size in zip(checks, sizes(symbols), strict=True):
            shape = shape_of(arguments[ordinals[check.slot]])
            if shape[check.axis] != size:
                message = f"axis {check.axis} of a value in a subgraph is {shape[check.axis]}, expected {size}"
                raise InputError(message, code="sizes-disagree")
        return symbols

    return bind


def _put(slots: Slots, ordinals: Sequence[int], values: Sequence["SlotValue"]) -> None:
    for ordinal, value in zip(ordinals, values, strict=True):
        slots[ordinal] = value


def ready_array(value: "SlotValue") -> np.ndarray:
    """An array as native code reads it; host steps may give views, such as a transposed one."""
    array = as_array(value)
    return array if is_ready(array) else array.copy(order="C")


def _is_true(value: "SlotValue") -> bool:
    return bool(as_array(value).item())


def _bind(bindings: Sequence[Binding], slots: Slots, symbols: Symbols) -> None:
    for binding in bindings:
        symbols[binding.symbol] = shape_of(slots[binding.slot])[binding.axis]


def _new_bindings(bindings: Sequence[Binding], known: frozenset[int]) -> tuple[Binding, ...]:
    """Those that decide a symbol; the others repeat what is known."""
    first: dict[int, Binding] = {}
    for binding in bindings:
        if binding.symbol not in known:
            first.setdefault(binding.symbol, binding)
    return tuple(first.values())


def _symbols_of(bindings: Sequence[Binding]) -> frozenset[int]:
    return frozenset(binding.symbol for binding in bindings)


def _bound_by(step: Step) -> frozenset[int]:
    """The symbols that have a value once the step has run."""
    match step:
        case BindSizes() | BindLate():
            return frozenset(step.symbols)
        case BindMost():
            return frozenset((step.symbol,))
        case Host() | If():
            return _symbols_of(step.bindings)
        case While():
            return _symbols_of(step.bindings) | {step.trip_symbol}
        case Launch():
            return frozenset(step.binds)
    return frozenset()
