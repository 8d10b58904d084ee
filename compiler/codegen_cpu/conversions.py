"""Casts between native element types, all total: out of range saturates, NaN becomes 0, integers wrap."""

from onnxc.compiler.codegen_cpu.element_types import from_memory, register_type, round_register, to_memory
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, intrinsic_suffix, vector_type
from onnxc.compiler.ir.dtypes import BF16, DType


def emit_cast(x: Reg, source: DType, target: DType, f: FunctionBuilder) -> Reg:
    """`x` of element type `source` as `target`."""
    wanted = vector_type(register_type(target), x.lanes)
    if target.is_bool:
        return _to_bool(x, source, f)
    if target.is_float:
        return round_register(_to_float(x, source, wanted, f), target, f)
    if source.is_float:
        name = "llvm.fptosi.sat" if target.is_signed else "llvm.fptoui.sat"
        return f.intrinsic(f"{name}.{intrinsic_suffix(wanted)}.{intrinsic_suffix(x.type)}", wanted, x)
    if source.is_bool or target.bits > source.bits:
        return _reg(f.convert("sext" if source.is_signed else "zext", x, wanted))
    return x if target.bits == source.bits else _reg(f.convert("trunc", x, wanted))


def _to_bool(x: Reg, source: DType, f: FunctionBuilder) -> Reg:
    if source.is_bool:
        return x
    return f.fcmp("une", x, 0.0) if source.is_float else f.icmp("ne", x, 0)


def _to_float(x: Reg, source: DType, wanted: str, f: FunctionBuilder) -> Reg:
    if not source.is_float:
        return _reg(f.convert("sitofp" if source.is_signed else "uitofp", x, wanted))
    if x.type == wanted:
        return x
    return _reg(f.convert("fpext" if x.element == "float" else "fptrunc", x, wanted))


def emit_bitcast(x: Reg, source: DType, target: DType, f: FunctionBuilder) -> Reg:
    """The bits of `x` read as another type of the same width."""
    stored = to_memory(x, source, f)
    memory = {"f16": "half", "f32": "float", "f64": "double"}.get(target.name, f"i{max(target.bits, 8)}")
    if target == BF16:
        memory = "i16"
    bits = f.convert("bitcast", stored, vector_type(memory, x.lanes)) if stored.element != memory else stored
    return from_memory(_reg(bits), target, f)


def _reg(value: Reg | int) -> Reg:
    assert isinstance(value, Reg)
    return value
