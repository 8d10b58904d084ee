"""Element types in memory and in registers.

f16 and bf16 are computed in f32 and rounded after each op, as the primitives mean it; bool is a byte in memory and a
bit in a register. Types narrower than a byte, 8-bit floats and complex numbers have no native kernels.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, vector_type
from onnxc.compiler.ir.dtypes import (
    BF16,
    BOOL,
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
    F64: "double", F32: "float", F16: "half", BF16: "i16", I64: "i64", I32: "i32", I16: "i16", I8: "i8",
    U64: "i64", U32: "i32", U16: "i16", U8: "i8", BOOL: "i8",
}  # fmt: skip
_REGISTER = {**_MEMORY, F16: "float", BF16: "float", BOOL: "i1"}

NATIVE_DTYPES = frozenset(_MEMORY)


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    return _MEMORY[dtype]


def register_type(dtype: DType) -> str:
    """The LLVM type of an element in a register."""
    return _REGISTER[dtype]


def from_memory(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """A loaded element, or vector of them, as it is computed with."""
    if dtype == BOOL:
        return f.icmp("ne", x, 0)
    if dtype == F16:
        return _reg(f.convert("fpext", x, vector_type("float", x.lanes)))
    if dtype == BF16:
        wide = f.shl(f.convert("zext", x, vector_type("i32", x.lanes)), 16)
        return _reg(f.convert("bitcast", wide, vector_type("float", x.lanes)))
    return x


def to_memory(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """A computed element, or vector of them, as it is stored; a float that `round_register` gave stays exact."""
    if dtype == BOOL:
        return _reg(f.convert("zext", x, vector_type("i8", x.lanes)))
    if dtype == F16:
        return _reg(f.convert("fptrunc", x, vector_type("half", x.lanes)))
    if dtype == BF16:
        bits = f.convert("bitcast", round_register(x, dtype, f), vector_type("i32", x.lanes))
        return _reg(f.convert("trunc", f.lshr(bits, 16), vector_type("i16", x.lanes)))
    return x


def round_register(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """The result of an op in f32 rounded to a 16-bit float, still in f32; every other type as it is."""
    if dtype == F16:
        return from_memory(to_memory(x, dtype, f), dtype, f)
    if dtype == BF16:
        return _round_to_bfloat(x, f)
    return x


def _round_to_bfloat(x: Reg, f: FunctionBuilder) -> Reg:
    """To the nearest, ties to even, subnormals kept; NaN becomes the quiet one."""
    integers = vector_type("i32", x.lanes)
    bits = f.convert("bitcast", x, integers)
    odd = f.and_(f.lshr(bits, 16), 1)
    rounded = f.and_(f.add(bits, f.add(odd, 0x7FFF)), -0x10000)
    quiet = f.constant(integers, 0x7FC00000)
    chosen = f.select(f.fcmp("uno", x, x), quiet, _reg(rounded))
    return _reg(f.convert("bitcast", chosen, x.type))


def _reg(value: Reg | int) -> Reg:
    assert isinstance(value, Reg)
    return value
