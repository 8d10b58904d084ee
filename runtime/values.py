"""What crosses the border of a call: values of every type on the way in, values of the caller's own on the way out.

The type of values is in runtime/host/values.py, which is not imported here: that would load every host function, and a
program of native code needs none.
"""

import operator
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.arrays import describe, import_array, plain_mapping, type_text
from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.devices.arriving import Arriving
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.dtypes import DTYPES, DType, dtype_name
from onnxc.runtime.errors import InputError
from onnxc.runtime.native.output_memory import is_output
from onnxc.runtime.new_sequence import NewSequence
from onnxc.runtime.sparse_tensor import SparseIndexError, SparseTensor, linear_indices

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue, MapKey

    # What a slot of a program holds while it runs, and what a call gives: only there are shards.
    SlotValue = HostValue | DeviceValue | Arriving | Shards

# The sizes of the type of a tensor, dense or sparse, where it tells the rank.
_SIZES = re.compile(r"\[((?:\d+|\?\w+)(?:, (?:\d+|\?\w+))*|)\]\)?$")

__all__ = [
    "arrived", "as_array", "host_value", "import_value", "is_optional_type", "own_values", "shape_of", "sparse_element",
    "stack_arrays",
]  # fmt: skip


def as_array(value: "SlotValue") -> np.ndarray:
    """A value that is a tensor, in the memory of the host; any other is a broken invariant of the compiler."""
    if isinstance(value, np.ndarray):
        return value
    value = arrived(value)
    assert isinstance(value, np.ndarray | DeviceValue), type(value)
    return value if isinstance(value, np.ndarray) else value.host()


def host_value(value: "SlotValue") -> "HostValue":
    """A value of any type, in the memory of the host."""
    value = arrived(value)
    if isinstance(value, Shards):
        return value.whole()
    return value.host() if isinstance(value, DeviceValue) else value


def arrived(value: "SlotValue") -> "HostValue | DeviceValue | Shards":
    """The value itself; one that is on its way is waited for."""
    return value.value() if isinstance(value, Arriving) else value


def shape_of(value: "SlotValue") -> tuple[int, ...]:
    """The shape of a value that is a tensor, dense or sparse, wherever it lies."""
    value = arrived(value)
    assert isinstance(value, np.ndarray | DeviceValue | SparseTensor), type(value)
    return value.shape


def stack_arrays(tensors: Sequence["SlotValue"]) -> np.ndarray:
    """At least one tensor, all of a shape, along a new first axis in the memory of the host."""
    return np.stack([as_array(tensor) for tensor in tensors])


def is_optional_type(text: str) -> bool:
    """Whether the type is an optional, for which None is a value."""
    return text.startswith("optional(")


def sparse_element(text: str) -> DType | None:
    """The element type of the type of a sparse tensor; None for any other type."""
    return DTYPES[text.removeprefix("sparse(").partition("[")[0]] if text.startswith("sparse(") else None


def import_value(value: object, text: str, what: str) -> "HostValue":
    """`value` as one of the type `text`: a tensor, dense or sparse, a sequence, an optional or a map.

    Types are written as compiler/ir/types.py does. Of the sizes only those inside of another value are looked at.

    Raises InputError.
    """
    element = sparse_element(text)
    if element is not None:
        return _import_sparse(value, element, text, what)
    form, _, inside = text.partition("(")
    match form:
        case "sequence":
            if not isinstance(value, list | tuple):
                raise _wrong_type(value, text, what)
            return tuple(_import_inner(item, inside[:-1], f"{what}[{index}]") for index, item in enumerate(value))
        case "optional":
            return None if value is None else _import_inner(value, inside[:-1], what)
        case "map":
            key_type, _, value_type = inside[:-1].partition(", ")
            if not isinstance(value, Mapping):
                raise _wrong_type(value, text, what)
            return {
                _import_key(key, key_type, text, what): _import_inner(item, value_type, f"{what}[{key!r}]")
                for key, item in plain_mapping(value, what, text, "input-type").items()
            }
    return import_array(value, DTYPES[text.partition("[")[0]], what, text)


