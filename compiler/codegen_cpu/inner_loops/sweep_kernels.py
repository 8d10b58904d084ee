"""The innermost loop of a row times rows of B that are dense along columns: a few rows of B are read side by side.

Memory is read in long runs, which panels of a B that is not packed do not: these take 256 bytes of each row at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    ProductTypes,
    add_product,
    library_function,
    widened_from_memory,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.target import Target

SWEEP_STEPS = (8, 1)
"""The steps along k that there is a function for; eight rows of B are read at once, and sums go through memory once."""


@dataclass(frozen=True)
class SweepKernel:
    """A function of the library: so many elements of a row of A against as many rows of B."""

    types: ProductTypes
    steps: int

    @property
    def name(self) -> str:
        return f"sweep_{self.types}_{self.steps}"

    def write(self, target: Target) -> FunctionBuilder:
        """void sweep(ptr a, i64 a stride, ptr b, i64 b stride, ptr sums, i64 columns)

        sums[j] += sum over the steps k of a[k * a stride] * b[k * b stride + j]; sums have room for whole vectors.
        """
        f = library_function(self.name, "ptr a, i64 a_stride, ptr b, i64 b_stride, ptr sums, i64 columns")
        a, a_stride, b, b_stride, sums, columns = f.parameters
        types, lanes, element = self.types, self.types.lanes(target), register_type(self.types.sums)
        addresses = [f.gep(a, f.mul(a_stride, k), memory_type(types.a)) for k in range(self.steps)]
        loaded = [f.load(memory_type(types.a), address, align=types.a.itemsize) for address in addresses]
        xs = [f.splat(widened_from_memory(x, types.a, types.sums, f), lanes) for x in loaded]
        rows = [f.gep(b, f.mul(b_stride, k), memory_type(types.panel)) for k in range(self.steps)]

        def vector(j: Int, mask: Reg | None = None) -> None:
            pointer = f.gep(sums, j, element)
            total = f.load(vector_type(element, lanes), pointer, align=types.sums.itemsize)
            for x, y in zip(xs, self._read(f, rows, j, lanes, mask), strict=True):
                total = add_product(f, x, y, total)
            f.store(total, pointer, align=types.sums.itemsize)

        whole = f.mul(f.sdiv(columns, lanes), lanes)
        f.loop(0, whole, lanes, vector)
        left = f.sub(columns, whole)
        f.if_(f.icmp("sgt", left, 0), lambda: vector(whole, f.tail_mask(lanes, left)))
        f.ret()
        return f

    def _read(self, f: FunctionBuilder, rows: Sequence[Reg], j: Int, lanes: int, mask: Reg | None) -> list[Reg]:
        """A vector of each row of B."""
        dtype = self.types.panel
        type, zero = vector_type(memory_type(dtype), lanes), f.constant(vector_type(memory_type(dtype), lanes), 0)
        read = []
        for row in rows:
            address = f.gep(row, j, memory_type(dtype))
            if mask is None:
                loaded = f.load(type, address, align=dtype.itemsize)
            else:
                loaded = masked_load(f, type, address, mask, passthru=zero)
            read.append(widened_from_memory(loaded, dtype, self.types.sums, f))
        return read
