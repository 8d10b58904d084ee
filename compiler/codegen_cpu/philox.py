"""Random bits as a function of a seed and a counter.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, Philox4x32-10.
"""

from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Reg, vector_type

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(counter: Reg, seed: int, f: FunctionBuilder) -> Reg:
    """i32: the first word for each 64-bit counter, under the 64-bit key `seed`."""
    wide, narrow = counter.type, vector_type("i32", counter.lanes)
    words = [f.and_(counter, f.constant(wide, _LOW)), f.lshr(counter, f.constant(wide, 32))]
    words += [f.constant(wide, 0), f.constant(wide, 0)]
    key = [seed & _LOW, seed >> 32 & _LOW]
    for _ in range(ROUNDS):
        first, second = (
            f.mul(words[place], f.constant(wide, m)) for place, m in zip((0, 2), _MULTIPLIERS, strict=True)
        )
        words = [
            _mixed(second, words[1], key[0], f),
            f.and_(second, f.constant(wide, _LOW)),
            _mixed(first, words[3], key[1], f),
            f.and_(first, f.constant(wide, _LOW)),
        ]
        key = [(part + step) & _LOW for part, step in zip(key, _WEYL, strict=True)]
    result = f.convert("trunc", words[0], narrow)
    assert isinstance(result, Reg)
    return result


def _mixed(product: Reg, word: Reg, key: int, f: FunctionBuilder) -> Reg:
    """The high half of a product, with a word of the counter and one of the key."""
    high = f.lshr(product, f.constant(product.type, 32))
    return f.xor(f.xor(high, word), f.constant(product.type, key))
