"""Custom operators: functions of a caller's own, by their import paths."""

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.host.attributes import integers
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array

_PREFIX = "attribute."


def imported(path: str) -> Callable[..., object]:
    """The function at an import path such as "package.module:function"; DeviceError where there is none."""
    module, _, name = path.partition(":")
    try:
        function: object = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except Exception as problem:
        # A module runs its own code when it is imported, which may raise anything.
        message = (
            f'the function "{path}" of a custom operator cannot be imported ({type(problem).__name__}: {problem}): '
            "the model needs its module where it is called"
        )
        raise DeviceError(message, code="custom-function-missing") from problem
    if not callable(function):
        message = f'"{path}", the function of a custom operator, is of type {type(function).__name__}'
        raise DeviceError(message, code="custom-function-missing")
    return function


@function("custom_operator")
def custom_operator(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """The operands that are `present`, in order  ->  what the function at `path` gives for them.

    The function gets None for an operand that is left out, arrays that cannot be written to, and attributes by name.
    Each result must be of its type in `dtypes`, with its part of `sizes`, in which -1 stands for any.
    """
    path = str(attributes["path"])
    given = iter(operands)
    arrays = [_read_only(as_array(next(given))) if there else None for there in integers(attributes, "present")]
    named = {name.removeprefix(_PREFIX): value for name, value in attributes.items() if name.startswith(_PREFIX)}
    made = _called(path, arrays, named)
    results = made if isinstance(made, tuple | list) else (made,)
    dtypes, ranks, sizes = attributes["dtypes"], integers(attributes, "ranks"), integers(attributes, "sizes")
    assert isinstance(dtypes, tuple)
    if len(results) != len(ranks):
        message = f'"{path}" gave {len(results)} results, its rule of types says {len(ranks)}'
        raise InputError(message, code="custom-operator-result")
    ends = np.cumsum(ranks)
    shapes = [sizes[end - rank : end] for end, rank in zip(ends, ranks, strict=True)]
    return tuple(
        _checked(result, dtype, shape, f'result {index} of "{path}"')
        for index, (result, dtype, shape) in enumerate(zip(results, dtypes, shapes, strict=True))
    )


def _called(path: str, arrays: Sequence[np.ndarray | None], named: Attributes) -> object:
    function = imported(path)
    try:
        return function(*arrays, **named)
    except MemoryError:
        raise
    except Exception as problem:
        message = f'"{path}" raised {type(problem).__name__}: {problem}'
        raise InputError(message, code="custom-operator-failed") from problem


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view; what a function wrote would change inputs of the caller, and weights."""
    view = array.view()
    view.flags.writeable = False
    return view


def _checked(result: object, dtype: np.dtype[np.generic], shape: Sequence[int], what: str) -> np.ndarray:
    """A copy of the result, which the function may keep and change later."""
    wanted = f"{np.dtype(dtype)}[{', '.join('?' if size < 0 else str(size) for size in shape)}]"
    if not isinstance(result, np.ndarray | np.generic):
        message = f"{what} is of type {type(result).__name__}, its rule of types says {wanted}"
        raise InputError(message, code="custom-operator-result")
    array = np.array(result, order="C", subok=False)
    if array.dtype.kind in "UT":
        array = array.astype(object)
    fits = array.ndim == len(shape) and all(size in (-1, own) for size, own in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        given = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        raise InputError(f"{what} is {given}, its rule of types says {wanted}", code="custom-operator-result")
    return array
