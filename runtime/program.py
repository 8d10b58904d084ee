"""The serialised program: what a call does, as a tree of steps over slots that hold arrays.

The compiler writes it, the runtime runs it; nothing here knows the IR. Sizes are texts in the symbols `s[0]`, `s[1]`,
... of the program, made of + - *, floordiv, mod, min, max and bcast; `compile_sizes` turns them into functions.
"""

import ast
import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Union

import numpy as np

from onnxc.runtime.records import record

SizeText = str
JsonValue = Union[None, bool, int, float, str, Sequence["JsonValue"], Mapping[str, "JsonValue"]]  # noqa: UP007


@record
class TensorSpec:
    """The element type, by its IR name, and the shape of an array."""

    dtype: str
    shape: tuple[SizeText, ...]


@record
class Binding:
    """Symbol number `symbol` becomes the size of an axis of the array in a slot."""

    slot: int
    axis: int
    symbol: int


@record
class Launch:
    """One native call: an entry of the image over a frame of sizes and arrays; it needs an arena of its own.

    A call that holds more than launches of kernels says besides: the words of the frame that it uses for arrays, how
    many buffers of the heap, the symbols that it gives a value, and the numbers of the outputs whose sizes only it
    finds: those it leaves on the heap, their addresses in the frame.
    """

    entry: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    arena_bytes: SizeText
    array_words: int = 0
    buffers: int = 0
    binds: tuple[int, ...] = ()
    late: tuple[int, ...] = ()


@record
class Host:
    """A function of `onnxc.runtime.host` over arrays; `attributes` are in the form that `compile_attributes` reads."""

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, JsonValue]
    bindings: tuple[Binding, ...] = ()
    location: str = ""


@record
class BindSizes:
    """The integers in a slot become symbols."""

    slot: int
    symbols: tuple[int, ...]


@record
class BindMost:
    """A symbol becomes the most that the integer in a slot may be: what follows loads that, and nobody waits for it.

    room: what this takes in bytes and in elements to count, together. Where it is too much, the symbol becomes the
    integer. Either way a `BindLate` follows.
    """

    slot: int
    symbol: int
    most: SizeText
    room: SizeText


@record
class BindLate:
    """The integers in slots become the symbols that they are; arrays that were made for the most get their shapes."""

    slots: tuple[int, ...]
    symbols: tuple[int, ...]
    arrays: tuple[int, ...]
    specs: tuple[TensorSpec, ...]


@record
class Guard:
    """An InputError with `message` unless `left` is equal to, broadcast with, or at least `right`."""

    left: SizeText
    right: SizeText
    relation: str
    message: str
    location: str = ""


@record
class If:
    """One of two bodies over the same inputs."""

    condition: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    then: "Body"
    otherwise: "Body"
    bindings: tuple[Binding, ...] = ()


@record
class While:
    """A body run while the iteration is below the limit and the condition holds (see the IR primitive `while`).

    The body takes (iteration, carried..., captures...) and gives (condition, carried..., scanned elements...). `scans`
    says the type of each stacked result; a size of it that no iteration decided is 0. One of no axes, as no stack is,
    stands for a rank that only the iterations decide.
    """

    limit: int
    condition: int
    carried: tuple[int, ...]
    captures: tuple[int, ...]
    outputs: tuple[int, ...]
    scans: tuple[TensorSpec, ...]
    body: "Body"
    trip_symbol: int
    bindings: tuple[Binding, ...] = ()
    location: str = ""


@record
class Release:
    """Slots that no later step reads."""

    slots: tuple[int, ...]


Step = Launch | Host | BindSizes | BindMost | BindLate | Guard | If | While | Release


@record
class Constant:
    """An array of the weights, by its place in their bytes, that a slot holds from the start."""

    slot: int
    offset: int
    spec: TensorSpec


@record
class Check:
    """An axis of a parameter that must have a size which other symbols decide."""

    slot: int
    axis: int
    size: SizeText


@record
class Body:
    """Steps over `slots` arrays. Parameters arrive in the slots `parameters`, results leave from `results`."""

    slots: int
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    bindings: tuple[Binding, ...]
    checks: tuple[Check, ...]
    constants: tuple[Constant, ...]
    steps: tuple[Step, ...]


@record
class Parameter:
    """An input or output of the program: its name and type, sizes in the names of the symbols for people to read.

    `default` is the place in the weights of the value that a call may leave out.
    """

    name: str
    dtype: str
    shape: tuple[SizeText, ...] | None
    text: str
    default: int | None = None


@record
class Symbol:
    """A named size and its range."""

    name: str
    low: int
    high: int | None


