"""Element types by the names that programs use for them, and back."""

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from onnxc.runtime.program import ELEMENT_TYPES, numpy_dtype

DType = np.dtype[np.generic]


class _DTypes(Mapping[str, DType]):
    """All element types; the package of those that NumPy has not is imported with the first of them."""

    def __getitem__(self, name: str) -> DType:
        if name not in ELEMENT_TYPES:
            raise KeyError(name)
        return numpy_dtype(name)

    def __iter__(self) -> Iterator[str]:
        return iter(ELEMENT_TYPES)

    def __len__(self) -> int:
        return len(ELEMENT_TYPES)


DTYPES = _DTypes()

STRING = DTYPES["string"]


def dtype_name(dtype: DType) -> str:
    """The name that a program uses for `dtype`, NumPy's own for what no program can hold."""
    if dtype.kind in "UT":
        return "string"
    name = _names().get(dtype)
    return str(dtype) if name is None else name


@cache
def _names() -> Mapping[DType, str]:
    return {dtype: name for name, dtype in DTYPES.items() if name != "string"}


def dtype_kind(dtype: DType) -> str:
    """ "bool", "integer", "float", "complex" or "string"; NumPy does not know it of the types of ml_dtypes."""
    name = dtype_name(dtype)
    if name in ("bool", "string"):
        return name
    return {"i": "integer", "u": "integer", "c": "complex"}.get(name[0], "float")
