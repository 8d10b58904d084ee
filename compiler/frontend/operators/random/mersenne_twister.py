"""The stream of NumPy's legacy generator, which the standard's own tests of seeded Dropout expect.

A round makes a whole state of 624 words out of the one before, in three runs: a word needs the one 227 before it.
Source: Matsumoto and Nishimura, Mersenne Twister, 1998; https://numpy.org/doc/stable/reference/random/legacy.html
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size, floordiv, product
from onnxc.compiler.ir.dtypes import BOOL, F64, I64, U32
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType

WORDS = 624
RUN = 227
_STATE = TensorType(U32, (WORDS,))


def mersenne_twister_uniform(seed: int, shape: Sequence[Dim], ir: Builder) -> Value:
    """f64[shape] within [0, 1), the same in every call: 53 bits of two words each."""
    count = product(shape)
    rounds = floordiv(2 * count + (WORDS - 1), WORDS)
    pairs = ir.reshape(_tempered(_words(seed, rounds, ir), ir), (rounds * (WORDS // 2), 2))
    high, low = (
        ir.cast(ir.shift_right(ir.slice(pairs, (0, part), (count, 1)), unused), F64)
        for part, unused in ((0, 5), (1, 6))
    )
    return ir.reshape(ir.mul(ir.add(ir.mul(high, 2.0**26), low), 2.0**-53), shape)


def _words(seed: int, rounds: Dim, ir: Builder) -> Value:
    """u32[rounds, 624]: the states after the one of the seed, of which 32 bits count."""
    (_, start, *_) = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=True)
    symbol = ir.symbols.fresh("rounds")
    _, words = ir.while_(
        limit=ir.size(rounds),
        condition=ir.scalar(True, BOOL),
        carried=(ir.constant(np.asarray(start, np.uint32)),),
        captures=(),
        body=_round(ir),
        types=(_STATE, TensorType(U32, (Size.symbol(symbol), WORDS))),
        symbol=symbol,
    )
    return ir.with_shape(words, (rounds, WORDS))


def _round(outer: Builder) -> Block:
    """(round: i64[], state: u32[624])  ->  true, the next state, which is what the loop stacks too"""
    ir = outer.nested()
    ordinal, state = ir.parameter("round", TensorType(I64, ())), ir.parameter("state", _STATE)

    def part(x: Value, start: int, stop: int) -> Value:
        return ir.slice(x, (start,), (stop - start,))

    turned = _turned(part(state, 0, WORDS - 1), part(state, 1, WORDS), ir)
    first = ir.xor(part(state, WORDS - RUN, WORDS), part(turned, 0, RUN))
    second = ir.xor(first, part(turned, RUN, 2 * RUN))
    last = _turned(part(state, WORDS - 1, WORDS), part(first, 0, 1), ir)
    third = ir.xor(part(second, 0, WORDS - 2 * RUN), ir.concatenate((part(turned, 2 * RUN, WORDS - 1), last), 0))
    following = ir.concatenate((first, second, third), 0)
    return ir.block((ordinal, state), (ir.scalar(True, BOOL), following, following))


def _turned(word: Value, behind: Value, ir: Builder) -> Value:
    """The highest bit of each word and the others of the one behind it, times the matrix of the recurrence."""
    joined = ir.or_(ir.and_(word, 0x80000000), ir.and_(behind, 0x7FFFFFFF))
    return ir.xor(ir.shift_right(joined, 1), ir.mul(ir.and_(joined, 1), 0x9908B0DF))


def _tempered(word: Value, ir: Builder) -> Value:
    """Bits of words as they leave the generator."""
    word = ir.xor(word, ir.shift_right(word, 11))
    word = ir.xor(word, ir.and_(ir.shift_left(word, 7), 0x9D2C5680))
    word = ir.xor(word, ir.and_(ir.shift_left(word, 15), 0xEFC60000))
    return ir.xor(word, ir.shift_right(word, 18))
