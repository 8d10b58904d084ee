"""The innermost loop of convolutions by columns: a few taps times vectors of neighbouring pixels, over all channels.

They are shared by all kernels of an image. Pixels are read where they lie; behind the last nothing is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import library_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.target import Target

__all__ = ["ColumnKernel"]


@dataclass(frozen=True, order=True)
class ColumnKernel:
    """A function of the library: so many taps against so many vectors of pixels."""

    element: str
    taps: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_columns_{self.element}_{self.taps}x{self.vectors}"

    def write(self, target: Target) -> FunctionBuilder:
        """void (ptr image, i64 step, i64 depth, ptr taps, ptr tile, i64 tile step, i64 left)

        tile[t * tile step + p] = sum over k of taps[k][t] * image[k * step + p], for as many pixels p as the vectors
        have lanes, of which `left` are there; the sums of others are 0. There is at least one product.
        """
        lanes = target.vector_bits // (64 if self.element == "double" else 32)
        f = library_function(
            self.name, "ptr image, i64 step, i64 depth, ptr taps, ptr tile, i64 tile_step, i64 left", target
        )
        image, channel_step, depth, taps, tile, tile_step, left = f.parameters
        vector, count = vector_type(self.element, lanes), self.taps * self.vectors

        def multiply(masks: Sequence[Reg | None]) -> None:
            def read(pixels: Reg, ordinal: int, mask: Reg | None) -> Reg:
                address = f.gep(pixels, ordinal * lanes, self.element)
                if mask is None:
                    return f.load(vector, address)
                return masked_load(f, vector, address, mask, passthru=f.constant(vector, 0.0))

            def step(k: Int, *totals: Reg) -> Sequence[Reg]:
                pixels = f.gep(image, f.mul(k, channel_step), self.element)
                columns = [read(pixels, ordinal, mask) for ordinal, mask in enumerate(masks)]
                row, sums = f.gep(taps, f.mul(k, self.taps), self.element), list(totals)
                for tap in range(self.taps):
                    factor = f.splat(f.load(self.element, f.gep(row, tap, self.element)), lanes)
                    for ordinal, column in enumerate(columns):
                        place = tap * self.vectors + ordinal
                        sums[place] = f.multiply_add(factor, column, sums[place])
                return sums

            totals = f.loop(0, depth, 1, step, [f.constant(vector, 0.0)] * count, at_least_once=True)
            for ordinal, total in enumerate(totals):
                tap, column = divmod(ordinal, self.vectors)
                f.store(total, f.gep(tile, f.add(f.mul(tile_step, tap), column * lanes), self.element))

        tails = [f.tail_mask(lanes, f.sub(left, ordinal * lanes)) for ordinal in range(self.vectors)]
        is_whole = f.icmp("sge", left, self.vectors * lanes)
        f.if_(is_whole, partial(multiply, [None] * self.vectors), partial(multiply, tails))
        f.ret()
        return f
