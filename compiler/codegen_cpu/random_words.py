"""Random words as LLVM IR."""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Reg, as_reg, vector_type
from onnxc.compiler.codegen_host.philox import WordArithmetic, philox


def random_word(counter: Reg, seed: int, f: FunctionBuilder) -> Reg:
    """i32: random bits for each i64 counter."""
    wide, narrow = counter.type, vector_type("i32", counter.lanes)
    arithmetic = WordArithmetic[Reg](
        times=lambda x, constant: as_reg(f.mul(x, f.constant(wide, constant))),
        low=lambda x: as_reg(f.and_(x, f.constant(wide, 0xFFFFFFFF))),
        high=lambda x: as_reg(f.lshr(x, f.constant(wide, 32))),
        mixed=lambda x, y, constant: as_reg(f.xor(f.xor(x, y), f.constant(wide, constant))),
    )
    return f.convert("trunc", philox(counter, f.constant(wide, 0), seed, arithmetic), narrow)
