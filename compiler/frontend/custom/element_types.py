"""Element types by whatever names one: ours, by our names such as "f32", and NumPy's."""

import numpy as np

from onnxc.compiler.ir.dtypes import DTYPES, DType, dtype_of

__all__ = ["element_type"]


def element_type(given: object) -> DType:
    """The element type that `given` is or names. Raises TypeError."""
    if isinstance(given, DType):
        return given
    if isinstance(given, str) and given in DTYPES:
        return DTYPES[given]
    try:
        return dtype_of(np.dtype(given))  # type: ignore[call-overload]
    except (TypeError, KeyError) as problem:
        raise TypeError(f"{given!r} is no element type, known are {', '.join(DTYPES)}") from problem
