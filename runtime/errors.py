"""The errors that people see: every one carries a kebab-case code and a text that says what to do next.

Anything else that escapes from onnxc is a defect of ours.
"""

import errno
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TypeVar


class OnnxcError(Exception):
    """The base of all onnxc errors; `code` is a stable kebab-case name, `str()` the full text."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"error[{code}]: {message}" if not message.startswith("error[") else message)
        self.code = code

    def __reduce__(self) -> tuple[Callable[..., "OnnxcError"], tuple[object, ...]]:
        # Exceptions are made again from their arguments, which lack the code: what a worker process raises would not
        # arrive.
        return _remade, (type(self), self.args, vars(self))


def _remade(kind: type[OnnxcError], arguments: tuple[object, ...], attributes: Mapping[str, object]) -> OnnxcError:
    error = kind.__new__(kind)
    error.args = arguments
    vars(error).update(attributes)
    return error


class ModelError(OnnxcError):
    """The model is wrong: malformed, or not legal ONNX."""


class UnsupportedError(OnnxcError):
    """The model is legal, and onnxc cannot compile it yet; the text lists every such node."""


class InputError(OnnxcError, ValueError):
    """The caller is wrong: an option or an input does not fit what the model declares."""


class ModelWarning(UserWarning):
    """The model is wrong in a way that does not keep it from being compiled."""


class MissingFileError(InputError, FileNotFoundError):
    """There is no file at a path that a caller gave; `filename` is the path."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, code="file-not-found")
        self.errno, self.filename = errno.ENOENT, path

    def __str__(self) -> str:
        # OSError would put a text of its own together.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Callable[..., OnnxcError], tuple[object, ...]]:
        return partial(MissingFileError, path=self.filename), self.args


E = TypeVar("E", bound=OnnxcError)


def reworded(problem: E, text: str) -> E:
    """The same error, of any class, with another text."""
    error = copy(problem)
    error.args = (text,)
    return error


def located(problem: E, location: object) -> E:
    """The same error, with the node at which it came up if it does not tell one yet."""
    if not location or "\n  --> " in str(problem):
        return problem
    return type(problem)(f"{problem}\n  --> {location}", code=problem.code)


def expect_one_shape(shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises InputError unless the elements that the iterations of a loop give to be stacked have one shape."""
    for iteration, shape in enumerate(shapes):
        if shape != shapes[0]:
            message = f"iteration {iteration} gives an element of shape {shape} to stack, the first one {shapes[0]}"
            raise InputError(message, code="sizes-disagree")


class DeviceError(OnnxcError):
    """A device, driver, library or compiled image is missing or does not fit."""
