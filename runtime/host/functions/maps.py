"""Maps, which are dicts: made of the columns of a tensor, and made into tensors."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import element_type, integer
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.prepared import Constants, HostCall, prepared
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, MapKey, as_array, as_map, texts
from onnxc.runtime.new_sequence import NewSequence

# What ONNX Runtime puts where a sparse map of floats has no text.
NO_TEXT = "0.f"


@function("zip_map")
def zip_map(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: f32[N, k], keys: i64[k] or string[k]  ->  a sequence of N maps from each key to the element of its column

    The values are floats of Python, as those of ONNX Runtime are: what is made of a float32 does not go into JSON.
    """
    return (_maps_maker(tuple(as_array(operands[1]).tolist()))(as_array(operands[0])),)


@prepared("zip_map")
def _zip_map_of_keys(constants: Constants, attributes: Attributes) -> HostCall | None:
    if 1 not in constants:
        return None
    make = _maps_maker(tuple(constants[1].tolist()))
    return lambda x, keys: (make(x),)


MapsMaker = Callable[[np.ndarray], NewSequence]


@lru_cache(64)
def _maps_maker(keys: tuple[MapKey, ...]) -> MapsMaker:
    """A function from f32[N, k] to a map of each row, with these k keys."""
    if not keys:
        return lambda x: NewSequence({} for _ in range(len(x)))
    count = len(keys)
    if count > _MOST_WRITTEN:
        return lambda x: NewSequence([dict(zip(keys, row, strict=True)) for row in x.tolist()])
    values = [f"x{index}" for index in range(len(keys))]
    entries = ", ".join(f"{key!r}: {value}" for key, value in zip(keys, values, strict=True))
    source = f"lambda x: NewSequence([{{{entries}}} for {', '.join(values)}, in x.tolist()])"
    maker: MapsMaker = eval(source, {"NewSequence": NewSequence})
    return maker


_MOST_WRITTEN = 64
"""Keys of which the code of a map is written. Of 100 rows of 3 it takes 20 us, and dict(zip(keys, row)) 71 us."""


@function("dense_from_map")
def dense_from_map(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """map  ->  dtype[1, n], its values in ascending order of their keys"""
    x = as_map(operands[0])
    ordered = [x[key] for key in sorted(x, key=_as_integer)]
    return (_converted(ordered, _reader(attributes), element_type(attributes)),)


@function("sparse_from_map")
def sparse_from_map(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """map from i64  ->  dtype[1, size], each value at the index that its key is; keys beyond the end are left out"""
    x, size = as_map(operands[0]), integer(attributes, "size")
    least = min(map(_as_integer, x), default=0)
    if least < 0:
        raise InputError(f"CastMap: key {least} of a sparse map is negative", code="map-key")
    dtype = element_type(attributes)
    absent = np.array(NO_TEXT, object) if dtype.hasobject else np.array(0, dtype)
    return (_converted([x.get(index, absent) for index in range(size)], _reader(attributes), dtype),)


def _as_integer(key: MapKey) -> int:
    assert isinstance(key, int), key
    return key


def _reader(attributes: Attributes) -> Callable[[object], object]:
    """How one element is read: texts as numbers, numbers as texts, or as it is."""
    if element_type(attributes).hasobject:
        return lambda element: element if isinstance(element, str) else f"{element:.6f}"
    is_integer = element_type(attributes).kind == "i"
    return lambda element: int(float(str(element))) if is_integer else float(str(element))


def _converted(values: list[HostValue], read: Callable[[object], object], dtype: np.dtype) -> np.ndarray:
    try:
        elements = [read(np.asarray(value).item()) for value in values]
    except ValueError as problem:
        raise InputError(f"CastMap: a value of the map is no number: {problem}", code="text-not-a-number") from problem
    return texts(elements, (1, len(elements))) if dtype.hasobject else np.array([elements], dtype)


@function("vectorize_map")
def vectorize_map(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """map, keys: i64[k] or string[k]  ->  dtype[1, k], the value of each key; 0 or an empty text where it has none"""
    x, keys = as_map(operands[0]), as_array(operands[1]).tolist()
    dtype = element_type(attributes)
    absent = np.array("", object) if dtype.hasobject else np.array(0, dtype)
    elements = [np.asarray(x.get(key, absent)).item() for key in keys]
    return (texts(elements, (1, len(keys))) if dtype.hasobject else np.array([elements], dtype),)
