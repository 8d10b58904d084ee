"""Integer tensors known in sizes: reading them, and computing on them while the program is built.

This is what turns the chains of Shape, Gather, Mul, Concat that exporters write into symbolic sizes: an op whose
operands are all known is replaced by its value. Nothing here makes ops.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce as fold
from itertools import accumulate

import numpy as np

from onnxc.compiler.ir.derived_sizes import chosen_elements, truncated_elements
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size, SizeTooComplex, at_least, floordiv, length_of, mod, product
from onnxc.compiler.ir.dtypes import F32, I8, I32, I64, U8
from onnxc.compiler.ir.known_elements import LIMIT, as_elements, known_elements, picks_by_size, static_shape
from onnxc.compiler.ir.meanings import apply_meaning
from onnxc.compiler.ir.module import Attributes, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.host import MEANINGS

Undecided = None

# Squares and cubes are all that exporters write; an estimate that keeps expanded sums short.
_GREATEST_POWER = 4

# What is longer, in symbols and functions, is computed by the call. Ten times what the official cases have.
_LONGEST = 1000

_INDEXED = ("gather", "scatter_nd", "scatter_along")


def _window(attributes: Attributes) -> int:
    """The elements that a window covers, or those that it is padded with, where that is more."""
    sizes = [attributes.get(name, ()) for name in ("window", "low", "high")]
    return max(
        math.prod(size for size in each if isinstance(size, int) and size) for each in sizes if isinstance(each, tuple)
    )


def fold_known(
    name: str, operands: Sequence[Value], attributes: Attributes, types: Sequence[Type]
) -> tuple[np.ndarray, ...] | None:
    """The results of an op on small constants as arrays, of one on known integers in sizes, object arrays of Dims.

    None where an operand is not known, or the answer is undecided.
    """
    if name in ("constant", "sizes") or not operands or len(types) != 1:
        return None
    (type,) = types
    if PRIMITIVES[name].structural or name not in MEANINGS:
        return None
    if not isinstance(type, TensorType) or type.shape is None or not type.is_static:
        return None
    if type.dtype.is_string or _count(type) > LIMIT or picks_by_size(attributes) or _window(attributes) > LIMIT:
        return None
    if name == "cast" and _are_quantized(operands[0], type):
        return None
    constants = [array for operand in operands if (array := _small_constant(operand)) is not None]
    if len(constants) == len(operands) and PRIMITIVES[name].kind != "collective":
        return (_meaning_of_constants(name, constants, attributes),)
    if not (type.dtype.is_integer or type.dtype.is_bool):
        return None
    known = [array for operand in operands if (array := known_elements(operand)) is not None]
    try:
        result = _fold(name, known, attributes) if len(known) == len(operands) else _derived(name, operands, type)
    except SizeTooComplex:
        return None
    if result is None or any(length_of(element) > _LONGEST for element in result.flat):
        return None
    return (result.reshape(static_shape(type)),)


def _are_quantized(value: Value, type: TensorType) -> bool:
    """Whether a cast to floats is of matrices or filters of bytes: what they are multiplied as is for passes to say."""
    return type.dtype == F32 and value.dtype in (I8, U8) and value.rank > 1


def _meaning_of_constants(name: str, constants: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    """The result on constants; sizes beyond what can be counted are an error of the model that gives them."""
    try:
        return apply_meaning(name, constants, attributes, {})[0]
    except DeviceError as problem:
        message = str(problem).removeprefix(f"error[{problem.code}]: ")
        raise InputError(message, code="impossible-size") from problem


def _derived(name: str, operands: Sequence[Value], type: TensorType) -> np.ndarray | None:
    """The result where an operand is no integer, but computed from such."""
    if type.dtype not in (I64, I32):
        return None
    if name == "select":
        return chosen_elements(*operands)
    return truncated_elements(operands[0]) if name == "cast" else None


def _small_constant(value: Value) -> np.ndarray | None:
    op = value.op
    if op is None or op.name != "constant" or value.dtype.is_string or op.array().size > LIMIT:
        return None
    return op.array()


def _count(type: TensorType) -> int:
    count = product(type.known_shape)
    return count if isinstance(count, int) else LIMIT + 1


def _fold(name: str, operands: list[np.ndarray], attributes: Attributes) -> np.ndarray | None:
    if PRIMITIVES[name].kind == "movement":
        return MEANINGS[name](operands, attributes)[0]
    if name in _INDEXED and all(isinstance(index, int) for index in operands[1].flat):
        if attributes.get("kind", "set") != "set":
            return None
        return MEANINGS[name]([operands[0], operands[1].astype(np.int64), *operands[2:]], attributes)[0]
    if name == "scan_axis" and operands[0].ndim == 1 and attributes["kind"] == "sum":
        return _running_sums(operands[0].tolist(), attributes)
    if name == "cast":
        return operands[0] if attributes["dtype"] in (I64, I32) else None
    if name == "reduce" and operands[0].ndim == 1 and operands[0].size:
        combine = _COMBINE.get(str(attributes["kind"]))
        return None if combine is None else as_elements([fold(combine, operands[0].tolist())])
    function = _ELEMENTWISE.get(name)
    if function is None:
        return None
    results = [function(*elements) for elements in zip(*(operand.flat for operand in operands), strict=True)]
    decided = [result for result in results if result is not Undecided]
    return as_elements(decided) if len(decided) == len(results) else None


def _running_sums(elements: Sequence[Dim], attributes: Attributes) -> np.ndarray:
    """The sums of the elements up to each, or, where they are exclusive, of those before it."""
    ordered = [*reversed(elements)] if attributes["reverse"] else [*elements]
    sums = [*accumulate(ordered, initial=0)]
    sums = sums[:-1] if attributes["exclusive"] else sums[1:]
    return as_elements([*reversed(sums)] if attributes["reverse"] else sums)


def _power(a: Dim, b: Dim) -> Dim | None:
    return product([a] * b) if isinstance(b, int) and 0 <= b <= _GREATEST_POWER else Undecided


def _divide(a: Dim, b: Dim) -> Dim | None:
    """Truncated division; decided where the divisor is certainly above 0, or both are plain integers."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if at_least(a, 0):
        return floordiv(a, b) if at_least(b, 0) and not _cancels_what_may_be_zero(a, b) else Undecided
    if not at_least(b, 1):
        return Undecided
    if at_least(a, 1 - b):
        return maximum(0, floordiv(a, b))
    return floordiv(maximum(a, 0), b) - floordiv(maximum(-a, 0), b)


