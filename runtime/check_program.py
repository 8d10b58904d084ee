"""Whether a decoded program holds together: all that its steps name exists, and counts and ranks fit one another.

What values host functions give, no program says: where those do not fit, the step that takes them fails
(runtime/steps.py). What native code relies on is tied to it by a digest (runtime/image_ties.py).
"""

import math
from collections.abc import Iterable, Sequence

from onnxc.runtime.arrays import type_text
from onnxc.runtime.dtypes import DTYPES
from onnxc.runtime.native.faults import FAULT_KINDS
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
    Launch,
    Parameter,
    Program,
    Release,
    Step,
    TensorSpec,
    While,
    attribute_sizes,
    compile_sizes,
)
from onnxc.runtime.signature import default_shape
from onnxc.runtime.texts import LENGTH_BYTES

__all__ = ["DecodeError", "check_program", "is_size"]

RELATIONS = ("equal", "broadcast", "at_least")

# More slots, in all bodies together, elements or axes are in no program, and would exhaust memory or NumPy; nor are
# numbers of more digits.
_SLOTS_LIMIT, _ELEMENTS_LIMIT, _RANK_LIMIT, _DIGITS_LIMIT = 1 << 20, 1 << 56, 64, 19

# More words of a frame, or buffers of a heap, are in no native call.
_WORDS_LIMIT = 1 << 20

# A type that is nested deeper is of no model that the frontend takes.
_TYPE_DEPTH_LIMIT = 64

# Of each slot that holds a value, its rank, or None where no program says it.
Ranks = dict[int, int | None]

_MALFORMED = (ValueError, TypeError, LookupError, AssertionError, SyntaxError, MemoryError, RecursionError)


class DecodeError(ValueError):
    """JSON that is no program; the text says where and why."""


def check_program(program: Program, weights_bytes: int) -> None:
    """Raises DecodeError for the first thing that does not fit; constants lie within that many bytes."""
    _Checker(program, weights_bytes).check()