def _import_sparse(value: object, dtype: DType, text: str, what: str) -> SparseTensor:
    if not isinstance(value, SparseTensor):
        raise _wrong_type(value, text, what)
    expected = type_text(dtype_name(dtype), ("NNZ",))
    values = import_array(value.values, dtype, f"{what}.values", expected)
    indices = import_array(value.indices, DTYPES["i64"], f"{what}.indices", "i64[NNZ] or i64[NNZ, rank]")
    if values.ndim != 1:
        message = f"{what}.values is {describe(values)}, expected {expected}"
        raise InputError(message, code="sparse-values")
    try:
        shape = tuple(map(operator.index, value.shape))
        linear_indices(indices, len(values), shape)
    except TypeError as problem:
        message = f"{what}.shape is {value.shape!r}, expected a tuple of integers"
        raise InputError(message, code="sparse-shape") from problem
    except SparseIndexError as problem:
        raise InputError(f"{what} is no sparse tensor: {problem}", code=problem.code) from problem
    return SparseTensor(values, indices, shape)


def _import_inner(value: object, text: str, what: str) -> "HostValue":
    """A value inside of another. Code relies on its sizes, which are numbers there, or each free for itself."""
    imported = import_value(value, text, what)
    match = _SIZES.search(text)
    if isinstance(imported, np.ndarray | SparseTensor) and match:
        sizes = match[1].split(", ") if match[1] else []
        pairs = zip(sizes, imported.shape, strict=False)
        rank = len(imported.shape)
        if len(sizes) != rank or any(size.isdigit() and int(size) != own for size, own in pairs):
            code = "input-rank" if len(sizes) != rank else "input-shape"
            raise InputError(f"{what} is {describe(imported)}, expected {text}", code=code)
    return imported


def _import_key(key: object, key_type: str, text: str, what: str) -> "MapKey":
    if key_type == "string" and isinstance(key, str):
        return str(key)
    if key_type != "string" and isinstance(key, int | np.integer) and not isinstance(key, bool):
        return int(key)
    raise InputError(f"{what} has the key {key!r}, expected {text}", code="input-dtype")


def _wrong_type(value: object, text: str, what: str) -> InputError:
    return InputError(f"{what} is {describe(value)}, expected {text}", code="input-type")


def own_values(results: Sequence["SlotValue"], arguments: Sequence["SlotValue"]) -> list["HostValue"]:
    """The results on the host, sharing memory with nothing: views, arguments and repeated arrays are copied."""
    seen = {id(argument) for argument in arguments}
    return [_own(result, seen) for result in results]


def _own(result: "SlotValue", seen: set[int]) -> "HostValue":
    if isinstance(result, np.ndarray):
        is_whole = result.flags.owndata or is_output(result)
        is_new = is_whole and result.flags.c_contiguous and id(result) not in seen
        seen.add(id(result))
        return result if is_new else result.copy(order="C")
    if type(result) is NewSequence and id(result) not in seen:
        seen.add(id(result))
        return tuple(result)
    if isinstance(result, Shards | DeviceValue | Arriving):
        return _own(host_value(result), seen)
    return _own_container(result, seen)


def _own_container(result: "HostValue", seen: set[int]) -> "HostValue":
    if isinstance(result, dict):
        # The maps of classifiers hold scalars alone, which cannot change.
        if _CHANGING.isdisjoint(map(type, result.values())):
            return result.copy()
        return {key: _own_inside(item, seen) for key, item in result.items()}
    if isinstance(result, tuple):
        # What is inside may be inside of an argument too.
        return tuple([_own_inside(item, seen) for item in result])
    if isinstance(result, SparseTensor):
        return SparseTensor(result.values.copy(), result.indices.copy(), result.shape)
    return result


_CHANGING = frozenset((np.ndarray, dict, tuple, SparseTensor))
"""The types of values whose elements can be replaced, or may hold one of which they can."""


def _own_inside(item: "HostValue", seen: set[int]) -> "HostValue":
    return item.copy(order="C") if isinstance(item, np.ndarray) else _own_container(item, seen)
