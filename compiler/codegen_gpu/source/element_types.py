"""Element types in memory and in registers of a Triton kernel.

f16 and bf16 are computed in f32 and rounded where they are stored or cast; bool is a byte in memory and a bit in a
register. Floats of 8 bits are in registers as in memory, and widened where they are computed with. Types narrower than
a byte and complex numbers have no kernels.
"""

from onnxc.compiler.codegen_gpu.source.narrow_floats import NARROW_FLOATS
from onnxc.compiler.ir.dtypes import (
    BF16,
    BOOL,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
)

_MEMORY = {
    F64: "fp64", F32: "fp32", F16: "fp16", BF16: "bf16", I64: "i64", I32: "i32", I16: "i16", I8: "i8",
    U64: "u64", U32: "u32", U16: "u16", U8: "u8", BOOL: "u8",
}  # fmt: skip
_LANGUAGE = {
    F64: "tl.float64", F32: "tl.float32", F16: "tl.float16", BF16: "tl.bfloat16", I64: "tl.int64", I32: "tl.int32",
    I16: "tl.int16", I8: "tl.int8", U64: "tl.uint64", U32: "tl.uint32", U16: "tl.uint16", U8: "tl.uint8",
    BOOL: "tl.int1",
}  # fmt: skip

COMPUTED_DTYPES = frozenset(_LANGUAGE)
"""The types whose registers are computed with as they are."""

_NARROW = dict.fromkeys(NARROW_FLOATS, "u8")

NATIVE_DTYPES = frozenset((*_MEMORY, *_NARROW))

MULTIPLIED = {F8E4M3FN: "tl.float8e4nv", F8E5M2: "tl.float8e5"}
"""What bytes of floats are called where tensor cores multiply them."""


def computed_dtype(dtype: DType) -> DType:
    """The type that elements of a narrow type are computed in; every other type itself."""
    return F32 if dtype in _NARROW else dtype


def pointer_type(dtype: DType) -> str:
    """The type of a parameter that points to elements."""
    return f"*{(_MEMORY | _NARROW)[dtype]}"


def memory_type(dtype: DType) -> str:
    """The type of an element in memory, as the language names it."""
    return "tl.uint8" if dtype == BOOL or dtype in _NARROW else _LANGUAGE[dtype]


def register_type(dtype: DType) -> str:
    """The type that elements are computed in."""
    return "tl.float32" if dtype in (F16, BF16) else memory_type(dtype) if dtype in _NARROW else _LANGUAGE[dtype]


def is_widened(dtype: DType) -> bool:
    """Whether elements are computed in a type other than that of memory."""
    return memory_type(dtype) != register_type(dtype)
