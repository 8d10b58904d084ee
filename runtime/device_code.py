"""The kernels of a GPU as data: cubins, what their launches must know, and that as JSON and back.

Nothing here loads a kernel or knows how it was made.
"""

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from onnxc.runtime.encoding import DecodeError
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["DeviceCode", "DeviceKernel", "decode_device_code", "decode_kernel", "encode_device_code", "encode_kernel"]


@record
class DeviceKernel:
    """A compiled kernel.

    key: the digest of all that it was compiled from, in hexadecimal. name: its entry in the cubin.
    parameters: the types in order, such as "*fp32" and "i32"; two addresses of scratch memory follow them, which are 0
    where there is none. warps, ctas: of 32 threads in a CTA, of CTAs in a cluster.
    shared_bytes: dynamic shared memory of a CTA. scratch_bytes: of device memory, for each CTA.
    cooperative: whether all CTAs must run at the same time.
    registers, stack_bytes: of each thread; more than 0 bytes of stack means spills. source: the text it was made from.
    """

    key: str
    name: str
    cubin: bytes
    parameters: tuple[str, ...]
    warps: int
    ctas: int
    shared_bytes: int
    scratch_bytes: int
    cooperative: bool
    registers: int
    stack_bytes: int
    source: str


@record
class DeviceCode:
    """The kernels of an artifact for an architecture such as "sm_90", each once, numbered by their order."""

    architecture: str
    kernels: tuple[DeviceKernel, ...]


# The fields in JSON, with their types; the cubin and the source lie elsewhere, as bytes.
_FIELDS: Mapping[str, type] = {
    "key": str, "name": str, "parameters": list, "warps": int, "ctas": int, "shared_bytes": int, "scratch_bytes": int,
    "cooperative": bool, "registers": int, "stack_bytes": int,
}  # fmt: skip

_PATTERNS = {"key": re.compile(r"[0-9a-f]{64}"), "name": re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)}
_PARAMETER = re.compile(r"\*?[a-z][a-z0-9]*")
_LEAST = {"warps": 1, "ctas": 1}
_MOST = (1 << 31) - 1


def encode_device_code(code: DeviceCode) -> JsonValue:
    """The code as JSON values, without cubins and sources."""
    return {"architecture": code.architecture, "kernels": [encode_kernel(kernel) for kernel in code.kernels]}


def decode_device_code(value: JsonValue, cubin: Callable[[str], bytes], source: Callable[[str], str]) -> DeviceCode:
    """The code that `encode_device_code` wrote; the functions give the cubin and the source of a key.

    Raises DecodeError.
    """
    if not isinstance(value, Mapping) or value.keys() != {"architecture", "kernels"}:
        raise DecodeError("the device code is not an object of architecture and kernels")
    architecture, encoded = value["architecture"], value["kernels"]
    if not isinstance(architecture, str) or not re.fullmatch(r"sm_\d+[af]?", architecture):
        raise DecodeError(f"architecture is {architecture!r}")
    if not isinstance(encoded, list):
        raise DecodeError("kernels is not a list")
    kernels = tuple(decode_kernel(item, cubin, source) for item in encoded)
    if len({kernel.key for kernel in kernels}) < len(kernels):
        raise DecodeError("a kernel is there twice")
    return DeviceCode(architecture, kernels)


def encode_kernel(kernel: DeviceKernel) -> JsonValue:
    """What is neither cubin nor source, as JSON values."""
    encoded: dict[str, JsonValue] = {name: getattr(kernel, name) for name in _FIELDS}
    return encoded | {"parameters": list(kernel.parameters)}


def decode_kernel(value: JsonValue, cubin: Callable[[str], bytes], source: Callable[[str], str]) -> DeviceKernel:
    """The kernel that `encode_kernel` wrote, with the cubin and the source of its key; DecodeError if it is none."""
    if not isinstance(value, Mapping) or value.keys() != _FIELDS.keys():
        raise DecodeError("a kernel has other fields")
    fields = {name: _checked(name, value[name]) for name in _FIELDS}
    key = str(fields["key"])
    return DeviceKernel(**fields, cubin=cubin(key), source=source(key))  # type: ignore[arg-type]


def _checked(name: str, value: JsonValue) -> JsonValue:
    """The value of a field, lists as tuples."""
    good = type(value) is _FIELDS[name]
    if isinstance(value, str):
        good = good and _PATTERNS[name].fullmatch(value) is not None
    elif isinstance(value, list):
        good = good and all(isinstance(item, str) and _PARAMETER.fullmatch(item) for item in value)
        return tuple(value) if good else _refuse(name, value)
    elif type(value) is int:
        good = good and _LEAST.get(name, 0) <= value <= _MOST
    return value if good else _refuse(name, value)


def _refuse(name: str, value: JsonValue) -> NoReturn:
    raise DecodeError(f"{name} of a kernel is {repr(value)[:60]}")
