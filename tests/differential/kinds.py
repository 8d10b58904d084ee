"""The types of ONNX values as the schemas write them, such as seq(map(int64, tensor(float))), and their messages."""

import ml_dtypes
import numpy as np
from onnx import SparseTensorProto, TensorProto, TypeProto, helper, numpy_helper

ELEMENTS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    **{name.lower(): number for name, number in TensorProto.DataType.items() if name not in ("FLOAT", "DOUBLE")},
}
DTYPES = {
    name: np.dtype(object) if name == "string" else np.dtype(helper.tensor_dtype_to_np_dtype(number))
    for name, number in ELEMENTS.items()
    if name != "undefined"
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Types whose elements NumPy does not know itself.
EXTENDED = frozenset(dtype for dtype in NAMES if dtype.kind == "V" or "float8" in dtype.name or "float4" in dtype.name)


def inside(kind: str) -> str:
    """What stands between the outermost parentheses."""
    return kind[kind.index("(") + 1 : -1]


def dtype_of(kind: str) -> np.dtype:
    """The element type of tensor(x), or of what the tensors of a container hold."""
    while "(" in kind:
        kind = inside(kind).split(",")[-1].strip()
    return DTYPES[kind]


def kind_of(value: object) -> str:
    """The type of a tensor value, or of a non-empty sequence of tensors."""
    if isinstance(value, list):
        return f"seq({kind_of(value[0])})"
    assert isinstance(value, np.ndarray), value
    return tensor_kind(value.dtype)


def tensor_kind(dtype: np.dtype) -> str:
    return f"tensor({NAMES[np.dtype(dtype)]})"


def type_proto(kind: str, shape: list[int | str] | None = None) -> TypeProto:
    """The message for a type; only a tensor may have a shape."""
    outer = kind.split("(", 1)[0]
    if outer == "tensor":
        return helper.make_tensor_type_proto(ELEMENTS[inside(kind)], shape)
    if outer == "seq":
        return helper.make_sequence_type_proto(type_proto(inside(kind)))
    if outer == "optional":
        return helper.make_optional_type_proto(type_proto(inside(kind)))
    assert outer == "map", kind
    key, value = inside(kind).split(",", 1)
    return helper.make_map_type_proto(ELEMENTS[key.strip()], type_proto(as_tensor(value.strip())))


def as_tensor(kind: str) -> str:
    """The schemas write map(int64, float) where the message holds map(int64, tensor(float))."""
    return kind if "(" in kind else f"tensor({kind})"


NAMES_TO_NUMBERS = {dtype: ELEMENTS[name] for name, dtype in DTYPES.items()}
DTYPES_BY_NUMBER = {number: dtype for dtype, number in NAMES_TO_NUMBERS.items()}


def sparse_tensor(values: np.ndarray, places: np.ndarray, dims: list[int]) -> SparseTensorProto:
    """The message for a tensor that has `values` at flat `places` and is zero elsewhere."""
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, "values"), numpy_helper.from_array(places, "places"), dims
    )
