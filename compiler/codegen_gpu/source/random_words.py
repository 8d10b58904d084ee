"""Random words as Triton expressions."""

from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, SourceBuilder, dims_of
from onnxc.compiler.codegen_host.philox import WordArithmetic, philox


def random_word(counter: Int, seed: int, b: SourceBuilder) -> Expr:
    """u32: random bits for each counter."""
    dims = dims_of(counter)
    wide = f"tl.full([], {counter}, tl.uint64)" if isinstance(counter, int) else f"{counter}.to(tl.uint64)"
    arithmetic = WordArithmetic[Expr](
        times=lambda x, constant: b.let(f"{x} * {constant}", dims),
        low=lambda x: b.let(f"{x} & {0xFFFFFFFF}", dims),
        high=lambda x: b.let(f"{x} >> 32", dims),
        mixed=lambda x, y, constant: b.let(f"{x} ^ {y} ^ {constant}", dims),
    )
    zero = b.let("tl.full([], 0, tl.uint64)", prefix="c")
    return b.let(f"{philox(b.let(wide, dims), zero, seed, arithmetic)}.to(tl.uint32)", dims)
