"""The innermost loop of convolutions of planes: a few filters times vectors of neighbouring pixels.

They are shared by all kernels of an image. The lanes are pixels, of which each product reads others: where those begin
is looked up, one offset for each number of a filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import library_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.target import Target

__all__ = ["PlaneKernel"]


@dataclass(frozen=True, order=True)
class PlaneKernel:
    """A function of the library: so many filters against so many vectors of pixels."""

    element: str
    filters: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_planes_{self.element}_{self.filters}x{self.vectors}"

    def write(self, target: Target) -> FunctionBuilder:
        """void (ptr image, ptr offsets, i64 depth, ptr filters, ptr tile, i64 tile step)

        tile[o * tile step + p] = sum over k of filters[k][o] * image[offsets[k] + p], for as many pixels p as the
        vectors have lanes. There is at least one product.
        """
        lanes = target.vector_bits // (64 if self.element == "double" else 32)
        f = library_function(
            self.name, "ptr image, ptr offsets, i64 depth, ptr filters, ptr tile, i64 tile_step", target
        )
        image, offsets, depth, filters, tile, tile_step = f.parameters
        vector, count = vector_type(self.element, lanes), self.filters * self.vectors

        def step(k: Int, *totals: Reg) -> Sequence[Reg]:
            pixels = f.gep(image, f.load("i64", f.gep(offsets, k, "i64"), align=8), self.element)
            read = [f.load(vector, f.gep(pixels, j * lanes, self.element)) for j in range(self.vectors)]
            filter_row, sums = f.gep(filters, f.mul(k, self.filters), self.element), list(totals)
            for row in range(self.filters):
                factor = f.splat(f.load(self.element, f.gep(filter_row, row, self.element)), lanes)
                for column, x in enumerate(read):
                    ordinal = row * self.vectors + column
                    sums[ordinal] = f.multiply_add(factor, x, sums[ordinal])
            return sums

        totals = f.loop(0, depth, 1, step, [f.constant(vector, 0.0)] * count, at_least_once=True)
        for ordinal, total in enumerate(totals):
            row, column = divmod(ordinal, self.vectors)
            f.store(total, f.gep(tile, f.add(f.mul(tile_step, row), column * lanes), self.element), align=64)
        f.ret()
        return f
