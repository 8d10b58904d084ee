"""Numbers written as texts, and read from them: on the host."""

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64, I64, STRING, U64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


def texts_of(x: Value, ir: Builder) -> Value:
    """T[...]  ->  string[...]"""
    small = x.dtype.is_float and x.dtype not in (F32, F64)
    wide = ir.cast(x, F32) if small else ir.cast(x, I64) if x.dtype.is_integer and x.dtype != U64 else x
    return ir.host("strings_from_numbers", (wide,), (TensorType(STRING, x.shape),), {})[0]


def numbers_in(x: Value, dtype: DType, node: Node, ir: Builder) -> Value:
    """string[...]  ->  T[...]: read as f64, i64 or u64, then converted"""
    if dtype.is_complex:
        node.unsupported(f"a cast from {x.dtype} to {dtype}")
    read = F64 if dtype.is_float or dtype.is_bool else U64 if dtype == U64 else I64
    read_elements = ir.host("numbers_from_strings", (x,), (TensorType(read, x.shape),), {"dtype": read})[0]
    return ir.cast(read_elements, dtype)
