"""Element types in memory and in registers.

f16 and bf16 are computed in f32 and rounded after each op, as the primitives mean it; bool is a byte in memory and a
bit in a register. The bits of narrow types (8-bit floats and whatever is narrower than a byte) and of complex numbers
are in registers as they are in memory: what moves them costs nothing, and pointwise ops widen and narrow them.

16-bit floats are integers in memory: of one half LLVM would insert a lane into a vector, and wait for the others.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from onnxc.compiler.codegen_cpu.narrow_floats import (
    NARROW_FLOATS,
    converts_halves,
    narrow_float,
    narrow_half,
    widen_float,
    widen_half,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, register, vector_type
from onnxc.compiler.ir.dtypes import (
    BF16,
    BOOL,
    C64,
    C128,
    F16,
    F32,
    F64,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    DType,
)

_COMPUTED = {
    F64: "double", F32: "float", F16: "i16", BF16: "i16", I64: "i64", I32: "i32", I16: "i16", I8: "i8",
    U64: "i64", U32: "i32", U16: "i16", U8: "i8", BOOL: "i8",
}  # fmt: skip
_WIDER = {**dict.fromkeys(NARROW_FLOATS, F32), I4: I8, I2: I8, U4: U8, U2: U8}
_MEMORY = {**_COMPUTED, **dict.fromkeys(_WIDER, "i8"), C64: "i64", C128: "i128"}
_REGISTER = {**_MEMORY, F16: "float", BF16: "float", BOOL: "i1"}

NATIVE_DTYPES = frozenset(_MEMORY)
COMPUTED_DTYPES = frozenset(_COMPUTED)
"""The types whose registers are computed with as they are: all but narrow and complex ones."""


def computed_dtype(dtype: DType) -> DType:
    """The type that elements of a narrow type are computed in; every other type itself."""
    return _WIDER.get(dtype, dtype)


def widen(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """An element of `dtype` in the register of `computed_dtype(dtype)`."""
    if dtype in NARROW_FLOATS:
        return widen_float(x, dtype, f)
    if dtype not in _WIDER:
        return x
    if not dtype.is_signed:
        return register(f.and_(x, (1 << dtype.bits) - 1))
    return register(f.ashr(f.shl(x, 8 - dtype.bits), 8 - dtype.bits))


def narrow(x: Reg, dtype: DType, f: FunctionBuilder, *, has_short_nan: bool = False) -> Reg:
    """A result computed in `computed_dtype(dtype)`, in the register of `dtype`: floats round, integers wrap.

    has_short_nan: where it is NaN, its low half is 0, so that rounding as a number leaves it as it is.
    """
    if dtype in NARROW_FLOATS:
        return narrow_float(x, dtype, f, saturate=False)
    if dtype in _WIDER:
        return register(f.and_(x, (1 << dtype.bits) - 1))
    if dtype == BF16 and has_short_nan:
        return _noted_bfloat(_nearest_bfloat(x, f), f)
    return round_register(x, dtype, f)


def literal(value: float | complex, dtype: DType, f: FunctionBuilder) -> Reg:
    """A constant in a register."""
    if dtype in COMPUTED_DTYPES:
        assert not isinstance(value, complex), value
        constant = f.constant(register_type(dtype), value)
        return _noted_bfloat(constant, f) if dtype in (BF16, F32) and _is_short(value) else constant
    bits = np.array(value).astype(dtype.numpy).tobytes()
    return f.constant(register_type(dtype), int.from_bytes(bits, "little"))


@lru_cache(maxsize=4096)
def _is_short(value: float) -> bool:
    """Whether the f32 nearest to it is a number of bf16."""
    with np.errstate(over="ignore"):
        return int(np.array(value).astype(np.float32).view(np.uint32)) & 0xFFFF == 0


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
        wide = _widened_half(x, f) if converts_halves(f) else widen_half(x, f)
        f.narrowed[wide] = x
        return wide
    if dtype == BF16:
        wide = f.shl(f.convert("zext", x, vector_type("i32", x.lanes)), 16)
        return _noted_bfloat(register(f.convert("bitcast", wide, vector_type("float", x.lanes))), f)
    return x


def to_memory(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """A computed element, or vector of them, as it is stored; a float that `round_register` gave stays exact."""
    if dtype == BOOL:
        return register(f.convert("zext", x, vector_type("i8", x.lanes)))
    if dtype == F16:
        return f.narrowed.get(x) or (_narrowed_half(x, f) if converts_halves(f) else narrow_half(x, f))
    if dtype == BF16:
        bits = f.convert("bitcast", round_register(x, dtype, f), vector_type("i32", x.lanes))
        return register(f.convert("trunc", f.lshr(bits, 16), vector_type("i16", x.lanes)))
    return x


def round_register(x: Reg, dtype: DType, f: FunctionBuilder) -> Reg:
    """The result of an op in f32 rounded to a 16-bit float, still in f32; every other type as it is."""
    if dtype == F16:
        return x if x in f.narrowed else from_memory(to_memory(x, dtype, f), dtype, f)
    if dtype == BF16:
        return _round_to_bfloat(x, f)
    return x


def _widened_half(x: Reg, f: FunctionBuilder) -> Reg:
    if x.lanes == 1 and "sse2" in f.features:
        return _widened_alone(x, f)
    return register(
        f.convert("fpext", f.convert("bitcast", x, vector_type("half", x.lanes)), vector_type("float", x.lanes))
    )


def _widened_alone(x: Reg, f: FunctionBuilder) -> Reg:
    """One half, as the first of four: alone LLVM inserts it into whatever a register holds, and so waits for that.

    The running sum of a million f16 on one core of Zen 5 waited for itself so: 1910 us, and 790 now.
    """
    four = f.convert("bitcast", f.convert("zext", x, "i64"), vector_type("half", 4))
    return f.extract(f.convert("fpext", four, vector_type("float", 4)), 0)


def _narrowed_half(x: Reg, f: FunctionBuilder) -> Reg:
    half = f.convert("fptrunc", x, vector_type("half", x.lanes))
    return register(f.convert("bitcast", half, vector_type("i16", x.lanes)))


def note_exact(result: Reg, operands: Iterable[Reg], f: FunctionBuilder) -> Reg:
    """A result each of whose lanes is one of the operands, or what holds no more bits than they: noted as they are."""
    return _noted_bfloat(result, f) if all(operand in f.bfloats for operand in operands) else result


def _noted_bfloat(x: Reg, f: FunctionBuilder) -> Reg:
    f.bfloats.add(x)
    return x


def _round_to_bfloat(x: Reg, f: FunctionBuilder) -> Reg:
    """To the nearest, ties to even, subnormals kept; NaN becomes the quiet one. What is rounded stays as it is."""
    if x in f.bfloats:
        return x
    rounded = _nearest_bfloat(x, f)
    quiet = f.constant(vector_type("i32", x.lanes), 0x7FC00000)
    chosen = f.select(f.fcmp("uno", x, x), quiet, f.convert("bitcast", rounded, quiet.type))
    return _noted_bfloat(register(f.convert("bitcast", chosen, x.type)), f)


def _nearest_bfloat(x: Reg, f: FunctionBuilder) -> Reg:
    """The nearest of bf16; of NaN anything, but where its low half is 0 itself."""
    bits = f.convert("bitcast", x, vector_type("i32", x.lanes))
    odd = f.and_(f.lshr(bits, 16), 1)
    rounded = f.and_(f.add(bits, f.add(odd, 0x7FFF)), -0x10000)
    return register(f.convert("bitcast", rounded, x.type))