@record
class Fault:
    """What a native call may find wrong with sizes and data; runtime/native/faults.py says the error for each kind."""

    kind: str
    message: str
    location: str = ""


@record
class Growth:
    """How one CUDA graph serves calls whose sizes grow: kernels load those sizes from a table that each call brings.

    limits: pairs of a symbol that grows and the symbol that it never exceeds. words: the entries of the table; the
    first `choices` of them say which variants a call takes. room: the bytes of each input where all limits are reached.
    """

    limits: tuple[tuple[int, int], ...]
    words: int
    choices: int
    room: tuple[SizeText, ...]


@record
class Program:
    """A whole program. Symbols that inputs bind come with their declared ranges; status blocks number the faults.

    growth: None where graphs serve calls of equal sizes alone; else the program is one launch.
    """

    name: str
    symbols: tuple[Symbol, ...]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    body: Body
    faults: tuple[Fault, ...] = ()
    growth: Growth | None = None


# The frame of a native call: 64-bit words in this order, then one word for each symbol, input and output.
FRAME_POOL, FRAME_WEIGHTS, FRAME_ARENA, FRAME_STATUS, FRAME_HEAP, FRAME_SYMBOLS = 0, 1, 2, 3, 4, 5

# The heap of a call: the address of `i64 check()`, which gives 0 where a handler of a signal has raised; then two words
# for each buffer, its address and its bytes, which native code lets grow.
HEAP_CHECK, HEAP_BUFFERS, BUFFER_WORDS = 0, 1, 2

# What the first word of the frame leads to where kernels run on a GPU: the address of cuLaunchKernelEx, the stream,
# then the function of each kernel. All addresses in the frame are then those of the device.
DEVICE_LAUNCH, DEVICE_STREAM, DEVICE_FUNCTIONS = 0, 1, 2

# What the heap's word of the frame leads to where sizes grow (`Growth`): the addresses of their table, on the host and
# on the device. Where the second is 0, a call writes the table of the host and launches nothing.
TABLE_ON_HOST, TABLE_ON_DEVICE = 0, 1

# The bytes from one entry of the table, an i64, to the next: kernels rely on pointers being multiples of 16.
TABLE_ENTRY_BYTES = 16

# What a native call gives where it is not 0 or a result of the driver: an array has too many elements for its kernels.
TOO_MANY_ELEMENTS = -1

# The words of a status block that a call fills in where the data is not legal: what is wrong, the number of the node
# that found it or of the fault, and two numbers: the index and the size of its axis, or what the fault is about.
STATUS_CODE, STATUS_LOCATION, STATUS_VALUE, STATUS_SIZE = 0, 1, 2, 3
NO_FAULT, INDEX_OUT_OF_RANGE, FAULT = 0, 1, 2

# No machine has as much memory, in bytes.
LARGEST_BYTES = 1 << 56


def floordiv(a: int, b: int) -> int:
    """The floor of a / b; 0 where b is 0."""
    return a // b if b else 0


def mod(a: int, b: int) -> int:
    """a - b * floordiv(a, b)."""
    return a % b if b else a


def bcast(*sizes: int) -> int:
    """The broadcast of sizes that are equal or 1."""
    return next((size for size in sizes if size != 1), 1)


_FUNCTIONS: dict[str, Callable[..., int]] = {"floordiv": floordiv, "mod": mod, "bcast": bcast, "min": min, "max": max}
_OPERATORS = (ast.Add, ast.Sub, ast.Mult)

# Of 602 loads beside five other threads one failed, once.
PARSING_ATTEMPTS = 10


