"""Codes of few bits in registers: words of them as they are loaded, and floats as they are multiplied.

A code is the lowest bits of its word, shifted by those before it; the topmost of its bits is its sign. Where a vector
has 16 lanes, a table in a register makes a float of the lowest four bits of each in one instruction, which looks at no
others.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import PREFETCHED_BYTES
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.planning.bit_layouts import word_bits
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["FLOAT", "CodeWords"]

FLOAT = "float"

TABLE_BITS = 4
"""How many bits of each lane look up one of the 16 floats of a vector."""


@record
class CodeWords:
    """Words of codes of so many bits, for a function that is being written."""

    f: FunctionBuilder
    bits: int
    target: Target

    @property
    def lanes(self) -> int:
        """The columns of a vector."""
        return self.target.vector_bits // F32.bits

    @property
    def vector(self) -> str:
        """The type of a vector of floats."""
        return vector_type(FLOAT, self.lanes)

    @property
    def word(self) -> str:
        """The type of a word."""
        return f"i{word_bits(self.bits)}"

    @property
    def count(self) -> int:
        """How many codes a word has."""
        return word_bits(self.bits) // self.bits

    def load(self, start: Reg, vectors: int) -> list[Reg]:
        """So many vectors of words side by side; those further on are fetched meanwhile."""
        f = self.f
        addresses = [f.gep(start, vector * self.lanes, self.word) for vector in range(vectors)]
        for address in addresses:
            f.prefetch(f.gep(address, PREFETCHED_BYTES))
        type = vector_type(self.word, self.lanes)
        return [f.load(type, address, align=word_bits(self.bits) // 8) for address in addresses]

    def shifted(self, words: Sequence[Reg], index: Int) -> list[Reg]:
        """The words with the code at an index, which only the run knows, in their lowest bits."""
        f = self.f
        shift = f.splat(f.convert("trunc", f.mul(index, self.bits), self.word), self.lanes)
        return [register(f.lshr(word, shift)) for word in words]

    def floats(self, words: Sequence[Reg], index: int, zeros: Sequence[Reg]) -> list[Reg]:
        """The code at an index of each word as a float, less its zero point where there are any."""
        values = [self._float(word, index) for word in words]
        return [self.f.fsub(x, zero) for x, zero in zip(values, zeros, strict=True)] if zeros else values

    def _float(self, word: Reg, index: int) -> Reg:
        f, width, bits = self.f, word_bits(self.bits), self.bits
        if self.count == 1:
            return f.convert("sitofp", f.convert("sext", word, vector_type("i32", self.lanes)), self.vector)
        if self.lanes == 1 << TABLE_BITS and self.target.has("avx512f"):
            low = register(f.lshr(word, index * bits)) if index else word
            return f.intrinsic("llvm.x86.avx512.permvar.sf.512", self.vector, self._table(), low)
        signed = f.ashr(f.shl(word, width - bits * (index + 1)), width - bits)
        return f.convert("sitofp", signed, self.vector)

    def _table(self) -> Reg:
        """What the lowest four bits of a word say: the code in the lowest of them."""
        half, count = 1 << self.bits - 1, 1 << self.bits
        values = [(low % count + half) % count - half for low in range(1 << TABLE_BITS)]
        return self.f.constant(self.vector, values)
