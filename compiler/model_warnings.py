"""Warnings about a model: given once where they are found, and noted, so that they can be given again."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from onnxc.compiler.diagnostics import Diagnostic
from onnxc.runtime.errors import ModelWarning

__all__ = ["give_again", "noted_warnings", "warn_of"]

_NOTED: ContextVar[list[str] | None] = ContextVar("noted_warnings", default=None)


def warn_of(findings: Iterable[Diagnostic]) -> None:
    """A ModelWarning for each finding."""
    noted = _NOTED.get()
    for finding in findings:
        if noted is not None:
            noted.append(str(finding))
        warnings.warn(str(finding), ModelWarning, stacklevel=3)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """The texts of all warnings of the block, which grow while it runs; those of other threads are not among them."""
    texts: list[str] = []
    token = _NOTED.set(texts)
    try:
        yield texts
    finally:
        _NOTED.reset(token)


def give_again(texts: Iterable[str]) -> None:
    """A ModelWarning for each text that was noted."""
    for text in texts:
        warnings.warn(text, ModelWarning, stacklevel=2)