def compile_sizes(texts: Sequence[SizeText]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """A function from the values of the symbols to the numbers that `texts` are.

    Raises ValueError for a text that is no size, so that an artifact cannot run code of its own.
    """
    if all(text.isascii() and text.isdecimal() for text in texts):
        sizes = tuple(map(int, texts))
        return lambda symbols: sizes
    source = "(" + "".join(f"{text}, " for text in texts) + ")"
    tree = _parsed(source)
    nodes: list[ast.AST] = [*tree.body.elts] if isinstance(tree.body, ast.Tuple) else [tree.body]
    while nodes:
        parts = _parts_of_size(nodes.pop())
        if parts is None:
            raise ValueError(f"{source} is not made of sizes")
        nodes += parts
    code = compile(f"lambda s: {source}", "<sizes>", "eval")
    function: Callable[[Sequence[int]], tuple[int, ...]] = eval(code, {"__builtins__": {}, **_FUNCTIONS})
    return function


def _parsed(source: str) -> ast.Expression:
    for _ in range(PARSING_ATTEMPTS):
        # Python 3.11 keeps the depth of the trees it makes for all threads together (python/cpython#106905): where two
        # threads parse at once one may fail, which says nothing of the text.
        with contextlib.suppress(SystemError):
            return ast.parse(source, mode="eval")
    raise ValueError(f"{source} cannot be parsed")


def _parts_of_size(node: ast.AST) -> Sequence[ast.AST] | None:
    """The sizes that an expression is made of; None for what is no size. Symbols are indexed by a number only."""
    match node:
        case ast.Constant(value) | ast.Subscript(ast.Name("s"), ast.Constant(value)) if type(value) is int:
            return ()
        case ast.UnaryOp(ast.USub(), operand):
            return (operand,)
        case ast.BinOp(left, operator, right) if isinstance(operator, _OPERATORS):
            return (left, right)
        case ast.Call(ast.Name(function), arguments, []) if function in _FUNCTIONS:
            return arguments
    return None


def compile_attributes(attributes: Mapping[str, JsonValue]) -> Callable[[Sequence[int]], dict[str, object]]:
    """A function from the values of the symbols to attributes as the meanings take them.

    A list is a tuple, {"size": text} the number that a size is, {"dtype": name} an element type of NumPy and
    {"array": [dtype, shape, hexadecimal bytes]} an array, with a list in place of bytes where elements are texts;
    everything else stands for itself.
    """
    texts: list[SizeText] = []
    decoded = {name: _decode(value, texts) for name, value in attributes.items()}
    if not texts:
        # What no size decides, as the groups of collectives, is walked through once.
        return lambda symbols: decoded.copy()
    evaluate = compile_sizes(texts)

    def resolve(symbols: Sequence[int]) -> dict[str, object]:
        sizes = evaluate(symbols)
        return {name: _resolve(value, sizes) for name, value in decoded.items()}

    return resolve


def attribute_sizes(attributes: Mapping[str, JsonValue]) -> tuple[SizeText, ...]:
    """The sizes in attributes. Raises what `compile_attributes` would for attributes of another form."""
    texts: list[SizeText] = []
    for value in attributes.values():
        _decode(value, texts)
    return tuple(texts)


@record
class _SizeValue:
    """The place of a size among the evaluated texts."""

    index: int


def _decode(value: JsonValue, texts: list[SizeText]) -> object:
    if isinstance(value, Mapping):
        ((form, content),) = value.items()
        if form == "size" and isinstance(content, str):
            texts.append(content)
            return _SizeValue(len(texts) - 1)
        if form == "dtype" and isinstance(content, str):
            return numpy_dtype(content)
        if form == "array" and isinstance(content, Sequence):
            name, shape, data = content
            assert isinstance(name, str)
            assert isinstance(shape, Sequence)
            return _array(numpy_dtype(name), [int(str(size)) for size in shape], data)
        raise ValueError(f"attribute form {form} is not known")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_decode(item, texts) for item in value)
    return value


def _array(dtype: "np.dtype[np.generic]", shape: Sequence[int], elements: JsonValue) -> np.ndarray:
    """The array of these elements, read-only: what runs with it must not change what the next call gets."""
    if isinstance(elements, str):
        return np.frombuffer(bytes.fromhex(elements), dtype).reshape(shape)
    assert isinstance(elements, Sequence)
    array = np.array(elements, dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _resolve(value: object, sizes: Sequence[int]) -> object:
    if isinstance(value, _SizeValue):
        return sizes[value.index]
    if isinstance(value, tuple):
        return tuple(_resolve(item, sizes) for item in value)
    return value


_OF_NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_,
    "c64": np.complex64, "c128": np.complex128, "string": np.object_,
}  # fmt: skip

_OF_ML_DTYPES = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f6e2m3": "float6_e2m3fn", "f6e3m2": "float6_e3m2fn",
    "f4e2m1": "float4_e2m1fn", "i4": "int4", "i2": "int2", "u4": "uint4", "u2": "uint2",
}  # fmt: skip
"""Imported where a program has one of them: it takes 8 of the 45 ms that importing all else takes."""

ELEMENT_TYPES = (*_OF_NUMPY, *_OF_ML_DTYPES)
"""The IR names of all element types."""


@cache
def numpy_dtype(name: str) -> "np.dtype[np.generic]":
    """The NumPy counterpart of an element type by its IR name; ValueError for a name that is none."""
    if name not in ELEMENT_TYPES:
        raise ValueError(f"{name} is no element type")
    own = _OF_ML_DTYPES.get(name)
    dtype: np.dtype[np.generic] = np.dtype(
        _OF_NUMPY[name] if own is None else getattr(importlib.import_module("ml_dtypes"), own)
    )
    return dtype
