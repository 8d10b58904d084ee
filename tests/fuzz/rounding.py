"""How far rounding may move the outputs of a model: what the interpreter gives when every result is rounded otherwise.

A model made at random may cancel, overflow or choose at any place, so no bound that is known beforehand fits it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial

import numpy as np

from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op
from onnxc.runtime.dtypes import dtype_kind, dtype_name
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.host.values import HostValue
from tests.fuzz.meanings import as_good_meanings
from tests.support.tolerance import smallest, unit

# Elementary functions of native code are within 4 units in the last place, as tests/codegen_cpu/elementary measures; of
# the types below, it may round where the interpreter does not, which is one unit.
UNITS = {"f64": 4.0, "c128": 4.0, "f32": 4.0, "c64": 4.0}

RUNS = 8


def otherwise_rounded(
    module: Module, inputs: Mapping[str, HostValue], random: np.random.Generator
) -> list[tuple[HostValue, ...] | None]:
    """The outputs of some runs, each with other errors of rounding in all floats; None for a run that is refused.

    Every other one takes the meanings that are as good; so does the first, which rounds as usual: a subnormal number
    that becomes 0 in the others would hide what they make of it beside an infinity.
    """
    with as_good_meanings:
        runs = [_run(module, inputs, lambda array: array)]
    for ordinal in range(RUNS):
        with as_good_meanings if ordinal % 2 else nullcontext():
            runs.append(_run(module, inputs, partial(moved, random=random)))
    return runs


def _run(
    module: Module, inputs: Mapping[str, HostValue], move: Callable[[np.ndarray], np.ndarray]
) -> tuple[HostValue, ...] | None:
    seen: dict[int, HostValue] = {}

    def disturb(op: Op, results: Sequence[HostValue]) -> None:
        for value in results:
            is_new = id(value) not in seen and op.name != "constant"
            seen[id(value)] = value
            if is_new and isinstance(value, np.ndarray) and value.base is None and value.flags.writeable:
                value[...] = move(value)

    # What is inside of other values is copied: whoever picks it out of them has the array itself.
    copies = {name: move(value) if isinstance(value, np.ndarray) else deepcopy(value) for name, value in inputs.items()}
    try:
        with np.errstate(all="ignore"):
            return interpret(module, copies, disturb)
    except OnnxcError:
        return None


def moved(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The array with each float up to some units in the last place away; any other array as it is.

    The unit of a subnormal number is the smallest of them, so that it may become 0.
    """
    if array.dtype.kind == "O" or dtype_kind(array.dtype) not in ("float", "complex"):
        return array
    units = UNITS.get(dtype_name(array.dtype), 1.0)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    last, least = unit(array.dtype), smallest(array.dtype)
    direction = random.integers(-1, 2, array.shape)
    with np.errstate(all="ignore"):
        is_subnormal = (wide != 0) & (np.abs(wide) < least / last)
        result: np.ndarray = np.where(is_subnormal, wide + least * direction, wide * (1 + units * last * direction))
        return result.astype(array.dtype)
