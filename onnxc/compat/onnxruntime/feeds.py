"""What a run is given: tested by ONNX Runtime's rules, in its words, and made what onnxc takes."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from onnxc.compat.onnxruntime.node_args import NodeArg, tensor_text
from onnxc.compat.onnxruntime.ort_values import OrtValue
from onnxc.compat.onnxruntime.sparse_tensors import SparseTensor
from onnxc.compat.onnxruntime.status import InvalidArgument
from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.ir.dtypes import dtype_of

__all__ = ["expect_outputs", "expect_required", "imported_feed"]

ADVICE = "Please fix either the inputs/outputs or the model."


def expect_required(inputs: Sequence[NodeArg], feed: Mapping[str, object]) -> None:
    """ValueError where an input that has no default is not in the feed; an optional one may be left out."""
    if not isinstance(feed, Mapping):
        raise TypeError(f"input_feed is of type {type(feed).__name__}, expected a mapping from names to values")
    missing = [arg.name for arg in inputs if arg.name not in feed and not arg.type.startswith("optional(")]
    if missing:
        raise ValueError(f"Required inputs ({missing}) are missing from input feed ({[*feed]}).")


def expect_outputs(names: Sequence[str] | None, outputs: Sequence[NodeArg]) -> list[str]:
    """The outputs that a run is to give: all for None, and for no name, be it an empty text."""
    known = [arg.name for arg in outputs]
    if isinstance(names, str) and names:
        raise TypeError(f"output_names is {names!r}, expected a sequence of names or None")
    for name in names or ():
        if name not in known:
            raise InvalidArgument(f"Invalid output name:{name}")
    return [*(names or known)]


def imported_feed(feed: Mapping[str, object], args: Mapping[str, NodeArg]) -> dict[str, object]:
    """The feed with plain values. Raises InvalidArgument for a name, a type or a shape that the model does not have."""
    return {name: _imported(name, value, args) for name, value in feed.items()}


def _imported(name: str, value: object, args: Mapping[str, NodeArg]) -> object:
    if name not in args:
        raise InvalidArgument(f"Invalid input name: {name}")
    plain = _texts(value._value if isinstance(value, OrtValue) else value)
    if isinstance(plain, SparseTensor):
        return plain.stored()
    if isinstance(plain, Mapping):
        _expect_keys(plain, args[name])
        return {key: each.item() if isinstance(each, np.generic) else each for key, each in plain.items()}
    if isinstance(plain, np.ndarray) and args[name].type.startswith("tensor("):
        _expect_type(plain, args[name])
        _expect_shape(plain.shape, args[name])
    return plain


def _texts(value: object) -> object:
    """Bytes in an array are UTF-8, as ONNX Runtime reads them; zeros behind them are no part of them.

    Raw items (np.void) have them as a part.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "SV" or value.dtype.names is not None:
        return value
    if value.dtype.kind == "V" and value.dtype.type is not np.void:
        # Element types that NumPy does not have, such as bfloat16.
        return value
    blank = b"\0" if value.dtype.kind == "S" else None
    items = (bytes(item) for item in value.ravel())
    texts = [(item if blank is None else item.rstrip(blank)).decode() for item in items]
    return np.array(texts, object).reshape(value.shape)


def _expect_keys(value: Mapping[object, object], arg: NodeArg) -> None:
    """RuntimeError for a key that is no integer or text, as the type of a map wants it."""
    wanted, c_type = ((str,), "std::string") if arg.type.startswith("map(string") else ((int, np.integer), "int64_t")
    for key in value:
        if arg.type.startswith("map(") and not isinstance(key, wanted):
            raise RuntimeError(f"Unexpected key type  {type(key)}, it cannot be linked to C type {c_type}")


def _expect_type(array: np.ndarray, arg: NodeArg) -> None:
    if array.dtype.kind == "O":
        # Texts, or what the runtime will refuse.
        return
    try:
        came = tensor_text(code_of(dtype_of(array.dtype.newbyteorder("="))))
    except KeyError:
        came = str(array.dtype)
    if came != arg.type:
        raise InvalidArgument(f"Unexpected input data type. Actual: ({came}) , expected: ({arg.type})")


def _expect_shape(shape: Collection[int], arg: NodeArg) -> None:
    """By the sizes that are declared as numbers; symbols are for the runtime."""
    if not arg.shape:
        return
    if len(shape) != len(arg.shape):
        raise InvalidArgument(
            f"Invalid rank for input: {arg.name} Got: {len(shape)} Expected: {len(arg.shape)} {ADVICE}"
        )
    wrong = [
        f" index: {axis} Got: {size} Expected: {expected}"
        for axis, (size, expected) in enumerate(zip(shape, arg.shape, strict=True))
        if isinstance(expected, int) and size != expected
    ]
    if wrong:
        lines = "\n".join(wrong)
        message = f"Got invalid dimensions for input: {arg.name} for the following indices\n{lines}\n {ADVICE}"
        raise InvalidArgument(message)
