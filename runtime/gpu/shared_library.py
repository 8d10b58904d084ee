"""Libraries of NVIDIA as tables of addresses: opened under the first of their names that there is."""

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import c_void_p

__all__ = ["addresses_of", "open_library", "read_pointer"]


def open_library(names: Sequence[str]) -> tuple[ctypes.CDLL, str]:
    """The library, and the name that it was found under; OSError, which says why each failed, where there is none."""
    problems = []
    for name in names:
        try:
            return ctypes.CDLL(name), name
        except OSError as problem:
            problems.append(str(problem))
    raise OSError("; ".join(problems))


def addresses_of(library: ctypes.CDLL, functions: Iterable[str]) -> dict[str, int]:
    """The addresses of those of the functions that the library has."""
    return {
        name: read_pointer(ctypes.cast(getattr(library, name), c_void_p))
        for name in functions
        if hasattr(library, name)
    }


def read_pointer(pointer: c_void_p) -> int:
    """The address in a pointer, 0 for none."""
    return pointer.value or 0
