"""Errors of ours as those that onnx's tests expect."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnxc

__all__ = ["errors_as"]


@contextmanager
def errors_as(kind: type[Exception]) -> Iterator[None]:
    """Raises our errors within it as ones of that class."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", onnxc.ModelWarning)
            yield
    except onnxc.OnnxcError as problem:
        raise kind(f"{problem.code}: {problem}") from problem