def _cancels_what_may_be_zero(a: Dim, b: Dim) -> bool:
    """Whether the quotient is taken to be exact although the divisor may be 0 where no symbol is: x / 0 = 0."""
    positive = dict.fromkeys(symbols_of(b), (1, None))
    return not at_least(b, 1, positive) and floordiv(a, b) * b == a


def _remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return 0 if b == 0 else abs(a) % abs(b) * (1 if a >= 0 else -1)
    if at_least(a, 0) and at_least(b, 1):
        return mod(a, b)
    if at_least(a, 0) and at_least(b, 0):
        return mod(a, b) * minimum(1, b)
    quotient = _divide(a, b) if at_least(b, 1) else Undecided
    return Undecided if quotient is None else a - b * quotient


def _equal(a: Dim, b: Dim) -> int | None:
    if a == b:
        return 1
    if (isinstance(a, int) and isinstance(b, int)) or at_least(a, b + 1) or at_least(b, a + 1):
        return 0
    return Undecided


def _less(a: Dim, b: Dim) -> int | None:
    if at_least(b, a + 1):
        return 1
    return 0 if at_least(a, b) else Undecided


def _less_equal(a: Dim, b: Dim) -> int | None:
    opposite = _less(b, a)
    return Undecided if opposite is None else 1 - opposite


def _select(condition: Dim, a: Dim, b: Dim) -> Dim | None:
    if isinstance(condition, Size):
        return a if a == b else Undecided
    return a if condition else b


def _logic(combine: Callable[[int, int], int]) -> Callable[[Dim, Dim], Dim | None]:
    return lambda a, b: combine(a, b) if isinstance(a, int) and isinstance(b, int) else Undecided


def _absolute(a: Dim) -> Dim | None:
    if at_least(a, 0):
        return a
    return -a if at_least(-a, 0) else Undecided


_COMBINE: dict[str, Callable[[Dim, Dim], Dim]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "min": minimum,
    "max": maximum,
}

_ELEMENTWISE: dict[str, Callable[..., Dim | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "rem": _remainder,
    "pow": _power,
    "min": minimum,
    "max": maximum,
    "neg": lambda a: -a,
    "abs": _absolute,
    "equal": _equal,
    "less": _less,
    "less_equal": _less_equal,
    "select": _select,
    "and": _logic(lambda a, b: a & b),
    "or": _logic(lambda a, b: a | b),
}
