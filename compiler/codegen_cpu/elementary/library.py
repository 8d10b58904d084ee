"""Elementary functions of f64 by calls into the C library, one per lane."""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg


def call_per_lane(f: FunctionBuilder, name: str, *operands: Reg) -> Reg:
    """The function `name` of libm of each f64 lane."""
    first = operands[0]
    if first.lanes == 1:
        return f.call(name, first.type, *operands)
    result = f.constant(first.type, 0.0)
    for lane in range(first.lanes):
        scalars = [f.extract(operand, lane) for operand in operands]
        result = f.insert(result, f.call(name, first.element, *scalars), lane)
    return result
