"""Random bits as a function of a seed and a counter, the same as everywhere.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, Philox4x32-10.
"""

from compiler.codegen_gpu.source_builder import Expr, Int, SourceBuilder, dims_of

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(counter: Int, seed: int, b: SourceBuilder) -> Expr:
    """u32: the first word for each counter, under the 64-bit key `seed`."""
    dims = dims_of(counter)
    text = f"tl.full([], {counter}, tl.uint64)" if isinstance(counter, int) else f"{counter}.to(tl.uint64)"
    wide = b.let(text, dims)
    zero = b.let("tl.full([], 0, tl.uint64)", prefix="c")
    words = [b.let(f"{wide} & {_LOW}", dims), b.let(f"{wide} >> 32", dims), zero, zero]
    key = [seed & _LOW, seed >> 32 & _LOW]
    for _ in range(ROUNDS):
        first, second = (b.let(f"{words[place]} * {m}", dims) for place, m in zip((0, 2), _MULTIPLIERS, strict=True))
        words = [
            b.let(f"({second} >> 32) ^ {words[1]} ^ {key[0]}", dims),
            b.let(f"{second} & {_LOW}", dims),
            b.let(f"({first} >> 32) ^ {words[3]} ^ {key[1]}", dims),
            b.let(f"{first} & {_LOW}", dims),
        ]
        key = [(part + step) & _LOW for part, step in zip(key, _WEYL, strict=True)]
    return b.let(f"{words[0]}.to(tl.uint32)", dims)
