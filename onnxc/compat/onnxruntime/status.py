"""The exceptions of ONNX Runtime by their names, and which of them an error of onnxc becomes.

Each is raised from the error of onnxc that it stands for, so that `__cause__` has its code.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from onnxc.runtime.errors import DeviceError, InputError, MissingFileError, ModelError, OnnxcError, UnsupportedError

__all__ = [
    "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled",
    "ModelLoaded", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NotFound", "NotImplemented",
    "RuntimeException", "Status", "as_input_errors", "as_model_errors",
]  # fmt: skip


class Status(Exception):
    """The base of these exceptions; `str()` begins as ONNX Runtime's does, with a number and a word."""

    code, word = 0, "OK"

    def __init__(self, message: str) -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.word} : {message}")
        self.message = message


class Fail(Status):
    code, word = 1, "FAIL"


class InvalidArgument(Status):
    code, word = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status):
    code, word = 3, "NO_SUCHFILE"


class NoModel(Status):
    code, word = 4, "NO_MODEL"


class EngineError(Status):
    code, word = 5, "ENGINE_ERROR"


class RuntimeException(Status):
    code, word = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status):
    code, word = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status):
    code, word = 8, "MODEL_LOADED"


class NotImplemented(Status):
    code, word = 9, "NOT_IMPLEMENTED"


class InvalidGraph(Status):
    code, word = 10, "INVALID_GRAPH"


class EPFail(Status):
    code, word = 11, "EP_FAIL"


class ModelLoadCanceled(Status):
    code, word = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(Status):
    code, word = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(Status):
    code, word = 14, "NOT_FOUND"


# The first row that fits says what an error becomes while a model is opened; codes before classes.
_OF_CODES: Mapping[str, type[Status]] = {
    "empty-model": InvalidArgument,
    "not-a-model": InvalidProtobuf,
    "not-a-plain-file": InvalidProtobuf,
}
_OF_CLASSES: tuple[tuple[type[OnnxcError], type[Status]], ...] = (
    (MissingFileError, NoSuchFile),
    (ModelError, InvalidGraph),
    (UnsupportedError, NotImplemented),
    (InputError, InvalidArgument),
    (DeviceError, RuntimeException),
    (OnnxcError, Fail),
)


@contextmanager
def as_model_errors() -> Iterator[None]:
    """Errors of opening a model, as ONNX Runtime names them."""
    try:
        yield
    except OnnxcError as problem:
        raise _status_of(problem)(str(problem)) from problem


@contextmanager
def as_input_errors(make: Callable[[str], Exception] = InvalidArgument) -> Iterator[None]:
    """Errors of a call: of what was passed it is `make`, else a RuntimeException."""
    try:
        yield
    except InputError as problem:
        raise make(str(problem)) from problem
    except OnnxcError as problem:
        raise RuntimeException(str(problem)) from problem


def _status_of(problem: OnnxcError) -> type[Status]:
    by_code = _OF_CODES.get(problem.code)
    return by_code or next(status for kind, status in _OF_CLASSES if isinstance(problem, kind))