class _Checker:
    """What is asked of each part of a program; `texts` are the sizes in it, each once."""

    def __init__(self, program: Program, weights_bytes: int) -> None:
        self.program, self.weights_bytes = program, weights_bytes
        self.texts: dict[str, None] = {}
        self.slot_count = 0

    def check(self) -> None:
        program, body = self.program, self.program.body
        for parameter in (*program.inputs, *program.outputs):
            self.parameter(parameter)
        for fault in program.faults:
            self.expect(fault.kind in FAULT_KINDS, f"a fault {fault.kind!r}")
        self.expect(len(body.parameters) == len(program.inputs), "the number of inputs")
        self.expect(len(body.results) == len(program.outputs), "the number of outputs")
        ranks = [None if parameter.shape is None else len(parameter.shape) for parameter in program.inputs]
        unranked = {slot for slot, rank in zip(body.parameters, ranks, strict=True) if rank is None}
        for slot in (*(binding.slot for binding in body.bindings), *(check.slot for check in body.checks)):
            self.expect(slot not in unranked, f"a size of slot {slot}, which has no rank,")
        self.body(body, ranks)
        self.growth(program.growth)
        for text in self.texts:
            self.size(text)

    def growth(self, growth: Growth | None) -> None:
        """Sizes that grow, of a program that is one launch."""
        if growth is None:
            return
        launches = [step for step in self.program.body.steps if isinstance(step, Launch)]
        self.expect(len(launches) == 1, f"a table of growing sizes for {len(launches)} launches")
        self.symbols(symbol for pair in growth.limits for symbol in pair)
        counts = growth.choices, growth.words
        self.expect(0 <= growth.choices <= growth.words <= _WORDS_LIMIT, f"a table of {counts} entries")
        self.expect(len(growth.room) == len(self.program.inputs), "the number of inputs that have room")
        self.texts |= dict.fromkeys(growth.room)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise DecodeError(f"{what} does not fit the program")

    def parameter(self, parameter: Parameter) -> None:
        """The text of the type says what the fields do; a default lies in the weights."""
        for size in parameter.shape or ():
            self.expect(len(size) <= _DIGITS_LIMIT or not size.isdecimal(), f"a size of {len(size)} digits")
        if parameter.dtype:
            self.expect(parameter.dtype in DTYPES, f"element type {parameter.dtype!r}")
            self.expect(parameter.text == type_text(parameter.dtype, parameter.shape), f"type {parameter.text!r}")
        else:
            self.expect(_is_host_type(parameter.text), f"type {parameter.text!r}")
            element = parameter.text.removeprefix("sparse(").partition("[")[0]
            is_sparse = parameter.text == f"sparse({type_text(element, parameter.shape)})"
            self.expect(is_sparse or parameter.shape is None, f"shape {parameter.shape}")
        shape = default_shape(parameter)
        if parameter.default is not None and shape is not None:
            self.array(parameter.default, parameter.dtype, shape)

    def array(self, offset: int, dtype: str, shape: Sequence[int]) -> None:
        """An array in the weights; the sizes beside a 0 must not be beyond NumPy either."""
        itemsize = DTYPES[dtype].itemsize if dtype in DTYPES else 0
        nbytes = LENGTH_BYTES if dtype == "string" else math.prod(shape) * itemsize
        possible = dtype in DTYPES and len(shape) <= _RANK_LIMIT
        possible = possible and math.prod(size or 1 for size in shape) <= _ELEMENTS_LIMIT
        fits = possible and 0 <= offset <= self.weights_bytes - nbytes
        self.expect(fits, f"a constant {dtype}{list(shape)} at byte {offset} of {self.weights_bytes}")

    def body(self, body: Body, parameter_ranks: Sequence[int | None]) -> None:
        """A body whose parameters have these ranks."""
        self.slot_count += body.slots
        self.expect(body.slots >= 0 and self.slot_count <= _SLOTS_LIMIT, f"{body.slots} slots")
        ranks: Ranks = {}
        self.put(body, ranks, body.parameters, parameter_ranks)
        self.parameter_sizes(ranks, (*body.bindings, *body.checks))
        for constant in body.constants:
            self.constant(constant)
            self.put(body, ranks, (constant.slot,), (len(constant.spec.shape),))
        for binding in body.bindings:
            self.symbols((binding.symbol,))
        self.texts |= dict.fromkeys(check.size for check in body.checks)
        for step in body.steps:
            self.step(body, step, ranks)
        self.held(ranks, body.results)

    def parameter_sizes(self, ranks: Ranks, sized: Iterable[Binding | Check]) -> None:
        """Axes of parameters, which alone have values when sizes are read and checked."""
        for one in sized:
            self.axis(ranks, one.slot, one.axis)

    def constant(self, constant: Constant) -> None:
        sizes, spec = constant.spec.shape, constant.spec
        are_sizes = all(text.isdecimal() and len(text) <= _DIGITS_LIMIT for text in sizes)
        self.expect(are_sizes, f"shape {[text[:_DIGITS_LIMIT] for text in sizes]}")
        self.array(constant.offset, spec.dtype, tuple(map(int, sizes)))

    def step(self, body: Body, step: Step, ranks: Ranks) -> None:
        """A step, and what it leaves in the slots."""
        match step:
            case Launch():
                self.held(ranks, step.inputs)
                self.expect(len(step.specs) == len(step.outputs), "the number of specs")
                self.specs(step.specs)
                self.texts[step.arena_bytes] = None
                self.whole_call(step)
                self.put(body, ranks, step.outputs, [len(spec.shape) for spec in step.specs])
            case Host():
                self.host(body, step, ranks)
            case BindSizes():
                self.held(ranks, (step.slot,))
                self.expect(ranks[step.slot] in (None, 1), f"the rank of slot {step.slot}")
                self.symbols(step.symbols)
            case BindMost():
                self.held(ranks, (step.slot,))
                self.symbols((step.symbol,))
                self.texts |= {step.most: None, step.room: None}
            case BindLate():
                self.held(ranks, (*step.slots, *step.arrays))
                self.symbols(step.symbols)
                self.expect(len(step.slots) == len(step.symbols), "the number of symbols")
                self.expect(len(step.arrays) == len(step.specs), "the number of specs")
                self.specs(step.specs)
            case Guard():
                self.texts |= {step.left: None, step.right: None}
                self.expect(step.relation in RELATIONS, f"relation {step.relation!r}")
            case If():
                self.branch(body, step, ranks)
            case While():
                self.loop(body, step, ranks)
            case Release():
                self.slots(body, step.slots)
                for slot in step.slots:
                    ranks.pop(slot, None)

    def whole_call(self, step: Launch) -> None:
        """What a native call says that holds more than launches of kernels."""
        self.symbols(step.binds)
        self.expect(0 <= step.array_words <= _WORDS_LIMIT, f"{step.array_words} words of the frame")
        self.expect(0 <= step.buffers <= _WORDS_LIMIT, f"{step.buffers} buffers")
        in_order = sorted(set(step.late)) == list(step.late)
        self.expect(in_order and all(0 <= k < len(step.outputs) for k in step.late), f"late outputs {step.late}")

    def host(self, body: Body, step: Host, ranks: Ranks) -> None:
        self.held(ranks, step.inputs)
        try:
            self.texts |= dict.fromkeys(attribute_sizes(step.attributes))
        except _MALFORMED as problem:
            raise DecodeError(f"the attributes of {step.function} are malformed: {problem}") from problem
        self.put(body, ranks, step.outputs, [None] * len(step.outputs))
        self.bindings(ranks, step.bindings)

    def branch(self, body: Body, step: If, ranks: Ranks) -> None:
        self.held(ranks, (step.condition, *step.inputs))
        for inner in (step.then, step.otherwise):
            self.expect(len(inner.parameters) == len(step.inputs), "the number of inputs of a branch")
            self.expect(len(inner.results) == len(step.outputs), "the number of outputs of a branch")
            self.body(inner, [ranks[slot] for slot in step.inputs])
        self.put(body, ranks, step.outputs, [None] * len(step.outputs))
        self.bindings(ranks, step.bindings)

    def loop(self, body: Body, step: While, ranks: Ranks) -> None:
        self.held(ranks, (step.limit, step.condition, *step.carried, *step.captures))
        self.symbols((step.trip_symbol,))
        self.specs(step.scans)
        carried, scans = len(step.carried), len(step.scans)
        self.expect(len(step.outputs) == carried + scans, "the number of outputs of a loop")
        self.expect(len(step.body.parameters) == 1 + carried + len(step.captures), "the number of inputs of a loop")
        self.expect(len(step.body.results) == 1 + carried + scans, "the number of results of a loop")
        # What the body carries on may have another rank than what came in.
        self.body(step.body, [0, *[None] * carried, *(ranks[slot] for slot in step.captures)])
        self.put(body, ranks, step.outputs, [*[None] * carried, *(len(spec.shape) or None for spec in step.scans)])
        self.bindings(ranks, step.bindings)

    def slots(self, body: Body, slots: Iterable[int]) -> None:
        for slot in slots:
            self.expect(0 <= slot < body.slots, f"slot {slot}")

    def put(self, body: Body, ranks: Ranks, slots: Sequence[int], given: Sequence[int | None]) -> None:
        """From here on the slots hold values of these ranks."""
        self.slots(body, slots)
        ranks.update(zip(slots, given, strict=True))

    def held(self, ranks: Ranks, slots: Iterable[int]) -> None:
        """Slots that hold a value here."""
        for slot in slots:
            self.expect(slot in ranks, f"slot {slot}, which holds no value,")

    def axis(self, ranks: Ranks, slot: int, axis: int) -> None:
        self.held(ranks, (slot,))
        rank = ranks[slot]
        self.expect(0 <= axis < (_RANK_LIMIT if rank is None else rank), f"axis {axis} of slot {slot}")

    def symbols(self, symbols: Iterable[int]) -> None:
        for symbol in symbols:
            self.expect(0 <= symbol < len(self.program.symbols), f"symbol {symbol}")

    def bindings(self, ranks: Ranks, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            self.axis(ranks, binding.slot, binding.axis)
            self.symbols((binding.symbol,))

    def specs(self, specs: Iterable[TensorSpec]) -> None:
        for spec in specs:
            self.expect(spec.dtype in DTYPES, f"element type {spec.dtype!r}")
            self.expect(len(spec.shape) <= _RANK_LIMIT, f"rank {len(spec.shape)}")
            self.texts |= dict.fromkeys(spec.shape)

    def size(self, text: str) -> None:
        """A text must be one size by itself: `1, 2` and `1), (2` are sizes only in company."""
        self.expect(is_size(text, len(self.program.symbols)), f"size {text[:60]!r}")


def is_size(text: str, symbols: int) -> bool:
    """Whether a text is one size, of a program with so many symbols."""
    try:
        values = compile_sizes([text])([1] * symbols)
        return len(values) == 1 and type(values[0]) is int
    except _MALFORMED:
        return False


def _is_host_type(text: str, depth: int = 0) -> bool:
    """Whether `text` is a type of which runtime/values.py can import a value."""
    form, _, inside = text.partition("(")
    inner = inside.removesuffix(")")
    if depth > _TYPE_DEPTH_LIMIT:
        return False
    match form:
        case "sequence" | "optional":
            return inner != inside and _is_host_type(inner, depth + 1)
        case "map":
            key, _, value = inner.partition(", ")
            return inner != inside and key in DTYPES and _is_host_type(value, depth + 1)
        case "sparse":
            return inner != inside and _is_tensor_type(inner)
    return _is_tensor_type(text)


def _is_tensor_type(text: str) -> bool:
    element, bracket, _ = text.partition("[")
    return element in DTYPES and bool(bracket) and text.endswith("]")
