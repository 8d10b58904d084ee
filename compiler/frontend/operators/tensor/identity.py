"""Identity and BitCast: the same bits."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import U8, DType
from onnxc.compiler.ir.module import Value

# A bool is a byte of 0 or 1 in the standard's memory.
BOOL_BITS = 8


@operator("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(node: Node, ir: Builder) -> Value:
    """input: V  ->  V, of any type.

    Source: https://onnx.ai/onnx/operators/onnx__Identity.html
    """
    value = node.host_input("input")
    return node.input("input") if value is None else value


@operator("BitCast", since=(26,))
def bit_cast(node: Node, ir: Builder) -> Value:
    """input: T1[...]  ->  T2[...], T2 = `to`, of the same width; as bool every byte but 0 is True.

    Source: https://onnx.ai/onnx/operators/onnx__BitCast.html
    """
    x, dtype = node.input("input"), node.dtype("to")
    if x.dtype.is_string or dtype.is_string or _bits(x.dtype) != _bits(dtype):
        node.fail("bit-width", f"{x.dtype} and {dtype} do not have the same width", rule="ONNX BitCast, attribute to")
    if x.dtype == dtype:
        return x
    if x.dtype.is_bool:
        return ir.bitcast(ir.cast(x, U8), dtype)
    if dtype.is_bool:
        return ir.cast(ir.bitcast(x, U8), dtype)
    return ir.bitcast(x, dtype)


def _bits(dtype: DType) -> int:
    return BOOL_BITS if dtype.is_bool else dtype.bits
